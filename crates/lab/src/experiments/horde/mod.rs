#![doc = include_str!("plan.md")]

mod cdma;
mod channel;
mod compare;
mod driver;
mod e1;
mod lookahead;
mod measure;
mod policies;
mod rtt;
#[cfg(test)]
mod tests;

use anabranch_base::Seed;
use anabranch_sched::objective::{Assign, Planner, RandomWalk};
use serde_json::json;

use self::driver::Setting;
use crate::{Experiment, Options, Row, kit::parallel};

pub use e1::EXPERIMENT as E1;
pub use lookahead::EXPERIMENT as LOOKAHEAD;
pub use rtt::EXPERIMENT as RTT;

const PLAN: &str = include_str!("plan.md");

/// The experiment `S<number>`, with its name and its one-line summary.
const fn experiment(
    name: &'static str,
    summary: &'static str,
    run: fn(&Options<'_>) -> Vec<Row>,
    compare: fn(&[Row]) -> Vec<crate::kit::output::Published>,
) -> Experiment {
    Experiment {
        name,
        summary,
        plan: PLAN,
        folders: &[],
        run,
        compare,
        plots: compare::plots,
    }
}

/// No objectives: the baseline.
pub const S0: Experiment = experiment(
    "horde-s0",
    "four streams on six radio channels without objectives [Horde Figure 7-7]",
    |options| run(options, 0),
    |rows| compare::lines(rows, 0),
);
/// Low latency for two streams.
pub const S1: Experiment = experiment(
    "horde-s1",
    "low latency for two of four streams [Horde Figures 7-9 to 7-11]",
    |options| run(options, 1),
    |rows| compare::lines(rows, 1),
);
/// In addition, low loss for one of them.
pub const S2: Experiment = experiment(
    "horde-s2",
    "low latency for two streams, low loss for one of them [Horde Figures 7-11 to 7-15]",
    |options| run(options, 2),
    |rows| compare::lines(rows, 2),
);
/// In addition, more weight on its latency.
pub const S3: Experiment = experiment(
    "horde-s3",
    "as horde-s2, with low latency twice for one stream [Horde Figures 7-16 to 7-18]",
    |options| run(options, 3),
    |rows| compare::lines(rows, 3),
);
/// In addition, little correlated loss for the other.
pub const S4: Experiment = experiment(
    "horde-s4",
    "as horde-s3, with little correlated loss for one stream [Horde Figures 7-19 to 7-23]",
    |options| run(options, 4),
    |rows| compare::lines(rows, 4),
);

/// Schedulers by name.
const WALK: &str = "random_walk";
const ASSIGN: &str = "assign";

fn planner(name: &str, seed: Seed) -> Box<dyn Planner> {
    match name {
        ASSIGN => Box::new(Assign::default()),
        _ => Box::new(RandomWalk::new(
            RandomWalk::WALK_LENGTH,
            seed.stream("random_walk"),
        )),
    }
}

/// Runs the objectives of S0 … S4 with either scheduler: those of this experiment and of the one before, on the same channels.
fn run(options: &Options<'_>, number: usize) -> Vec<Row> {
    let mut jobs = Vec::new();
    for policy in number.saturating_sub(1)..=number {
        for scheduler in [WALK, ASSIGN] {
            if options.wants(&format!("s{policy} {scheduler}")) {
                jobs.push((policy, scheduler));
            }
        }
    }
    let rows = parallel::map(&jobs, |&(policy, scheduler)| {
        let setting = Setting::published(&policies::of(policy));
        let mut planner = planner(scheduler, options.seed);
        let sent = driver::run(&setting, planner.as_mut(), options.seed.child("channels"));
        (options.progress)(&format!("s{policy} {scheduler}: {} ADUs", sent.len()));
        let mut rows = measure::rows(scheduler, &setting.kinds, 0..setting.streams, &sent);
        for row in &mut rows {
            row.insert("policy".into(), json!(format!("s{policy}")));
        }
        rows
    });
    rows.into_iter().flatten().collect()
}
