//! `replay`: the decisions of a session, repeated from its transcript.

use std::{fmt::Write as _, fs, path::PathBuf};

use anabranch_base::{ChannelId, StreamId, text::printable};
use anabranch_session::{
    Policy,
    transcript::{
        Difference, Estimate, Record, Replayed, StreamEstimate, Unrepeatable, WARM_UP, WhatIf,
        replay, what_if,
    },
};
use clap::Args;
use serde_json::{Value, json};

use crate::failure::{self, Failure, Outcome};

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Characters of a label that are shown.
const LABEL_CHARS: usize = 40;

#[derive(Debug, Args)]
#[command(after_help = "\
Without --policy, the recorded policy is built anew, is shown what it was shown, and must decide as it did; exit code 1 if it does not. \
With --policy, a model tells what would have followed from other decisions; docs/replay.md states it, and what it leaves out.")]
pub(crate) struct Arguments {
    /// Transcript, as `anabranch record` writes it.
    file: PathBuf,
    /// Ask what this policy would have done.
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let path = arguments.file.display();
    let named = |error: &dyn std::fmt::Display| Failure::file(format!("{path}: {error}"));
    let size = fs::metadata(&arguments.file).map_err(|error| named(&error))?;
    if size.len() > FILE_BYTES_MAX {
        return Err(named(&"more than 1 GiB is no transcript"));
    }
    let file = fs::read(&arguments.file).map_err(|error| named(&error))?;
    if let Some(policy) = arguments.policy {
        let result = what_if(&file, policy).map_err(|error| named(&error))?;
        return failure::print_line(
            match arguments.json {
                true => what_if_json(&result, policy).to_string(),
                false => what_if_text(&result, policy),
            }
            .trim_end(),
        );
    }
    let result = replay(&file).map_err(|error| named(&error))?;
    failure::print_line(
        match arguments.json {
            true => replayed_json(&result).to_string(),
            false => replayed_text(&result),
        }
        .trim_end(),
    )?;
    if result.difference.is_some() {
        return Err(Failure::other("the decisions differ"));
    }
    match &result.broken {
        Some((position, error)) => Err(named(&format!(
            "{error}; it is good up to byte {position}, {}",
            result.until
        ))),
        None => Ok(()),
    }
}

fn replayed_text(result: &Replayed) -> String {
    let mut text = String::new();
    let start = match result.is_from_start {
        true => "from the start of the session",
        false => "from the middle of the session",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "policy {}, {} to {}, {start}",
        printable(&result.policy, LABEL_CHARS),
        result.from,
        result.until
    );
    if !result.is_from_start {
        let _ = writeln!(text, "{}", warm_up_text(result));
    }
    if let Some((at, cause)) = result.unrepeatable {
        let cause = match cause {
            Unrepeatable::Objectives => "follow objectives, whose state is not recorded",
            Unrepeatable::Foreign => "are those of a scheduler of the application",
        };
        let _ = writeln!(text, "from {at} on, decisions {cause}: not compared");
    }
    match &result.difference {
        None if result.same == 0 => {
            let _ = writeln!(text, "nothing is judged: {}", nothing_judged(result));
        }
        None => {
            let _ = writeln!(
                text,
                "same {} decisions, {} fragments",
                result.same, result.fragments
            );
        }
        Some(difference) => {
            let _ = writeln!(
                text,
                "same {} decisions, then the first that differs",
                result.same
            );
            difference_text(&mut text, difference);
        }
    }
    text
}

/// Decisions of the warm-up, in a line.
fn warm_up_text(result: &Replayed) -> String {
    let (differ, same) = result.warm_up;
    let last = result.warm_up_differed.map_or(String::new(), |at| {
        let after = at.since(result.from).as_secs_f64();
        format!(", the last of them {after:.1} s after the start")
    });
    let warm_up = WARM_UP.as_secs();
    format!("warm-up of {warm_up} s, not judged: {same} decisions the same, {differ} not{last}")
}

/// Reason why no decision is judged.
fn nothing_judged(result: &Replayed) -> String {
    let (differ, same) = result.warm_up;
    match result.unrepeatable {
        Some((_, Unrepeatable::Objectives)) => {
            "record a session without objectives, or one whose policy does not follow them"
                .to_owned()
        }
        Some((_, Unrepeatable::Foreign)) => {
            "record a session with one of Anabranch's own policies in place of its application's"
                .to_owned()
        }
        None if differ + same > 0 => format!(
            "the transcript begins in the middle of its session and ends after {:.1} s; what the policy remembered at its start is \
             not in it, and counts for up to {} s; record for longer, or from the start of a session",
            result.until.since(result.from).as_secs_f64(),
            WARM_UP.as_secs(),
        ),
        None => "there is no decision in the transcript; record while data is sent".to_owned(),
    }
}

fn decision_text(decision: Option<&(StreamId, Vec<ChannelId>)>) -> String {
    match decision {
        None => "wait".to_owned(),
        Some((stream, channels)) => {
            let channels: Vec<String> = channels.iter().map(ToString::to_string).collect();
            format!("{stream} on {}", channels.join(", "))
        }
    }
}

fn difference_text(text: &mut String, difference: &Difference) {
    let _ = writeln!(text, "decision {} at {}:", difference.number, difference.at);
    let recorded = decision_text(difference.recorded.as_ref());
    let replayed = decision_text(difference.replayed.as_ref());
    let _ = writeln!(text, "  recorded: {recorded}\n  replayed: {replayed}");
    for (channel, fragment) in &difference.fragments {
        let _ = writeln!(
            text,
            "  sent then: {} ADU {} bytes {}+{} on {channel}",
            fragment.stream, fragment.sequence, fragment.offset, fragment.bytes
        );
    }
    let _ = writeln!(text, "what preceded it:");
    for record in &difference.before {
        let _ = writeln!(text, "  {}", record_text(record));
    }
}

fn record_text(record: &Record) -> String {
    match record {
        Record::Run {
            at,
            channels,
            views,
            expected,
            ..
        } => {
            let slots = channels.iter().map(|view| {
                format!(
                    "{} {} slots, {:.1} ms",
                    view.id,
                    view.slots,
                    view.rtt_smoothed.as_secs_f64() * 1e3
                )
            });
            let slots: Vec<String> = slots.collect();
            let waiting = views
                .iter()
                .map(|view| format!("{} {} B", view.id, view.backlog_bytes));
            let waiting: Vec<String> = waiting.take(8).collect();
            let expected = expected.map_or(String::new(), |at| format!(", promised data at {at}"));
            format!(
                "run at {at}: {}; {}{expected}",
                slots.join("; "),
                waiting.join("; ")
            )
        }
        Record::Opened { stream, label, .. } => {
            format!("{stream} opened: {}", printable(label, LABEL_CHARS))
        }
        other => printable(&format!("{other:?}"), 200),
    }
}

fn replayed_json(result: &Replayed) -> Value {
    let decision = |decision: Option<&(StreamId, Vec<ChannelId>)>| {
        decision.map(|(stream, channels)| {
            let channels: Vec<String> = channels.iter().map(ToString::to_string).collect();
            json!({ "stream": stream.to_string(), "channels": channels })
        })
    };
    json!({
        "policy": result.policy,
        "from_start": result.is_from_start,
        "seconds": result.until.since(result.from).as_secs_f64(),
        "same": result.same,
        "fragments": result.fragments,
        "warm_up_same": result.warm_up.1,
        "warm_up_different": result.warm_up.0,
        "warm_up_last_different_s": result.warm_up_differed.map(|at| at.as_secs_f64()),
        "nothing_judged": (result.same == 0 && result.difference.is_none()).then(|| nothing_judged(result)),
        "compared_until_s": result.unrepeatable.map(|(at, _)| at.as_secs_f64()),
        "difference": result.difference.as_ref().map(|difference| json!({
            "at_s": difference.at.as_secs_f64(),
            "decision": difference.number,
            "recorded": decision(difference.recorded.as_ref()),
            "replayed": decision(difference.replayed.as_ref()),
            "before": difference.before.iter().map(record_text).collect::<Vec<_>>(),
        })),
        "broken_at_byte": result.broken.as_ref().map(|(position, _)| position),
    })
}

fn what_if_text(result: &WhatIf, policy: Policy) -> String {
    let recorded = printable(&result.policy, LABEL_CHARS);
    let mut text = format!(
        "recorded: policy {recorded}; modelled: the same policy in the model, so the difference is the error of the model; asked: {policy} in the model\n"
    );
    for (stream, was) in &result.recorded.streams {
        let _ = writeln!(text, "{stream} {}", printable(&was.label, LABEL_CHARS));
        let mut line = |name: &str, estimate: Option<&Estimate>| {
            let Some(of) = estimate.and_then(|estimate| estimate.streams.get(stream)) else {
                return;
            };
            let _ = writeln!(text, "  {name:9} {}", stream_text(of));
        };
        line("recorded", Some(&result.recorded));
        line("modelled", result.modelled.as_ref());
        line("asked", Some(&result.asked));
    }
    if result.modelled.is_none() {
        let _ = writeln!(
            text,
            "the recorded decisions are those of a scheduler of the application, which cannot be modelled: the error of the model is unknown"
        );
    }
    if result.asked.beyond_packets > 0 {
        let _ = writeln!(
            text,
            "{} packets of {policy} met no recorded packet: they are taken to meet the smoothed round trip and no loss",
            result.asked.beyond_packets
        );
    }
    text
}

fn stream_text(of: &StreamEstimate) -> String {
    let ms = |time: Option<std::time::Duration>| {
        time.map_or("-".to_owned(), |time| {
            format!("{:.1} ms", time.as_secs_f64() * 1e3)
        })
    };
    let windows = match (of.windows, of.window_of) {
        (Some((_, 0)), Some((window, known))) => format!(
            ", windows not judged: none of {} s is whole in the {:.1} s recorded of it",
            window.as_secs_f64(),
            known.as_secs_f64()
        ),
        (Some((kept, all)), _) => format!(", windows kept {kept} of {all}"),
        (None, _) => String::new(),
    };
    let sent: Vec<String> = (of.sent_bytes.iter())
        .map(|(channel, bytes)| format!("{channel} {bytes} B"))
        .collect();
    format!(
        "ADUs arrived {} of {}, late {}; transit median {}, 95 % {}{windows}; {}",
        of.arrived,
        of.adus,
        of.late,
        ms(of.transit_p50),
        ms(of.transit_p95),
        sent.join(", ")
    )
}

fn what_if_json(result: &WhatIf, policy: Policy) -> Value {
    let estimate = |estimate: &Estimate| {
        let row = |(stream, of): (&StreamId, &StreamEstimate)| {
            let sent = of.sent_bytes.iter();
            let sent = sent.map(|(channel, bytes)| (channel.to_string(), json!(bytes)));
            json!({
                "stream": stream.to_string(),
                "label": of.label,
                "adus": of.adus,
                "arrived": of.arrived,
                "late": of.late,
                "transit_p50_ms": of.transit_p50.map(|time| time.as_secs_f64() * 1e3),
                "transit_p95_ms": of.transit_p95.map(|time| time.as_secs_f64() * 1e3),
                "windows_kept": of.windows.map(|(kept, _)| kept),
                "windows": of.windows.map(|(_, all)| all),
                "window_s": of.window_of.map(|(window, _)| window.as_secs_f64()),
                "sent_bytes": sent.collect::<serde_json::Map<_, _>>(),
            })
        };
        estimate.streams.iter().map(row).collect::<Vec<_>>()
    };
    json!({
        "policy_recorded": result.policy,
        "policy_asked": policy.to_string(),
        "recorded": estimate(&result.recorded),
        "modelled": result.modelled.as_ref().map(estimate),
        "asked": estimate(&result.asked),
        "beyond_packets": result.asked.beyond_packets,
    })
}

#[cfg(test)]
mod tests;
