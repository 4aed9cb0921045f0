//! `anabranch console`: what a running node does, in a browser.

pub(crate) mod part;

use std::{net::SocketAddr, path::Path};

use anabranch::control::{self as node_control, ControlError, Request, is_open};
use anabranch_console::{Console, Settings, Source};

use crate::{
    control,
    exit::{Failure, Outcome, note, print_line, stopped},
    page::{address, failed, more_links},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The page needs the link: it is good once, within ten minutes. The console runs until it is interrupted, and needs no node to
stay; it serves /metrics (OpenMetrics), /health and /ready without a link.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    node: control::Node,
    /// Run a console here, at this address of this machine, IP:PORT; with port 0, a free one [default: that of the node, if its
    /// configuration has one, else 127.0.0.1:0].
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let stopped = stopped();
    let control = arguments.node.place().await?;
    if arguments.listen.is_none()
        && let Some(link) = link_of_node(&control).await?
    {
        return offer(&link);
    }
    if !is_open(&control).await {
        note(&format!(
            "no node answers at {} yet; the page shows it as soon as one does",
            control.display()
        ));
    }
    let console = Console::start(Settings {
        listen: arguments.listen.unwrap_or(([127, 0, 0, 1], 0).into()),
        source: Source::Node(control),
    })
    .map_err(failed)?;
    offer(&link(&console)?)?;
    print_line(&format!("Metrics: http://{}/metrics", console.address()))?;
    tokio::select! {
        stopped = stopped => stopped,
        outcome = more_links(|| console.link()) => outcome,
    }
}

fn offer(link: &str) -> Outcome {
    print_line("Open this link in a browser, within ten minutes; it is good once:\n")?;
    print_line(&format!("    {link}\n"))
}

/// A link to the console of the node; `None`: it has none, or does not run.
async fn link_of_node(control: &Path) -> Result<Option<String>, Failure> {
    match node_control::ask(control, &Request::ConsoleLink {}).await {
        Ok(answer) => Ok(control::rows(&answer)
            .first()
            .and_then(|row| row["link"].as_str())
            .map(str::to_owned)),
        Err(ControlError::Refused(_) | ControlError::Connect { .. }) => Ok(None),
        Err(error) => Err(Failure::other(error)),
    }
}

fn link(console: &Console) -> Result<String, Failure> {
    console.link().map_err(Failure::other)
}
