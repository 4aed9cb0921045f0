//! Operators that pass an ADU or do not: by a predicate, by count, by layer, by component.

use std::{fmt, num::NonZeroU32, sync::Arc};

use anabranch_base::StreamId;
use anabranch_hose as hose;
use anabranch_hose::{AduFact, Objectives, Schedule, StreamFact, Type, Vocabulary};

use crate::{
    adu::{Adu, Value},
    operator::{Fault, Operator, Output, WORK_OF_ADU},
};

/// Field with the number of an ADU's layer; 0 is the base.
pub const LAYER: &str = "layer";

/// Field with the name of an ADU's component.
pub const COMPONENT: &str = "component";

/// Facts of the language that are not known where ADUs are processed.
const UNKNOWN: [&str; 4] = ["stream_id", "queue_delay", "deadline", "label"];

/// Predicate on an ADU: an expression of a filter in HOSE version 2, of the ADU's fields, `length` and `stream_seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicate(Arc<str>);

impl Predicate {
    /// Reads a predicate. White space outside of strings is reduced to single spaces.
    ///
    /// # Errors
    /// The text is not a predicate; one sentence without a full stop.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = one_line(text)?;
        if text.is_empty() {
            return Err(
                "a predicate must follow \"where\", such as frame_type == \"I\"".to_owned(),
            );
        }
        let predicate = Self(text.into());
        let mut vocabulary = Vocabulary::default();
        let compiled = hose::compile(&predicate.objective(), &mut vocabulary);
        compiled.map_err(|report| describe(&report))?;
        Ok(predicate)
    }

    /// The predicate as an objective over one ADU.
    fn objective(&self) -> String {
        format!("{BEFORE}{}{AFTER}", self.0)
    }
}

const BEFORE: &str = "hose 2 objective { context { adu:a { ";
const AFTER: &str = " } } goal { true } utility { a { 1 } } }";

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first error of a report, with its place in the predicate.
fn describe(report: &hose::Report) -> String {
    let is_error = |found: &&hose::Diagnostic| found.severity == hose::Severity::Error;
    let Some(error) = report.diagnostics().iter().find(is_error) else {
        return "this is not a predicate of HOSE".to_owned();
    };
    let column = report.position(error).column as usize;
    let column = column.saturating_sub(BEFORE.len()).max(1);
    let help = error
        .help
        .as_deref()
        .map_or(String::new(), |help| format!(" ({help})"));
    format!(
        "{}, at column {column} of the predicate{help}",
        error.message
    )
}

/// The text with single spaces, without what would end the filter that it becomes part of, and without facts that nobody
/// knows here.
fn one_line(text: &str) -> Result<String, String> {
    if !text.matches('"').count().is_multiple_of(2) {
        return Err("a quotation mark is not closed; add another one".to_owned());
    }
    let mut line = String::with_capacity(text.len());
    for (index, part) in text.split('"').enumerate() {
        if index % 2 == 1 {
            line.extend(['"'].into_iter().chain(part.chars()).chain(['"']));
            continue;
        }
        if let Some(brace) = part.find(['{', '}']) {
            let brace = &part[brace..=brace];
            return Err(format!(
                "a predicate has no brace \"{brace}\"; use parentheses"
            ));
        }
        if part.contains("//") {
            return Err("a predicate has no comment; leave it out".to_owned());
        }
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if let Some(word) = part
            .split(|letter| !is_of_word(letter))
            .find(|word| UNKNOWN.contains(word))
        {
            return Err(format!(
                "\"{word}\" is not known where ADUs are processed; use fields of the ADU, length and stream_seq"
            ));
        }
        for letter in part.chars() {
            if !letter.is_whitespace() {
                line.push(letter);
            } else if !line.is_empty() && !line.ends_with(' ') {
                line.push(' ');
            }
        }
    }
    Ok(line.trim_end().to_owned())
}

/// `where`.
#[derive(Debug)]
pub(crate) struct Where {
    objectives: Objectives,
    /// The fields that the predicate reads.
    vocabulary: Vocabulary,
}

impl Where {
    pub(crate) fn new(predicate: &Predicate) -> Self {
        let mut objectives = Objectives::default();
        let injected = objectives.inject(&predicate.objective());
        injected.expect("a predicate was compiled when it was read");
        let vocabulary = objectives.vocabulary().clone();
        Self {
            objectives,
            vocabulary,
        }
    }

    fn matches(&mut self, adu: &Adu) -> bool {
        let one = One {
            adu,
            vocabulary: &self.vocabulary,
        };
        self.objectives.begin(&one);
        self.objectives
            .singles()
            .any(|single| !single.adus.is_empty())
    }
}

impl Operator for Where {
    fn process(&mut self, adu: Adu, output: &mut Output) -> Result<(), Fault> {
        output.add_work(4 * WORK_OF_ADU);
        if self.matches(&adu) {
            output.push(adu)?;
        }
        Ok(())
    }
}

/// A schedule of one ADU.
struct One<'a> {
    adu: &'a Adu,
    vocabulary: &'a Vocabulary,
}

impl Schedule for One<'_> {
    fn adus(&self) -> u32 {
        1
    }

    fn adu(&self, _: u32, fact: AduFact) -> f64 {
        match fact {
            AduFact::StreamId => 0.0,
            AduFact::StreamSeq => self.adu.sequence as f64,
            AduFact::Length => self.adu.body.len() as f64,
            AduFact::Field(id) => {
                let field = self.vocabulary.fields().get(usize::from(id.0));
                let value =
                    field.and_then(|field| Some((field.value, self.adu.fields.get(&field.name)?)));
                match value {
                    Some((Type::Numeric, Value::Number(number))) => *number,
                    Some((Type::Boolean, Value::Boolean(boolean))) => f64::from(u8::from(*boolean)),
                    Some((Type::String, Value::Text(text))) => hose::symbol(text),
                    _ => f64::NAN,
                }
            }
            _ => f64::NAN,
        }
    }

    fn stream(&self, _: StreamId, _: StreamFact) -> f64 {
        f64::NAN
    }

    fn correlated_loss(&self, _: u32, _: u32) -> f64 {
        f64::NAN
    }
}

/// `every`.
#[derive(Debug)]
pub(crate) struct Every {
    count: NonZeroU32,
    /// ADUs that are left out before the next that passes.
    left: u32,
}

impl Every {
    pub(crate) fn new(count: NonZeroU32) -> Self {
        Self { count, left: 0 }
    }
}

impl Operator for Every {
    fn process(&mut self, adu: Adu, output: &mut Output) -> Result<(), Fault> {
        output.add_work(WORK_OF_ADU);
        if self.left > 0 {
            self.left -= 1;
            return Ok(());
        }
        self.left = self.count.get() - 1;
        output.push(adu)
    }

    fn phase(&self) -> u32 {
        self.left
    }

    fn set_phase(&mut self, phase: u32) {
        self.left = phase.min(self.count.get() - 1);
    }
}

/// `drop layer`.
#[derive(Debug)]
pub(crate) struct DropLayer(pub(crate) NonZeroU32);

impl Operator for DropLayer {
    fn process(&mut self, adu: Adu, output: &mut Output) -> Result<(), Fault> {
        output.add_work(WORK_OF_ADU);
        match adu.fields.number(LAYER) {
            Some(layer) if layer >= f64::from(self.0.get()) => Ok(()),
            _ => output.push(adu),
        }
    }
}

/// `select`.
#[derive(Debug)]
pub(crate) struct Select(pub(crate) Vec<String>);

impl Operator for Select {
    fn process(&mut self, adu: Adu, output: &mut Output) -> Result<(), Fault> {
        output.add_work(WORK_OF_ADU);
        match adu.fields.text(COMPONENT) {
            Some(name) if self.0.iter().any(|selected| selected == name) => output.push(adu),
            _ => Ok(()),
        }
    }
}
