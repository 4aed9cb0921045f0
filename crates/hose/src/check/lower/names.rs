//! Lowering of names: variables, fields of ADUs and streams, attributes of channels.

use super::{Known, Lowered, Lowering, Target};
use crate::{
    builtin,
    diagnostic::{Diagnostic, nearest},
    fact::{AduFact, StreamFact},
    program::{Node, StreamRef},
    span::Span,
    syntax::ast::{Level, Name},
    types::Type,
};

impl<'a> Lowering<'_, 'a> {
    /// Lowers a name alone: a field in a filter, an error elsewhere.
    pub(super) fn name(&mut self, name: Name<'a>) -> Lowered {
        if let Some(own) = self.own {
            return self.adu_field(own, name, name.span);
        }
        let variable = self
            .variables
            .iter()
            .find(|known| known.name.text == name.text);
        let first = self
            .variables
            .first()
            .map_or("foo", |known| known.name.text);
        let (message, help) = match variable.map(|known| known.target) {
            Some(Target::Adu(_)) => (
                format!("'{}' is an ADU, not a value", name.text),
                format!("name one of its fields, as in '{}::stream_seq'", name.text),
            ),
            Some(Target::Stream(_) | Target::Labelled(_)) => (
                format!("'{}' is a stream, not a value", name.text),
                format!("name one of its fields, as in '{}::latency_ave'", name.text),
            ),
            None => (
                format!("unknown name '{}'", name.text),
                format!(
                    "outside of filters, fields follow a variable, as in '{first}::{}'",
                    name.text
                ),
            ),
        };
        self.error(|| Diagnostic::error(name.span, message).help(help));
        None
    }

    /// The variable of that name, which must have been bound before.
    pub(super) fn variable(&mut self, name: Name<'a>) -> Option<Known<'a>> {
        let found = self
            .variables
            .iter()
            .find(|known| known.name.text == name.text)
            .copied();
        if let Some(known) = found {
            self.used.push(known.name.span);
            return Some(known);
        }
        let names: Vec<&str> = self.variables.iter().map(|known| known.name.text).collect();
        let in_filter = self.own.is_some();
        self.error(|| {
            let help = match nearest(name.text, names.iter().copied()) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None if in_filter => {
                    "a filter may use variables that are bound before it".to_owned()
                }
                None => {
                    "the context binds variables, as in 'adu:foo { stream_id == 3 }'".to_owned()
                }
            };
            Diagnostic::error(
                name.span,
                format!("no variable '{}' is bound here", name.text),
            )
            .help(help)
        });
        None
    }

    pub(super) fn adu_field(&mut self, variable: u8, field: Name<'a>, span: Span) -> Lowered {
        let level = self.facts.level;
        let found = builtin::find(builtin::ADU_FIELDS, field.text, level).map(|entry| entry.means);
        let found = found.or_else(|| {
            let (id, value) = self.facts.vocabulary.find(field.text, false)?;
            Some((AduFact::Field(id), value))
        });
        let Some((fact, value)) = found else {
            self.no_adu_field(field);
            return None;
        };
        if self.own.is_some() && fact.is_of_slot() {
            self.error(|| {
                Diagnostic::error(
                    field.span,
                    format!(
                        "'{}' is not known before a slot is chosen, so no filter can use it",
                        field.text
                    ),
                )
                .help("compare it in the goal")
            });
            return None;
        }
        Some((self.push(Node::Adu { variable, fact }, span), value))
    }

    fn no_adu_field(&mut self, field: Name<'_>) {
        let (name, level) = (field.text, self.facts.level);
        let of_streams = builtin::find(builtin::STREAM_FIELDS, name, level).is_some();
        let later = builtin::find(builtin::ADU_FIELDS, name, Level::Extended).is_some();
        let known = self.facts.vocabulary.fields();
        let names = known.iter().map(|field| field.name.as_str());
        let names = names.chain(builtin::names(builtin::ADU_FIELDS, level));
        let (message, help) = if of_streams {
            let message = format!("ADUs have no field '{name}', but streams do");
            (
                message,
                "bind a stream, as in 'stream:s { stream_id == 3 }'".to_owned(),
            )
        } else if later {
            let message = format!("'{name}' is an extension of the published language");
            (
                message,
                "begin the text with the line 'hose 2' to use extensions".to_owned(),
            )
        } else if builtin::is_reserved(name, level) || name.ends_with('?') {
            let message = format!("ADUs have no field '{name}'");
            let help = match nearest(name, names) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => "this word is reserved by the language".to_owned(),
            };
            (message, help)
        } else {
            let message = format!("the type of the field '{name}' cannot be determined");
            let help = format!(
                "compare it with a literal somewhere, or declare it ('field {name}: string', with 'hose 2')"
            );
            (message, help)
        };
        self.error(|| Diagnostic::error(field.span, message).help(help));
    }

    pub(super) fn stream_field(
        &mut self,
        stream: StreamRef,
        field: Name<'_>,
        span: Span,
    ) -> Lowered {
        let level = self.facts.level;
        if self.own.is_some() && matches!(stream, StreamRef::Labelled(_)) {
            self.error(|| {
                Diagnostic::error(
                    span,
                    "this stream is bound by its label, so no filter can use it",
                )
                .help("compare it in the goal")
            });
            return None;
        }
        if let Some(entry) = builtin::find(builtin::STREAM_FIELDS, field.text, level) {
            let node = match (entry.means, stream) {
                (StreamFact::StreamId, StreamRef::Known(id)) => Node::Constant(id.0 as f64),
                (fact, _) => Node::Stream { stream, fact },
            };
            return Some((self.push(node, span), Type::Numeric));
        }
        let is_later = builtin::find(builtin::STREAM_FIELDS, field.text, Level::Extended).is_some();
        self.error(|| {
            let known: Vec<_> = builtin::names(builtin::STREAM_FIELDS, level).collect();
            let help = if is_later {
                "it is an extension; begin the text with the line 'hose 2'".to_owned()
            } else {
                match nearest(field.text, known.iter().copied()) {
                    Some(meant) => format!("did you mean '{meant}'?"),
                    None => format!("the fields of streams are: {}", known.join(", ")),
                }
            };
            Diagnostic::error(
                field.span,
                format!("streams have no field '{}'", field.text),
            )
            .help(help)
        });
        None
    }

    pub(super) fn attribute(
        &mut self,
        variable: Name<'a>,
        attribute: Name<'a>,
        span: Span,
    ) -> Lowered {
        let known = self.variable(variable)?;
        let Target::Adu(variable) = known.target else {
            self.error(|| Diagnostic::error(span, "a stream has no channel; only its ADUs do"));
            return None;
        };
        if self.own.is_some() {
            self.error(|| {
                Diagnostic::error(
                    span,
                    "the channel is not known before a slot is chosen, so no filter can use it",
                )
                .help("compare it in the goal")
            });
            return None;
        }
        let found = builtin::find(builtin::CHANNEL_FIELDS, attribute.text, Level::Extended);
        let found = found.map(|entry| entry.means).or_else(|| {
            let (id, value) = self.facts.vocabulary.find(attribute.text, true)?;
            Some((AduFact::ChannelField(id), value))
        });
        let Some((fact, value)) = found else {
            self.error(|| {
                let name = attribute.text;
                Diagnostic::error(
                    attribute.span,
                    format!("the type of the attribute '{name}' cannot be determined"),
                )
                .help(format!("declare it: 'field channel::{name}: string'"))
            });
            return None;
        };
        Some((self.push(Node::Adu { variable, fact }, span), value))
    }

    /// Variables that are bound but not used.
    pub(in crate::check) fn unused(&self) -> impl Iterator<Item = Name<'a>> + use<'_, 'a> {
        self.variables
            .iter()
            .map(|known| known.name)
            .filter(|name| !self.used.contains(&name.span))
    }
}
