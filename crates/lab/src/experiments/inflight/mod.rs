#![doc = include_str!("plan.md")]
//!
//! | module | holds |
//! |---|---|
//! | `legs` | the paths |
//! | `molecule` | the data |
//! | `viewers` | viewers and their pipelines |
//! | `source`, `hub`, `viewer` | the three kinds of nodes |
//! | `served` | a subscriber at the hub |
//! | `peer`, `watch` | peers that a node calls; death of one |
//! | `changing` | changes of a pipeline |
//! | `steady`, `change`, `failover`, `place` | the runs |
//! | `show` | rows, comparison, plots |

mod change;
mod changing;
mod failover;
mod hub;
mod legs;
mod molecule;
mod peer;
mod place;
mod served;
mod show;
mod source;
mod steady;
#[cfg(test)]
mod tests;
mod viewer;
mod viewers;
mod watch;

use crate::{
    Experiment, Options, Row,
    kit::{experiment::WHEN_NAMED, parallel, streams::Timing},
};
use failover::Times;
use legs::Legs;
use source::Fallback;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "inflight",
    summary: "atoms and bonds processed on the way to three viewers, beside the same unprocessed, the death of the processing node, and its place [IQ-Paths §III]",
    plan: include_str!("plan.md"),
    folders: WHEN_NAMED,
    run,
    compare: show::compare,
    plots: show::plots,
};

/// Half a minute until promises are expected, two minutes that count.
const TIMING: Timing = Timing {
    alone: std::time::Duration::ZERO,
    warm_up: std::time::Duration::from_secs(30),
    windows: 120,
};

/// Parts of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Steady { is_processed: bool },
    Change,
    Failover(Fallback),
    Place,
}

const PARTS: [(&str, Part); 6] = [
    (
        "unprocessed",
        Part::Steady {
            is_processed: false,
        },
    ),
    ("processed", Part::Steady { is_processed: true }),
    ("change", Part::Change),
    ("failover-source", Part::Failover(Fallback::Source)),
    ("failover-node", Part::Failover(Fallback::Node)),
    ("place", Part::Place),
];

fn run(options: &Options<'_>) -> Vec<Row> {
    rows(options, TIMING, Times::USUAL)
}

fn rows(options: &Options<'_>, timing: Timing, times: Times) -> Vec<Row> {
    let wanted = |(name, _): &&(&str, Part)| options.only.is_none_or(|only| *name == only);
    let parts: Vec<_> = PARTS.iter().filter(wanted).copied().collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let legs = match Legs::new(options, timing) {
        Ok(legs) => legs,
        Err(reason) => {
            (options.progress)(&format!("inflight: {reason}"));
            return Vec::new();
        }
    };
    let runs = parallel::map(&parts, |(name, part)| {
        let rows = match *part {
            Part::Steady { is_processed } => steady::run(options.seed, &legs, timing, is_processed)
                .map(|run| show::steady_rows(name, &run)),
            Part::Change => {
                change::run(options.seed, &legs, timing).map(|rows| show::change_rows(name, &rows))
            }
            Part::Failover(fallback) => failover::run(options.seed, &legs, fallback, times)
                .map(|rows| show::failover_rows(name, &rows)),
            Part::Place => {
                place::run(options.seed, &legs, timing).map(|rows| show::place_rows(name, &rows))
            }
        };
        (options.progress)(&format!("inflight: {name}"));
        rows.unwrap_or_default()
    });
    runs.into_iter().flatten().collect()
}
