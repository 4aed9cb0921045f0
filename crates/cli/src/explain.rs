//! `anabranch explain`: the promise of a stream, the decisions about it, and where it is processed on the way; and the record of all promises.

#[cfg(feature = "process")]
mod processed;

use std::time::Duration;

use anabranch::{
    base::{Rate, duration},
    control::Request,
};
use serde_json::Value;

#[cfg(feature = "process")]
use crate::attach;
use crate::{
    control,
    exit::{Outcome, print_line},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Stream to explain, such as stream-4; see `anabranch streams`. With --history, the label of streams [default: all].
    #[arg(value_name = "STREAM|LABEL", required_unless_present = "history")]
    stream: Option<String>,
    /// Show what was promised, warned of, withdrawn and kept, over weeks and restarts of the node.
    #[arg(long, conflicts_with = "session")]
    history: bool,
    /// Only the last so long of the history, such as '30 min' or '48 h'.
    #[arg(long, value_name = "DURATION", requires = "history", value_parser = parse_duration)]
    last: Option<Duration>,
    #[command(flatten)]
    control: control::Asking,
    #[cfg(feature = "process")]
    #[command(flatten)]
    local: attach::Place,
    /// Session of the stream, such as session-0 [default: every session with such a stream].
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let request = match (arguments.stream, arguments.history) {
        (Some(stream), false) => Request::Explain {
            stream,
            session: arguments.session,
        },
        (label, _) => Request::PromiseHistory {
            label,
            last_ms: arguments.last.map(|last| last.as_millis() as u64),
        },
    };
    let answer = arguments.control.ask(&request).await?;
    #[cfg(feature = "process")]
    let answer = processed::add(answer, &arguments.local).await;
    if arguments.control.json {
        return print_line(&answer.to_string());
    }
    let rows = control::rows(&answer);
    if arguments.history && rows.is_empty() {
        return print_line("no promise was asked for in this time");
    }
    for row in rows {
        for line in lines(row) {
            print_line(&line)?;
        }
    }
    Ok(())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// A time that may be weeks, in one unit.
fn coarse(time: Duration) -> String {
    let seconds = time.as_secs();
    let (value, unit) = match seconds {
        0..120 => (seconds, "s"),
        120..7_200 => (seconds / 60, "min"),
        7_200..172_800 => (seconds / 3_600, "h"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{value} {unit}")
}

fn lines(row: &Value) -> Vec<String> {
    let text = |key: &str| row[key].as_str().unwrap_or("-");
    let time = |key: &str| {
        let ms = row[key].as_f64().unwrap_or_default();
        duration::format(std::time::Duration::from_secs_f64(ms.max(0.0) / 1e3))
    };
    match text("kind") {
        "promise" => promise(row, text, time),
        "path" => {
            let rate = Rate::from_bps(row["rate_bps"].as_u64().unwrap_or_default());
            vec![format!(
                "  on {} → {}: {rate}, headers included",
                row["interface"].as_str().unwrap_or(text("channel")),
                text("remote")
            )]
        }
        "decision" => vec![format!("  {} ago: {}", time("ago_ms"), text("text"))],
        "promise_event" => vec![event(row)],
        #[cfg(feature = "process")]
        "processed" => processed::lines(row),
        _ => Vec::new(),
    }
}

/// An event of the record, in a line.
pub(crate) fn event(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or("-");
    let count = |key: &str| row[key].as_u64().unwrap_or_default();
    let ago = coarse(Duration::from_millis(count("ago_ms")));
    let mut line = format!("{ago} ago, {} to {}", text("stream"), text("peer"));
    if !text("label").is_empty() {
        line += &format!(", '{}'", text("label"));
    }
    line += &format!(", {}: {}", text("asked"), text("event"));
    if !text("text").is_empty() {
        line += &format!(", {}", text("text"));
    }
    let (kept, broken) = (count("windows_kept"), count("windows_broken"));
    if kept + broken > 0 {
        line += &format!("; windows kept {kept}, broken {broken}");
    }
    line
}

fn promise<'a>(
    row: &Value,
    text: impl Fn(&str) -> &'a str,
    time: impl Fn(&str) -> String,
) -> Vec<String> {
    let mut head = format!("{} of {}", text("stream"), text("session"));
    if !text("label").is_empty() {
        head += &format!(", '{}'", text("label"));
    }
    if row["state"].is_null() {
        return vec![format!("{head}, asks for no promise")];
    }
    let mut lines = vec![format!("{head}, asks for {}", text("asked"))];
    lines.push(match text("state") {
        "waiting" => {
            "  no promise is in force; served before elastic streams of its priority or a lower one nevertheless".to_owned()
        }
        "renewable" => format!(
            "  promised, renewable; lapses in {} unless renewed",
            time("lapses_in_ms")
        ),
        state if row["lapses_in_ms"].is_number() => {
            format!(
                "  promised, {state}; lapses in {} unless it can be kept again",
                time("lapses_in_ms")
            )
        }
        state => format!("  promised, {state}"),
    });
    if let Some(wanted) = row["wanted"].as_str() {
        lines.push(format!(
            "  asks for {wanted} instead, and keeps its promise until the new one can be made"
        ));
    }
    if row["is_warned"] == true {
        lines.push("  the application was warned, and the reason persists".to_owned());
    }
    let count = |key: &str| row[key].as_u64().unwrap_or_default();
    lines.push(format!(
        "  windows kept {}, broken {}; promises withdrawn {}; based on {} s of measurements",
        count("windows_kept"),
        count("windows_broken"),
        count("withdrawn"),
        count("windows_known"),
    ));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_the_record_are_lines() {
        let mut row = json!({
            "kind": "promise_event", "ago_ms": 7_300_000, "peer": "far", "stream": "stream-4", "label": "video",
            "asked": "6 Mbit/s in 95 % of windows", "event": "warned", "text": "channel-1 provides less",
            "windows_kept": 40, "windows_broken": 2,
        });
        assert_eq!(
            lines(&row),
            [
                "2 h ago, stream-4 to far, 'video', 6 Mbit/s in 95 % of windows: warned, channel-1 provides less; \
              windows kept 40, broken 2"
            ]
        );
        row["label"] = json!("");
        row["text"] = json!("");
        row["event"] = json!("closed");
        row["windows_kept"] = json!(0);
        row["windows_broken"] = json!(0);
        row["ago_ms"] = json!(90_000);
        assert_eq!(
            lines(&row),
            ["90 s ago, stream-4 to far, 6 Mbit/s in 95 % of windows: closed"]
        );
        assert_eq!(coarse(Duration::from_secs(15 * 86_400)), "15 days");
    }
}
