//! Measurements of each stream, as the figures show them.

use serde_json::json;

use super::{channel::Kind, driver::Delivery};
use crate::{Row, kit::streams::show::rounded};

/// One row for each stream of a run, and one for each channel.
pub(super) fn rows(
    scheduler: &str,
    kinds: &[Kind],
    streams: std::ops::Range<u64>,
    sent: &[Delivery],
) -> Vec<Row> {
    let all = sent.len() as f64;
    let mut rows = Vec::new();
    for stream in streams {
        let of_stream: Vec<&Delivery> = sent.iter().filter(|one| one.stream == stream).collect();
        let count = of_stream.len() as f64;
        let mut row = begin(scheduler, "stream", &format!("stream {stream}"));
        row.insert("share".into(), rounded(count / all));
        for (index, kind) in kinds.iter().enumerate() {
            let on = of_stream.iter().filter(|one| one.channel == index).count();
            let share = rounded(on as f64 / count);
            row.insert(format!("on_{}", kind.name), share);
        }
        quality(&mut row, &of_stream);
        rows.push(row);
    }
    for (index, kind) in kinds.iter().enumerate() {
        let on: Vec<&Delivery> = sent.iter().filter(|one| one.channel == index).collect();
        let mut row = begin(scheduler, "channel", &kind.name);
        row.insert("share".into(), rounded(on.len() as f64 / all));
        quality(&mut row, &on);
        rows.push(row);
    }
    rows
}

fn begin(scheduler: &str, kind: &str, name: &str) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!(kind));
    row.insert("scheduler".into(), json!(scheduler));
    row.insert("name".into(), json!(name));
    row
}

fn quality(row: &mut Row, sent: &[&Delivery]) {
    let count = sent.len() as f64;
    let mut trips: Vec<f64> = sent.iter().filter_map(|one| one.round_trip_ms).collect();
    trips.sort_by(f64::total_cmp);
    let mean = trips.iter().sum::<f64>() / trips.len() as f64;
    row.insert("round_trip_mean_ms".into(), rounded(mean));
    for (name, at) in [("p25", 0.25), ("p50", 0.5), ("p75", 0.75)] {
        let value = trips.get((trips.len() as f64 * at) as usize);
        let field = format!("round_trip_{name}_ms");
        row.insert(field, value.map_or(json!(null), |&trip| rounded(trip)));
    }
    let waited = sent.iter().map(|one| one.waited_ms).sum::<f64>() / count;
    row.insert("waited_mean_ms".into(), rounded(waited));
    row.insert("latency_mean_ms".into(), rounded(mean + waited));
    let lost = sent.iter().filter(|one| one.round_trip_ms.is_none());
    row.insert("loss_fraction".into(), rounded(lost.count() as f64 / count));
    row.insert(
        "correlated_loss_fraction".into(),
        rounded(correlated(sent) as f64 / count),
    );
}

/// ADUs that were lost together with the one before or after, in the order of the stream.
fn correlated(sent: &[&Delivery]) -> usize {
    let mut order: Vec<(u64, u64, bool)> = (sent.iter())
        .map(|one| (one.stream, one.sequence, one.round_trip_ms.is_none()))
        .collect();
    order.sort_unstable();
    let is_lost = |at: Option<usize>| {
        at.and_then(|at| order.get(at))
            .is_some_and(|&(_, _, lost)| lost)
    };
    (0..order.len())
        .filter(|&at| order[at].2 && (is_lost(at.checked_sub(1)) || is_lost(Some(at + 1))))
        .count()
}
