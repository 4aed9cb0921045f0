//! Promises: what was promised, refused, warned of and withdrawn, the newest first.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{
    super::{keys::View, model::Model},
    Content, is_wanted,
    text::{Line, Piece, flowed},
    theme::Tone,
};
use crate::show::age;

pub(super) fn content(model: &Model, view: &View, now: Instant, cells: usize) -> Content {
    let mut head = Vec::new();
    if let Some(reason) = &model.without_record {
        let text = format!("Earlier events are not known: {reason}");
        head.extend(flowed([Piece::new(text, Tone::Soft)], cells));
    }
    if model.events_missed > 0 {
        let text = format!("{} events came too fast to be shown.", model.events_missed);
        head.extend(flowed([Piece::new(text, Tone::Warn)], cells));
    }
    let shown = model.events.iter();
    let shown = shown.filter(|(event, _)| is_wanted(event, &view.filter));
    Content {
        head,
        rows: shown
            .map(|(event, at)| row(event, now.saturating_duration_since(*at), cells))
            .collect(),
        nothing: "Nothing was promised or refused yet.".to_owned(),
    }
}

/// An event that was received so long ago.
fn row(event: &Value, since: Duration, cells: usize) -> Vec<Line> {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let ago = Duration::from_millis(event["ago_ms"].as_u64().unwrap_or_default());
    let ago = ago.saturating_add(since);
    let tone = match text("event") {
        "promised" => Tone::Good,
        "waits" | "warned" => Tone::Warn,
        "withdrawn" => Tone::Bad,
        _ => Tone::Soft,
    };
    let name = match text("label") {
        "" => text("stream"),
        label => label,
    };
    let plain = |text: String| Piece::new(text, Tone::Plain);
    let mut pieces = vec![
        Piece::new(format!("{} ago", age(ago)), Tone::Soft),
        Piece::new(name, Tone::Head),
        plain(format!("→ {}", text("peer"))),
        Piece::new(text("event"), tone),
        plain(text("asked").to_owned()),
    ];
    if !text("text").is_empty() {
        pieces.push(plain(text("text").to_owned()));
    }
    let count = |field: &str| event[field].as_u64().unwrap_or_default();
    let (kept, broken) = (count("windows_kept"), count("windows_broken"));
    if kept + broken > 0 {
        pieces.push(Piece::new(
            format!("windows kept {kept}, broken {broken}"),
            Tone::Soft,
        ));
    }
    let mut lines = flowed(pieces, cells.saturating_sub(2));
    for line in lines.iter_mut().skip(1) {
        line.insert(0, Piece::new("  ", Tone::Plain));
    }
    lines
}
