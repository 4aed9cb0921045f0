//! Provided names: the labels, fields, technologies and attributes that a node or a session supplies, and the uses of
//! others in a program.
//!
//! An objective that names something else is valid, and matches nothing: its filter passes no ADU, or its goal has an
//! unknown value. [`unprovided`] warns of it. The caller collects what there is, from a configuration or a running
//! session.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    diagnostic::{Findings, Report, nearest},
    fact::{AduFact, FieldId},
    program::{Binary, Node, NodeId, Objective, Program, StreamSelector},
    span::Span,
    types::Type,
    vocabulary::Vocabulary,
};

/// Largest number of names that a help text lists.
const LISTED_MAX: usize = 8;

/// Names that a node or a session supplies to objectives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provided {
    labels: BTreeSet<String>,
    fields: BTreeMap<String, BTreeSet<Type>>,
    technologies: BTreeSet<String>,
    attributes: BTreeMap<String, Attribute>,
}

/// An attribute of channels: the types that it has, and its values that are strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Attribute {
    types: BTreeSet<Type>,
    texts: BTreeSet<String>,
}

/// One name that a node or a session supplies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// Label of a stream; one that ends with `*` stands for all that begin with the rest.
    Label {
        /// The label.
        name: String,
    },
    /// Header field of ADUs.
    Field {
        /// The field.
        name: String,
        /// Its type.
        #[serde(rename = "type")]
        value: Type,
    },
    /// Technology of a channel.
    Technology {
        /// The technology.
        name: String,
    },
    /// Attribute of a channel.
    Attribute {
        /// The attribute.
        name: String,
        /// Its type.
        #[serde(rename = "type")]
        value: Type,
        /// Its value, if it is a string and known.
        text: Option<String>,
    },
}

impl Item {
    /// A label.
    pub fn label(name: impl Into<String>) -> Self {
        Self::Label { name: name.into() }
    }

    /// A field.
    pub fn field(name: impl Into<String>, value: Type) -> Self {
        let name = name.into();
        Self::Field { name, value }
    }

    /// A technology.
    pub fn technology(name: impl Into<String>) -> Self {
        Self::Technology { name: name.into() }
    }

    /// An attribute without a known text.
    pub fn attribute(name: impl Into<String>, value: Type) -> Self {
        Self::Attribute {
            name: name.into(),
            value,
            text: None,
        }
    }

    /// An attribute that is a string.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Attribute {
            name: name.into(),
            value: Type::String,
            text: Some(text.into()),
        }
    }
}

impl Extend<Item> for Provided {
    fn extend<I: IntoIterator<Item = Item>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.add(item));
    }
}

impl Provided {
    /// Adds a name.
    pub fn add(&mut self, item: Item) {
        match item {
            Item::Label { name } => {
                self.labels.insert(name);
            }
            Item::Field { name, value } => {
                self.fields.entry(name).or_default().insert(value);
            }
            Item::Technology { name } => {
                self.technologies.insert(name);
            }
            Item::Attribute { name, value, text } => {
                let attribute = self.attributes.entry(name).or_default();
                attribute.types.insert(value);
                attribute.texts.extend(text);
            }
        }
    }

    /// All names, each once: labels, fields, technologies, attributes.
    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let labels = self.labels.iter().cloned();
        let fields = self.fields.iter().flat_map(|(name, types)| {
            types.iter().map(|&value| Item::Field {
                name: name.clone(),
                value,
            })
        });
        let technologies = self.technologies.iter().cloned();
        let attributes = self.attributes.iter().flat_map(|(name, attribute)| {
            let item = |value, text| Item::Attribute {
                name: name.clone(),
                value,
                text,
            };
            let types = attribute.types.iter();
            let others =
                types.filter(|&&value| value != Type::String || attribute.texts.is_empty());
            let others = others.map(move |&value| item(value, None));
            let texts = attribute.texts.iter();
            others.chain(texts.map(move |text| item(Type::String, Some(text.clone()))))
        });
        (labels.map(|name| Item::Label { name }))
            .chain(fields)
            .chain(technologies.map(|name| Item::Technology { name }))
            .chain(attributes)
    }

    fn has_label(&self, label: &str) -> bool {
        self.labels
            .iter()
            .any(|known| match known.strip_suffix('*') {
                Some(beginning) => label.starts_with(beginning),
                None => known == label,
            })
    }
}

/// Warnings of the labels, fields, technologies and attributes that the program uses and nothing provides, and of those
/// that it uses as another type than the provided one. Each name is reported once, at its first place.
///
/// `vocabulary` is the one with which the program was compiled. O(length of the program × names provided).
pub fn unprovided(program: &Program, vocabulary: &Vocabulary, provided: &Provided) -> Report {
    let mut search = Search {
        vocabulary,
        provided,
        found: BTreeMap::new(),
    };
    for objective in &program.objectives {
        search.visit(objective);
    }
    for rate in &program.rates {
        if let StreamSelector::Label(label) = &rate.stream {
            search.label(label, rate.stream_span);
        }
    }
    let mut findings = Findings::default();
    for (message, (span, help)) in search.found {
        findings.warn(span, &message, &help);
    }
    Report::new(&program.text, findings)
}

struct Search<'s> {
    vocabulary: &'s Vocabulary,
    provided: &'s Provided,
    /// First place and help text of each message.
    found: BTreeMap<String, (Span, String)>,
}

impl<'s> Search<'s> {
    fn visit(&mut self, objective: &Objective) {
        for labelled in &objective.labelled {
            self.label(&labelled.label, labelled.span);
        }
        for (node, &span) in objective.nodes.iter().zip(&objective.spans) {
            match *node {
                Node::Adu {
                    fact: AduFact::Field(id),
                    ..
                } => self.field(id, span),
                Node::Adu {
                    fact: AduFact::ChannelField(id),
                    ..
                } => self.attribute(id, span),
                Node::Binary(Binary::Equal | Binary::NotEqual, left, right) => {
                    self.comparison(objective, left, right);
                    self.comparison(objective, right, left);
                }
                _ => {}
            }
        }
    }

    /// Looks at a string literal with which a fact is compared.
    fn comparison(&mut self, objective: &Objective, fact: NodeId, literal: NodeId) {
        let at = |id: NodeId| objective.nodes.get(id.0 as usize);
        let Some(&span) = objective.spans.get(literal.0 as usize) else {
            return;
        };
        let (Some(Node::Adu { fact, .. }), Some(Node::Constant(_))) = (at(fact), at(literal))
        else {
            return;
        };
        let quoted = span.of(objective.text()).strip_prefix('"');
        let Some(text) = quoted.and_then(|text| text.strip_suffix('"')) else {
            return;
        };
        let provided = self.provided;
        match fact {
            AduFact::Label => self.label(text, span),
            AduFact::ChannelTechnology if !provided.technologies.contains(text) => {
                self.report(span, "technology", text, &provided.technologies);
            }
            AduFact::ChannelField(id) => {
                let Some((name, _)) = self.known(*id) else {
                    return;
                };
                let Some(attribute) = provided.attributes.get(name) else {
                    return;
                };
                // Of another type, it has been reported already.
                if !attribute.texts.is_empty() && !attribute.texts.contains(text) {
                    let what = format!("value of 'channel::{name}'");
                    self.report(span, &what, text, &attribute.texts);
                }
            }
            _ => {}
        }
    }

    fn label(&mut self, label: &str, span: Span) {
        if !self.provided.has_label(label) {
            self.report(span, "label", label, &self.provided.labels);
        }
    }

    fn field(&mut self, id: FieldId, span: Span) {
        let Some((name, used)) = self.known(id) else {
            return;
        };
        let fields = &self.provided.fields;
        match fields.get(name) {
            None => self.report(span, "field", name, fields.keys()),
            Some(types) => self.check_type(span, name, used, types),
        }
    }

    fn attribute(&mut self, id: FieldId, span: Span) {
        let Some((name, used)) = self.known(id) else {
            return;
        };
        let attributes = &self.provided.attributes;
        match attributes.get(name) {
            None => self.report(span, "attribute of channels", name, attributes.keys()),
            Some(attribute) => self.check_type(span, name, used, &attribute.types),
        }
    }

    /// Name of a field or attribute, and the type as which the program uses it.
    fn known(&self, id: FieldId) -> Option<(&'s str, Type)> {
        let field = self.vocabulary.fields().get(usize::from(id.0))?;
        Some((&field.name, field.value))
    }

    fn check_type(&mut self, span: Span, name: &str, used: Type, provided: &BTreeSet<Type>) {
        if provided.contains(&used) {
            return;
        }
        let types: Vec<&str> = provided.iter().map(|known| known.name()).collect();
        let types = types.join(" or ");
        let message = format!("'{name}' is used as {used}, but provided as {types}");
        let help = "a value of another type counts as unknown".to_owned();
        self.found.entry(message).or_insert((span, help));
    }

    /// Reports that nothing provides `name`, which is a `kind`.
    fn report<'k>(
        &mut self,
        span: Span,
        kind: &str,
        name: &str,
        known: impl IntoIterator<Item = &'k String>,
    ) {
        let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
        let help = match (nearest(name, known.iter().copied()), known.len()) {
            (Some(meant), _) => format!("did you mean '{meant}'?"),
            (None, 0) => format!("no {kind} is provided at all"),
            (None, 1..=LISTED_MAX) => format!("provided: {}", known.join(", ")),
            (None, count) => {
                let listed = known[..LISTED_MAX].join(", ");
                format!("provided: {listed}, and {} more", count - LISTED_MAX)
            }
        };
        let message = format!("nothing provides the {kind} '{name}'");
        self.found.entry(message).or_insert((span, help));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compile, diagnostic::Diagnostic};

    fn provided() -> Provided {
        let mut provided = Provided::default();
        provided.extend(["video", "telemetry", "log/*"].map(Item::label));
        provided.extend([
            Item::field("frame_type", Type::String),
            Item::technology("lte"),
            Item::attribute("price_class", Type::Numeric),
            Item::text("operator", "A"),
        ]);
        provided
    }

    /// Places, messages and help texts of the warnings.
    fn warnings(text: &str) -> Vec<(String, String)> {
        let mut vocabulary = Vocabulary::default();
        let program = compile(text, &mut vocabulary).unwrap().program;
        let report = unprovided(&program, &vocabulary, &provided());
        assert!(!report.has_errors());
        let found = report.diagnostics().iter();
        let place = |one: &Diagnostic| one.span.of(text).to_owned();
        let words = |one: &Diagnostic| {
            let help = one.help.as_deref().unwrap();
            format!("{}; {help}", one.message)
        };
        found.map(|one| (place(one), words(one))).collect()
    }

    fn objective(filter: &str, goal: &str) -> String {
        format!(
            "hose 2 objective {{ context {{ adu:a {{ {filter} }} }} goal {{ {goal} }} utility {{ a {{ 1 }} }} }}"
        )
    }

    #[test]
    fn what_is_provided_is_not_reported() {
        let filter = r#"((label == "video") || (label == "log/x")) && (frame_type == "I")"#;
        let goal = r#"(a::channel::technology != "lte") && (a::channel::price_class < 2)
            && (a::channel::operator == "A") && (a::channel::name == "wwan7")"#;
        assert_eq!(warnings(&objective(filter, goal)), []);
    }

    #[test]
    fn each_name_that_nothing_provides_is_reported_at_its_place() {
        let filter = r#"(label == "vidoe") && (frametype == "I")"#;
        let goal = r#"("fibre" == a::channel::technology) && (a::channel::price < 2) && (a::channel::operator == "B")"#;
        let expected = [
            (
                "\"vidoe\"",
                "nothing provides the label 'vidoe'; did you mean 'video'?",
            ),
            (
                "frametype",
                "nothing provides the field 'frametype'; did you mean 'frame_type'?",
            ),
            (
                "\"fibre\"",
                "nothing provides the technology 'fibre'; provided: lte",
            ),
            (
                "a::channel::price",
                "nothing provides the attribute of channels 'price'; provided: operator, price_class",
            ),
            (
                "\"B\"",
                "nothing provides the value of 'channel::operator' 'B'; did you mean 'A'?",
            ),
        ];
        let found = warnings(&objective(filter, goal));
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(place, words)| (place.as_str(), words.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_value_of_another_type_is_reported() {
        let text = objective("frame_type == 2", "a::channel::operator < 3");
        let found = warnings(&text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0]
                .1
                .contains("used as numeric, but provided as string")
        );
        assert_eq!(found[1].0, "a::channel::operator");
    }

    #[test]
    fn a_name_is_reported_once_and_long_lists_are_cut() {
        let one = objective("nowhere", "a::length > 0");
        let text = format!("{one} {}", one.replace("hose 2", ""));
        let found = warnings(&text);
        assert_eq!(found.len(), 1, "{found:?}");

        let mut vocabulary = Vocabulary::default();
        let program = compile(&one, &mut vocabulary).unwrap().program;
        let mut many = Provided::default();
        let empty = unprovided(&program, &vocabulary, &many);
        let help = |report: &Report| report.diagnostics()[0].help.clone().unwrap();
        assert_eq!(help(&empty), "no field is provided at all");
        for number in 0..20 {
            many.add(Item::field(
                format!("field_number_{number:02}"),
                Type::Numeric,
            ));
        }
        let report = unprovided(&program, &vocabulary, &many);
        assert!(help(&report).ends_with("_07, and 12 more"), "{report}");
    }

    #[test]
    fn sources_add_up_and_are_listed() {
        let mut all = provided();
        all.extend([
            Item::label("nowhere"),
            Item::text("operator", "B"),
            Item::field("frame_type", Type::Numeric),
        ]);
        assert!(all.has_label("nowhere") && all.has_label("video") && !all.has_label("log"));
        assert_eq!(all.attributes["operator"].texts.len(), 2);
        assert_eq!(all.fields["frame_type"].len(), 2);

        let mut again = Provided::default();
        for item in all.items() {
            let row = serde_json::to_string(&item).unwrap();
            again.add(serde_json::from_str(&row).unwrap());
        }
        assert_eq!(again, all);
        let row = serde_json::to_value(Item::field("x", Type::Boolean)).unwrap();
        assert_eq!(
            row,
            serde_json::json!({"kind": "field", "name": "x", "type": "boolean"})
        );
    }
}
