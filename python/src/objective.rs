//! Objectives: findings about their text, and what they did.

use anabranch::{
    ObjectiveError,
    net::session::objective::{Entry, Tally},
};
use anabranch_hose::{Report, Severity, Vocabulary};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{failure::Failed, report::fields};

/// A finding about a text.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    is_error: bool,
    line: u32,
    column: u32,
    text: String,
    help: Option<String>,
}

impl Finding {
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(fields!(py,
            "is_error": self.is_error,
            "line": self.line,
            "column": self.column,
            "text": &self.text,
            "help": self.help.as_deref(),
        ))
    }
}

/// The findings of a report, in order of place.
pub(crate) fn findings(report: &Report) -> Vec<Finding> {
    let found = report.diagnostics().iter();
    found
        .map(|one| {
            let position = report.position(one);
            Finding {
                is_error: one.severity == Severity::Error,
                line: position.line,
                column: position.column,
                text: one.message.clone(),
                help: one.help.clone(),
            }
        })
        .collect()
}

/// Findings as keyword arguments of `anabranch.errors.Finding`.
pub(crate) fn list<'py>(py: Python<'py>, findings: &[Finding]) -> PyResult<Bound<'py, PyList>> {
    let all = findings.iter().map(|finding| finding.fields(py));
    PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
}

impl From<ObjectiveError> for Failed {
    fn from(error: ObjectiveError) -> Self {
        match error {
            ObjectiveError::Stream(error) => {
                anabranch::api::EngineFailure::from(ObjectiveError::Stream(error)).into()
            }
            ObjectiveError::Field(error) => Self::new("SpecError", error.to_string()),
            ObjectiveError::Rate { position, error } => {
                let text = format!("{position}: {error}");
                let finding = Finding {
                    is_error: true,
                    line: position.line,
                    column: position.column,
                    text: error.to_string(),
                    help: None,
                };
                Self::objectives(text, vec![finding])
            }
            ObjectiveError::Text(report) => {
                let found = findings(&report);
                Self::objectives(report.render("objectives"), found)
            }
            other => Self::objectives(other.to_string(), Vec::new()),
        }
    }
}

/// An objective in force, with what it did in the last minute where that is known.
pub(crate) fn entry<'py>(
    py: Python<'py>,
    entry: &Entry,
    tally: Option<&Tally>,
) -> PyResult<Bound<'py, PyDict>> {
    let faults: Vec<&str> = tally.map_or(Vec::new(), |tally| tally.faults.words().collect());
    Ok(fields!(py,
        "id": entry.id.0,
        "name": entry.name.as_deref(),
        "kind": entry.kind.name(),
        "text": &entry.text,
        "contexts": tally.map(|tally| tally.contexts),
        "contexts_met": tally.map(|tally| tally.contexts_met),
        "contexts_faulty": tally.map(|tally| tally.contexts_faulty),
        "utility": tally.map(|tally| tally.utility),
        "faults": faults,
    ))
}

/// Findings about a text of objectives, without a session.
#[pyfunction]
pub(crate) fn check_objectives(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    let found = py.detach(
        || match anabranch_hose::compile(text, &mut Vocabulary::default()) {
            Ok(compiled) => findings(&compiled.warnings),
            Err(report) => findings(&report),
        },
    );
    Ok(list(py, &found)?.into_any().unbind())
}
