//! Expressions to nodes: names are resolved, types checked, names forgotten.

use std::collections::BTreeMap;

use anabranch_base::StreamId;

use crate::{
    builtin::{self, Function},
    diagnostic::{Diagnostic, Findings, nearest},
    fact::{AduFact, StreamFact},
    program::{Binary, Node, NodeId, Unary},
    span::Span,
    syntax::ast::{BinaryOp, Expr, ExprKind, Level, Name, UnaryOp, VariableKind},
    types::Type,
    vocabulary::{FieldId, Vocabulary},
};

/// What the whole text has in common.
#[derive(Clone, Copy)]
pub(super) struct Facts<'c> {
    pub(super) text: &'c str,
    pub(super) level: Level,
    pub(super) vocabulary: &'c Vocabulary,
    pub(super) first_uses: &'c BTreeMap<FieldId, Span>,
}

/// A variable that can be named.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) name: Name<'a>,
    pub(super) target: Target,
}

/// What a variable stands for.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// The ADU variable with this number.
    Adu(u8),
    Stream(StreamId),
}

/// Nodes of one objective in the making.
pub(super) struct Lowering<'c, 'a> {
    pub(super) facts: Facts<'c>,
    pub(super) findings: &'c mut Findings,
    /// In order of declaration.
    pub(super) variables: Vec<Known<'a>>,
    /// In a filter: the variable that it is for, whose fields need no `::`.
    pub(super) own: Option<u8>,
    pub(super) nodes: Vec<Node>,
    pub(super) spans: Vec<Span>,
    /// Which variables were named.
    pub(super) used: Vec<Span>,
}

/// What was lowered; `None` when an error was reported.
type Lowered = Option<(NodeId, Type)>;

impl<'a> Lowering<'_, 'a> {
    fn push(&mut self, node: Node, span: Span) -> NodeId {
        self.nodes.push(node);
        self.spans.push(span);
        NodeId((self.nodes.len() - 1) as u32)
    }

    pub(super) fn error(&mut self, make: impl FnOnce() -> Diagnostic) {
        self.findings.error(make);
    }

    /// Lowers an expression that must be of a type.
    pub(super) fn want(&mut self, expr: &Expr<'a>, wanted: Type) -> Option<NodeId> {
        let (node, found) = self.value(expr)?;
        if found == wanted {
            return Some(node);
        }
        let help = self.help(expr, wanted, found);
        self.error(|| {
            Diagnostic::error(expr.span, format!("expected {wanted}, found {found}"))
                .maybe_help(help)
        });
        None
    }

    /// Lowers an expression whose value is used: `correlated_loss(a, b)` alone stands for its probability, as
    /// Figure 7-19 writes it (deviation: hose-correlated-loss).
    fn value(&mut self, expr: &Expr<'a>) -> Lowered {
        let (node, found) = self.lower(expr)?;
        let is_correlated = matches!(self.nodes.get(node.0 as usize), Some(Node::Correlated(..)));
        Some((node, if is_correlated { Type::Numeric } else { found }))
    }

    /// What would be of the type that is wanted.
    fn help(&self, expr: &Expr<'_>, wanted: Type, found: Type) -> Option<String> {
        let words = expr.span.of(self.facts.text);
        match (found, &expr.kind) {
            (Type::NumericDistribution, _) if wanted == Type::Numeric => {
                Some(format!("write 'expected({words})'"))
            }
            (Type::BooleanDistribution, _) if wanted == Type::Boolean => Some(format!(
                "compare its probability in percent, as in 'prob({words}) < 10'"
            )),
            (Type::BooleanDistribution, _) if wanted == Type::Numeric => {
                Some(format!("write 'prob({words})', which is 0 to 100"))
            }
            (Type::Boolean, ExprKind::Binary { op, .. }) if is_comparison(*op) => {
                Some("comparisons do not chain; join them, as in '(a < b) && (b < c)'".to_owned())
            }
            (_, ExprKind::Name(name) | ExprKind::Field { field: name, .. }) => {
                self.origin(*name, false)
            }
            (_, ExprKind::Attribute { attribute, .. }) => self.origin(*attribute, true),
            _ => None,
        }
    }

    /// Where the type of a field comes from.
    fn origin(&self, name: Name<'_>, of_channel: bool) -> Option<String> {
        let (id, value) = self.facts.vocabulary.find(name.text, of_channel)?;
        let name = name.text;
        Some(match self.facts.first_uses.get(&id) {
            Some(span) => {
                let line = span.position(self.facts.text).line;
                format!("'{name}' is {value} by its first use, on line {line}")
            }
            None => format!("'{name}' is declared {value}"),
        })
    }

    /// Lowers an expression of any type.
    pub(super) fn lower(&mut self, expr: &Expr<'a>) -> Lowered {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Invalid => None,
            ExprKind::Boolean(value) => Some((
                self.push(Node::Constant(f64::from(u8::from(*value))), span),
                Type::Boolean,
            )),
            ExprKind::Number(value) => {
                Some((self.push(Node::Constant(*value), span), Type::Numeric))
            }
            ExprKind::Text(text) => {
                let node = Node::Constant(crate::fact::symbol(text));
                Some((self.push(node, span), Type::String))
            }
            ExprKind::Name(name) => self.name(*name),
            ExprKind::Field { variable, field } => {
                let known = self.variable(*variable)?;
                match known.target {
                    Target::Adu(number) => self.adu_field(number, *field, span),
                    Target::Stream(stream) => self.stream_field(stream, *field, span),
                }
            }
            ExprKind::Attribute {
                variable,
                attribute,
            } => self.attribute(*variable, *attribute, span),
            ExprKind::Call {
                function,
                arguments,
            } => self.call(*function, arguments, span),
            ExprKind::Unary { op, operand } => self.unary(*op, operand, span),
            ExprKind::Binary {
                op, left, right, ..
            } => self.binary(*op, left, right, span),
        }
    }

    /// A name alone: a field in a filter, a mistake elsewhere.
    fn name(&mut self, name: Name<'a>) -> Lowered {
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
            Some(Target::Stream(_)) => (
                format!("'{}' is a stream, not a value", name.text),
                format!("name one of its fields, as in '{}::latency_ave'", name.text),
            ),
            None => (
                format!("'{}' is not known here", name.text),
                format!(
                    "outside of filters, fields follow a variable, as in '{first}::{}'",
                    name.text
                ),
            ),
        };
        self.error(|| Diagnostic::error(name.span, message).help(help));
        None
    }

    /// The variable of that name, which must be bound before this place.
    fn variable(&mut self, name: Name<'a>) -> Option<Known<'a>> {
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

    fn adu_field(&mut self, variable: u8, field: Name<'a>, span: Span) -> Lowered {
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
            let message = format!("ADUs have no field '{name}'; streams have");
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
                None => "the language uses this word itself".to_owned(),
            };
            (message, help)
        } else {
            let message = format!("the type of the field '{name}' cannot be told");
            let help = format!(
                "compare it with a literal somewhere, or declare it ('field {name}: string', with 'hose 2')"
            );
            (message, help)
        };
        self.error(|| Diagnostic::error(field.span, message).help(help));
    }

    fn stream_field(&mut self, stream: StreamId, field: Name<'_>, span: Span) -> Lowered {
        let level = self.facts.level;
        if let Some(entry) = builtin::find(builtin::STREAM_FIELDS, field.text, level) {
            let node = match entry.means {
                StreamFact::StreamId => Node::Constant(stream.0 as f64),
                fact => Node::Stream { stream, fact },
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
                    None => format!("they have: {}", known.join(", ")),
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

    fn attribute(&mut self, variable: Name<'a>, attribute: Name<'a>, span: Span) -> Lowered {
        let known = self.variable(variable)?;
        let Target::Adu(variable) = known.target else {
            self.error(|| Diagnostic::error(span, "a stream has no channel; its ADUs have"));
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
                    format!("the type of the attribute '{name}' cannot be told"),
                )
                .help(format!("declare it: 'field channel::{name}: string'"))
            });
            return None;
        };
        Some((self.push(Node::Adu { variable, fact }, span), value))
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr<'a>, span: Span) -> Lowered {
        let (unary, value) = match op {
            UnaryOp::Negate => (Unary::Negate, Type::Numeric),
            UnaryOp::Not => (Unary::Not, Type::Boolean),
        };
        let operand = self.want(operand, value)?;
        Some((self.push(Node::Unary(unary, operand), span), value))
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr<'a>, right: &Expr<'a>, span: Span) -> Lowered {
        if matches!(op, BinaryOp::Equal | BinaryOp::NotEqual) {
            return self.equality(op, left, right, span);
        }
        let (operand, value) = match op {
            BinaryOp::And | BinaryOp::Or => (Type::Boolean, Type::Boolean),
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide => {
                (Type::Numeric, Type::Numeric)
            }
            _ => (Type::Numeric, Type::Boolean),
        };
        // Both sides, so that the errors of both are found.
        let (left, right) = (self.want(left, operand), self.want(right, operand));
        Some((
            self.push(Node::Binary(binary(op), left?, right?), span),
            value,
        ))
    }

    /// `==` and `!=` compare any two values of one definite type.
    fn equality(&mut self, op: BinaryOp, left: &Expr<'a>, right: &Expr<'a>, span: Span) -> Lowered {
        let (lowered, other) = (self.value(left), self.value(right));
        let ((left_node, left_type), (right_node, right_type)) = (lowered?, other?);
        for (expr, found, wanted) in [
            (left, left_type, right_type),
            (right, right_type, left_type),
        ] {
            if matches!(found, Type::NumericDistribution | Type::BooleanDistribution) {
                let help = self.help(
                    expr,
                    if wanted == found {
                        Type::Numeric
                    } else {
                        wanted
                    },
                    found,
                );
                self.error(|| {
                    Diagnostic::error(expr.span, format!("a {found} cannot be compared"))
                        .maybe_help(help)
                });
                return None;
            }
        }
        if left_type != right_type {
            let help = self
                .help(left, right_type, left_type)
                .or_else(|| self.help(right, left_type, right_type));
            self.error(|| {
                Diagnostic::error(span, format!("{left_type} is compared with {right_type}"))
                    .maybe_help(help)
            });
            return None;
        }
        let node = Node::Binary(binary(op), left_node, right_node);
        Some((self.push(node, span), Type::Boolean))
    }

    fn call(&mut self, name: Name<'a>, arguments: &[Expr<'a>], span: Span) -> Lowered {
        let level = self.facts.level;
        let Some(entry) = builtin::find(builtin::FUNCTIONS, name.text, Level::Extended) else {
            self.error(|| {
                let known: Vec<_> = builtin::names(builtin::FUNCTIONS, level).collect();
                let help = match nearest(name.text, known.iter().copied()) {
                    Some(meant) => format!("did you mean '{meant}'?"),
                    None => format!("there are: {}", known.join(", ")),
                };
                Diagnostic::error(name.span, format!("there is no function '{}'", name.text))
                    .help(help)
            });
            return None;
        };
        if entry.level > level {
            self.error(|| {
                Diagnostic::error(
                    name.span,
                    format!("'{}' is an extension of the published language", name.text),
                )
                .help("begin the text with the line 'hose 2' to use extensions")
            });
            return None;
        }
        let (function, form) = entry.means;
        let count = form.matches(',').count() + 1;
        if arguments.len() != count {
            self.error(|| {
                let found = arguments.len();
                Diagnostic::error(
                    span,
                    format!("'{}' takes {count} argument(s), not {found}", name.text),
                )
                .help(format!("write '{form}'"))
            });
            return None;
        }
        match (function, arguments) {
            (Function::Expected, [x]) => self.distribution(x, Type::NumericDistribution, form),
            (Function::Prob, [x]) => self.distribution(x, Type::BooleanDistribution, form),
            (Function::Jitter, [x]) => {
                let (node, _) = self.distribution(x, Type::NumericDistribution, form)?;
                // Latency is the only distribution of numbers.
                if let Some(Node::Adu { fact, .. }) = self.nodes.get_mut(node.0 as usize) {
                    *fact = AduFact::Jitter;
                }
                Some((node, Type::Numeric))
            }
            (Function::Cost, [x]) => {
                let variable = self.adu(x, form)?;
                let fact = AduFact::Cost;
                self.after_slot(span)?;
                Some((self.push(Node::Adu { variable, fact }, span), Type::Numeric))
            }
            (Function::CorrelatedLoss, [a, b]) => {
                let (a, b) = (self.adu(a, form), self.adu(b, form));
                self.after_slot(span)?;
                Some((
                    self.push(Node::Correlated(a?, b?), span),
                    Type::BooleanDistribution,
                ))
            }
            (Function::Abs, [x]) => {
                let x = self.want(x, Type::Numeric)?;
                Some((self.push(Node::Unary(Unary::Abs, x), span), Type::Numeric))
            }
            (Function::Min | Function::Max, [a, b]) => {
                let op = if function == Function::Min {
                    Binary::Min
                } else {
                    Binary::Max
                };
                let (a, b) = (self.want(a, Type::Numeric), self.want(b, Type::Numeric));
                Some((self.push(Node::Binary(op, a?, b?), span), Type::Numeric))
            }
            _ => None,
        }
    }

    /// A distribution becomes a number: its mean, or the probability of `true` in percent.
    fn distribution(&mut self, argument: &Expr<'a>, wanted: Type, form: &str) -> Lowered {
        let (node, found) = self.lower(argument)?;
        if found == wanted {
            return Some((node, Type::Numeric));
        }
        self.error(|| {
            Diagnostic::error(argument.span, format!("expected {wanted}, found {found}"))
                .help(format!("write '{form}'"))
        });
        None
    }

    /// An argument that must be the name of an ADU variable.
    fn adu(&mut self, argument: &Expr<'a>, form: &str) -> Option<u8> {
        let target = match argument.kind {
            ExprKind::Name(name) => Some(self.variable(name)?.target),
            _ => None,
        };
        if let Some(Target::Adu(number)) = target {
            return Some(number);
        }
        self.error(|| {
            Diagnostic::error(argument.span, "expected the name of an ADU variable")
                .help(format!("write '{form}'"))
        });
        None
    }

    /// Reports what a filter cannot know.
    fn after_slot(&mut self, span: Span) -> Option<()> {
        if self.own.is_none() {
            return Some(());
        }
        self.error(|| {
            Diagnostic::error(
                span,
                "this is not known before a slot is chosen, so no filter can use it",
            )
            .help("compare it in the goal")
        });
        None
    }

    /// The variables that are bound but not named anywhere.
    pub(super) fn unused(&self) -> impl Iterator<Item = Name<'a>> + use<'_, 'a> {
        self.variables
            .iter()
            .map(|known| known.name)
            .filter(|name| !self.used.contains(&name.span))
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    matches!(
        binary(op),
        Binary::Equal
            | Binary::NotEqual
            | Binary::LessEqual
            | Binary::GreaterEqual
            | Binary::Less
            | Binary::Greater
    )
}

fn binary(op: BinaryOp) -> Binary {
    match op {
        BinaryOp::Add => Binary::Add,
        BinaryOp::Subtract => Binary::Subtract,
        BinaryOp::Multiply => Binary::Multiply,
        BinaryOp::Divide => Binary::Divide,
        BinaryOp::Equal => Binary::Equal,
        BinaryOp::NotEqual => Binary::NotEqual,
        BinaryOp::LessEqual => Binary::LessEqual,
        BinaryOp::GreaterEqual => Binary::GreaterEqual,
        BinaryOp::Less => Binary::Less,
        BinaryOp::Greater => Binary::Greater,
        BinaryOp::And => Binary::And,
        BinaryOp::Or => Binary::Or,
    }
}

impl Target {
    pub(super) fn kind(self) -> VariableKind {
        match self {
            Self::Adu(_) => VariableKind::Adu,
            Self::Stream(_) => VariableKind::Stream,
        }
    }
}
