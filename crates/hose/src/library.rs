//! Library of named objectives, with parameters.
//!
//! Wherever a text of objectives is expected, a list of names may stand instead: `low_latency("voice", 150); avoid_metered`. The
//! text that each stands for is a file in `library/`, in which the parameters are put in place of `$label` and the like.

mod call;

use self::call::{Argument, Call};
use crate::{
    diagnostic::{Diagnostic, Findings, Report, nearest},
    types::Type,
    vocabulary::Vocabulary,
};

/// Most named objectives in one text.
pub const CALLS_MAX: usize = 64;

/// Kind of a parameter: the values that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The label of a stream.
    Label,
    /// Milliseconds, above 0.
    Milliseconds,
    /// A header field of messages.
    Field,
    /// The type of that field; may be left out.
    FieldType,
}

/// A parameter of a named objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, as in the text after `$`.
    pub name: &'static str,
    kind: Kind,
}

/// A named objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub summary: &'static str,
    /// In order.
    pub parameters: &'static [Parameter],
    /// The objectives that it stands for, with `$` before the names of parameters.
    pub text: &'static str,
}

const LABEL: Parameter = Parameter {
    name: "label",
    kind: Kind::Label,
};
const MS: Parameter = Parameter {
    name: "ms",
    kind: Kind::Milliseconds,
};
const FIELD: Parameter = Parameter {
    name: "field",
    kind: Kind::Field,
};
const TYPE: Parameter = Parameter {
    name: "type",
    kind: Kind::FieldType,
};

/// All of them, by name.
pub const NAMED: [Named; 5] = [
    Named {
        name: "avoid_metered",
        summary: "messages take metered channels only if there is no other",
        parameters: &[],
        text: include_str!("../library/avoid_metered.hose"),
    },
    Named {
        name: "keep_whole",
        summary: "messages that have the same value of a field are sent in time together, or the rest of them not at all",
        parameters: &[LABEL, FIELD, TYPE],
        text: include_str!("../library/keep_whole.hose"),
    },
    Named {
        name: "low_latency",
        summary: "messages are worth the more the earlier they arrive, and nothing after so many milliseconds",
        parameters: &[LABEL, MS],
        text: include_str!("../library/low_latency.hose"),
    },
    Named {
        name: "newest_first",
        summary: "new messages are preferred to those that have waited",
        parameters: &[LABEL],
        text: include_str!("../library/newest_first.hose"),
    },
    Named {
        name: "uncorrelated",
        summary: "consecutive messages are put where their losses hardly go together",
        parameters: &[LABEL],
        text: include_str!("../library/uncorrelated.hose"),
    },
];

impl Parameter {
    /// The values that it accepts.
    pub fn accepts(&self) -> &'static str {
        match self.kind {
            Kind::Label => "the label of a stream, without quotation marks and backslashes inside",
            Kind::Milliseconds => "a number of milliseconds, above 0 and at most 3600000",
            Kind::Field => "a header field of messages",
            Kind::FieldType => "the type of the field: numeric, string or boolean",
        }
    }

    /// True if it may be left out.
    pub fn is_optional(&self) -> bool {
        self.kind == Kind::FieldType
    }

    /// The argument as it stands in the text; `None` if it is not accepted.
    fn value(&self, argument: &Argument<'_>) -> Option<String> {
        let word = argument.value;
        let accepted = match self.kind {
            Kind::Label => {
                !word.is_empty()
                    && !word.contains(['"', '\\'])
                    && !word.chars().any(char::is_control)
            }
            Kind::Milliseconds => {
                let digits = word
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'.');
                let ms = word.parse::<f64>().ok().filter(|_| digits);
                ms.is_some_and(|ms| ms > 0.0 && ms <= 3_600_000.0)
            }
            Kind::Field => Vocabulary::default().declare(word, Type::Numeric).is_ok(),
            Kind::FieldType => matches!(word, "numeric" | "string" | "boolean"),
        };
        accepted.then(|| word.to_owned())
    }
}

impl Named {
    /// Its name with its parameters, such as `low_latency(label, ms)`.
    pub fn usage(&self) -> String {
        if self.parameters.is_empty() {
            return self.name.to_owned();
        }
        let name = |parameter: &Parameter| match parameter.is_optional() {
            true => format!("[{}]", parameter.name),
            false => parameter.name.to_owned(),
        };
        let names: Vec<String> = self.parameters.iter().map(name).collect();
        format!("{}({})", self.name, names.join(", "))
    }

    /// The arguments of a call, as they stand in the text, one for each parameter.
    fn arguments(
        &self,
        call: &Call<'_>,
        vocabulary: &Vocabulary,
    ) -> Result<Vec<String>, Diagnostic> {
        let optional = self
            .parameters
            .iter()
            .filter(|one| one.is_optional())
            .count();
        let (given, most) = (call.arguments.len(), self.parameters.len());
        if given > most || given + optional < most {
            let message = format!(
                "{} has {}, not {given}",
                self.name,
                match most {
                    0 => "no parameters".to_owned(),
                    1 => "one parameter".to_owned(),
                    _ if optional > 0 => format!("{} or {most} parameters", most - optional),
                    _ => format!("{most} parameters"),
                }
            );
            return Err(
                Diagnostic::error(call.span, message).help(format!("write {}", self.usage()))
            );
        }
        let mut values: Vec<String> = Vec::new();
        for (at, parameter) in self.parameters.iter().enumerate() {
            values.push(match call.arguments.get(at) {
                Some(argument) => parameter.value(argument).ok_or_else(|| {
                    let message = format!(
                        "'{}' is no {} of {}",
                        argument.value, parameter.name, self.name
                    );
                    let help = format!("{} is {}", parameter.name, parameter.accepts());
                    Diagnostic::error(argument.span, message).help(help)
                })?,
                // A field, which stands before its type, has one type in all texts.
                None => {
                    let known = values.last().and_then(|field| vocabulary.field(field));
                    let known = known.and_then(|id| vocabulary.fields().get(usize::from(id.0)));
                    known.map_or(Type::Numeric, |field| field.value).to_string()
                }
            });
        }
        Ok(values)
    }

    /// Its text with these values of its parameters, without the line of the version.
    fn with(&self, values: &[String]) -> String {
        let text = self.text.strip_prefix("hose 2\n").unwrap_or(self.text);
        let mut parts = text.split('$');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let mut parameters = self.parameters.iter().zip(values);
            match parameters.find_map(|(one, value)| Some((value, part.strip_prefix(one.name)?))) {
                Some((value, rest)) => filled.extend([value.as_str(), rest]),
                None => filled.extend(["$", part]),
            }
        }
        filled
    }
}

/// True if the text is a list of names of this library rather than objectives themselves.
pub fn is_named(text: &str) -> bool {
    call::begins(text)
}

/// The named objective, by its name.
///
/// # Errors
/// Its name is unknown: a message with the nearest one, or all of them.
pub fn named(name: &str) -> Result<&'static Named, String> {
    NAMED.iter().find(|one| one.name == name).ok_or_else(|| {
        let help = near(name);
        format!("no objective of the library is called '{name}'; {help}")
    })
}

fn near(name: &str) -> String {
    let names = NAMED.iter().map(|one| one.name);
    match nearest(name, names.clone()).and_then(|near| NAMED.iter().find(|one| one.name == near)) {
        Some(near) => format!("did you mean '{}'?", near.usage()),
        None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// The objectives that a list of names stands for, as one text. A field keeps the type that it has in `vocabulary`.
///
/// # Errors
/// All names that are unknown, and parameters that are not accepted, with their places.
pub fn expand(text: &str, vocabulary: &Vocabulary) -> Result<String, Report> {
    let mut findings = Findings::default();
    let mut all = String::from("hose 2\n");
    let calls = call::read(text).unwrap_or_else(|error| {
        findings.error(|| error);
        Vec::new()
    });
    if calls.len() > CALLS_MAX {
        let message = format!("there are {} names, more than {CALLS_MAX}", calls.len());
        findings.error(|| {
            Diagnostic::error(calls[CALLS_MAX].span, message).help("write a file of objectives")
        });
    }
    let mut used: Vec<(&str, Vec<String>)> = Vec::new();
    for call in calls.iter().take(CALLS_MAX) {
        let found = NAMED.iter().find(|one| one.name == call.name);
        let Some(named) = found else {
            let message = format!("no objective of the library is called '{}'", call.name);
            findings.error(|| Diagnostic::error(call.name_span, message).help(near(call.name)));
            continue;
        };
        match named.arguments(call, vocabulary) {
            Err(diagnostic) => findings.error(|| diagnostic),
            Ok(values) if used.contains(&(named.name, values.clone())) => {
                let message = format!("{} stands here twice with the same parameters", named.name);
                findings.error(|| Diagnostic::error(call.span, message).help("write it once"));
            }
            Ok(values) => {
                let before = used.iter().filter(|(name, _)| *name == named.name).count();
                add(&mut all, &named.with(&values), before + 1);
                used.push((named.name, values));
            }
        }
    }
    let report = Report::new(text, findings);
    if report.has_errors() {
        return Err(report);
    }
    Ok(all)
}

/// Adds a text to others: items of the second text of one name get `_2` behind their names, and a field is declared once.
fn add(all: &mut String, text: &str, number: usize) {
    for line in text.split_inclusive('\n') {
        if line.starts_with("field ") && all.contains(line) {
            continue;
        }
        match line
            .strip_prefix("objective ")
            .and_then(|rest| rest.split_once(' '))
        {
            Some((name, rest)) if number > 1 => {
                all.push_str(&format!("objective {name}_{number} {rest}"));
            }
            _ => all.push_str(line),
        }
    }
}

#[cfg(test)]
mod tests;
