//! `anabranch status`, `paths`, `streams`, `rights` and `reload`, and the flags and output that all requests to a running
//! node share.

pub(crate) mod place;
pub(crate) mod rights;

use std::path::{Path, PathBuf};

use anabranch::control::{self, Request};
use serde_json::Value;

use crate::exit::{Failure, Outcome, print_line};

/// The running node to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    /// Control socket of the node, or of a running `anabranch send`; or the device of a running `anabranch tun` [default:
    /// $XDG_RUNTIME_DIR/anabranch.sock, or ~/.local/state/anabranch/run/anabranch.sock; if no node runs there, the only tunnel].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_CONTROL")]
    control: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Asking {
    #[command(flatten)]
    node: Node,
    /// Print the node's answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Asking {
    /// True if an option or the environment names the socket.
    pub(crate) fn is_named(&self) -> bool {
        self.node.is_named()
    }

    /// The control socket to ask.
    pub(crate) async fn place(&self) -> Result<PathBuf, Failure> {
        self.node.place().await
    }

    /// Sends `request` to the node and returns its answer.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Value, Failure> {
        self.node.ask(request).await
    }
}

impl Node {
    /// Sends `request` to the node and returns its answer.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Value, Failure> {
        ask_at(&self.place().await?, request).await
    }

    /// True if an option or the environment names the socket.
    pub(crate) fn is_named(&self) -> bool {
        self.control.is_some()
    }

    /// The control socket to ask.
    pub(crate) async fn place(&self) -> Result<PathBuf, Failure> {
        match &self.control {
            Some(named) => Ok(place::of_argument(named, place::of_node().ok().as_deref())),
            None => place::found(place::of_node()?).await,
        }
    }
}

/// Sends `request` to the process at this control socket and returns its answer.
pub(crate) async fn ask_at(place: &Path, request: &Request) -> Result<Value, Failure> {
    let answer = control::ask(place, request).await;
    answer.map_err(|error| match error {
        control::ControlError::Connect { .. } => Failure::unreachable(error),
        _ => Failure::other(error),
    })
}

/// Asks, and prints the answer: as JSON, or as the lines that `words` makes of its rows.
pub(crate) async fn run(
    request: &Request,
    arguments: &Asking,
    words: impl FnOnce(&[Value]) -> Vec<String>,
) -> Outcome {
    let answer = arguments.ask(request).await?;
    if arguments.json {
        return print_line(&answer.to_string());
    }
    let rows = rows(&answer);
    if rows.is_empty() {
        return print_line(&format!("no {}", request.name()));
    }
    for line in words(rows) {
        print_line(&line)?;
    }
    Ok(())
}

/// The rows of an answer.
pub(crate) fn rows(answer: &Value) -> &[Value] {
    let rows = answer["rows"].as_array();
    rows.map(Vec::as_slice).unwrap_or_default()
}
