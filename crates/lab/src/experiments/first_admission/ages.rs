//! Promises made of a past that ended some time ago: how often they hold.

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_stats::{
    bandwidth::Sample,
    forecast::{Config, Forecaster, Judged},
};
use serde_json::json;

use crate::{
    Row,
    kit::{corpus::Corpus, parallel, streams::RecordedPath},
};

/// Windows that are known before the first promise, and from one to the next.
const KNOWN: usize = 120;
const EVERY: usize = 20;
/// Windows that are judged.
const AFTER: usize = 10;
/// Windows between what is known and what is judged.
const GAPS: [usize; 9] = [0, 10, 30, 60, 120, 240, 480, 900, 1_800];
const PROBABILITIES: [f64; 4] = [0.5, 0.75, 0.9, 0.95];
/// Windows just before those judged, by which it is seen whether the path still carries as much.
const SEEN: usize = 4;
/// Slower recordings are left out.
const LEAST_BPS: f64 = 100e3;
const WINDOW: Duration = Duration::from_secs(1);

/// Windows that reached what was promised, and all.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    kept: u64,
    all: u64,
}

impl Count {
    fn share(self) -> Option<f64> {
        (self.all > 0).then(|| self.kept as f64 / self.all as f64)
    }
}

/// By gap and probability: all, and those after which the path was seen to carry as much.
type Tally = [[[Count; 2]; PROBABILITIES.len()]; GAPS.len()];

pub(super) fn rows(corpus: &Corpus) -> Vec<Row> {
    let paths: Vec<RecordedPath> = corpus
        .recordings
        .iter()
        .filter_map(RecordedPath::new)
        .filter(|path| path.mean_bps() >= LEAST_BPS)
        .collect();
    let tallies = parallel::map(&paths, |path| {
        let windows = (path.duration().as_secs() as usize).min(4_000);
        tally(&path.windows_bps(WINDOW, windows))
    });
    let mut rows = Vec::new();
    for (at, gap) in GAPS.into_iter().enumerate() {
        let mut row = Row::new();
        row.insert("kind".to_owned(), json!("ages"));
        row.insert("gap_s".to_owned(), json!(gap));
        let reach = tallies.iter().filter(|tally| tally[at][0][0].all > 0);
        row.insert("recordings".to_owned(), json!(reach.count()));
        for (level, probability) in PROBABILITIES.into_iter().enumerate() {
            for (which, name) in ["kept", "seen_kept"].into_iter().enumerate() {
                // Each recording counts the same, however long it is.
                let each = tallies.iter().map(|tally| tally[at][level][which]);
                let each: Vec<f64> = each.filter_map(Count::share).collect();
                let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
                row.insert(format!("{name}_at_{:.0}", probability * 100.0), json!(mean));
            }
        }
        rows.push(row);
    }
    rows
}

fn tally(windows: &[f64]) -> Tally {
    let mut tally = Tally::default();
    let config = Config {
        levels: PROBABILITIES.to_vec(),
        hold: AFTER,
        judged: Judged::Each,
    };
    let Ok(mut forecaster) = Forecaster::new(&config) else {
        return tally;
    };
    for (at, bps) in windows.iter().enumerate() {
        if at >= KNOWN && at.is_multiple_of(EVERY) {
            for (gap, tallies) in GAPS.into_iter().zip(&mut tally) {
                let judged = windows.get(at + gap..at + gap + AFTER).unwrap_or_default();
                let seen = &windows[..(at + gap).min(windows.len())];
                let seen = &seen[seen.len() - SEEN..];
                for (probability, counts) in PROBABILITIES.into_iter().zip(tallies) {
                    let Some(rate) = forecaster.promise(probability) else {
                        continue;
                    };
                    let reaches = |bps: &&f64| **bps >= rate.as_bps() as f64;
                    let kept = judged.iter().filter(reaches).count() as u64;
                    let is_seen = seen.iter().filter(reaches).count() == SEEN;
                    for count in &mut counts[..=usize::from(is_seen)] {
                        count.kept += kept;
                        count.all += judged.len() as u64;
                    }
                }
            }
        }
        forecaster.observe(Sample::exact(Rate::from_bps(*bps as u64)));
    }
    tally
}
