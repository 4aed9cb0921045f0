//! `anabranch admit`: asks a running node whether a demand would be promised.

use std::path::PathBuf;

use anabranch::{
    base::Rate,
    control::Request,
    spec::{GuaranteeText, SpecText, percent_of},
};
use serde_json::Value;

use crate::{
    control,
    exit::{Failure, Outcome, print_line},
    guarantee,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 if a session would promise it, 4 if none would. A promise covers only what this node sends. It needs \
20 s of traffic before it, a durable promise 300 s.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    control: control::Asking,
    /// No effect: the command only asks. It never opens or reserves anything.
    #[arg(long)]
    dry_run: bool,
    /// Session to ask, such as session-0 [default: every session].
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// TOML file with all that the stream asks for (see stream.example.toml); flags take precedence over it.
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    #[command(flatten)]
    guarantee: guarantee::Flags,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let spec = spec(&arguments)?;
    let request = Request::Admit {
        spec: Box::new(spec),
        session: arguments.session,
    };
    let answer = arguments.control.ask(&request).await?;
    let rows = control::rows(&answer);
    let answers = || rows.iter().filter(|row| row["kind"] == "answer");
    if arguments.control.json {
        print_line(&answer.to_string())?;
    } else {
        for row in answers() {
            for line in lines(row, rows) {
                print_line(&line)?;
            }
        }
    }
    if answers().any(|row| row["is_promised"] == true) {
        return Ok(());
    }
    let why = answers().next().and_then(|row| row["answer"].as_str());
    Err(Failure::refused(format!(
        "it would not be promised: {}",
        why.unwrap_or("the session has just ended")
    )))
}

fn spec(arguments: &Arguments) -> Result<SpecText, Failure> {
    let mut spec = match &arguments.spec {
        None => SpecText::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::file(format!("cannot read {}: {error}", path.display()))
            })?;
            let refused = |error| Failure::usage(format!("{}: {error}", path.display()));
            let spec = SpecText::from_toml(&text).map_err(refused)?;
            spec.resolve().map_err(refused)?;
            spec
        }
    };
    let flags = arguments.guarantee.text();
    if flags.is_some() || spec.guarantee.is_none() {
        // Flags replace a demand as a whole; window, term and grade of the file are kept.
        let below = spec.guarantee.take().unwrap_or_default();
        let flags = flags.unwrap_or_default();
        let is_demand = flags.rate.is_some() || flags.packets.is_some();
        let demand = if is_demand {
            flags.clone()
        } else {
            GuaranteeText {
                probability: flags.probability.or(below.probability.clone()),
                packet_bytes: flags.packet_bytes.or(below.packet_bytes),
                late_packets: flags.late_packets.or(below.late_packets),
                ..below.clone()
            }
        };
        let text = GuaranteeText {
            window: flags.window.or(below.window),
            term: flags.term.or(below.term),
            grade: flags.grade.or(below.grade),
            waits: below.waits,
            ..demand
        };
        text.resolve(guarantee::flag).map_err(Failure::usage)?;
        spec.guarantee = Some(text);
    }
    Ok(spec)
}

/// Answer of one session as lines of text.
fn lines(row: &Value, rows: &[Value]) -> Vec<String> {
    let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let bps = |value: &Value| value.as_u64().map(Rate::from_bps);
    let mut lines = vec![format!("{}: {}", text("session"), text("asked"))];
    if row["is_promised"] == true {
        let term = row["term_ms"].as_f64();
        let term = term.map(|ms| format!(", for {} s at a time", ms / 1e3));
        lines.push(format!(
            "  would be promised, {}{}",
            text("grade"),
            term.unwrap_or_default()
        ));
        let of_session =
            |path: &&Value| path["kind"] == "path" && path["session"] == row["session"];
        lines.extend(rows.iter().filter(of_session).filter_map(|path| {
            Some(format!(
                "  on {} to {}: {}, headers included",
                path["channel"].as_str()?,
                path["remote"].as_str().unwrap_or("-"),
                bps(&path["rate_bps"])?
            ))
        }));
        return lines;
    }
    lines.push(format!("  would not be promised: {}", text("why")));
    lines.extend(offers(row));
    lines
}

/// Offers of a refusal, as lines for people.
pub(crate) fn offers(row: &Value) -> Vec<String> {
    let bps = |value: &Value| value.as_u64().map(Rate::from_bps);
    let mut lines = Vec::new();
    if let Some(rate) = bps(&row["offer_rate_bps"]) {
        lines.push(format!("  available at this probability: {rate}"));
    }
    if let Some(probability) = row["offer_probability"].as_f64() {
        let percent = percent_of(probability);
        lines.push(format!(
            "  available at this rate: {percent} of all windows"
        ));
    }
    if let Some(stream) = row["offer_reduce_stream"].as_str() {
        lines.push(match bps(&row["offer_reduce_to_bps"]) {
            Some(rate) if rate != Rate::ZERO => {
                format!("  available as asked if {stream} is reduced to {rate}")
            }
            _ => format!("  available as asked without the promise of {stream}"),
        });
    }
    lines
}
