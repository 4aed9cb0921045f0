//! Parsing of expressions. Binary operators use two stacks, so that only parentheses, calls and unary operators recurse.

use super::{
    DEPTH_MAX,
    ast::{BinaryOp, Expr, ExprKind, UnaryOp},
    parser::{Parsed, Parser, Reported},
    precedence::{Reading, c_left_first, reading},
    token::Kind,
};
use crate::{diagnostic::Diagnostic, span::Span};

/// Magnitude of the largest number: every whole number up to it is exact in 64-bit floating point.
pub const NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

impl<'a> Parser<'a, '_> {
    /// Parses one expression.
    pub(super) fn expression(&mut self) -> Parsed<Expr<'a>> {
        self.nesting += 1;
        let parsed = if self.nesting > DEPTH_MAX {
            Err(self.too_deep(self.peek().span))
        } else {
            self.binary()
        };
        self.nesting -= 1;
        parsed
    }

    fn too_deep(&mut self, span: Span) -> Reported {
        self.error(|| {
            Diagnostic::error(
                span,
                format!("this expression is more than {DEPTH_MAX} operators deep"),
            )
            .help("group it, as in '(a || b) || (c || d)', or use several objectives")
        })
    }

    /// Parses operands and binary operators, by precedence.
    fn binary(&mut self) -> Parsed<Expr<'a>> {
        let mut operands = vec![self.unary()?];
        let mut operators: Vec<(BinaryOp, Span)> = Vec::new();
        while let Some(op) = binary_op(self.peek().kind) {
            let span = self.bump().span;
            while let Some(&(top, top_span)) = operators.last() {
                let left_first = match reading(top, op) {
                    Reading::LeftFirst => true,
                    Reading::RightFirst => false,
                    Reading::Ambiguous => {
                        self.ambiguous((top, top_span), (op, span));
                        c_left_first(top, op)
                    }
                };
                if !left_first {
                    break;
                }
                operators.pop();
                self.combine(&mut operands, top, top_span)?;
            }
            operators.push((op, span));
            operands.push(self.unary()?);
        }
        while let Some((op, span)) = operators.pop() {
            self.combine(&mut operands, op, span)?;
        }
        operands.pop().ok_or(Reported)
    }

    /// Combines two operands into one.
    fn combine(&mut self, operands: &mut Vec<Expr<'a>>, op: BinaryOp, op_span: Span) -> Parsed<()> {
        let (Some(right), Some(left)) = (operands.pop(), operands.pop()) else {
            return Err(Reported);
        };
        let span = left.span.to(right.span);
        let depth = left.depth.max(right.depth) + 1;
        if depth > DEPTH_MAX {
            return Err(self.too_deep(op_span));
        }
        let kind = ExprKind::Binary {
            op,
            op_span,
            left: Box::new(left),
            right: Box::new(right),
        };
        operands.push(Expr { kind, span, depth });
        Ok(())
    }

    fn ambiguous(&mut self, left: (BinaryOp, Span), right: (BinaryOp, Span)) {
        let (one, other) = (left.0.sign(), right.0.sign());
        // In `a && b || c == d` the comparison is ambiguous with both; one report is enough.
        if self.ambiguous_at == Some(right.1) {
            return;
        }
        self.ambiguous_at = Some(right.1);
        let tighter = if c_left_first(left.0, right.0) {
            format!("'(… {one} …) {other} …'")
        } else {
            format!("'… {one} (… {other} …)'")
        };
        self.error(|| {
            Diagnostic::error(
                right.1,
                format!("'{other}' after '{one}' needs parentheses: the published table of precedence and C's read it differently"),
            )
            .help(format!("write {tighter} for what C would read"))
        });
    }

    fn unary(&mut self) -> Parsed<Expr<'a>> {
        let token = self.peek();
        let op = match token.kind {
            Kind::Minus => UnaryOp::Negate,
            Kind::Not => UnaryOp::Not,
            Kind::Plus if matches!(self.peek_at(1).kind, Kind::Whole | Kind::Fraction) => {
                self.bump();
                return self.number();
            }
            _ => return self.primary(),
        };
        self.bump();
        self.nesting += 1;
        let operand = if self.nesting > DEPTH_MAX {
            Err(self.too_deep(token.span))
        } else {
            self.unary()
        };
        self.nesting -= 1;
        let operand = operand?;
        let (span, depth) = (token.span.to(operand.span), operand.depth + 1);
        if depth > DEPTH_MAX {
            return Err(self.too_deep(token.span));
        }
        let operand = Box::new(operand);
        Ok(Expr {
            kind: ExprKind::Unary { op, operand },
            span,
            depth,
        })
    }

    fn primary(&mut self) -> Parsed<Expr<'a>> {
        let token = self.peek();
        let next = self.peek_at(1).kind;
        match (token.kind, next) {
            (Kind::Word | Kind::Whole, Kind::Scope) => self.field(),
            (Kind::Word, Kind::ParenOpen) => self.call(),
            (Kind::Whole | Kind::Fraction, _) => self.number(),
            (Kind::Word, _) => {
                let name = self.take_name();
                Ok(leaf(
                    match name.text {
                        "true" => ExprKind::Boolean(true),
                        "false" => ExprKind::Boolean(false),
                        _ => ExprKind::Name(name),
                    },
                    name.span,
                ))
            }
            (Kind::Text, _) => {
                self.bump();
                let text = token.span.of(self.text);
                Ok(leaf(ExprKind::Text(text.trim_matches('"')), token.span))
            }
            (Kind::ParenOpen, _) => {
                self.bump();
                let mut inner = self.expression()?;
                let close = self.expect(Kind::ParenClose, "to close the parenthesis")?;
                inner.span = token.span.to(close.span);
                Ok(inner)
            }
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn number(&mut self) -> Parsed<Expr<'a>> {
        let token = self.bump();
        if token.kind == Kind::Fraction {
            self.extension(token.span, "a fractional number");
        }
        let value = token.span.of(self.text).parse::<f64>().unwrap_or(f64::NAN);
        if value < NUMBER_MAX {
            return Ok(leaf(ExprKind::Number(value), token.span));
        }
        Err(self.error(|| {
            Diagnostic::error(
                token.span,
                format!("a number must be less than 2^53, which is {NUMBER_MAX}"),
            )
        }))
    }

    /// Parses `variable::field` or `variable::channel::attribute`.
    fn field(&mut self) -> Parsed<Expr<'a>> {
        let variable = self.take_name();
        self.bump();
        let field = self.name("a field")?;
        let kind = if self.peek().kind == Kind::Scope && field.text == "channel" {
            self.extension(field.span, "a channel's attribute");
            self.bump();
            let attribute = self.name("an attribute of the channel")?;
            ExprKind::Attribute {
                variable,
                attribute,
            }
        } else {
            ExprKind::Field { variable, field }
        };
        let span = variable.span.to(self.last_span());
        Ok(leaf(kind, span))
    }

    fn call(&mut self) -> Parsed<Expr<'a>> {
        let function = self.take_name();
        self.bump();
        let mut arguments = vec![self.expression()?];
        while self.peek().kind == Kind::Comma {
            self.bump();
            arguments.push(self.expression()?);
        }
        let close = self.expect(Kind::ParenClose, "after the arguments")?;
        let span = function.span.to(close.span);
        let deepest = arguments.iter().map(|argument| argument.depth).max();
        let depth = deepest.unwrap_or(0) + 1;
        if depth > DEPTH_MAX {
            return Err(self.too_deep(function.span));
        }
        let kind = ExprKind::Call {
            function,
            arguments,
        };
        Ok(Expr { kind, span, depth })
    }
}

fn leaf(kind: ExprKind<'_>, span: Span) -> Expr<'_> {
    Expr {
        kind,
        span,
        depth: 1,
    }
}

fn binary_op(kind: Kind) -> Option<BinaryOp> {
    Some(match kind {
        Kind::Plus => BinaryOp::Add,
        Kind::Minus => BinaryOp::Subtract,
        Kind::Star => BinaryOp::Multiply,
        Kind::Slash => BinaryOp::Divide,
        Kind::Equal => BinaryOp::Equal,
        Kind::NotEqual => BinaryOp::NotEqual,
        Kind::LessEqual => BinaryOp::LessEqual,
        Kind::GreaterEqual => BinaryOp::GreaterEqual,
        Kind::Less => BinaryOp::Less,
        Kind::Greater => BinaryOp::Greater,
        Kind::And => BinaryOp::And,
        Kind::Or => BinaryOp::Or,
        _ => return None,
    })
}
