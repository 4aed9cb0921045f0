//! Output of a run: JSON is [`crate::Outcome`] itself; here are CSV, plots, and the page that shows all experiments.

mod csv;
mod plot;
mod report;

pub use csv::to_csv;
pub use plot::{Axis, Curve, Mark, Plot};
pub use report::{Page, Section};

/// A published figure, or a target, with ours beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Quantity measured, with the unit.
    pub what: String,
    /// Source of the figure, or "target".
    pub source: &'static str,
    /// The published figure.
    pub theirs: String,
    /// Our figure.
    pub ours: String,
}

impl Published {
    /// A line of the comparison.
    pub fn new(
        what: impl Into<String>,
        source: &'static str,
        theirs: impl Into<String>,
        ours: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            source,
            theirs: theirs.into(),
            ours: ours.into(),
        }
    }
}
