#![doc = include_str!("plan.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`clinic`] | the application: streams, sizes, fields |
//! | [`lines`](mod@lines) | the six paths |
//! | `ends` | both sides in a simulated world |
//! | [`mod@measure`] | a run in virtual time |
//! | [`figures`] | counts of the receivers |
//! | [`cuts`] | the same with paths that are cut in turn |
//! | [`show`] | rows, comparison, plots |

pub mod clinic;
pub mod cuts;
mod ends;
pub mod figures;
pub mod lines;
pub mod measure;
pub mod show;

use std::sync::Arc;

use anabranch_base::Seed;
use anabranch_session::Policy;

use crate::{
    Experiment, Options, Row,
    kit::{corpus::Corpus, parallel},
};
use clinic::{Clinic, Side};
use lines::{Line, lines};
use measure::{Timing, measure};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "telemedicine",
    summary: "video, audio in both directions and EKG over six cellular paths, by scheduling algorithm [Horde §1.1]",
    plan: include_str!("plan.md"),
    folders: &[
        "paths/satcell/udp_20230404-100714",
        "paths/satcell/udp_20230404-112733",
    ],
    run,
    compare: show::compare,
    plots: show::plots,
};

/// Demands of both sides on the network.
pub const OBJECTIVES: &str = anabranch_clinic::OBJECTIVES;
/// Policies compared.
pub const POLICIES: [&str; 4] = ["round_robin", "random_walk", "assign", "default"];

/// Policies that `only` selects: those whose names contain it, or one of its words between commas.
pub fn policies(only: Option<&str>) -> Vec<Policy> {
    let wanted =
        |name: &&&str| only.is_none_or(|only| only.split(',').any(|word| name.contains(word)));
    let names = POLICIES.iter().filter(wanted);
    names.filter_map(|name| name.parse().ok()).collect()
}

/// The application, and paths with the capacity that it needs.
///
/// # Errors
/// A message that names the recording that is no path.
pub fn setting(seed: Seed, corpus: &Corpus) -> Result<(Arc<Clinic>, Vec<Line>), String> {
    let clinic = Clinic::recorded(seed);
    let lines = lines(&corpus.recordings, clinic.offered_bps(Side::Ambulance))?;
    Ok((Arc::new(clinic), lines))
}

/// As [`setting`]; `None` if there is none, which is reported as progress of the experiment.
fn reported(experiment: &str, options: &Options<'_>) -> Option<(Arc<Clinic>, Vec<Line>)> {
    let setting = setting(options.seed, options.corpus);
    let report = |words: &String| (options.progress)(&format!("{experiment}: {words}"));
    setting.inspect_err(report).ok()
}

/// Runs every policy.
fn run(options: &Options<'_>) -> Vec<Row> {
    let Some((clinic, lines)) = reported("telemedicine", options) else {
        return Vec::new();
    };
    let policies = policies(options.only);
    if policies.is_empty() {
        return Vec::new();
    }
    let runs = parallel::map(&policies, |&policy| {
        let measured = measure(options.seed, &lines, policy, (Timing::USUAL, true), &clinic);
        let words = measured.as_ref().err().map(|words| format!(": {words}"));
        let name = policy.name();
        (options.progress)(&format!(
            "telemedicine: {name}{}",
            words.unwrap_or_default()
        ));
        measured.ok()
    });
    let mut rows = show::path_rows(&lines);
    for (policy, measured) in policies.iter().zip(&runs) {
        let Some(measured) = measured else { continue };
        let labels = [
            ("algorithm", policy.name()),
            ("film", clinic.film),
            ("record", clinic.ekg),
        ];
        let names = lines.iter().map(|line| line.name.as_str());
        let shares: Vec<_> = names.zip(measured.path_shares.iter().copied()).collect();
        let mut own = show::rows(&labels, &measured.figures, &shares);
        show::promise_into(&mut own, &measured.promise);
        rows.append(&mut own);
    }
    rows
}

#[cfg(test)]
mod tests;
