//! Rows of sets and streams, and the summary of all sets.

use serde_json::{Value, json};

use super::{
    observed::{Notice, Observed},
    setting::{PromisedStream, Setting},
};
use crate::{
    Row,
    kit::{
        output::Published,
        streams::show::{find, has, mbps, number, rounded},
    },
};

/// Difference of the kept fractions of both clocks that is aimed at, in points.
const DIFFERENCE_MAX: f64 = 2.0;

/// Clock of a run, and what carries its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Virtual time.
    Virtual,
    /// Real sockets on loopback, by this machine's clock.
    Live,
    /// The same between two network namespaces.
    Namespaces,
}

impl Mode {
    /// All.
    pub const ALL: [Self; 3] = [Self::Virtual, Self::Live, Self::Namespaces];

    /// Name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Virtual => "virtual",
            Self::Live => "live",
            Self::Namespaces => "netns",
        }
    }
}

/// Row of a set, then a row for each of its streams.
pub fn of_set(mode: Mode, setting: &Setting, observed: &[Observed]) -> Vec<Row> {
    let mut set = row("set", mode);
    set.insert("set".into(), json!(setting.number));
    set.insert("recordings".into(), json!(setting.name));
    set.insert("origin".into(), json!(setting.origin));
    set.insert("paths".into(), json!(setting.paths.len()));
    set.insert("p10_mbps".into(), mbps(setting.p10.as_bps() as f64));
    let streams = setting.streams.iter().zip(observed);
    let streams = streams.map(|(stream, observed)| of_stream(mode, setting, stream, observed));
    std::iter::once(set).chain(streams).collect()
}

fn of_stream(mode: Mode, setting: &Setting, stream: &PromisedStream, observed: &Observed) -> Row {
    let (kept, broken) = observed.account;
    let received = observed.received(stream, setting.plan);
    let mut row = row("stream", mode);
    let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
    put("set", json!(setting.number));
    put("stream", json!(stream.label));
    put("session", json!(stream.peer + 1));
    put("rate_mbps", mbps(stream.rate().as_bps() as f64));
    put("probability", json!(stream.probability));
    if let Some(after) = observed.promised_after() {
        put("promised_after_s", rounded(after.as_secs_f64()));
    }
    put("windows_kept", json!(kept));
    put("windows_broken", json!(broken));
    put("warnings", json!(observed.count(Notice::Warned)));
    put("withdrawals", json!(observed.count(Notice::Withdrawn)));
    put("withdrawals_announced", json!(observed.announced()));
    put("received_windows", json!(received.windows));
    put("received_kept", json!(received.kept));
    if let Some(deviation) = received.rate_deviation {
        put("rate_deviation_fraction", rounded(deviation));
    }
    let windows = (kept + broken) as f64;
    shares(
        &mut row,
        (kept as f64, windows),
        windows * stream.probability,
    );
    received_share(&mut row, received.kept as f64, received.windows as f64);
    row
}

fn row(kind: &str, mode: Mode) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!(kind));
    row.insert("mode".into(), json!(mode.name()));
    row
}

/// Kept fraction of windows, and its difference from the probability in points; nothing without windows. `due`: the windows that
/// the probability lets expect.
fn shares(row: &mut Row, (kept, windows): (f64, f64), due: f64) {
    if windows > 0.0 {
        row.insert("kept_fraction".into(), rounded(kept / windows));
        let points = (kept - due) / windows * 100.0;
        row.insert("deviation_points".into(), rounded(points));
    }
}

fn received_share(row: &mut Row, kept: f64, windows: f64) {
    if windows > 0.0 {
        row.insert("received_kept_fraction".into(), rounded(kept / windows));
    }
}

/// A summary of each mode that has rows, and a comparison of each live one with virtual time on the sets that both have.
pub fn summaries(rows: &[Row]) -> Vec<Row> {
    let streams = |mode: Mode| -> Vec<&Row> {
        let wanted = [("kind", "stream"), ("mode", mode.name())];
        rows.iter().filter(|row| has(row, &wanted)).collect()
    };
    let all = Mode::ALL.map(streams);
    let mut summaries: Vec<Row> = Vec::new();
    for (mode, streams) in Mode::ALL.into_iter().zip(&all) {
        if !streams.is_empty() {
            summaries.push(summary(row("summary", mode), streams));
        }
    }
    let in_both = |own: &[&Row], other: &[&Row]| -> Vec<Row> {
        let is_there = |row: &&&Row| other.iter().any(|other| other["set"] == row["set"]);
        own.iter().filter(is_there).copied().cloned().collect()
    };
    let [simulated, live @ ..] = &all;
    for (mode, live) in Mode::ALL.into_iter().skip(1).zip(live) {
        let common = [in_both(simulated, live), in_both(live, simulated)];
        if common.iter().all(|rows| !rows.is_empty()) {
            summaries.push(comparison(mode, &common));
        }
    }
    summaries
}

fn summary(mut row: Row, streams: &[&Row]) -> Row {
    let sum = |field: &str| -> f64 { streams.iter().filter_map(|row| number(row, field)).sum() };
    let count = |field: &str| streams.iter().filter(|row| row.contains_key(field)).count();
    let (kept, broken) = (sum("windows_kept"), sum("windows_broken"));
    let due = |row: &&Row| {
        let windows = number(row, "windows_kept")? + number(row, "windows_broken")?;
        Some(windows * number(row, "probability")?)
    };
    let mut sets: Vec<String> = streams.iter().map(|row| row["set"].to_string()).collect();
    sets.sort_unstable();
    sets.dedup();
    let promised = count("promised_after_s");
    let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
    put("sets", json!(sets.len()));
    put("streams", json!(streams.len()));
    put("streams_promised", json!(promised));
    if promised > 0 {
        let mean_s = sum("promised_after_s") / promised as f64;
        put("promised_after_s", rounded(mean_s));
    }
    for field in [
        "windows_kept",
        "windows_broken",
        "warnings",
        "withdrawals",
        "withdrawals_announced",
        "received_windows",
        "received_kept",
    ] {
        put(field, json!(sum(field) as u64));
    }
    // Weighted with windows, as fractions are.
    let weighted = streams
        .iter()
        .filter_map(|row| {
            Some(number(row, "rate_deviation_fraction")? * number(row, "received_windows")?)
        })
        .sum::<f64>();
    if sum("received_windows") > 0.0 {
        put(
            "rate_deviation_fraction",
            rounded(weighted / sum("received_windows")),
        );
    }
    shares(
        &mut row,
        (kept, kept + broken),
        streams.iter().filter_map(due).sum(),
    );
    received_share(&mut row, sum("received_kept"), sum("received_windows"));
    row
}

/// Comparison of the pooled kept fractions of virtual time and of runs in a live mode.
fn comparison(mode: Mode, common: &[Vec<Row>; 2]) -> Row {
    let [simulated, live] = common.each_ref().map(|rows| {
        let rows: Vec<&Row> = rows.iter().collect();
        summary(Row::new(), &rows)
    });
    let mut row = row("comparison", mode);
    row.insert("sets".into(), simulated["sets"].clone());
    for (field, points) in [
        ("kept_fraction", "difference_points"),
        ("received_kept_fraction", "received_difference_points"),
    ] {
        let (of_simulated, of_live) = (number(&simulated, field), number(&live, field));
        if let (Some(of_simulated), Some(of_live)) = (of_simulated, of_live) {
            row.insert(format!("virtual_{field}"), rounded(of_simulated));
            row.insert(format!("{}_{field}", mode.name()), rounded(of_live));
            row.insert(points.into(), rounded((of_live - of_simulated) * 100.0));
        }
    }
    row
}

/// Targets beside ours.
pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for mode in Mode::ALL {
        let wanted = [("kind", "summary"), ("mode", mode.name())];
        if let Some(points) = find(rows, &wanted, "deviation_points") {
            lines.push(Published::new(
                format!("{}: kept fraction less the probability", mode.name()),
                "target",
                "at least −1 point",
                format!("{points} points"),
            ));
        }
    }
    for mode in Mode::ALL.into_iter().skip(1) {
        let wanted = [("kind", "comparison"), ("mode", mode.name())];
        if let Some(points) = find(rows, &wanted, "difference_points") {
            lines.push(Published::new(
                format!("kept fraction {} less that in virtual time", mode.name()),
                "target",
                format!("within {DIFFERENCE_MAX} points"),
                format!("{points} points"),
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(mode: Mode, set: usize, (kept, broken): (u64, u64)) -> Row {
        let mut row = row("stream", mode);
        row.insert("set".into(), json!(set));
        row.insert("probability".into(), json!(0.9));
        row.insert("windows_kept".into(), json!(kept));
        row.insert("windows_broken".into(), json!(broken));
        row
    }

    #[test]
    fn each_live_mode_is_compared_with_virtual_time_on_the_sets_that_both_have() {
        let rows = [
            stream(Mode::Virtual, 1, (190, 10)),
            stream(Mode::Virtual, 2, (0, 100)),
            stream(Mode::Live, 1, (180, 20)),
            stream(Mode::Namespaces, 2, (90, 10)),
        ];
        let summaries = summaries(&rows);
        let [simulated, live, _, comparison, netns] = &summaries[..] else {
            panic!("{summaries:?}");
        };
        assert_eq!(simulated["kept_fraction"], json!(0.6333));
        assert_eq!(live["deviation_points"], json!(0.0));
        assert_eq!(comparison["sets"], json!(1));
        assert_eq!(comparison["virtual_kept_fraction"], json!(0.95));
        assert_eq!(comparison["difference_points"], json!(-5.0));
        assert_eq!(comparison["mode"], json!("live"));
        assert_eq!(netns["netns_kept_fraction"], json!(0.9));
        assert_eq!(netns["difference_points"], json!(90.0));
        assert_eq!(compare(&summaries).len(), 5);
    }
}
