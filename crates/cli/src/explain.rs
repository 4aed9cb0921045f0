//! `anabranch explain`: the promise of a stream, and the decisions about it.

use anabranch::{
    base::{Rate, duration},
    control::Request,
};
use serde_json::Value;

use crate::{
    control,
    exit::{Outcome, print_line},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Stream to explain, such as stream-4; see `anabranch streams`.
    #[arg(value_name = "STREAM")]
    stream: String,
    #[command(flatten)]
    control: control::Asking,
    /// Session of the stream, such as session-0 [default: every session with such a stream].
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let request = Request::Explain {
        stream: arguments.stream,
        session: arguments.session,
    };
    let answer = arguments.control.ask(&request).await?;
    if arguments.control.json {
        return print_line(&answer.to_string());
    }
    for row in control::rows(&answer) {
        for line in lines(row) {
            print_line(&line)?;
        }
    }
    Ok(())
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
                "  on {} to {}: {rate}, headers included",
                text("channel"),
                text("remote")
            )]
        }
        "decision" => vec![format!("  {} ago: {}", time("ago_ms"), text("text"))],
        _ => Vec::new(),
    }
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
            "  no promise is in force; served before elastic streams nevertheless".to_owned()
        }
        "renewable" => format!(
            "  promised, renewable; lapses in {} unless renewed",
            time("lapses_in_ms")
        ),
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
