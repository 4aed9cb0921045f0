//! `anabranch status`, `paths`, `streams` and `overlay`: state of a running node, a line for each thing.

mod paths;
pub(crate) mod rates;
mod status;
mod streams;
pub(crate) mod words;

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use anabranch::control::Request;
use serde_json::Value;

use self::rates::Rates;
use crate::{
    control::{self, Node},
    exit::{Outcome, print_line, stopped},
    overlay,
    table::{self, Table},
};

pub(crate) use self::{
    paths::ends as path,
    words::{age, peer_named, percent, round_trip as millis, seconds},
};

/// Time over which rates are measured, where the command does not go on.
const SAMPLE: Duration = Duration::from_millis(300);
/// Time between two looks with `--watch`.
const EVERY: Duration = Duration::from_secs(1);
/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    node: Node,
    /// Show it again every second until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// Show all columns, and nothing shortened.
    #[arg(long)]
    wide: bool,
    /// Print the node's answer as JSON; with --watch, a line each second.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The node to ask.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }
}

/// Subject of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Status,
    Paths,
    Streams,
    Overlay,
}

impl Subject {
    fn request(self) -> Request {
        match self {
            Self::Status => Request::Status {},
            Self::Paths => Request::Paths {},
            Self::Streams => Request::Streams {},
            Self::Overlay => Request::Overlay {},
        }
    }

    /// Tables of the rows, each with its title.
    fn tables(self, rows: &[Value], rates: &Rates, is_wide: bool) -> Vec<(&'static str, Table)> {
        match self {
            Self::Status => status::tables(rows, is_wide),
            Self::Paths => vec![("", paths::table(rows, rates, is_wide))],
            Self::Streams => vec![("", streams::table(rows, rates, is_wide))],
            Self::Overlay => overlay::table::tables(rows, is_wide),
        }
    }

    /// Line in place of an empty table.
    fn nothing(self) -> &'static str {
        match self {
            Self::Status => "nothing to show",
            Self::Paths => "no paths: no peer is connected",
            Self::Streams => "no streams",
            Self::Overlay => "nothing is known of the overlay yet",
        }
    }
}

pub(crate) async fn run(subject: Subject, arguments: &Arguments) -> Outcome {
    if !arguments.watch {
        return show(subject, arguments).await;
    }
    let stopped = stopped();
    tokio::select! {
        outcome = watch(subject, arguments) => outcome,
        stopped = stopped => stopped,
    }
}

async fn show(subject: Subject, arguments: &Arguments) -> Outcome {
    let place = arguments.node.place().await?;
    let request = subject.request();
    let mut answer = control::ask_at(&place, &request).await?;
    if arguments.json {
        return print_line(&answer.to_string());
    }
    let mut rates = Rates::default();
    if matches!(subject, Subject::Paths | Subject::Streams) && !control::rows(&answer).is_empty() {
        rates.note(control::rows(&answer));
        tokio::time::sleep(SAMPLE).await;
        answer = control::ask_at(&place, &request).await?;
        rates.note(control::rows(&answer));
    }
    print(subject, arguments, &answer, &rates)
}

async fn watch(subject: Subject, arguments: &Arguments) -> Outcome {
    // Once: if this process ends, another one must not take its place.
    let place = arguments.node.place().await?;
    let is_screen = stdout().is_terminal();
    let mut rates = Rates::default();
    let mut is_first = true;
    loop {
        let answer = control::ask_at(&place, &subject.request()).await?;
        if arguments.json {
            print_line(&answer.to_string())?;
        } else {
            rates.note(control::rows(&answer));
            if is_screen {
                crate::exit::print_bytes(CLEAR.as_bytes())?;
            } else if !std::mem::take(&mut is_first) {
                print_line("")?;
            }
            print(subject, arguments, &answer, &rates)?;
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn print(subject: Subject, arguments: &Arguments, answer: &Value, rates: &Rates) -> Outcome {
    let rows = control::rows(answer);
    if rows.is_empty() {
        return print_line(subject.nothing());
    }
    let width = match arguments.wide {
        true => usize::MAX,
        false => table::width(),
    };
    for (index, (title, table)) in subject
        .tables(rows, rates, arguments.wide)
        .into_iter()
        .enumerate()
    {
        if index > 0 {
            print_line("")?;
        }
        if !title.is_empty() {
            print_line(title)?;
        }
        for line in table.lines(width) {
            print_line(&line)?;
        }
    }
    match answer["rows_left_out"].as_u64() {
        Some(more) if more > 0 => print_line(&format!("and {more} more")),
        _ => Ok(()),
    }
}
