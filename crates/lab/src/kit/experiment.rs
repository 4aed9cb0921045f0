//! Experiments and their results.

use std::path::PathBuf;

use anabranch_base::Seed;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::kit::{
    corpus::Corpus,
    output::{Plot, Published, Section},
    recording::RecordingError,
};

/// For [`Experiment::folders`]: it runs on recordings only if they are named, and otherwise on paths of its own.
pub(crate) const WHEN_NAMED: &[&str] = &[""];

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
    /// Names of the recordings it ran on, for experiments that take some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Parameters that `lab run` passes to an experiment.
pub struct Options<'a> {
    /// The seed of the run.
    pub seed: Seed,
    /// Run only the rows whose name contains this.
    pub only: Option<&'a str>,
    /// The recordings to run on, for experiments that take some.
    pub corpus: &'a Corpus,
    /// Called with a line of text when a part is done.
    pub progress: &'a (dyn Fn(&str) + Sync),
}

impl Options<'_> {
    /// True if a part with this name is to be run.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_none_or(|only| name.contains(only))
    }
}

/// An experiment. Its folder holds the plan (`plan.md`, with citation and deviations) beside the code.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Name by which it is run.
    pub name: &'static str,
    /// One line for `lab list`.
    pub summary: &'static str,
    /// Question, plan, citation and deviations, in Markdown.
    pub plan: &'static str,
    /// Folders of recordings that it runs on unless others are named, below a folder of data; none for an experiment that takes
    /// no recordings; one with an empty name for an experiment that has paths of its own and takes recordings only if they are
    /// named.
    pub folders: &'static [&'static str],
    pub(crate) run: fn(&Options<'_>) -> Vec<Row>,
    /// Published figures, or targets, beside ours.
    pub(crate) compare: fn(&[Row]) -> Vec<Published>,
    pub(crate) plots: fn(&[Row]) -> Vec<Plot>,
}

impl Experiment {
    /// The experiment called `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        crate::EXPERIMENTS
            .iter()
            .find(|experiment| experiment.name == name)
    }

    /// True if it runs on recordings.
    pub fn takes_traces(&self) -> bool {
        !self.folders.is_empty()
    }

    /// True if it streams a film, [`Corpus::film`](crate::kit::corpus::Corpus::film).
    pub fn takes_film(&self) -> bool {
        self.name.starts_with("twoflow-")
    }

    /// True if it runs on nothing else.
    pub fn needs_traces(&self) -> bool {
        self.takes_traces() && self.folders != WHEN_NAMED
    }

    /// Recordings it runs on: those named; else its folders below the first of `roots` that has them; else the few bundled with
    /// the program. Empty for an experiment that takes none.
    ///
    /// # Errors
    /// A recording that was named cannot be read.
    pub fn corpus(&self, named: &[PathBuf], roots: &[PathBuf]) -> Result<Corpus, RecordingError> {
        if !self.takes_traces() || self.folders == WHEN_NAMED && named.is_empty() {
            return Ok(Corpus::default());
        }
        if !named.is_empty() {
            return Corpus::read(named);
        }
        for root in roots {
            let folders: Vec<PathBuf> = self
                .folders
                .iter()
                .map(|folder| root.join(folder))
                .filter(|folder| folder.is_dir())
                .collect();
            if !folders.is_empty() {
                return Corpus::read(&folders);
            }
        }
        Ok(Corpus::bundled())
    }

    /// Runs it.
    pub fn run(&self, options: &Options<'_>) -> Outcome {
        Outcome {
            experiment: self.name,
            version: env!("CARGO_PKG_VERSION"),
            seed: options.seed.0,
            traces: options
                .corpus
                .recordings
                .iter()
                .map(|recording| recording.name.clone())
                .collect(),
            rows: (self.run)(options),
        }
    }
}

impl Experiment {
    /// Section of a report about a run; all rows are in `rows_file`.
    pub fn section(&self, outcome: &Outcome, rows_file: String) -> Section {
        let mut provenance = format!("Version {}, seed {}", outcome.version, outcome.seed);
        match outcome.traces.as_slice() {
            [] => {}
            [one] => provenance += &format!(", on {one}"),
            many => provenance += &format!(", on {} recordings", many.len()),
        }
        Section {
            name: self.name,
            plan: self.plan,
            provenance: provenance + ".",
            published: (self.compare)(&outcome.rows),
            plots: (self.plots)(&outcome.rows),
            rows_file,
        }
    }
}
