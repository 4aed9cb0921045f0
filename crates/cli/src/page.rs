//! Pages that a command serves to browsers of this machine: their address, and links, each of which opens them once.

use std::{
    io::{self, IsTerminal},
    net::SocketAddr,
};

use anabranch_console::StartError;
use tokio::sync::mpsc;

use crate::exit::{Failure, Outcome, print_line};

/// Reads the address of a page.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an IP address and a port of this machine, such as 127.0.0.1:8471; with port 0, a free one"
            .to_owned()
    })
}

/// The failure of a page that is not served.
pub(crate) fn failed(error: StartError) -> Failure {
    match error {
        StartError::Remote(_) => Failure::usage(error),
        _ => Failure::other(error),
    }
}

/// A link for each line of input from a person; does not return otherwise.
pub(crate) async fn more_links(link: impl Fn() -> io::Result<String>) -> Outcome {
    if io::stdin().is_terminal() {
        print_line("Enter: another link. Ctrl-C: the end.")?;
        let mut lines = lines_of_input();
        while lines.recv().await.is_some() {
            print_line(&format!("    {}", link().map_err(Failure::other)?))?;
        }
    }
    std::future::pending().await
}

/// A message for each line of standard input, until its end.
fn lines_of_input() -> mpsc::Receiver<()> {
    let (sender, lines) = mpsc::channel(1);
    // Nothing ends a thread that reads a terminal; the process does not wait for it.
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
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
