//! The lab: experiments that anyone can run again, each a folder with plan, code and figures.
//!
//! | module | experiment |
//! |---|---|
//! | [`pairs`] | two and three unequal paths in virtual time, every policy |
//!
//! Every result has one shape: [`Outcome`], flat rows, units in the names of the fields.

pub mod pairs;
pub mod parallel;

use anabranch_base::Seed;
use serde::Serialize;
use serde_json::{Map, Value};

/// A row of results: flat, with the unit in the name of every field.
pub type Row = Map<String, Value>;

/// The results of one run of an experiment.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Its name.
    pub experiment: &'static str,
    /// Version of the code that ran.
    pub version: &'static str,
    /// The seed.
    pub seed: u64,
    /// The rows.
    pub rows: Vec<Row>,
}

/// What `lab run` hands to an experiment.
pub struct Options<'a> {
    /// The seed of the run.
    pub seed: Seed,
    /// Run only the rows whose name contains this.
    pub only: Option<&'a str>,
    /// Called with a line of words when a part is done.
    pub progress: &'a (dyn Fn(&str) + Sync),
}

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// The name to run it by.
    pub name: &'static str,
    /// One line for `lab list`.
    pub summary: &'static str,
    run: fn(&Options<'_>) -> Vec<Row>,
}

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "pairs",
    summary: "transfers and messages over unequal paths in virtual time, against the best single path and the sum",
    run: pairs::run,
}];

impl Experiment {
    /// The experiment called `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        EXPERIMENTS
            .iter()
            .find(|experiment| experiment.name == name)
    }

    /// Runs it.
    pub fn run(&self, options: &Options<'_>) -> Outcome {
        Outcome {
            experiment: self.name,
            version: env!("CARGO_PKG_VERSION"),
            seed: options.seed.0,
            rows: (self.run)(options),
        }
    }
}
