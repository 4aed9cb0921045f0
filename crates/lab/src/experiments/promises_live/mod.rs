#![doc = include_str!("plan.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`setting`] | the paths, the promised streams, the times at which the paths change |
//! | `origin` | the sending node in virtual time |
//! | [`simulation`] | a run in virtual time |
//! | [`observed`] | observations of a stream, windows judged by arrivals |
//! | [`rows`] | rows, summary, comparison |
//! | [`store`] | the file with the rows of completed sets |
//!
//! A live run is in the program `anabranch-lab`.

pub mod observed;
mod origin;
pub mod rows;
pub mod setting;
pub mod simulation;
pub mod store;

use std::sync::{Mutex, PoisonError};

use anabranch_base::Seed;

use crate::{Experiment, Options, Row, kit::parallel};
use rows::Mode;
use setting::{Plan, Setting, settings};
use simulation::simulate;
use store::{Store, StoreError};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "promises-live",
    summary: "promised streams of two sessions beside bulk data over recorded paths, in virtual time and on sockets",
    plan: include_str!("plan.md"),
    folders: &["paths"],
    run,
    compare: rows::compare,
    plots: |_| Vec::new(),
};

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut settings = settings(options.corpus, options.seed, Plan::default());
    settings.retain(|setting| options.wants(&setting.name));
    let store = Mutex::new(Store::default());
    let done = run_virtual(&settings, options.seed, &store, options.progress);
    if let Err(error) = done {
        (options.progress)(&error.to_string());
    }
    let store = store.into_inner().unwrap_or_else(PoisonError::into_inner);
    all_rows(&store, &settings, options.seed)
}

/// Runs the sets that are not in the store in virtual time, on all cores.
///
/// # Errors
/// The store's file cannot be written.
pub fn run_virtual(
    settings: &[Setting],
    seed: Seed,
    store: &Mutex<Store>,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), StoreError> {
    let lock = || store.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = |setting: &&Setting| lock().rows_of(Mode::Virtual, setting, seed).is_none();
    let missing: Vec<&Setting> = settings.iter().filter(missing).collect();
    let results = parallel::map(&missing, |setting| {
        if let Some(observed) = simulate(setting, seed) {
            lock().add(Mode::Virtual, (setting, seed), &observed)?;
        }
        report(
            &lock(),
            Mode::Virtual,
            (setting, settings.len(), seed),
            progress,
        );
        Ok(())
    });
    results.into_iter().collect()
}

/// Reports a set that is done.
pub fn report(
    store: &Store,
    mode: Mode,
    (setting, sets, seed): (&Setting, usize, Seed),
    progress: &(dyn Fn(&str) + Sync),
) {
    let rows = store.rows_of(mode, setting, seed).unwrap_or_default();
    let summary = rows::summaries(&rows);
    let of = |field: &str| {
        let value = summary.first().and_then(|row| row.get(field));
        value.map_or_else(|| "none".to_owned(), ToString::to_string)
    };
    progress(&format!(
        "promises-live: set {} of {sets}, {}: {} streams promised, {} of windows kept",
        setting.number,
        mode.name(),
        of("streams_promised"),
        of("kept_fraction"),
    ));
}

/// Rows of these sets in the store, with their summaries.
pub fn all_rows(store: &Store, settings: &[Setting], seed: Seed) -> Vec<Row> {
    let of_mode = |mode: Mode| {
        let settings = settings.iter();
        settings.filter_map(move |setting| store.rows_of(mode, setting, seed))
    };
    let mut rows: Vec<Row> = Mode::ALL.into_iter().flat_map(of_mode).flatten().collect();
    let summaries = rows::summaries(&rows);
    rows.extend(summaries);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::corpus::Corpus;
    use crate::kit::recording::Recording;

    /// Exact, in virtual time: three steady paths. The promises are made, hold before the cut, and are counted.
    #[test]
    fn promises_of_two_sessions_are_kept_on_steady_paths() {
        let path = |name: &str| Recording {
            name: name.to_owned(),
            times_s: vec![0.0, 1.0],
            bandwidth_bps: Some(vec![Some(1.5e6); 2]),
            ..Recording::default()
        };
        let corpus = Corpus {
            recordings: ["a", "b", "c"].map(path).into(),
            ..Corpus::default()
        };
        let plan = Plan {
            sets: 1,
            seconds: 90,
        };
        let settings = settings(&corpus, Seed(1), plan);
        let store = Mutex::default();
        run_virtual(&settings, Seed(1), &store, &|_| {}).unwrap();
        let rows = all_rows(&store.into_inner().unwrap(), &settings, Seed(1));
        let [set, streams @ .., summary] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!((set["kind"].as_str(), streams.len()), (Some("set"), 3));
        let of = |row: &Row, field: &str| row[field].as_f64().expect("a number");
        for row in streams {
            assert!(
                (1.0..35.0).contains(&of(row, "promised_after_s")),
                "{row:?}"
            );
            assert!(of(row, "received_windows") > 20.0, "{row:?}");
        }
        assert!(of(summary, "kept_fraction") > 0.8, "{summary:?}");
        assert_eq!(of(summary, "streams_promised"), 3.0);
    }
}
