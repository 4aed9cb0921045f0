//! Semantic checks of names and types, and compilation of the syntax tree.

mod filter;
mod infer;
mod lower;
mod rate;
mod streams;

use std::{collections::BTreeMap, sync::Arc};

use anabranch_base::StreamId;

use self::{
    infer::{Inferred, infer},
    lower::{Facts, Known, Lowering, Target},
};
use crate::{
    builtin,
    diagnostic::{Diagnostic, Findings, nearest},
    fact::AduFact,
    program::{
        ADU_VARIABLES_MAX, Binding, Node, Objective, Program, RateObjective, StreamSelector,
        Variable,
    },
    span::Span,
    syntax::ast::{self, BinaryOp, ExprKind, File, Item, Level, VariableKind},
    types::Type,
    vocabulary::{FIELDS_MAX, Vocabulary, VocabularyError},
};

/// Largest number of variables of one objective.
pub const VARIABLES_MAX: usize = 16;

/// Checks and compiles a file. Erroneous parts are left out and reported in `findings`. The returned vocabulary holds the
/// fields that were known and those that the text declares and uses. O(length of the text).
pub(crate) fn check(
    file: &File<'_>,
    text: &str,
    known: &Vocabulary,
    findings: &mut Findings,
) -> (Program, Vocabulary) {
    let Inferred {
        vocabulary,
        first_uses,
    } = infer(file, known);
    let facts = Facts {
        text,
        level: file.level(),
        vocabulary: &vocabulary,
        first_uses: &first_uses,
    };
    let source: Arc<str> = text.into();
    let mut program = Program {
        text: source.clone(),
        level: file.level(),
        objectives: Vec::new(),
        rates: Vec::new(),
    };
    let mut names = BTreeMap::new();
    let mut declared = Vec::new();
    for item in &file.items {
        match item {
            Item::Objective(item) => {
                check_name(&mut names, item.name, findings);
                program
                    .objectives
                    .extend(objective(item, &source, facts, findings));
            }
            Item::Rate(item) => {
                check_name(&mut names, item.name, findings);
                program.rates.extend(rate(item, facts, findings));
            }
            Item::Field(item) => {
                declared.push(item.name.span);
                declaration(item, facts, findings);
            }
        }
    }
    warn_of_likely_slips(facts, known, &declared, findings);
    (program, vocabulary)
}

/// Checks that no two items have the same name.
fn check_name<'a>(
    names: &mut BTreeMap<&'a str, Span>,
    name: Option<ast::Name<'a>>,
    findings: &mut Findings,
) {
    if let Some(name) = name
        && names.insert(name.text, name.span).is_some()
    {
        findings.error(|| {
            Diagnostic::error(
                name.span,
                format!("another item is already named '{}'", name.text),
            )
        });
    }
}

fn declaration(item: &ast::Field<'_>, facts: Facts<'_>, findings: &mut Findings) {
    let Some(value) = Type::named(item.type_name.text) else {
        findings.error(|| {
            let name = item.type_name.text;
            let help = match nearest(name, ["numeric", "boolean", "string"]) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => "a field is numeric, boolean or string".to_owned(),
            };
            Diagnostic::error(item.type_name.span, format!("there is no type '{name}'")).help(help)
        });
        return;
    };
    let name = item.name.text;
    let error = match facts.vocabulary.find(name, item.of_channel) {
        Some((_, known)) if known == value => return,
        Some((_, known)) => VocabularyError::Conflict {
            name: name.to_owned(),
            known,
            asked: value,
        },
        // A reserved word has already been reported by the parser.
        None if facts.vocabulary.fields().len() < FIELDS_MAX => return,
        None => VocabularyError::Full,
    };
    findings.error(|| Diagnostic::error(item.name.span, error.to_string()));
}

/// Warns of a field that is known only from its use and whose name almost equals another: likely a typo.
fn warn_of_likely_slips(
    facts: Facts<'_>,
    known: &Vocabulary,
    declared: &[Span],
    findings: &mut Findings,
) {
    for (id, &span) in facts.first_uses {
        let Some(field) = facts.vocabulary.fields().get(usize::from(id.0)) else {
            continue;
        };
        let others = known.fields().iter().map(|other| other.name.as_str());
        let ours = builtin::names(builtin::ADU_FIELDS, facts.level);
        if !declared.contains(&span)
            && let Some(meant) = nearest(&field.name, others.chain(ours))
        {
            findings.warn(
                span,
                &format!("this use makes '{}' a field of the application", field.name),
                &format!("did you mean '{meant}'?"),
            );
        }
    }
}

fn lowering<'c, 'a>(facts: Facts<'c>, findings: &'c mut Findings) -> Lowering<'c, 'a> {
    Lowering {
        facts,
        findings,
        variables: Vec::new(),
        labelled: Vec::new(),
        own: None,
        nodes: Vec::new(),
        spans: Vec::new(),
        used: Vec::new(),
    }
}

fn objective(
    item: &ast::Objective<'_>,
    source: &Arc<str>,
    facts: Facts<'_>,
    findings: &mut Findings,
) -> Option<Objective> {
    let before = findings.errors();
    let mut lowering = lowering(facts, findings);
    let variables = context(&mut lowering, &item.context.body);
    let filters_end = lowering.nodes.len();
    if matches!(item.goal.body.kind, ExprKind::Boolean(false)) {
        lowering.error(|| {
            Diagnostic::error(item.goal.body.span, "the goal 'false' is never met")
                .help("remove the objective, or write a goal that can be met")
        });
    }
    let goal = lowering.want(&item.goal.body, Type::Boolean);
    let gains = gains(&mut lowering, &item.utility.body);
    if lowering.findings.errors() == before {
        warn_of_unused(&mut lowering);
    }
    let mut reads: Vec<AduFact> = lowering.nodes[filters_end..]
        .iter()
        .filter_map(|node| match node {
            Node::Adu { fact, .. } => Some(*fact),
            _ => None,
        })
        .collect();
    reads.sort_unstable();
    reads.dedup();
    let adus = (0u8..)
        .zip(&variables)
        .filter(|(_, variable)| variable.kind() == VariableKind::Adu)
        .map(|(index, _)| index)
        .collect();
    let (nodes, spans, labelled) = (lowering.nodes, lowering.spans, lowering.labelled);
    (findings.errors() == before).then_some(Objective {
        text: source.clone(),
        name: item.name.map(|name| name.text.to_owned()),
        span: item.span,
        level: facts.level,
        nodes: nodes.into(),
        spans: spans.into(),
        variables,
        adus,
        labelled,
        goal: goal?,
        gains,
        reads,
    })
}

/// Binds the variables of a context, each visible to the filters after its own.
fn context<'a>(lowering: &mut Lowering<'_, 'a>, bindings: &[ast::Binding<'a>]) -> Vec<Variable> {
    let mut variables = Vec::new();
    let mut adus = 0u8;
    for binding in bindings {
        let name = binding.name;
        if lowering
            .variables
            .iter()
            .any(|known| known.name.text == name.text)
        {
            lowering.error(|| {
                Diagnostic::error(name.span, format!("'{}' is already bound", name.text))
                    .help("choose another name")
            });
            continue;
        }
        let is_full = variables.len() >= VARIABLES_MAX
            || (binding.kind == VariableKind::Adu && usize::from(adus) >= ADU_VARIABLES_MAX);
        if is_full {
            lowering.error(|| {
                Diagnostic::error(name.span, format!(
                    "an objective has at most {VARIABLES_MAX} variables, {ADU_VARIABLES_MAX} of them ADUs"
                ))
            });
            break;
        }
        let (target, made) = match binding.kind {
            VariableKind::Stream => {
                let found = stream_selector(lowering, binding);
                let (selector, span) =
                    found.unwrap_or((StreamSelector::Id(StreamId(0)), binding.span));
                (lowering.target(&selector, span), Binding::Stream(selector))
            }
            VariableKind::Adu => {
                let made = adu_binding(lowering, binding, adus);
                adus += 1;
                (Target::Adu(adus - 1), made)
            }
        };
        lowering.variables.push(Known { name, target });
        variables.push(Variable {
            name: name.text.to_owned(),
            binding: made,
        });
    }
    variables
}

fn adu_binding<'a>(
    lowering: &mut Lowering<'_, 'a>,
    binding: &ast::Binding<'a>,
    number: u8,
) -> Binding {
    if lowering.facts.level == Level::Published {
        filter::check_published(&binding.filter, lowering.findings);
    }
    lowering.own = Some(number);
    let root = lowering.want(&binding.filter, Type::Boolean);
    lowering.own = None;
    let made = match root {
        Some(root) => filter::binding(&lowering.nodes, number, root),
        None => Binding::Adu {
            streams: None,
            own: Vec::new(),
            joined: Vec::new(),
            sequence: None,
        },
    };
    if let Binding::Adu {
        streams: Some(streams),
        ..
    } = &made
        && streams.is_empty()
    {
        lowering.findings.warn(
            binding.filter.span,
            "no ADU passes this filter",
            "an ADU belongs to one stream; to accept several, join the comparisons with '||'",
        );
    }
    made
}

/// Lowers `stream_id == NUMBER`, the published filter of streams [Horde §B.2.2], or `label == TEXT`; returns the place of the number or
/// text, too.
fn stream_selector(
    lowering: &mut Lowering<'_, '_>,
    binding: &ast::Binding<'_>,
) -> Option<(StreamSelector, Span)> {
    if let ExprKind::Binary {
        op: BinaryOp::Equal,
        left,
        right,
        ..
    } = &binding.filter.kind
        && let ExprKind::Name(name) = left.kind
    {
        match (name.text, &right.kind) {
            ("stream_id", ExprKind::Number(id)) if id.fract() == 0.0 => {
                return Some((StreamSelector::Id(StreamId(*id as u64)), right.span));
            }
            ("label", ExprKind::Text(label)) if lowering.facts.level == Level::Extended => {
                return Some((StreamSelector::Label((*label).into()), right.span));
            }
            ("label", ExprKind::Text(_)) => {
                lowering.error(|| {
                    Diagnostic::error(
                        name.span,
                        "'label' is an extension of the published language",
                    )
                    .help("begin the text with the line 'hose 2' to use extensions")
                });
                return None;
            }
            _ => {}
        }
    }
    let name = binding.name.text;
    let (message, help) = match lowering.facts.level {
        Level::Published => (
            "a stream is bound by its number",
            format!("write 'stream:{name} {{ stream_id == 3 }}'"),
        ),
        Level::Extended => (
            "a stream is bound by its number or its label",
            format!(
                "write 'stream:{name} {{ stream_id == 3 }}' or 'stream:{name} {{ label == \"video\" }}'"
            ),
        ),
    };
    lowering.error(|| Diagnostic::error(binding.filter.span, message).help(help));
    None
}

fn gains<'a>(
    lowering: &mut Lowering<'_, 'a>,
    items: &[ast::Gain<'a>],
) -> Vec<(u8, crate::program::NodeId)> {
    let mut gains: Vec<(u8, _)> = Vec::new();
    for item in items {
        let name = item.name;
        let at = lowering
            .variables
            .iter()
            .position(|known| known.name.text == name.text);
        let value = lowering.want(&item.value, Type::Numeric);
        let Some(at) = at else {
            let names: Vec<&str> = lowering
                .variables
                .iter()
                .map(|known| known.name.text)
                .collect();
            lowering.error(|| {
                let meant = nearest(name.text, names.iter().copied()).or(names.first().copied());
                Diagnostic::error(name.span, format!("no variable '{}' is bound", name.text))
                    .maybe_help(meant.map(|meant| format!("did you mean '{meant}'?")))
            });
            continue;
        };
        lowering.used.push(lowering.variables[at].name.span);
        if gains.iter().any(|(other, _)| usize::from(*other) == at) {
            lowering.error(|| {
                Diagnostic::error(name.span, format!("'{}' appears twice", name.text))
                    .help("add the two expressions")
            });
        }
        gains.extend(value.map(|value| (at as u8, value)));
    }
    gains
}

/// Warns of variables that are only bound: they multiply contexts and have no other effect.
fn warn_of_unused(lowering: &mut Lowering<'_, '_>) {
    let unused: Vec<_> = lowering.unused().collect();
    for name in unused {
        let known = lowering.variables.iter().find(|known| known.name == name);
        let of = known.map_or("", |known| match known.target.kind() {
            VariableKind::Adu => "the objective counts once for each ADU that it can be bound to",
            VariableKind::Stream if matches!(known.target, Target::Labelled(_)) => {
                "the objective counts once for each stream with this label"
            }
            VariableKind::Stream => "remove it",
        });
        let message = format!("'{}' is bound but not used", name.text);
        lowering.findings.warn(name.span, &message, of);
    }
}

fn rate(item: &ast::Rate<'_>, facts: Facts<'_>, findings: &mut Findings) -> Option<RateObjective> {
    let before = findings.errors();
    let mut lowering = lowering(facts, findings);
    let stream = match item.context.body.as_slice() {
        [binding] if binding.kind == VariableKind::Stream => {
            stream_selector(&mut lowering, binding)
        }
        _ => {
            lowering.error(|| {
                Diagnostic::error(item.context.span, "a rate has exactly one stream variable")
                    .help("write 'context { stream:s { stream_id == 3 } }'")
            });
            None
        }
    };
    let unknown = (StreamSelector::Id(StreamId(0)), item.context.span);
    let checked = rate::rate(&mut lowering, item, stream.unwrap_or(unknown));
    checked.filter(|_| findings.errors() == before)
}
