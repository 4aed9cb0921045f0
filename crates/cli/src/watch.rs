//! `anabranch watch`: events of promises as they happen.

use std::time::Duration;

use anabranch::control::Request;
use serde_json::Value;

use crate::{
    control,
    exit::{Outcome, note, print_line, stopped},
    explain,
};

/// Interval between two requests; the node looks at its promises as often.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs until it is interrupted, or the node ends (exit code 3). `anabranch explain --history` shows what happened before.")]
pub(crate) struct Arguments {
    /// Label of the streams to watch [default: all].
    label: Option<String>,
    #[command(flatten)]
    node: control::Node,
    /// Print each event as a line of JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let stopped = stopped();
    tokio::select! {
        outcome = watch(&arguments) => outcome,
        stopped = stopped => stopped.map(drop),
    }
}

async fn watch(arguments: &Arguments) -> Outcome {
    let mut from = None;
    // Once: if this process ends, another one must not take its place.
    let place = arguments.node.place().await?;
    loop {
        let answer = control::ask_at(&place, &Request::PromiseEvents { from }).await?;
        let rows = control::rows(&answer);
        for row in rows {
            if row["kind"] == "position" {
                from = row["next"].as_u64();
                if let Some(missed) = row["missed"].as_u64().filter(|missed| *missed > 0) {
                    note(&format!("{missed} events happened too fast to be shown"));
                }
            } else if is_wanted(row, arguments.label.as_deref()) {
                print_line(&if arguments.json {
                    row.to_string()
                } else {
                    explain::event(row)
                })?;
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn is_wanted(row: &Value, label: Option<&str>) -> bool {
    row["kind"] == "promise_event" && label.is_none_or(|label| row["label"] == label)
}
