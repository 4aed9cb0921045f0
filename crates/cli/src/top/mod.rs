//! `anabranch top`: a running node in a terminal.

mod feed;
mod keys;
mod model;
mod screen;
mod view;

use std::{
    io::{IsTerminal, stdin, stdout},
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use self::{
    feed::{Feed, News},
    keys::{Action, View},
    model::Model,
    screen::Screen,
    view::theme::Theme,
};
use crate::{
    control,
    exit::{Failure, Outcome, print_line, stopped},
    signals::Suspensions,
    table::COLUMNS_MAX,
};

/// Time between two states.
const EVERY: Duration = Duration::from_secs(1);
/// Time over which rates are measured with `--once`.
const SAMPLE: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys: Tab and Shift-Tab change the view, the arrows, Page Up and Page Down, Home and End scroll, / filters by words in a row, s sorts
the streams by another column, q ends. NO_COLOR in the environment: without colours.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    node: control::Node,
    /// Print the three views once, as text.
    #[arg(long)]
    once: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    if arguments.once {
        return print(arguments.node.place().await?).await;
    }
    if !is_screen() {
        return Err(Failure::usage(
            "`anabranch top` needs a terminal for its input and output; `anabranch top --once` prints the views as text",
        ));
    }
    let stopped = stopped();
    let place = arguments.node.place().await?;
    let mut model = Model::new(&place);
    let mut view = View::default();
    let theme = Theme::of_environment();
    let mut suspensions = Suspensions::listen()?;
    let mut news = follow(place);
    let mut screen = Screen::enter().map_err(Failure::other)?;
    let mut keys = screen::keys();
    tokio::pin!(stopped);
    loop {
        screen
            .draw(|area, buffer| {
                view::draw(&model, &mut view, theme, Instant::now(), area, buffer);
            })
            .map_err(Failure::other)?;
        let action = tokio::select! {
            outcome = &mut stopped => return outcome,
            true = suspensions.next() => Action::Suspend,
            Some(news) = news.recv() => {
                model.note(Instant::now(), news);
                continue;
            }
            event = keys.recv() => match event {
                Some(event) => view.press(&event),
                None => return Err(Failure::other("the terminal is gone")),
            },
        };
        match action {
            Action::None => {}
            Action::End => return Ok(()),
            Action::Suspend => screen.suspend().map_err(Failure::other)?,
        }
    }
}

fn is_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !is_dumb
}

/// A state of the node every second.
fn follow(place: PathBuf) -> mpsc::Receiver<News> {
    let (sender, news) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut feed = Feed::new(place);
        while sender.send(feed.ask().await).await.is_ok() {
            tokio::time::sleep(EVERY).await;
        }
    });
    news
}

async fn print(place: PathBuf) -> Outcome {
    let mut model = Model::new(&place);
    let mut feed = Feed::new(place);
    for pause in [SAMPLE, Duration::ZERO] {
        let news = feed.ask().await;
        if let Err(fault) = news.state {
            return Err(Failure::unreachable(fault));
        }
        model.note(Instant::now(), news);
        tokio::time::sleep(pause).await;
    }
    for line in view::text(&model, COLUMNS_MAX) {
        print_line(&line)?;
    }
    Ok(())
}
