//! Choices of the ADUs of a schedule: the slots that each could have, and the difference that it would make.

use anabranch_base::text::printable;
use anabranch_hose::json::{AduEntry, Alternative, Alternatives, Document, Value};
use serde_json::json;

use super::lines::{adu, number};

/// Characters of a text of the schedule that are shown.
const TEXT_CHARS: usize = 64;

/// Lines for each ADU: its properties, then its choices, the one that was taken first.
pub(super) fn lines(document: &Document, all: &[Alternatives]) -> Vec<String> {
    let mut lines = Vec::new();
    for alternatives in all {
        let Some(entry) = document.adus.get(alternatives.adu) else {
            continue;
        };
        lines.push(String::new());
        lines.push(head(entry));
        for choice in &alternatives.choices {
            lines.push(line(document, choice));
        }
    }
    lines
}

/// `stream 4 #17 (video, 1200 B, frame = I, waits 12 ms of 800 ms)`.
fn head(entry: &AduEntry) -> String {
    let mut parts = Vec::new();
    parts.extend(entry.label.as_deref().map(text));
    match (entry.bytes, entry.length) {
        (Some(bytes), Some(length)) => parts.push(format!("{bytes} of {length} B")),
        (_, Some(length)) => parts.push(format!("{length} B")),
        _ => {}
    }
    let fields = entry.fields.iter();
    parts.extend(fields.map(|(name, value)| format!("{} = {}", text(name), shown(value))));
    let waited = format!("waits {} ms", tenths(entry.queue_delay_ms));
    parts.push(match entry.deadline_ms {
        Some(deadline) => format!("{waited} of {} ms", tenths(deadline)),
        None => waited,
    });
    let which = adu(Some(entry.stream_id), Some(entry.stream_seq));
    format!("{which} ({})", parts.join(", "))
}

fn line(document: &Document, choice: &Alternative) -> String {
    let mark = if choice.is_chosen { "→" } else { " " };
    let place = place(document, choice.slot);
    let mut facts = Vec::new();
    if let Some(latency) = choice.latency_ms {
        facts.push(format!("arrives after {} ms", tenths(latency)));
    }
    if let Some(late) = choice.late {
        facts.push(format!("late or lost {} %", tenths(late * 100.0)));
    }
    if !choice.is_chosen {
        facts.push(match choice.difference {
            0.0 => "worth the same".to_owned(),
            more if more > 0.0 => format!("worth {} more", number(more)),
            less => format!("worth {} less", number(-less)),
        });
    }
    if facts.is_empty() {
        return format!("  {mark} {place}");
    }
    format!("  {mark} {place}: {}", facts.join(", "))
}

/// `wlan0 now`, `lte0 in 12 ms`, or `not sent`.
fn place(document: &Document, slot: Option<usize>) -> String {
    let Some(slot) = slot.and_then(|slot| document.slots.get(slot)) else {
        return "not sent".to_owned();
    };
    let channel = text(slot.channel.as_deref().unwrap_or("-"));
    if slot.is_phantom() {
        return format!("{channel} in {} ms", tenths(slot.wait_ms));
    }
    format!("{channel} now")
}

fn shown(value: &Value) -> String {
    match value {
        Value::Boolean(truth) => truth.to_string(),
        Value::Number(value) => number(*value),
        Value::Text(words) => text(words),
    }
}

/// A number with one decimal at most.
fn tenths(value: f64) -> String {
    number((value * 10.0).round() / 10.0)
}

/// A text that a peer may have chosen.
fn text(text: &str) -> String {
    printable(text, TEXT_CHARS)
}

/// The same as JSON: for each ADU its number in the schedule and its choices.
pub(super) fn as_json(all: &[Alternatives]) -> serde_json::Value {
    let choice = |choice: &Alternative| {
        json!({
            "slot": choice.slot,
            "is_chosen": choice.is_chosen,
            "latency_ms": choice.latency_ms,
            "late": choice.late,
            "difference": choice.difference,
        })
    };
    let row = |of: &Alternatives| {
        let choices: Vec<_> = of.choices.iter().map(choice).collect();
        json!({ "adu": of.adu, "choices": choices })
    };
    all.iter().map(row).collect()
}
