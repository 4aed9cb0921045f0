//! Paths: the curve of the rate, and what is known of the path.

use std::time::Instant;

use serde_json::Value;

use super::{
    super::{
        keys::View,
        model::{Model, SPAN},
    },
    Content, is_wanted,
    text::{GAP, Line, Piece, fitted, flowed, padded, width},
    theme::Tone,
};
use crate::{
    bytes,
    show::words::{millis, peer, percent, state},
    table::rate,
};

/// Heights of a cell of the curve, in eighths.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn content(model: &Model, view: &View, now: Instant, cells: usize) -> Content {
    let shown = |row: &&Value| is_wanted(row, &view.filter);
    let mut paths: Vec<&Value> = model.state.paths.iter().filter(shown).collect();
    paths.sort_by_cached_key(|path| (peer(path), path["interface"].to_string(), number(path)));
    let rows = paths.into_iter().map(|path| row(model, path, now, cells));
    Content {
        head: Vec::new(),
        rows: rows.collect(),
        nothing: "No session is open, so there are no paths.".to_owned(),
    }
}

/// Number of the channel, so that the tenth does not come before the second.
fn number(path: &Value) -> Option<u64> {
    path["channel"].as_str()?.rsplit('-').next()?.parse().ok()
}

fn row(model: &Model, path: &Value, now: Instant, cells: usize) -> Vec<Line> {
    let interface = path["interface"].as_str().unwrap_or("any interface");
    let name = format!("{interface} → {}", peer(path));
    let tone = match path["state"].as_str() {
        Some("active") => Tone::Good,
        Some("not responding" | "suspected") => Tone::Bad,
        _ => Tone::Warn,
    };
    let mut lines = flowed(
        [
            Piece::new(name, Tone::Head),
            Piece::new(state(path), tone),
            Piece::new(path["channel"].as_str().unwrap_or("-"), Tone::Soft),
            Piece::new(
                format!("to {}", path["remote"].as_str().unwrap_or("-")),
                Tone::Soft,
            ),
        ],
        cells,
    );
    lines.push(curve(model, path, now, cells));
    lines.extend(flowed(facts(model, path), cells));
    lines.push(Line::new());
    lines
}

/// Rate over the last two minutes; the number is that of now.
fn curve(model: &Model, path: &Value, now: Instant, cells: usize) -> Line {
    let newest = padded(&rate(path, "rate_delivered_bps"), 11, true);
    let parts = cells
        .saturating_sub(width(&newest) + GAP)
        .min(SPAN.as_secs() as usize);
    let points = model.curve(path, now, parts);
    let most = points.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |point: &Option<f64>| match point {
        None => BARS[0],
        // Rounded up: what is little is not nothing.
        Some(bps) if most > 0.0 => BARS[((bps / most * 8.0).ceil() as usize).clamp(1, 8)],
        Some(_) => BARS[1],
    };
    let bars: String = points.iter().map(bar).collect();
    vec![
        Piece::new(bars, Tone::Curve),
        Piece::new(" ".repeat(GAP), Tone::Plain),
        Piece::new(fitted(&newest, cells), Tone::Head),
    ]
}

fn facts(model: &Model, path: &Value) -> Vec<Piece> {
    let plain = |text: String| Piece::new(text, Tone::Plain);
    let mut facts = Vec::new();
    let known = [
        "bandwidth_p10_bps",
        "bandwidth_p50_bps",
        "bandwidth_p90_bps",
    ];
    if known.iter().any(|field| !path[field].is_null()) {
        let [low, middle, high] = known.map(|field| rate(path, field));
        facts.push(plain(format!(
            "forecast 10 % {low}, 50 % {middle}, 90 % {high}"
        )));
    } else {
        facts.push(Piece::new("forecast not known yet", Tone::Soft));
    }
    if path["streams_promised_bps"]
        .as_u64()
        .is_some_and(|bps| bps > 0)
    {
        facts.push(plain(format!(
            "promised {}",
            rate(path, "streams_promised_bps")
        )));
    }
    facts.push(plain(format!("round trip {}", millis(path, "rtt_ms"))));
    if let (Some(now), Some(least)) = (path["rtt_ms"].as_f64(), path["rtt_min_ms"].as_f64()) {
        facts.push(plain(format!("queue {:.0} ms", (now - least).max(0.0))));
    }
    let recent = path["loss_recent_fraction"].as_f64();
    let loss = recent.or(path["loss_fraction"].as_f64());
    facts.push(plain(format!("loss {}", percent(loss))));
    facts.push(plain(format!(
        "carried {}",
        percent(path["share_fraction"].as_f64())
    )));
    facts.extend(quota(model, path));
    match path["shares_bottleneck_with"].as_str() {
        None | Some("") => {}
        Some(others) => facts.push(plain(format!("shares a bottleneck with {others}"))),
    }
    facts
}

/// Bytes left at the price of the interface.
fn quota(model: &Model, path: &Value) -> Option<Piece> {
    let interface = path["interface"].as_str()?;
    let mut budgets = model.state.status.iter();
    let budget = budgets.find(|row| row["kind"] == "budget" && row["place"] == interface)?;
    let renews = budget["renews"].as_str().unwrap_or("-");
    if budget["is_spent"] == true {
        return Some(Piece::new(
            format!("quota used up until {renews}"),
            Tone::Bad,
        ));
    }
    let left = budget["left_bytes"]
        .as_u64()
        .or(budget["quota_left_bytes"].as_u64());
    let text = match left {
        Some(left) => format!("quota {} left until {renews}", bytes::text(left)),
        None => format!("price {}", budget["price"].as_str().unwrap_or("-")),
    };
    Some(Piece::new(text, Tone::Plain))
}
