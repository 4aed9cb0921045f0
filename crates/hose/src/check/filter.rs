//! Filters of the published language, which has a separate grammar for them [Horde §B.2.2]; and separation of the parts
//! that depend on the ADU alone.

use std::collections::BTreeSet;

use anabranch_base::StreamId;

use super::streams::streams;
use crate::{
    diagnostic::{Diagnostic, Findings},
    fact::AduFact,
    program::{Binary, Binding, Node, NodeId},
    syntax::ast::{BinaryOp, Expr, ExprKind, UnaryOp},
};

/// Reports parts of an ADU variable's filter that the published grammar does not allow: it compares fields of the ADU
/// with literals and with fields of variables bound before, the latter plus, minus, times or divided by a literal.
pub(super) fn check_published(filter: &Expr<'_>, findings: &mut Findings) {
    let refuse = |findings: &mut Findings, expr: &Expr<'_>, help: &str| {
        findings.error(|| {
            Diagnostic::error(expr.span, "the published language has no such filter").help(format!(
                "{help}; 'hose 2' in the first line allows any expression here"
            ))
        });
    };
    match &filter.kind {
        ExprKind::Boolean(true) | ExprKind::Invalid => {}
        ExprKind::Unary {
            op: UnaryOp::Not,
            operand,
        } => check_published(operand, findings),
        ExprKind::Binary {
            op: BinaryOp::And | BinaryOp::Or,
            left,
            right,
            ..
        } => {
            check_published(left, findings);
            check_published(right, findings);
        }
        ExprKind::Binary {
            op, left, right, ..
        } if is_comparison(*op) => {
            if !matches!(left.kind, ExprKind::Name(_)) {
                refuse(
                    findings,
                    left,
                    "the left side of a comparison must be a field of the ADU",
                );
            } else if !is_operand(right) {
                let help = "the right side must be a literal or a field of a variable bound before, as in 'stream_seq == one::stream_seq + 1'";
                refuse(findings, right, help);
            }
        }
        ExprKind::Name(name) => {
            refuse(findings, filter, &format!("write '{} == true'", name.text));
        }
        _ => refuse(
            findings,
            filter,
            "a filter consists of comparisons, or is 'true'",
        ),
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp as B;
    matches!(
        op,
        B::Equal | B::NotEqual | B::LessEqual | B::GreaterEqual | B::Less | B::Greater
    )
}

/// `<context_numeric_expression>`, `<context_boolean_expression>` or `<string_literal>`.
fn is_operand(expr: &Expr<'_>) -> bool {
    match &expr.kind {
        ExprKind::Boolean(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Field { .. }
        | ExprKind::Invalid => true,
        ExprKind::Unary {
            op: UnaryOp::Negate,
            operand,
        } => matches!(operand.kind, ExprKind::Number(_)),
        ExprKind::Unary {
            op: UnaryOp::Not,
            operand,
        } => is_operand(operand),
        ExprKind::Binary {
            op: BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide,
            left,
            right,
            ..
        } => matches!(left.kind, ExprKind::Field { .. }) && is_literal(right),
        _ => false,
    }
}

fn is_literal(expr: &Expr<'_>) -> bool {
    match &expr.kind {
        ExprKind::Number(_) => true,
        ExprKind::Unary {
            op: UnaryOp::Negate,
            operand,
        } => matches!(operand.kind, ExprKind::Number(_)),
        _ => false,
    }
}

/// Splits a filter into parts for evaluation.
pub(super) fn binding(nodes: &[Node], own: u8, root: NodeId) -> Binding {
    let mut parts = Vec::new();
    conjuncts(nodes, root, &mut parts);
    // A part that divides stays behind the parts that may guard it.
    let is_own = |part: &NodeId| {
        let mut is_own = true;
        walk(nodes, *part, &mut |node| {
            is_own &= match node {
                Node::Adu { variable, .. } => variable == own,
                Node::Binary(Binary::Divide, ..) => false,
                _ => true,
            };
        });
        is_own
    };
    let (alone, joined): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_own);
    let sequence = joined.iter().find_map(|&part| sequence(nodes, own, part));
    let all: Option<BTreeSet<StreamId>> = streams(nodes, own, root);
    Binding::Adu {
        streams: all.map(|ids| ids.into_iter().collect()),
        own: alone,
        joined,
        sequence,
    }
}

/// Operands of the outermost `&&`s, in order.
fn conjuncts(nodes: &[Node], root: NodeId, into: &mut Vec<NodeId>) {
    if let Some(&Node::Binary(Binary::And, left, right)) = nodes.get(root.0 as usize) {
        conjuncts(nodes, left, into);
        conjuncts(nodes, right, into);
    } else {
        into.push(root);
    }
}

/// The other side of `stream_seq == …`, if it does not depend on the ADU itself.
fn sequence(nodes: &[Node], own: u8, part: NodeId) -> Option<NodeId> {
    let &Node::Binary(Binary::Equal, left, right) = nodes.get(part.0 as usize)? else {
        return None;
    };
    let is_sequence = |id: NodeId| {
        let fact = AduFact::StreamSeq;
        nodes.get(id.0 as usize)
            == Some(&Node::Adu {
                variable: own,
                fact,
            })
    };
    let other = match (is_sequence(left), is_sequence(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    let mut depends = false;
    walk(nodes, other, &mut |node| {
        depends |= matches!(node, Node::Adu { variable, .. } if variable == own);
    });
    (!depends).then_some(other)
}

/// Visits every node of a tree.
pub(super) fn walk(nodes: &[Node], root: NodeId, visit: &mut impl FnMut(Node)) {
    let Some(&node) = nodes.get(root.0 as usize) else {
        return;
    };
    visit(node);
    match node {
        Node::Unary(_, operand) => walk(nodes, operand, visit),
        Node::Binary(_, left, right) => {
            walk(nodes, left, visit);
            walk(nodes, right, visit);
        }
        _ => {}
    }
}
