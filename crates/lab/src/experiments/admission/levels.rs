//! Sources with levels: one on each set of paths, whose promise follows what they hold.

use anabranch_admission::AdmissionController;
use anabranch_base::{Rate, Seed, StreamId};
use anabranch_session::{Grade, Guarantee, StreamSpec};

use serde_json::json;

use super::{Done, Mode, customers::LEVELS, fluid::take, records::KEPT, summary::Line};
use crate::Row;

/// Rates of a source, as multiples of its lowest.
const MULTIPLES: [u64; 4] = [1, 2, 4, 8];
/// Highest rate of a source, as a share of the mean of all paths together.
const HIGHEST: (f64, f64) = (0.5, 1.5);
/// Windows before the stream is opened.
const BEFORE: usize = 60;
/// Windows within which one change after another is too soon.
const APART: usize = 30;
const STREAM: StreamId = StreamId(0);

/// Outcome of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LevelsRecord {
    pub(super) probability: f64,
    /// Windows since it was opened.
    pub(super) windows: u64,
    /// Those in which a promise was in force, and those of them in which it was kept.
    pub(super) in_force: u64,
    pub(super) kept: u64,
    /// Windows before which the level was another one than in the window before; the first promise and one after a withdrawal are no
    /// changes.
    pub(super) changes: Vec<usize>,
    pub(super) withdrawals: u64,
    /// Rates in force, summed over windows, in bits per second.
    pub(super) rate_bps: f64,
    /// The same of the highest level that all paths together hold as often as promised, throughout.
    pub(super) fixed_bps: f64,
}

impl LevelsRecord {
    /// Changes that came within 30 windows of the change before.
    pub(super) fn soon(&self) -> usize {
        let pairs = self.changes.windows(2);
        pairs.filter(|pair| pair[1] - pair[0] < APART).count()
    }

    /// Most changes in any 30 windows.
    pub(super) fn most(&self) -> usize {
        let from = |(index, &at): (usize, &usize)| {
            let later = self.changes[index..].iter();
            later.take_while(|change| **change < at + APART).count()
        };
        self.changes.iter().enumerate().map(from).max().unwrap_or(0)
    }
}

/// Runs a stream of each probability, one after the other, over `windows` (rows are windows of 1 s, columns paths, in bits per second).
pub(super) fn run(seed: Seed, name: &str, windows: &[Vec<f64>]) -> Vec<LevelsRecord> {
    let sums: Vec<f64> = windows.iter().map(|row| row.iter().sum()).collect();
    let mean = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
    let mut random = seed.stream(&format!("levels of {name}"));
    let one = |probability: f64| {
        let highest = mean * random.uniform(HIGHEST.0, HIGHEST.1);
        let lowest = Rate::from_bps((highest / MULTIPLES[3] as f64).max(1_000.0) as u64);
        let rates = MULTIPLES.map(|multiple| lowest * multiple as f64);
        let spec = spec(probability, rates)?;
        Some(follow(windows, probability, rates, &spec))
    };
    LEVELS.into_iter().filter_map(one).collect()
}

fn spec(probability: f64, rates: [Rate; 4]) -> Option<StreamSpec> {
    let guarantee = Guarantee {
        grade: Grade::Renewable,
        ..Guarantee::rate(rates[3], probability).waiting()
    };
    let layered = guarantee.with_levels(rates).ok()?;
    Some(StreamSpec::default().with_guarantee(layered))
}

fn follow(
    windows: &[Vec<f64>],
    probability: f64,
    rates: [Rate; 4],
    spec: &StreamSpec,
) -> LevelsRecord {
    let paths = windows.first().map_or(0, Vec::len);
    let mut controller = AdmissionController::new(paths);
    let mut record = LevelsRecord {
        probability,
        ..LevelsRecord::default()
    };
    let everywhere: Vec<usize> = (0..paths).collect();
    // The level in force in the window before.
    let mut before = None;
    for (at, row) in windows.iter().enumerate() {
        if at == BEFORE {
            // It waits where nothing can be promised yet.
            let _ = controller.open(STREAM, spec);
        }
        let mut is_behind = false;
        if let Some(candidate) = controller.candidates().first() {
            let needed = candidate.request.rate_bps;
            let placement = &candidate.request.before;
            let mut free = row.clone();
            let got = match candidate.is_in_force {
                true => {
                    let set: Vec<usize> = placement.set.iter().collect();
                    take(&mut free, needed, &set, &placement.shares)
                }
                false => take(&mut free, needed, &everywhere, &[]),
            };
            let is_kept = got >= KEPT * needed;
            is_behind = !is_kept;
            let own_bps = got / AdmissionController::OVERHEAD;
            controller.arrived(STREAM, (own_bps / 8.0).round() as u64);
            record.windows += 1;
            let level = candidate.is_in_force.then_some(needed);
            if level.is_some() {
                record.in_force += 1;
                record.kept += u64::from(is_kept);
                record.rate_bps += needed / AdmissionController::OVERHEAD;
            }
            match (before, level) {
                (Some(before), Some(level)) if before != level => record.changes.push(at),
                (Some(_), None) => record.withdrawals += 1,
                _ => {}
            }
            before = level;
        }
        controller.end_window(row, |_| is_behind);
    }
    record.fixed_bps = fixed(windows.get(BEFORE..).unwrap_or(&[]), probability, rates);
    record
}

/// Rate of the best fixed level in hindsight, summed over these windows.
fn fixed(windows: &[Vec<f64>], probability: f64, rates: [Rate; 4]) -> f64 {
    let held = |rate: &&Rate| {
        let needed = rate.as_bps() as f64 * AdmissionController::OVERHEAD * KEPT;
        let kept = windows
            .iter()
            .filter(|row| row.iter().sum::<f64>() >= needed);
        kept.count() as f64 >= probability * windows.len() as f64
    };
    let best = rates.iter().filter(held).max();
    best.map_or(0.0, |rate| rate.as_bps() as f64) * windows.len() as f64
}

/// A row for each probability, and one for all.
pub(super) fn rows(all: &[&Done<'_>]) -> Vec<Row> {
    let records = || all.iter().flat_map(|done| &done.outcome.levels);
    let each = LEVELS.iter().map(|&level| {
        let own = records().filter(|record| record.probability == level);
        let mut line = summed(&own.collect::<Vec<_>>());
        line.put("promised_fraction", json!(level));
        line.0
    });
    let mut rows: Vec<Row> = each.collect();
    let mut line = summed(&records().collect::<Vec<_>>());
    line.put("sets", json!(all.len()));
    rows.push(line.0);
    rows
}

fn summed(records: &[&LevelsRecord]) -> Line {
    let total = |of: &dyn Fn(&LevelsRecord) -> f64| -> f64 { records.iter().map(|r| of(r)).sum() };
    let mut line = Line::new("levels", Mode::Levels);
    line.put("streams", json!(records.len()));
    let windows = total(&|record| record.windows as f64);
    let in_force = total(&|record| record.in_force as f64);
    line.share("in_force_fraction", in_force, windows);
    let kept = total(&|record| record.kept as f64);
    line.share("kept_fraction", kept, in_force);
    let due = total(&|record| record.probability * record.in_force as f64);
    line.share("due_fraction", due, in_force);
    let changes = total(&|record| record.changes.len() as f64);
    line.share("changes_per_stream", changes, records.len() as f64);
    line.share("changes_per_minute", 60.0 * changes, windows);
    let soon = total(&|record| record.soon() as f64);
    line.share("changes_within_30_s_fraction", soon, changes);
    let most = records.iter().map(|record| record.most()).max();
    line.put("changes_in_30_s_most", json!(most));
    let calm = records.iter().filter(|record| record.most() <= 1);
    let calm = calm.count() as f64;
    line.share(
        "streams_with_one_change_in_30_s_fraction",
        calm,
        records.len() as f64,
    );
    let withdrawals = total(&|record| record.withdrawals as f64);
    line.share("withdrawals_per_stream", withdrawals, records.len() as f64);
    let (rate, fixed) = (
        total(&|record| record.rate_bps),
        total(&|record| record.fixed_bps),
    );
    line.share("in_force_over_fixed", rate, fixed);
    // Streams have equal weight here, however fast their paths; those that no fixed level would have suited are left out.
    let ratios = records.iter().filter(|record| record.fixed_bps > 0.0);
    let ratios: Vec<f64> = ratios.map(|one| one.rate_bps / one.fixed_bps).collect();
    let mean = ratios.iter().sum::<f64>();
    line.share(
        "in_force_over_fixed_mean_of_streams",
        mean,
        ratios.len() as f64,
    );
    line.put("streams_without_fixed", json!(records.len() - ratios.len()));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> [Rate; 4] {
        MULTIPLES.map(Rate::from_mbps)
    }

    #[test]
    fn on_a_path_that_sinks_the_level_changes_once() {
        let mbps = |at: usize| if at < 400 { 10.0 } else { 5.0 };
        let windows: Vec<Vec<f64>> = (0..900).map(|at| vec![mbps(at) * 1e6]).collect();
        let spec = spec(0.9, rates()).unwrap();
        let record = follow(&windows, 0.9, rates(), &spec);
        assert_eq!(record.windows, 840);
        assert!(record.in_force > 830, "{record:?}");
        assert_eq!(record.changes.last(), record.changes.first(), "{record:?}");
        assert!((400..415).contains(&record.changes[0]), "{record:?}");
        assert_eq!((record.soon(), record.most()), (0, 1));
        // Of 840 windows at 4 Mbit/s; with levels, 8 before.
        assert_eq!(record.fixed_bps, 840.0 * 4e6);
        assert!(record.rate_bps > 1.3 * record.fixed_bps, "{record:?}");
    }

    #[test]
    fn changes_within_thirty_windows_are_counted() {
        let record = LevelsRecord {
            changes: vec![100, 129, 159, 160],
            ..LevelsRecord::default()
        };
        assert_eq!((record.soon(), record.most()), (2, 2));
        assert_eq!(LevelsRecord::default().most(), 0);
    }

    #[test]
    fn the_best_fixed_level_is_held_as_often_as_promised() {
        let windows: Vec<Vec<f64>> = (0..10).map(|at| vec![f64::from(at) * 1e6]).collect();
        // 8 Mbit/s with headers in one window of ten, 4 in five, 2 in seven, 1 in eight.
        assert_eq!(fixed(&windows, 0.1, rates()), 8e7);
        assert_eq!(fixed(&windows, 0.5, rates()), 4e7);
        assert_eq!(fixed(&windows, 0.7, rates()), 2e7);
        assert_eq!(fixed(&windows, 0.8, rates()), 1e7);
        assert_eq!(fixed(&windows, 0.9, rates()), 0.0);
    }
}
