//! Types of the application's fields: by declaration, or by first use [Horde §B.2.2: "applications can
//! define arbitrary header fields"].
//!
//! A field that is compared with a number is numeric, with a string literal a string, and so on. A comparison of two
//! fields of unknown type is examined again after the whole text has been read.

use std::collections::BTreeMap;

use crate::{
    builtin,
    fact::FieldId,
    span::Span,
    syntax::ast::{BinaryOp, Expr, ExprKind, File, Item, Level, Name, UnaryOp, VariableKind},
    types::Type,
    vocabulary::Vocabulary,
};

/// Inferred fields, and the places of the text from which their types follow.
pub(super) struct Inferred {
    pub(super) vocabulary: Vocabulary,
    pub(super) first_uses: BTreeMap<FieldId, Span>,
}

/// Infers the types of fields from the text. Conflicts are left to the checks.
pub(super) fn infer(file: &File<'_>, known: &Vocabulary) -> Inferred {
    let mut inference = Inference {
        level: file.level(),
        learned: Inferred {
            vocabulary: known.clone(),
            first_uses: BTreeMap::new(),
        },
        undecided: Vec::new(),
    };
    for item in &file.items {
        if let Item::Field(field) = item
            && let Some(value) = Type::named(field.type_name.text)
        {
            inference.learn(field.name, field.of_channel, value);
        }
    }
    for item in &file.items {
        if let Item::Objective(objective) = item {
            let streams: Vec<&str> = objective
                .context
                .body
                .iter()
                .filter(|binding| binding.kind == VariableKind::Stream)
                .map(|binding| binding.name.text)
                .collect();
            let scope = Scope { streams: &streams };
            for binding in &objective.context.body {
                inference.visit(&binding.filter, Some(Type::Boolean), scope);
            }
            inference.visit(&objective.goal.body, Some(Type::Boolean), scope);
            for gain in &objective.utility.body {
                inference.visit(&gain.value, Some(Type::Numeric), scope);
            }
        }
    }
    inference.settle();
    inference.learned
}

/// Meaning of the names in an expression.
#[derive(Clone, Copy)]
struct Scope<'s> {
    /// Variables that stand for streams: their fields are all predefined.
    streams: &'s [&'s str],
}

/// Use of an application's field.
#[derive(Clone, Copy)]
struct Use<'a> {
    name: Name<'a>,
    of_channel: bool,
}

struct Inference<'a> {
    level: Level,
    learned: Inferred,
    /// Comparisons of two fields of unknown type.
    undecided: Vec<(Use<'a>, Use<'a>)>,
}

impl<'a> Inference<'a> {
    /// Records a type. Returns true if the field was new.
    fn learn(&mut self, name: Name<'_>, of_channel: bool, value: Type) -> bool {
        let vocabulary = &mut self.learned.vocabulary;
        let is_new = vocabulary.find(name.text, of_channel).is_none();
        match vocabulary.add(name.text, of_channel, value) {
            Ok(id) if is_new => {
                self.learned.first_uses.insert(id, name.span);
                true
            }
            _ => false,
        }
    }

    /// Records the types of fields that follow from `expr`, whose expected type is `wanted`, if known.
    fn visit(&mut self, expr: &Expr<'a>, wanted: Option<Type>, scope: Scope<'_>) {
        if let (Some(used), Some(wanted)) = (self.used(expr, scope), wanted) {
            self.learn(used.name, used.of_channel, wanted);
        }
        match &expr.kind {
            ExprKind::Unary { op, operand } => {
                let wanted = match op {
                    UnaryOp::Negate => Type::Numeric,
                    UnaryOp::Not => Type::Boolean,
                };
                self.visit(operand, Some(wanted), scope);
            }
            ExprKind::Call { arguments, .. } => {
                // Functions that take variables or distributions have no application fields inside.
                for argument in arguments {
                    if !matches!(argument.kind, ExprKind::Name(_)) {
                        self.visit(argument, Some(Type::Numeric), scope);
                    }
                }
            }
            ExprKind::Binary {
                op, left, right, ..
            } => {
                let wanted = match op {
                    BinaryOp::And | BinaryOp::Or => Some(Type::Boolean),
                    BinaryOp::Equal | BinaryOp::NotEqual => {
                        self.type_of(left, scope).or(self.type_of(right, scope))
                    }
                    _ => Some(Type::Numeric),
                };
                self.visit(left, wanted, scope);
                self.visit(right, wanted, scope);
                if wanted.is_none()
                    && let (Some(one), Some(other)) =
                        (self.used(left, scope), self.used(right, scope))
                {
                    self.undecided.push((one, other));
                }
            }
            _ => {}
        }
    }

    /// Examines the undecided comparisons until nothing more follows from them. Each round but the last learns a field,
    /// so there are at most `FIELDS_MAX` rounds.
    fn settle(&mut self) {
        let undecided = std::mem::take(&mut self.undecided);
        let mut learned = true;
        while std::mem::take(&mut learned) {
            for (one, other) in &undecided {
                let find = |used: &Use<'_>| {
                    let found = self
                        .learned
                        .vocabulary
                        .find(used.name.text, used.of_channel);
                    found.map(|(_, value)| value)
                };
                match (find(one), find(other)) {
                    (Some(value), None) => {
                        learned |= self.learn(other.name, other.of_channel, value);
                    }
                    (None, Some(value)) => {
                        learned |= self.learn(one.name, one.of_channel, value);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The application's field that the expression is, if it is one.
    fn used(&self, expr: &Expr<'a>, scope: Scope<'_>) -> Option<Use<'a>> {
        let (name, of_channel) = match expr.kind {
            ExprKind::Name(name) => (name, false),
            ExprKind::Field { variable, field } if !scope.streams.contains(&variable.text) => {
                (field, false)
            }
            ExprKind::Attribute { attribute, .. } => (attribute, true),
            _ => return None,
        };
        let is_ours = if of_channel {
            builtin::find(builtin::CHANNEL_FIELDS, name.text, self.level).is_some()
        } else {
            builtin::is_reserved(name.text, self.level)
        };
        (!is_ours).then_some(Use { name, of_channel })
    }

    /// Type of the expression, as far as its outermost part determines it.
    fn type_of(&self, expr: &Expr<'a>, scope: Scope<'_>) -> Option<Type> {
        if let Some(used) = self.used(expr, scope) {
            let found = self
                .learned
                .vocabulary
                .find(used.name.text, used.of_channel);
            return found.map(|(_, value)| value);
        }
        match &expr.kind {
            ExprKind::Boolean(_) => Some(Type::Boolean),
            ExprKind::Text(_) => Some(Type::String),
            ExprKind::Attribute { attribute, .. } => {
                let found = builtin::find(builtin::CHANNEL_FIELDS, attribute.text, self.level);
                found.map(|entry| entry.means.1)
            }
            ExprKind::Unary {
                op: UnaryOp::Not, ..
            } => Some(Type::Boolean),
            ExprKind::Binary { op, .. } => Some(match op {
                BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide => {
                    Type::Numeric
                }
                _ => Type::Boolean,
            }),
            ExprKind::Invalid => None,
            // Numbers, functions, and the language's own fields.
            _ => Some(Type::Numeric),
        }
    }
}
