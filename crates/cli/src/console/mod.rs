//! `anabranch console`: what a running node does, in a browser.

pub(crate) mod part;

use std::{io::IsTerminal, net::SocketAddr, path::Path};

use anabranch::control::{self as node_control, ControlError, Request, is_open};
use anabranch_console::{Console, Settings, Source, StartError};
use tokio::sync::mpsc;

use crate::{
    control,
    exit::{Failure, Outcome, note, print_line, stopped},
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

/// Reads the address of a console.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an IP address and a port of this machine, such as 127.0.0.1:8471; with port 0, a free one"
            .to_owned()
    })
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
        outcome = more_links(&console) => outcome,
    }
}

/// The failure of a console that does not start.
pub(crate) fn failed(error: StartError) -> Failure {
    match error {
        StartError::Remote(_) => Failure::usage(error),
        _ => Failure::other(error),
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

/// A link for each line of input from a person; does not return otherwise.
pub(crate) async fn more_links(console: &Console) -> Outcome {
    if std::io::stdin().is_terminal() {
        print_line("Enter: another link. Ctrl-C: the end.")?;
        let mut lines = lines_of_input();
        while lines.recv().await.is_some() {
            print_line(&format!("    {}", link(console)?))?;
        }
    }
    std::future::pending().await
}

/// A message for each line of standard input, until its end.
fn lines_of_input() -> mpsc::Receiver<()> {
    let (sender, lines) = mpsc::channel(1);
    // Nothing ends a thread that reads a terminal; the process does not wait for it.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if line.is_err() || sender.blocking_send(()).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_read_is_answered_with_one_that_can() {
        assert_eq!(address("127.0.0.1:0"), Ok(([127, 0, 0, 1], 0).into()));
        for wrong in ["8471", "127.0.0.1", "localhost:8471", "127.0.0.1:99999", ""] {
            let why = address(wrong).unwrap_err();
            assert!(why.contains("127.0.0.1:8471"), "{wrong}: {why}");
        }
    }
}
