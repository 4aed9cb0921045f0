//! Pipeline: steps that may follow each other.

use std::{fmt, str::FromStr};

use crate::{
    Modules,
    operator::Limits,
    running::{Running, StartError},
    step::{ModuleHash, Step},
    text::{self, ParseError, STEPS_MAX},
};

/// Operators with their parameters, applied one after the other. Equal pipelines derive the same.
///
/// Its text, which [`FromStr`] reads and [`Display`](fmt::Display) writes, is the steps with `then` between them; the empty
/// text is the pipeline that leaves every ADU as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    steps: Vec<Step>,
}

/// Error of steps that cannot follow each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// A step follows `delta`.
    #[error(
        "\"{0}\" follows \"delta\", whose differences must reach the receiver as they are; put \"delta\" last"
    )]
    AfterDelta(&'static str),
    /// There are more than [`STEPS_MAX`] steps.
    #[error("a pipeline has at most {STEPS_MAX} steps; divide it in two")]
    Long,
}

impl Pipeline {
    /// A pipeline of these steps.
    ///
    /// # Errors
    /// There are too many, or one follows another that must be the last.
    pub fn new(steps: Vec<Step>) -> Result<Self, PipelineError> {
        if steps.len() > STEPS_MAX {
            return Err(PipelineError::Long);
        }
        let pairs = steps.iter().zip(steps.iter().skip(1));
        for (step, next) in pairs {
            if matches!(step, Step::Delta { .. }) {
                return Err(PipelineError::AfterDelta(next.name()));
            }
        }
        Ok(Self { steps })
    }

    /// Place, from 1, of the first WebAssembly module; `None`: there is none.
    pub(crate) fn first_module(&self) -> Option<usize> {
        let is_module = |step: &Step| matches!(step, Step::Wasm { .. });
        Some(self.steps().iter().position(is_module)? + 1)
    }

    /// Its steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Reads a text in which words may stand for the hashes of modules.
    ///
    /// # Errors
    /// As of [`FromStr`]; a word that `names` does not know is no hash.
    pub fn parse_with(
        text: &str,
        names: impl Fn(&str) -> Option<ModuleHash>,
    ) -> Result<Self, ParseError> {
        if text.trim().is_empty() && text.len() <= text::TEXT_BYTES_MAX {
            return Ok(Self::default());
        }
        let steps = text::parse(text, &names)?;
        Self::new(steps).map_err(|error| ParseError {
            column: 1,
            message: error.to_string(),
        })
    }

    /// Hashes of the modules that it runs.
    pub fn modules(&self) -> impl Iterator<Item = ModuleHash> {
        self.steps.iter().filter_map(|step| match step {
            Step::Wasm { hash, .. } => Some(*hash),
            _ => None,
        })
    }

    /// Begins to process.
    ///
    /// # Errors
    /// A WebAssembly module is not known, or cannot begin.
    pub fn start(&self, modules: &Modules, limits: Limits) -> Result<Running, StartError> {
        Running::start(self.clone(), modules, limits)
    }
}

impl FromStr for Pipeline {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, |_| None)
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let then = if index > 0 { " then " } else { "" };
            write!(f, "{then}{step}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
