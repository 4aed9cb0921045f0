#![doc = include_str!("cuts.md")]

use std::time::Duration;

use anabranch_link::Outage;
use anabranch_session::Policy;
use serde_json::json;

use super::{
    lines::Line,
    measure::{BEGIN, Measured, Timing, measure},
    policies, reported, show,
};
use crate::{
    Experiment, Options, Row,
    kit::{parallel, series::quantile, streams::show::rounded},
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "telemedicine-cuts",
    summary: "pauses of the picture after paths are cut, in the setting of telemedicine",
    plan: include_str!("cuts.md"),
    folders: super::EXPERIMENT.folders,
    run,
    compare: |_| Vec::new(),
    plots: |_| Vec::new(),
};

/// The first cut, since the application began; distance to the next one; and time until the path is back.
const FIRST: Duration = Duration::from_secs(45);
const DISTANCE: Duration = Duration::from_secs(20);
const AWAY: Duration = Duration::from_secs(10);
/// Number of cuts.
const COUNT: usize = 30;
/// Time after a cut in which a pause counts as its consequence,
const AFTER: Duration = Duration::from_secs(5);
/// and pause that is not longer than it should be, in milliseconds.
const TARGET_MS: f64 = 500.0;

/// A cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// Index of the path.
    path: usize,
    /// Time since the application began.
    at: Duration,
}

/// The paths in turn.
fn cuts(paths: usize) -> Vec<Cut> {
    let cut = |number: usize| Cut {
        path: number % paths,
        at: FIRST + DISTANCE * number as u32,
    };
    (0..COUNT).map(cut).collect()
}

/// The same paths, cut.
fn with_cuts(lines: &[Line], cuts: &[Cut]) -> Vec<Line> {
    let mut lines = lines.to_vec();
    for cut in cuts {
        let from = BEGIN.since_epoch() + cut.at;
        let to = from + AWAY;
        lines[cut.path].outages.push(Outage { from, to });
    }
    lines
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let Some((clinic, lines)) = reported("telemedicine-cuts", options) else {
        return Vec::new();
    };
    let cuts = cuts(lines.len());
    let cut = with_cuts(&lines, &cuts);
    let parts: Vec<(Policy, bool)> = (policies(options.only).into_iter())
        .flat_map(|policy| [(policy, false), (policy, true)])
        .collect();
    let runs = parallel::map(&parts, |&(policy, is_cut)| {
        let lines = if is_cut { &cut } else { &lines };
        let measured = measure(options.seed, lines, policy, (Timing::USUAL, true), &clinic);
        let name = policy.name();
        let part = if is_cut { "cuts" } else { "none" };
        let words = measured.as_ref().err().map(|words| format!(": {words}"));
        (options.progress)(&format!(
            "telemedicine-cuts: {name}, {part}{}",
            words.unwrap_or_default()
        ));
        measured.ok()
    });
    let mut rows = Vec::new();
    for (part, pair) in parts.chunks(2).zip(runs.chunks(2)) {
        let (policy, [Some(steady), Some(measured)]) = (part[0].0, pair) else {
            continue;
        };
        let labels = [("algorithm", policy.name())];
        rows.append(&mut show::rows(&labels, &measured.figures, &[]));
        rows.append(&mut pause_rows(&labels, &lines, &cuts, steady, measured));
    }
    rows
}

/// A row for each cut, and one for all.
fn pause_rows(
    labels: &[(&str, &str)],
    lines: &[Line],
    cuts: &[Cut],
    steady: &Measured,
    measured: &Measured,
) -> Vec<Row> {
    let pauses = |of: &Measured| -> Vec<f64> {
        let pause = |cut: &Cut| of.figures.video.pause(cut.at, cut.at + AFTER);
        let ms = |pause: Duration| pause.as_secs_f64() * 1e3;
        cuts.iter().map(pause).map(ms).collect()
    };
    let (after, without) = (pauses(measured), pauses(steady));
    let mut rows = Vec::new();
    for (cut, (pause, other)) in cuts.iter().zip(after.iter().zip(&without)) {
        let mut row = show::row("cut", labels);
        row.insert("path".into(), json!(lines[cut.path].name));
        row.insert("at_s".into(), rounded(cut.at.as_secs_f64()));
        row.insert("pause_ms".into(), rounded(*pause));
        row.insert("steady_pause_ms".into(), rounded(*other));
        rows.push(row);
    }
    let mut all = show::row("cuts", labels);
    for (name, pauses) in [("pause", &after), ("steady_pause", &without)] {
        let kept = pauses.iter().filter(|pause| **pause <= TARGET_MS).count();
        let share = kept as f64 / pauses.len() as f64;
        all.insert(format!("{name}_kept_fraction"), rounded(share));
        for (part, of) in [("p50", 0.5), ("p90", 0.9), ("max", 1.0)] {
            let value = quantile(pauses.iter().copied(), of).unwrap_or(f64::NAN);
            all.insert(format!("{name}_{part}_ms"), rounded(value));
        }
    }
    rows.push(all);
    rows
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_base::Seed;

    use super::*;
    use crate::{
        experiments::telemedicine::{
            clinic::{Clinic, Side},
            lines::lines,
        },
        kit::corpus::Corpus,
    };

    #[test]
    fn the_paths_are_cut_in_turn_and_one_at_a_time() {
        let cuts = cuts(6);
        assert_eq!(cuts.len(), COUNT);
        for pair in cuts.windows(2) {
            assert!(pair[0].at + AWAY < pair[1].at);
            assert_eq!((pair[0].path + 1) % 6, pair[1].path);
        }
        let last = cuts[COUNT - 1].at + AFTER;
        assert!(last <= Timing::USUAL.to && cuts[0].at > Timing::USUAL.from);
    }

    /// A path that is cut for good is one the fewer, and the cut is found out.
    #[test]
    fn what_is_cut_carries_nothing() {
        let clinic = Arc::new(Clinic::generated(Seed(1)));
        let corpus = Corpus::bundled();
        let lines = lines(&corpus.recordings, clinic.offered_bps(Side::Ambulance)).unwrap();
        let at = Duration::from_secs(6);
        let cut = with_cuts(&lines, &[Cut { path: 2, at }]);
        assert_eq!(cut[2].outages.len(), 1);
        let timing = Timing {
            from: Duration::from_secs(5),
            to: Duration::from_secs(20),
        };
        let share = |lines: &[Line]| {
            let policy = Policy::Default;
            let measured = measure(Seed(1), lines, policy, (timing, true), &clinic).unwrap();
            let pause = measured.figures.video.pause(at, at + AFTER);
            assert!(pause > Duration::from_millis(20), "{pause:?}");
            measured.path_shares[2]
        };
        let (before, after) = (share(&lines), share(&cut));
        assert!(after < before, "{before}, {after}");
    }
}
