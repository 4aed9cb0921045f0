//! Batch evaluation: the gain of an objective over one ADU in many slots at once.
//!
//! A tree is walked once for many slots: each of its nodes is computed for all of them in a loop without branches. The
//! results are those of [`Objective::gain`], bit for bit: the same operations in the same order. If anything goes wrong
//! in any of the slots (an unknown value, a division by zero, a number out of range), those slots are evaluated one by
//! one instead.

use super::{faults::Faults, schedule::Schedule};
use crate::{
    NUMBER_MAX,
    fact::AduFact,
    program::{Binary, Node, NodeId, Objective, Shape, StreamRef, Unary},
};

/// Number of slots that are evaluated in one batch.
const BATCH: usize = 64;

type Column = [f64; BATCH];

/// One ADU, and the candidate slots for it.
pub trait Places {
    /// A schedule in which the ADU is in one of the slots.
    type One<'p>: Schedule
    where
        Self: 'p;

    /// Number of slots.
    fn count(&self) -> usize;

    /// Number of the ADU in the schedules of [`one`](Self::one).
    fn adu(&self) -> u32;

    /// The schedule with the ADU in slot `at`, below [`count`](Self::count).
    fn one(&self, at: usize) -> Self::One<'_>;

    /// Fills `answers` with a fact that [depends on the slot](AduFact::is_of_slot), for the slots from `from` on: the
    /// answers of the schedules of [`one`](Self::one), up to the length of `answers`.
    fn fill(&self, fact: AduFact, from: usize, answers: &mut [f64]);
}

/// Working memory of [`Objective::gains`]: pending operands, by depth.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    levels: Vec<Column>,
}

/// Value of a node.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// The same in all slots.
    Same(f64),
    /// One value per slot, in the batch of its level.
    Each,
}

impl Objective {
    /// Writes the result of [`gain`](Self::gain) for each slot of `places`, the first into `gains[0]`. `faults` are added
    /// to. 0 for objectives of another shape.
    ///
    /// O(nodes × slots); no allocation after the first call with such a deep objective.
    ///
    /// # Panics
    /// `gains` is shorter than there are slots.
    pub fn gains<P: Places>(
        &self,
        places: &P,
        batch: &mut Batch,
        gains: &mut [f64],
        faults: &mut Faults,
    ) {
        let gains = &mut gains[..places.count()];
        if self.shape() != Shape::Single {
            gains.fill(0.0);
            return;
        }
        for (chunk, gains) in gains.chunks_mut(BATCH).enumerate() {
            let from = chunk * BATCH;
            let mut walk = Walk {
                nodes: &self.nodes,
                places,
                slots: from..from + gains.len(),
                is_whole: self.is_whole(),
                // Bindings to streams are enumerated slot by slot.
                is_sound: self.labelled.is_empty(),
                levels: &mut batch.levels,
            };
            if walk.is_sound {
                walk.gains(self, gains);
            }
            if !walk.is_sound {
                for (at, gain) in gains.iter_mut().enumerate() {
                    *gain = self.gain(&places.one(from + at), places.adu(), faults);
                }
            }
        }
    }
}

struct Walk<'w, P> {
    nodes: &'w [Node],
    places: &'w P,
    slots: std::ops::Range<usize>,
    is_whole: bool,
    /// True while nothing has gone wrong in any slot of the batch.
    is_sound: bool,
    levels: &'w mut Vec<Column>,
}

impl<P: Places> Walk<'_, P> {
    fn gains(&mut self, objective: &Objective, gains: &mut [f64]) {
        let goal = self.value(objective.goal, 0);
        let goal: Column = match goal {
            Value::Same(0.0) => {
                gains.fill(0.0);
                return;
            }
            Value::Same(goal) => [goal; BATCH],
            Value::Each => self.levels[0],
        };
        let mut sum: Column = [0.0; BATCH];
        for &(_, node) in &objective.gains {
            match self.value(node, 0) {
                Value::Same(value) => sum.iter_mut().for_each(|sum| *sum += value),
                Value::Each => {
                    let values = &self.levels[0];
                    sum.iter_mut().zip(values).for_each(|(sum, x)| *sum += x);
                }
            }
        }
        for ((gain, sum), goal) in gains.iter_mut().zip(sum).zip(goal) {
            *gain = if goal != 0.0 { sum } else { 0.0 };
        }
    }

    /// Value of a tree. Per-slot values are stored at `level`, and lower levels are left unchanged. Entries beyond the
    /// last slot repeat the last slot's value.
    fn value(&mut self, id: NodeId, level: usize) -> Value {
        match self.nodes[id.0 as usize] {
            Node::Constant(value) => Value::Same(value),
            Node::Adu { fact, .. } if fact.is_of_slot() => {
                self.fill(fact, level);
                self.known(Value::Each, fact.is_probability(), level)
            }
            Node::Adu { fact, .. } => {
                let places = self.places;
                let answer = places.one(self.slots.start).adu(places.adu(), fact);
                self.known(Value::Same(answer), fact.is_probability(), level)
            }
            Node::Stream { stream, fact } => {
                let StreamRef::Known(stream) = stream else {
                    return self.check(Value::Same(f64::NAN), level);
                };
                let answer = self.places.one(self.slots.start).stream(stream, fact);
                self.known(Value::Same(answer), fact.is_probability(), level)
            }
            // There is only one variable: given that it is lost, it is lost with certainty.
            Node::Correlated(..) => self.known(Value::Same(1.0), true, level),
            Node::Unary(op, operand) => {
                let x = self.value(operand, level);
                match op {
                    Unary::Negate => self.map(x, level, |x| -x),
                    Unary::Not => self.map(x, level, |x| truth(x == 0.0)),
                    Unary::Abs => self.map(x, level, f64::abs),
                }
            }
            Node::Binary(op, left, right) => self.binary(op, left, right, level),
        }
    }

    fn fill(&mut self, fact: AduFact, level: usize) {
        if self.levels.len() <= level {
            self.levels.resize(level + 1, [0.0; BATCH]);
        }
        let batch = &mut self.levels[level];
        let count = self.slots.len();
        self.places
            .fill(fact, self.slots.start, &mut batch[..count]);
        let last = batch[count - 1];
        batch[count..].fill(last);
    }

    fn binary(&mut self, op: Binary, left: NodeId, right: NodeId, level: usize) -> Value {
        let x = self.value(left, level);
        match (op, x) {
            (Binary::And, Value::Same(0.0)) => return Value::Same(0.0),
            (Binary::Or, Value::Same(x)) if x != 0.0 => return Value::Same(1.0),
            _ => {}
        }
        let above = level + usize::from(matches!(x, Value::Each));
        let y = self.value(right, above);
        let value = match op {
            Binary::Add => self.both(x, y, level, |x, y| x + y),
            Binary::Subtract => self.both(x, y, level, |x, y| x - y),
            Binary::Multiply => self.both(x, y, level, |x, y| x * y),
            // Division by zero gives infinity or NaN, which is out of range.
            Binary::Divide if self.is_whole => self.both(x, y, level, |x, y| (x / y).trunc()),
            Binary::Divide => self.both(x, y, level, |x, y| x / y),
            Binary::Min => return self.both(x, y, level, f64::min),
            Binary::Max => return self.both(x, y, level, f64::max),
            Binary::Equal => return self.both(x, y, level, |x, y| truth(x == y)),
            Binary::NotEqual => return self.both(x, y, level, |x, y| truth(x != y)),
            Binary::LessEqual => return self.both(x, y, level, |x, y| truth(x <= y)),
            Binary::GreaterEqual => return self.both(x, y, level, |x, y| truth(x >= y)),
            Binary::Less => return self.both(x, y, level, |x, y| truth(x < y)),
            Binary::Greater => return self.both(x, y, level, |x, y| truth(x > y)),
            Binary::And => {
                return self.both(x, y, level, |x, y| if x == 0.0 { 0.0 } else { y });
            }
            Binary::Or => {
                return self.both(x, y, level, |x, y| if x == 0.0 { y } else { 1.0 });
            }
        };
        self.check(value, level)
    }

    fn known(&mut self, answer: Value, is_probability: bool, level: usize) -> Value {
        let value = match (is_probability, self.is_whole) {
            (true, true) => self.map(answer, level, |x| rounded(x * 100.0)),
            (true, false) => self.map(answer, level, |x| x * 100.0),
            (false, true) => self.map(answer, level, rounded),
            (false, false) => answer,
        };
        self.check(value, level)
    }

    /// Records numbers that are out of range, and NaN.
    fn check(&mut self, value: Value, level: usize) -> Value {
        let is_in_range = |x: f64| x.abs() <= NUMBER_MAX;
        self.is_sound &= match value {
            Value::Same(x) => is_in_range(x),
            Value::Each => {
                let batch = self.levels[level].iter();
                batch.fold(true, |all, &x| all & is_in_range(x))
            }
        };
        value
    }

    #[inline(always)]
    fn map(&mut self, x: Value, level: usize, of: impl Fn(f64) -> f64) -> Value {
        match x {
            Value::Same(x) => Value::Same(of(x)),
            Value::Each => {
                self.levels[level].iter_mut().for_each(|x| *x = of(*x));
                Value::Each
            }
        }
    }

    /// Combines two values. Those of `x` are at `level`, and so are those of `y` unless `x` has per-slot values: then
    /// they are one above.
    #[inline(always)]
    fn both(&mut self, x: Value, y: Value, level: usize, of: impl Fn(f64, f64) -> f64) -> Value {
        match (x, y) {
            (Value::Same(x), Value::Same(y)) => return Value::Same(of(x, y)),
            (Value::Same(x), Value::Each) => {
                self.levels[level].iter_mut().for_each(|y| *y = of(x, *y));
            }
            (Value::Each, Value::Same(y)) => {
                self.levels[level].iter_mut().for_each(|x| *x = of(*x, y));
            }
            (Value::Each, Value::Each) => {
                let (below, above) = self.levels.split_at_mut(level + 1);
                let batch = below[level].iter_mut().zip(&above[0]);
                batch.for_each(|(x, y)| *x = of(*x, *y));
            }
        }
        Value::Each
    }
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// [`f64::round`], in code that can be vectorised. NaN stays NaN, of any kind.
#[inline(always)]
fn rounded(x: f64) -> f64 {
    // From here on there are no fractions; adding it rounds to the nearest whole number, ties to even.
    const WHOLE: f64 = 4_503_599_627_370_496.0;
    let size = x.abs();
    let near = (size + WHOLE) - WHOLE;
    let away = if size - near == 0.5 { near + 1.0 } else { near };
    let size = if size < WHOLE { away } else { size };
    size.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nan_stays_nan() {
        let signalling = f64::from_bits(0x7ff0_0000_0000_0001);
        assert!(
            rounded(f64::NAN).is_nan()
                && rounded(signalling).is_nan()
                && rounded(-signalling).is_nan()
        );
    }

    proptest! {
        #[test]
        fn rounding_is_that_of_the_library(bits in any::<u64>(), x in -1e7..1e7_f64, half in -99_999_i32..99_999) {
            let few = [0.499_999_999_999_999_94, -0.0, f64::INFINITY, 4_503_599_627_370_495.5];
            for x in [f64::from_bits(bits), x, f64::from(half) / 2.0].into_iter().chain(few) {
                let (ours, theirs) = (rounded(x), x.round());
                // The machine chooses which of the many NaNs an operation returns.
                prop_assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{}", x);
            }
        }
    }
}
