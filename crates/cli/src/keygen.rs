//! `anabranch keygen`: the key of this node.

use std::path::PathBuf;

use anabranch::keys;
use serde_json::json;

use crate::exit::{Outcome, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// File for the key; an existing key is never overwritten [default: ~/.config/anabranch/key].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Print the node ID of the existing key instead of generating one.
    #[arg(long)]
    show: bool,
    /// Print a line of JSON with the node ID and the file.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let path = key_path(arguments.key.as_ref());
    let key = if arguments.show {
        keys::load(&path)?
    } else {
        keys::create(&path)?
    };
    let node = key.node_id().to_string();
    if arguments.json {
        let event = json!({
            "kind": "key",
            "node": node,
            "file": path.display().to_string(),
            "is_new": !arguments.show,
        });
        return print_line(&event.to_string());
    }
    print_line(&node)
}

/// The key file named by the user, or the default one.
pub(crate) fn key_path(given: Option<&PathBuf>) -> PathBuf {
    let default = || keys::default_path(|name| std::env::var(name).ok());
    given.cloned().unwrap_or_else(default)
}
