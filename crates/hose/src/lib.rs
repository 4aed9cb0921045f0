//! HOSE: the language in which applications express the utility of the network's service.
//!
//! An *objective* binds variables to ADUs and streams (`context`), states the conditions on them (`goal`), and the gain
//! of each when these are met (`utility`). The utility of a transmission schedule is the sum over all objectives and all
//! bindings; the scheduler searches for the schedule of greatest utility [Horde, Chapter 6 and Appendix B]. This crate
//! reads, checks, formats, compiles, evaluates and explains objectives. It does not schedule, and uses neither clocks nor
//! files. The language is defined in `spec/hose.md`.
//!
//! ```text
//! text ──parse──► tree ──check──► Program ──► Objectives ◄── Schedule (the caller's: ADUs in slots)
//!                  │                              │
//!                format                        utility
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`compile`], [`Report`] | compilation of a text to a [`Program`], or to a report of its errors |
//! | [`syntax`] | lexer, parser, tree, formatter |
//! | `check` | names, types, the types of applications' fields, `rate` items |
//! | [`vocabulary`] | applications' fields: names, types, numbers |
//! | [`fact`] | facts that an objective can use; the caller supplies them |
//! | [`program`] | compiled objectives: the facts they read, the streams they concern, their separability |
//! | [`evaluate`] | [`Objectives`] in force, and the utility of a [`Schedule`] under them |
//! | [`explain`] | explanation of the score, by objective and binding |
//! | [`provided`] | labels, fields and attributes that exist, and uses of others |
//! | [`library`] | objectives with names and parameters, to be used in place of a text |
//! | [`json`] | schedules in JSON |

mod builtin;
mod check;
pub mod diagnostic;
pub mod evaluate;
pub mod explain;
pub mod fact;
pub mod json;
pub mod library;
pub mod program;
pub mod provided;
mod span;
pub mod syntax;
mod types;
pub mod vocabulary;

pub use check::VARIABLES_MAX;
pub use diagnostic::{Diagnostic, Report, Severity};
pub use evaluate::{Faults, Limits, ObjectiveId, Objectives, Schedule, Tally};
pub use fact::{AduFact, FieldId, StreamFact, symbol, symbol_of, symbol_text};
pub use program::{Objective, Program, RateDemand, RateObjective, Shape, StreamSelector, Variable};
pub use provided::Provided;
pub use span::{Position, Span};
pub use syntax::{TEXT_BYTES_MAX, ast::Level, expression::NUMBER_MAX, format};
pub use types::Type;
pub use vocabulary::{Vocabulary, VocabularyError};

use diagnostic::Findings;

/// A compiled text with its warnings.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The compiled text.
    pub program: Program,
    /// Warnings; no errors.
    pub warnings: Report,
}

/// Reads, checks and compiles a text, or a list of [named objectives](library). Fields that it declares or is the first to use are added to `vocabulary`.
///
/// # Errors
/// All errors in the text; `vocabulary` is then unchanged.
///
/// Takes time and memory linear in the length of the text, which is at most [`TEXT_BYTES_MAX`].
pub fn compile(text: &str, vocabulary: &mut Vocabulary) -> Result<Compiled, Report> {
    if library::is_named(text) {
        return compile_text(&library::expand(text, vocabulary)?, vocabulary);
    }
    compile_text(text, vocabulary)
}

fn compile_text(text: &str, vocabulary: &mut Vocabulary) -> Result<Compiled, Report> {
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
