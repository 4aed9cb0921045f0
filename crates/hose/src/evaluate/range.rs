//! Ranges of values: interval arithmetic [Moore, 1966] over the nodes of an objective, before its ADUs have slots.

use super::schedule::Schedule;
use crate::{
    NUMBER_MAX,
    fact::AduFact,
    program::{Binary, Node, NodeId, Objective, StreamRef, Unary},
};

/// The values that a node may have in any slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// False if there may be no value, which is a fault.
    pub is_known: bool,
}

/// Answers to facts about ADUs that have no slots yet.
pub trait Outlook {
    /// The range of answers to a fact that [depends on the slot](AduFact::is_of_slot), over all slots that the ADU may take, in the
    /// units of [`AduFact`]; [`Range::ANY`] where nothing can be said. A range that is too wide costs time; one that is too narrow
    /// hides contexts.
    fn range(&self, adu: u32, fact: AduFact) -> Range;
}

impl Range {
    /// Anything, or no value.
    pub const ANY: Self = Self {
        low: -NUMBER_MAX,
        high: NUMBER_MAX,
        is_known: false,
    };
    const TRUTH: Self = Self::new(0.0, 1.0);

    /// From the least to the greatest value; [`Range::ANY`] if one of them is NaN.
    pub const fn new(low: f64, high: f64) -> Self {
        if low.is_nan() || high.is_nan() {
            return Self::ANY;
        }
        Self {
            low,
            high,
            is_known: true,
        }
    }

    /// One value; [`Range::ANY`] if it is NaN.
    pub const fn of(value: f64) -> Self {
        Self::new(value, value)
    }

    /// True if the value is 0 in every slot, and always known.
    pub(super) fn is_never(self) -> bool {
        self.is_known && self.low == 0.0 && self.high == 0.0
    }

    fn is_zero(self) -> bool {
        self.low == 0.0 && self.high == 0.0
    }

    fn has_zero(self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }

    /// Under a function that never falls.
    fn map(self, of: impl Fn(f64) -> f64) -> Self {
        let (low, high) = (of(self.low), of(self.high));
        if low.is_nan() || high.is_nan() {
            return Self::ANY;
        }
        Self { low, high, ..self }
    }

    fn and(self, other: Self) -> Self {
        Self {
            is_known: self.is_known && other.is_known,
            ..other
        }
    }

    /// Limits numbers as the machine does.
    fn bounded(self) -> Self {
        self.map(|x| x.clamp(-NUMBER_MAX, NUMBER_MAX))
    }

    /// Over all pairs of ends.
    fn corners(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let ends = [(self.low, other.low), (self.low, other.high)];
        let others = [(self.high, other.low), (self.high, other.high)];
        let values = ends.into_iter().chain(others).map(|(x, y)| of(x, y));
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = values.fold(none, |(low, high), value| (low.min(value), high.max(value)));
        Self::new(low, high).and_known(self.is_known && other.is_known)
    }

    fn and_known(self, is_known: bool) -> Self {
        Self {
            is_known: self.is_known && is_known,
            ..self
        }
    }

    /// A comparison that holds if `is_sure`, and cannot if `is_out`.
    fn compared(self, other: Self, is_sure: bool, is_out: bool) -> Self {
        let truth = match (is_sure, is_out) {
            (true, _) => Self::of(1.0),
            (_, true) => Self::of(0.0),
            _ => Self::TRUTH,
        };
        truth.and_known(self.is_known && other.is_known)
    }
}

/// Ranges of the nodes of one objective.
pub(super) struct Ranges<'r, S: ?Sized, O: ?Sized> {
    pub(super) objective: &'r Objective,
    /// Facts that do not depend on slots.
    pub(super) schedule: &'r S,
    pub(super) outlook: &'r O,
    /// The ADU of each ADU variable; `None`: any.
    pub(super) bound: &'r [Option<u32>],
}

impl<S: Schedule + ?Sized, O: Outlook + ?Sized> Ranges<'_, S, O> {
    /// The range of a tree. Every value that the machine computes for it is in the range, or is one of a context that adds nothing.
    pub(super) fn of(&self, id: NodeId) -> Range {
        match self.objective.nodes[id.0 as usize] {
            Node::Constant(value) => Range::of(value),
            Node::Adu { variable, fact } => match self.bound[usize::from(variable)] {
                None => Range::ANY,
                Some(adu) if fact.is_of_slot() => {
                    self.known(self.outlook.range(adu, fact), fact.is_probability())
                }
                Some(adu) => {
                    let answer = Range::of(self.schedule.adu(adu, fact));
                    self.known(answer, fact.is_probability())
                }
            },
            Node::Stream {
                stream: StreamRef::Known(stream),
                fact,
            } => {
                let answer = Range::of(self.schedule.stream(stream, fact));
                self.known(answer, fact.is_probability())
            }
            Node::Stream { .. } => Range::ANY,
            Node::Correlated(one, other) => {
                let (one, other) = (usize::from(one), usize::from(other));
                match (self.bound[one], self.bound[other]) {
                    (Some(one), Some(other)) if one == other => Range::of(100.0),
                    _ => Range::new(0.0, 100.0).and_known(false),
                }
            }
            Node::Unary(op, operand) => {
                let x = self.of(operand);
                match op {
                    Unary::Negate => Range {
                        low: -x.high,
                        high: -x.low,
                        ..x
                    },
                    Unary::Not if x.is_zero() => Range::of(1.0).and_known(x.is_known),
                    Unary::Not if !x.has_zero() => Range::of(0.0).and_known(x.is_known),
                    Unary::Not => Range::TRUTH.and_known(x.is_known),
                    Unary::Abs if x.has_zero() => Range {
                        low: 0.0,
                        high: x.high.max(-x.low),
                        ..x
                    },
                    Unary::Abs => Range {
                        low: x.low.abs().min(x.high.abs()),
                        high: x.low.abs().max(x.high.abs()),
                        ..x
                    },
                }
            }
            Node::Binary(op, left, right) => self.binary(op, left, right),
        }
    }

    fn binary(&self, op: Binary, left: NodeId, right: NodeId) -> Range {
        let x = self.of(left);
        match op {
            // The right side is not evaluated.
            Binary::And if x.is_zero() => return Range::of(0.0).and_known(x.is_known),
            Binary::Or if !x.has_zero() => return Range::of(1.0).and_known(x.is_known),
            _ => {}
        }
        let y = self.of(right);
        let is_apart = x.high < y.low || y.high < x.low;
        let is_same = x.low == x.high && y.low == y.high && x.low == y.low;
        match op {
            Binary::Add => x.and(y).between(x.low + y.low, x.high + y.high).bounded(),
            Binary::Subtract => x.and(y).between(x.low - y.high, x.high - y.low).bounded(),
            Binary::Multiply => x.corners(y, |x, y| x * y).bounded(),
            // The quotient by 0 is 0, of a context that adds nothing.
            Binary::Divide if y.has_zero() => Range::ANY,
            Binary::Divide if self.objective.is_whole() => {
                x.corners(y, |x, y| (x / y).trunc()).bounded()
            }
            Binary::Divide => x.corners(y, |x, y| x / y).bounded(),
            Binary::Min => x.and(y).between(x.low.min(y.low), x.high.min(y.high)),
            Binary::Max => x.and(y).between(x.low.max(y.low), x.high.max(y.high)),
            Binary::Equal => x.compared(y, is_same, is_apart),
            Binary::NotEqual => x.compared(y, is_apart, is_same),
            Binary::LessEqual => x.compared(y, x.high <= y.low, x.low > y.high),
            Binary::GreaterEqual => x.compared(y, x.low >= y.high, x.high < y.low),
            Binary::Less => x.compared(y, x.high < y.low, x.low >= y.high),
            Binary::Greater => x.compared(y, x.low > y.high, x.high <= y.low),
            Binary::And if y.is_zero() => Range::of(0.0).and_known(x.is_known && y.is_known),
            Binary::And if !x.has_zero() => y.and_known(x.is_known),
            Binary::And => {
                Range::new(y.low.min(0.0), y.high.max(0.0)).and_known(x.is_known && y.is_known)
            }
            Binary::Or if x.is_zero() => y.and_known(x.is_known),
            Binary::Or => {
                Range::new(y.low.min(1.0), y.high.max(1.0)).and_known(x.is_known && y.is_known)
            }
        }
    }

    /// In the units of the language, as the machine converts the caller's answers.
    fn known(&self, answer: Range, is_probability: bool) -> Range {
        let scaled = match is_probability {
            true => answer.map(|x| x * 100.0),
            false => answer,
        };
        match self.objective.is_whole() {
            true => scaled.map(f64::round).bounded(),
            false => scaled.bounded(),
        }
    }
}

impl Range {
    fn between(self, low: f64, high: f64) -> Self {
        Self { low, high, ..self }
    }
}
