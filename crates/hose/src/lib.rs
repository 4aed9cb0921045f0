//! HOSE: the language in which applications say what the network's service is worth to them.
//!
//! An *objective* binds variables to ADUs and streams (`context`), states what must hold of them (`goal`),
//! and what each gains when it does (`utility`). The utility of a transmission schedule is the sum over all
//! objectives and all bindings; the scheduler looks for the schedule that is worth most [Horde, Chapter 6 and
//! Appendix B]. This room reads, checks, formats, compiles, evaluates and explains objectives. It schedules
//! nothing, and knows neither clocks nor files. The language is defined in `spec/hose.md`.
//!
//! ```text
//! text ──parse──► tree ──check──► Program ──► Objectives ◄── Schedule (the caller's: ADUs in slots)
//!                  │                              │
//!                format                        utility
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`compile`], [`Report`] | a text's way to a [`Program`], or to what is wrong with it and where |
//! | [`syntax`] | lexer, parser, tree, formatter |
//! | `check` | names, types, the types of applications' fields, `rate` items |
//! | [`vocabulary`] | applications' fields: names, types, numbers |
//! | [`fact`] | what an objective can ask; the caller answers |
//! | [`program`] | compiled objectives: what they read, whom they concern, whether they are separable |
//! | [`evaluate`] | [`Objectives`] in force, and what a [`Schedule`] is worth under them |
//! | [`explain`] | what each objective and binding scored, and why |
//! | [`json`] | a schedule as JSON |

mod builtin;
mod check;
pub mod diagnostic;
pub mod evaluate;
pub mod explain;
pub mod fact;
pub mod json;
pub mod program;
mod span;
pub mod syntax;
mod types;
pub mod vocabulary;

pub use check::VARIABLES_MAX;
pub use diagnostic::{Diagnostic, Report, Severity};
pub use evaluate::{Faults, Limits, ObjectiveId, Objectives, Schedule};
pub use fact::{AduFact, StreamFact, symbol};
pub use program::{Objective, Program, RateDemand, RateObjective, Shape, Variable};
pub use span::{Position, Span};
pub use syntax::{TEXT_BYTES_MAX, ast::Level, expression::NUMBER_MAX, format};
pub use types::Type;
pub use vocabulary::{FieldId, Vocabulary, VocabularyError};

use diagnostic::Findings;

/// A text that can be used, and what looks odd in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// What it came to.
    pub program: Program,
    /// Warnings; no errors.
    pub warnings: Report,
}

/// Reads, checks and compiles a text. The fields it declares or is the first to use enter `vocabulary`.
///
/// # Errors
/// Everything that is wrong with the text; `vocabulary` is then as it was.
///
/// Takes time and memory linear in the length of the text, which is at most [`TEXT_BYTES_MAX`].
pub fn compile(text: &str, vocabulary: &mut Vocabulary) -> Result<Compiled, Report> {
    let mut findings = Findings::default();
    let file = syntax::parse(text, &mut findings);
    let (program, learned) = check::check(&file, text, vocabulary, &mut findings);
    let report = Report::new(text, findings);
    if report.has_errors() {
        return Err(report);
    }
    *vocabulary = learned;
    Ok(Compiled {
        program,
        warnings: report,
    })
}
