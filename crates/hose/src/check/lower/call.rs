//! Lowering of calls to built-in functions.

use super::{Lowered, Lowering, Target};
use crate::{
    builtin::{self, Function},
    diagnostic::{Diagnostic, nearest},
    fact::AduFact,
    program::{Binary, Node, Unary},
    span::Span,
    syntax::ast::{Expr, ExprKind, Level, Name},
    types::Type,
};

impl<'a> Lowering<'_, 'a> {
    pub(super) fn call(&mut self, name: Name<'a>, arguments: &[Expr<'a>], span: Span) -> Lowered {
        let level = self.facts.level;
        let Some(entry) = builtin::find(builtin::FUNCTIONS, name.text, Level::Extended) else {
            self.error(|| {
                let known: Vec<_> = builtin::names(builtin::FUNCTIONS, level).collect();
                let help = match nearest(name.text, known.iter().copied()) {
                    Some(meant) => format!("did you mean '{meant}'?"),
                    None => format!("the functions are: {}", known.join(", ")),
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

    /// Converts a distribution to a number: its mean, or the probability of `true` in percent.
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

    /// Reports the use in a filter of a value that is known only after a slot is chosen.
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
}
