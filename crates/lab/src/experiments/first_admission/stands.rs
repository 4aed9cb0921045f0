//! Promises of a stream that sends from the beginning, and no more than it asks for.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_session::{Guarantee, StreamSpec};
use anabranch_sim::apps::{Load, Sender};
use serde_json::json;

use super::{
    LEAST,
    runs::{EVERY, LABEL, played, world},
};
use crate::{Row, experiments::path_sets::sets::PathSet, kit::streams::RecordedPath};

/// Probability that it asks for.
const PROBABILITY: f64 = 0.9;
/// Part of the tenth percentile of what the paths carry that the stream asks for.
const PART: f64 = 0.5;
/// Slower paths are left out.
const LEAST_BPS: f64 = 50e3;
/// Time from which the stream sends, and until which it is observed.
const BEGIN: Duration = Duration::from_secs(1);
const END: Duration = Duration::from_secs(115);

/// Outcome on the first path of a set, or on all of them.
#[derive(Clone, Debug)]
pub(super) struct Stood {
    set: String,
    paths: usize,
    asked_bps: u64,
    kept: u64,
    broken: u64,
    withdrawn: u64,
}

impl Stood {
    pub(super) fn row(&self) -> Row {
        let fields = [
            ("kind", json!("stood")),
            ("set", json!(self.set)),
            ("paths", json!(self.paths)),
            ("asked_bps", json!(self.asked_bps)),
            ("windows_kept", json!(self.kept)),
            ("windows_broken", json!(self.broken)),
            ("withdrawals", json!(self.withdrawn)),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        fields.into_iter().collect()
    }
}

/// Outcomes on a set; none if a recording cannot be played.
pub(super) fn of_set(set: &PathSet<'_>, seed: Seed) -> Vec<Stood> {
    let Some((paths, seed, begin)) = played(set, seed) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for paths in [&paths[..1], &paths[..]] {
        let rate_bps = tenth_percentile(paths, begin) * PART;
        if rate_bps < LEAST_BPS {
            continue;
        }
        let rate = Rate::from_bps(rate_bps as u64);
        let guarantee = Guarantee::rate(rate, PROBABILITY);
        let (kept, broken, withdrawn) = stand(seed, paths, begin, guarantee);
        all.push(Stood {
            set: set.name(),
            paths: paths.len(),
            asked_bps: rate.as_bps(),
            kept,
            broken,
            withdrawn,
        });
    }
    all
}

/// Rate that nine of ten seconds of the sum of the paths reach, in bits per second.
fn tenth_percentile(paths: &[RecordedPath], begin: Duration) -> f64 {
    const SECOND: Duration = Duration::from_secs(1);
    let from = begin.as_secs() as usize;
    let windows = from + LEAST.as_secs() as usize;
    let each: Vec<Vec<f64>> = paths
        .iter()
        .map(|path| path.windows_bps(SECOND, windows))
        .collect();
    let mut sums: Vec<f64> = (from..windows)
        .map(|at| each.iter().map(|path| path[at]).sum())
        .collect();
    sums.sort_unstable_by(f64::total_cmp);
    sums[sums.len() / 10]
}

/// Windows kept and broken, and withdrawals, of a stream that waits for `guarantee` and sends as much.
fn stand(
    seed: Seed,
    paths: &[RecordedPath],
    begin: Duration,
    guarantee: Guarantee,
) -> (u64, u64, u64) {
    let rate = guarantee.required();
    let load = Load {
        spec: StreamSpec {
            label: LABEL.to_owned(),
            ..StreamSpec::default().with_guarantee(guarantee.waiting())
        },
        start: Instant::EPOCH + BEGIN,
        ..Load::messages(rate.bytes_in(EVERY).max(16) as usize, EVERY, u64::MAX)
    };
    let mut world = world(seed, paths, begin, vec![load]);
    world.run_until(Instant::EPOCH + END);
    let Some(session) = world.app::<Sender>(0).session() else {
        return (0, 0, 0);
    };
    let Ok(mut session) = world.engine(0).session(session) else {
        return (0, 0, 0);
    };
    let promises = session.promises();
    let own = promises.iter().find(|(spec, _)| spec.label == LABEL);
    own.map_or((0, 0, 0), |(_, explained)| {
        let account = explained.account;
        (account.kept, account.broken, account.withdrawn)
    })
}

/// A summary for one path, and for all of a set.
pub(super) fn summaries(all: &[Stood]) -> Vec<Row> {
    [("first", true), ("all", false)]
        .iter()
        .filter_map(|(name, is_one)| {
            let of: Vec<&Stood> = (all.iter())
                .filter(|stood| (stood.paths == 1) == *is_one)
                .collect();
            summary(name, &of)
        })
        .collect()
}

fn summary(paths: &str, of: &[&Stood]) -> Option<Row> {
    let windows = of.len() as u64 * (END - BEGIN).as_secs();
    let sum = |of_one: fn(&Stood) -> u64| of.iter().map(|stood| of_one(stood)).sum::<u64>();
    let (kept, broken) = (sum(|stood| stood.kept), sum(|stood| stood.broken));
    let never = of.iter().filter(|stood| stood.kept + stood.broken == 0);
    let fields = [
        ("kind", json!("stands")),
        ("paths", json!(paths)),
        ("sets", json!(of.len())),
        (
            "promised_fraction",
            json!((kept + broken) as f64 / windows as f64),
        ),
        (
            "kept_fraction",
            json!(kept as f64 / (kept + broken).max(1) as f64),
        ),
        ("withdrawals", json!(sum(|stood| stood.withdrawn))),
        ("never_promised", json!(never.count())),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    (!of.is_empty()).then(|| fields.into_iter().collect())
}
