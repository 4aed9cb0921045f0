//! Links of the demonstrations: three recorded paths, and the cut of a path during a download.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anabranch::{
    base::Seed,
    net::emulate::{Emulator, Path, PathSpec},
};
use anabranch_link::describe::parse_both;
use serde_json::{Value, json};

use super::{data::Data, stage::Narrator};
use crate::exit::{Failure, Outcome};

/// Paths: name, trace of the rate in both directions, and the other properties of the link.
pub(super) const PATHS: [(&str, &str, &str); 3] = [
    (
        "3g",
        "hsdpa-bus.csv",
        "delay=45 ms, queue=300 ms, jitter=4 ms",
    ),
    (
        "satellite",
        "starlink-up.csv",
        "delay=30 ms, queue=120 ms, jitter=3 ms, loss=0.2 %",
    ),
    ("fixed", "fixed.csv", "delay=12 ms, queue=150 ms"),
];
/// Index of the path that is cut.
pub(super) const CUT: usize = 1;
/// Shares of a download after which a path is cut, and is back.
const CUT_AT: (f64, f64) = (0.3, 0.6);

/// Starts the paths to a target.
///
/// # Errors
/// A trace is missing, or no socket can be opened.
pub(super) fn emulate(data: &Data, target: SocketAddr, seed: Seed) -> Result<Emulator, Failure> {
    let paths = PATHS.map(|(name, trace, rest)| (name, format!("rate=trace {trace}, {rest}")));
    emulate_paths(data, &paths, target, seed)
}

/// Starts paths, each with a name and the description of its links, to a target.
///
/// # Errors
/// As [`emulate`].
pub(super) fn emulate_paths(
    data: &Data,
    paths: &[(&str, String)],
    target: SocketAddr,
    seed: Seed,
) -> Result<Emulator, Failure> {
    let mut specs = Vec::new();
    for (name, text) in paths {
        let links = parse_both(text, &mut |file: &str| data.trace(file))
            .map_err(|error| Failure::file(format!("path {name}: {error}")))?;
        specs.push(PathSpec {
            name: (*name).to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            target,
            links,
        });
    }
    Emulator::start(specs, seed).map_err(Failure::other)
}

/// Cuts a path and brings it back, by the share of the download that has arrived, with a line a second; returns only on failure.
/// The download takes the backward direction of the paths.
pub(super) async fn watch(
    paths: &[Path],
    cut: usize,
    share: impl Fn() -> f64,
    narrator: Narrator,
) -> Outcome {
    let cut = &paths[cut];
    let delivered = |path: &Path| path.stats().1.delivered.bytes;
    let mut before: Vec<u64> = paths.iter().map(delivered).collect();
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    let begin = Instant::now();
    let mut said = begin;
    loop {
        tick.tick().await;
        let share = share();
        let is_up = !(CUT_AT.0..CUT_AT.1).contains(&share);
        if is_up != cut.is_up() {
            cut.set_up(is_up);
            let what = if is_up { "is back" } else { "is cut" };
            narrator.say(format!(
                "{:>4.1} s  {} {what}",
                begin.elapsed().as_secs_f64(),
                cut.name()
            ))?;
        }
        let elapsed = said.elapsed();
        if elapsed >= Duration::from_secs(1) {
            said = Instant::now();
            let mut line = format!(
                "{:>4.0} s  {:>3.0} % ",
                begin.elapsed().as_secs_f64(),
                share * 100.0
            );
            for (path, before) in paths.iter().zip(&mut before) {
                let mbps = mbps_since(before, delivered(path), elapsed);
                line += &format!("| {} {mbps:.1} Mbit/s ", path.name());
            }
            narrator.say(line)?;
        }
    }
}

/// Rate in Mbit/s since `before`, which becomes `now`: bytes that a path has delivered. These become fewer when it is cut, by what is on it.
pub(super) fn mbps_since(before: &mut u64, now: u64, elapsed: Duration) -> f64 {
    let bytes = now.saturating_sub(*before);
    *before = now;
    bytes as f64 * 8e-6 / elapsed.as_secs_f64().max(1e-9)
}

/// Bytes that each path carried backward, and packets that were dropped there, by cause.
pub(super) fn rows(paths: &[Path]) -> Vec<Value> {
    let row = |path: &Path| {
        let stats = path.stats().1;
        json!({
            "name": path.name(),
            "bytes": stats.delivered.bytes,
            "queue_full": stats.queue_full.packets,
            "lost": stats.loss.packets,
            "cut": stats.down.packets,
        })
    };
    paths.iter().map(row).collect()
}

/// The [`rows`] as a table, after an empty line.
pub(super) fn table(rows: &Value) -> Vec<String> {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let mut lines = vec![
        String::new(),
        format!(
            "{:<10} {:>10} {:>11} {:>6} {:>6}",
            "path", "MB", "queue full", "lost", "cut"
        ),
    ];
    for path in rows.as_array().into_iter().flatten() {
        lines.push(format!(
            "{:<10} {:>10.1} {:>11} {:>6} {:>6}",
            path["name"].as_str().unwrap_or_default(),
            number(&path["bytes"]) / 1e6,
            number(&path["queue_full"]),
            number(&path["lost"]),
            number(&path["cut"]),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_cut_has_no_rate() {
        let second = Duration::from_secs(1);
        let mut before = 0;
        assert_eq!(mbps_since(&mut before, 2_000_000, second), 16.0);
        assert_eq!(mbps_since(&mut before, 1_900_000, second), 0.0);
        assert_eq!(mbps_since(&mut before, 2_025_000, second), 1.0);
    }
}
