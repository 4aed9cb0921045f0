//! `anabranch stream set`: changes to an open stream of a running node.

use anabranch::control::{Request, StreamChanges};
use serde_json::Value;

use crate::{
    admit, control,
    exit::{Failure, Outcome, print_line},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Applies to what this node sends on the stream. Whether it is reliable, and its order, are settled when it is opened. Exit codes: 0 if it \
was changed, 4 if the guarantee was refused; then all is as before, and what could be promised instead is printed.")]
pub(super) struct Arguments {
    /// Stream, such as stream-4; see `anabranch streams`.
    #[arg(value_name = "STREAM")]
    stream: String,
    /// Session of the stream, such as session-0 [default: the one that has it].
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Rate to guarantee, such as '4 Mbit/s'; what else the guarantee says stays.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Share of the windows in which it is guaranteed, such as '95 %' [default for a new guarantee: 95 %].
    #[arg(long, value_name = "PERCENT")]
    probability: Option<String>,
    /// Wait for a guarantee that cannot be promised yet.
    #[arg(long)]
    wait: bool,
    /// Give the guarantee up.
    #[arg(long, conflicts_with_all = ["rate", "probability"])]
    release: bool,
    /// Share among streams of equal priority; 1 to 10,000.
    #[arg(long, value_name = "NUMBER")]
    weight: Option<u32>,
    /// Priority: scavenger, bulk, normal, urgent, or 0 to 255. Also for messages that wait.
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// Time after which a message is of no use, such as '300 ms', or 'none'. For messages sent from now on; those that wait keep theirs.
    #[arg(long, value_name = "DURATION")]
    lifetime: Option<String>,
    /// Rate limit, such as '4 Mbit/s', or 'none'.
    #[arg(long, value_name = "RATE")]
    cap: Option<String>,
    /// Send every packet on every path, or not.
    #[arg(long, value_name = "BOOL")]
    redundant: Option<bool>,
    #[command(flatten)]
    control: control::Asking,
}

pub(super) async fn run(arguments: Arguments) -> Outcome {
    let request = Request::StreamSet {
        stream: arguments.stream,
        session: arguments.session,
        set: StreamChanges {
            rate: arguments.rate,
            probability: arguments.probability,
            release: arguments.release,
            waits: arguments.wait,
            weight: arguments.weight,
            priority: arguments.priority,
            lifetime: arguments.lifetime,
            cap: arguments.cap,
            redundant: arguments.redundant,
        },
    };
    let answer = arguments.control.ask(&request).await?;
    if arguments.control.json {
        print_line(&answer.to_string())?;
    }
    for row in control::rows(&answer) {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let name = format!("{} of {}", text("stream"), text("session"));
        if row["is_changed"] == true {
            if !arguments.control.json {
                print_line(&format!("{name}: changed{}", promise(row)))?;
                for line in reasons(row) {
                    print_line(&line)?;
                }
            }
            continue;
        }
        if !arguments.control.json {
            for line in admit::offers(row) {
                print_line(&line)?;
            }
        }
        return Err(Failure::refused(format!(
            "{name} stays as it was: {}",
            text("why")
        )));
    }
    Ok(())
}

/// Promise of a changed stream, in words; empty if it asks for none.
fn promise(row: &Value) -> String {
    let text = |key: &str| row[key].as_str();
    match (text("asked"), text("promise"), text("wanted")) {
        (Some(asked), Some("waiting"), _) => {
            format!("; no promise is in force yet: it waits for {asked}")
        }
        (Some(asked), Some(grade), Some(wanted)) => {
            format!(
                "; it waits for {wanted}, and keeps its {grade} promise of {asked} until that can be promised"
            )
        }
        (Some(asked), Some(grade), None) => format!("; promised: {asked}, {grade}"),
        _ => String::new(),
    }
}

/// Reason why a changed guarantee waits, and what could be promised at once.
fn reasons(row: &Value) -> Vec<String> {
    let why = row["why"].as_str().map(|why| format!("  {why}"));
    why.into_iter().chain(admit::offers(row)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_guarantee_that_waits_is_not_called_promised() {
        let asked = "40.0 Mbit/s in 95 % of all windows of 1 s";
        let waiting = json!({
            "asked": asked, "promise": "waiting", "wanted": null, "why": "channel-0 provides 9.00 Mbit/s",
            "offer_rate_bps": 8_000_000,
        });
        assert_eq!(
            promise(&waiting),
            format!("; no promise is in force yet: it waits for {asked}")
        );
        assert_eq!(
            reasons(&waiting),
            [
                "  channel-0 provides 9.00 Mbit/s",
                "  available at this probability: 8.00 Mbit/s"
            ]
        );
        let smaller = "2.00 Mbit/s in 95 % of all windows of 1 s";
        let kept = json!({ "asked": smaller, "promise": "renewable", "wanted": asked });
        assert_eq!(
            promise(&kept),
            format!(
                "; it waits for {asked}, and keeps its renewable promise of {smaller} until that can be promised"
            )
        );
        let promised = json!({ "asked": smaller, "promise": "renewable", "wanted": null });
        assert_eq!(
            promise(&promised),
            format!("; promised: {smaller}, renewable")
        );
        let none = json!({ "asked": null, "promise": null });
        assert_eq!(
            (promise(&none), reasons(&none)),
            (String::new(), Vec::new())
        );
    }
}
