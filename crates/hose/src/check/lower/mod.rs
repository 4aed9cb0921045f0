//! Lowering of expressions to nodes: names are resolved and dropped, types checked.

mod call;
mod names;

use std::collections::BTreeMap;

use anabranch_base::StreamId;

use crate::{
    diagnostic::{Diagnostic, Findings},
    fact::FieldId,
    program::{Binary, LABELLED_MAX, Labelled, Node, NodeId, StreamRef, StreamSelector, Unary},
    span::Span,
    syntax::ast::{BinaryOp, Expr, ExprKind, Level, Name, UnaryOp, VariableKind},
    types::Type,
    vocabulary::Vocabulary,
};

/// Context common to the whole text.
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

/// Target of a variable.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// The ADU variable with this number.
    Adu(u8),
    /// The stream with this id.
    Stream(StreamId),
    /// The streams with the label of this number.
    Labelled(u8),
}

/// Nodes of one objective under construction.
pub(super) struct Lowering<'c, 'a> {
    pub(super) facts: Facts<'c>,
    pub(super) findings: &'c mut Findings,
    /// In order of declaration.
    pub(super) variables: Vec<Known<'a>>,
    /// Labels by which variables are bound, in order of declaration.
    pub(super) labelled: Vec<Labelled>,
    /// In a filter: the variable to which it applies, whose fields need no `::`.
    pub(super) own: Option<u8>,
    pub(super) nodes: Vec<Node>,
    pub(super) spans: Vec<Span>,
    /// Places at which variables were used.
    pub(super) used: Vec<Span>,
}

/// A lowered expression with its type; `None` if an error was reported.
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

    /// The target of a stream variable; `span` is the place of its id or label.
    pub(super) fn target(&mut self, selector: &StreamSelector, span: Span) -> Target {
        match selector {
            StreamSelector::Id(id) => Target::Stream(*id),
            StreamSelector::Label(label) => {
                if self.labelled.len() >= LABELLED_MAX {
                    self.error(|| {
                        Diagnostic::error(
                            span,
                            format!("an objective binds at most {LABELLED_MAX} streams by label"),
                        )
                    });
                    return Target::Labelled(0);
                }
                self.labelled.push(Labelled {
                    label: label.clone(),
                    symbol: crate::fact::symbol(label),
                    span,
                });
                Target::Labelled((self.labelled.len() - 1) as u8)
            }
        }
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

    /// Lowers an expression whose value is used: `correlated_loss(a, b)` alone stands for its probability, as in Figure
    /// 7-19 (deviation: hose-correlated-loss).
    fn value(&mut self, expr: &Expr<'a>) -> Lowered {
        let (node, found) = self.lower(expr)?;
        let is_correlated = matches!(self.nodes.get(node.0 as usize), Some(Node::Correlated(..)));
        Some((node, if is_correlated { Type::Numeric } else { found }))
    }

    /// Help text: an expression that would be of the expected type.
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

    /// Origin of a field's type, for an error message.
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
                    Target::Stream(stream) => {
                        self.stream_field(StreamRef::Known(stream), *field, span)
                    }
                    Target::Labelled(number) => {
                        self.stream_field(StreamRef::Labelled(number), *field, span)
                    }
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
        // Both sides are lowered, so that errors in either are reported.
        let (left, right) = (self.want(left, operand), self.want(right, operand));
        Some((
            self.push(Node::Binary(binary(op), left?, right?), span),
            value,
        ))
    }

    /// Lowers `==` or `!=`, which compare any two values of one definite type.
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
                Diagnostic::error(
                    span,
                    format!("cannot compare {left_type} with {right_type}"),
                )
                .maybe_help(help)
            });
            return None;
        }
        let node = Node::Binary(binary(op), left_node, right_node);
        Some((self.push(node, span), Type::Boolean))
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
            Self::Stream(_) | Self::Labelled(_) => VariableKind::Stream,
        }
    }
}
