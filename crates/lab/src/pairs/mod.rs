//! # pairs: unequal paths in virtual time
//!
//! **Question.** How much of the sum of several unequal paths does one reliable transfer get, how do
//! small urgent messages fare beside it, how long is the gap when a path dies, and is the result ever
//! worse than the best path alone?
//!
//! **Plan.** Sender and receiver are whole nodes in the simulator. Links are drop-tail with a queue of
//! one bandwidth-delay product; a link's rate counts IP bytes. `goodput_fraction` is application bytes
//! over (time × sum of the link rates), time running from the dialling of the first handshake to the
//! delivery of the last byte, in order. About 0.958 is the ceiling for our container in 1500-byte
//! packets. `best_single_fraction` is the best of the same transfer over each path alone, also over
//! the sum; `sum_mbps` the sum itself.
//!
//! | name | links |
//! |---|---|
//! | `B` | 100 Mbit/s 20 ms + 50 Mbit/s 60 ms, 250 MB |
//! | `C` | 80 Mbit/s 30 ms 1 % loss + 40 Mbit/s 100 ms 0.1 % loss, 120 MB |
//! | `E` | B, the fast path silent from 4 s to 9 s |
//! | `F` | B with 2 Mbit/s of 1200-byte reliable messages beside the bulk |
//! | `G` | 300 Mbit/s 10 ms + 80 Mbit/s 30 ms with a small stream beside it |
//! | `three` | 12 Mbit/s 60 ms + 6 Mbit/s 120 ms + 2 Mbit/s 300 ms, each walking ±50 % every 500 ms, 20 MB |
//! | `u01`…`u16` | sixteen pairs: 20 to 300 ms, 1:1 to 10:1, 0 to 3 % loss |

mod cases;
mod measure;

use serde_json::json;

use crate::{Options, Row, parallel};
use cases::Case;
use measure::{Measured, measure};

/// One run to make.
struct Job {
    case: Case,
    setup: cases::Setup,
}

/// Runs every case with every set-up that it lists.
pub fn run(options: &Options<'_>) -> Vec<Row> {
    let jobs: Vec<Job> = cases::all()
        .into_iter()
        .filter(|case| options.only.is_none_or(|only| case.name.contains(only)))
        .flat_map(|case| {
            let setups = case.setups.clone();
            setups.into_iter().map(move |setup| Job {
                case: case.clone(),
                setup,
            })
        })
        .collect();
    parallel::map(&jobs, |job| {
        let both = measure(options.seed, &job.case, &job.setup, None);
        // The best single path is a matter of the default set-up only: it is what a user without
        // bonding would have.
        let single = job.setup.with_single.then(|| {
            (0..job.case.links.len())
                .map(|link| measure(options.seed, &job.case, &job.setup, Some(link)))
                .max_by(|a, b| a.goodput_mbps.total_cmp(&b.goodput_mbps))
        });
        (options.progress)(&format!(
            "{} {} {}: {:.3}",
            job.case.name,
            job.setup.name(),
            job.setup.controller,
            both.goodput_fraction
        ));
        row(job, &both, single.flatten().as_ref())
    })
}

fn row(job: &Job, both: &Measured, single: Option<&Measured>) -> Row {
    let mut row = Row::new();
    row.insert("pair".into(), json!(job.case.name));
    row.insert("policy".into(), json!(job.setup.name()));
    row.insert("controller".into(), json!(job.setup.controller.to_string()));
    row.insert("goodput_fraction".into(), rounded(both.goodput_fraction));
    row.insert("goodput_mbps".into(), rounded(both.goodput_mbps));
    row.insert("sum_mbps".into(), rounded(both.sum_mbps));
    if let Some(single) = single {
        row.insert(
            "best_single_fraction".into(),
            rounded(single.goodput_mbps / both.sum_mbps),
        );
        row.insert(
            "over_best_single".into(),
            rounded(both.goodput_mbps / single.goodput_mbps),
        );
        if let (Some(a), Some(b)) = (&both.small, &single.small) {
            row.insert(
                "small_jitter_over_single".into(),
                rounded(a.jitter_ms / b.jitter_ms.max(1e-3)),
            );
        }
    }
    if let Some(small) = &both.small {
        row.insert("p50_ms".into(), rounded(small.p50_ms));
        row.insert("p95_ms".into(), rounded(small.p95_ms));
        row.insert("p99_ms".into(), rounded(small.p99_ms));
        row.insert("jitter_ms".into(), rounded(small.jitter_ms));
        row.insert("small_missing".into(), json!(small.missing));
    }
    row.insert("longest_gap_ms".into(), rounded(both.gap_ms));
    if let Some(return_ms) = both.full_rate_after_return_ms {
        row.insert("full_rate_after_return_ms".into(), rounded(return_ms));
    }
    row.insert("missing_adus".into(), json!(both.missing));
    row.insert("repeated_adus".into(), json!(both.repeated));
    row.insert("corrupt_adus".into(), json!(both.corrupt));
    row.insert(
        "duplicate_fraction".into(),
        rounded(both.duplicate_fraction),
    );
    row.insert("virtual_s".into(), rounded(both.virtual_s));
    row
}

/// Four decimals are more than any of these figures carries.
fn rounded(value: f64) -> serde_json::Value {
    json!((value * 1e4).round() / 1e4)
}
