//! Evaluation of one node in one context.

use anabranch_base::StreamId;

use super::{
    faults::Faults,
    schedule::{Nothing, Schedule},
};
use crate::{
    NUMBER_MAX,
    fact::StreamFact,
    program::{
        ADU_VARIABLES_MAX, Binary, LABELLED_MAX, Labelled, Node, NodeId, Objective, StreamRef,
        Unary,
    },
};

/// Bindings of variables to streams by label that are tried for one binding of the ADU variables.
const STREAM_BINDINGS_MAX: u32 = 1_024;

/// Evaluator of the nodes of one objective. No allocation; recursion is bounded by the depth of expressions.
pub(crate) struct Machine<'m, S: ?Sized> {
    nodes: &'m [Node],
    pub(crate) schedule: &'m S,
    /// True for the published language: numbers are rounded, and division leaves no fraction.
    is_whole: bool,
    /// ADUs bound to the ADU variables so far.
    pub(crate) bound: [u32; ADU_VARIABLES_MAX],
    /// Streams bound to the variables that are bound by label.
    pub(crate) streams: [StreamId; LABELLED_MAX],
    /// Faults since they were last taken.
    pub(crate) faults: Faults,
}

/// Value of a tree without variables; `None` if it has none.
pub(crate) fn constant(nodes: &[Node], root: NodeId) -> Option<f64> {
    let mut machine = Machine {
        nodes,
        schedule: &Nothing,
        is_whole: false,
        bound: [0; ADU_VARIABLES_MAX],
        streams: [StreamId(0); LABELLED_MAX],
        faults: Faults::NONE,
    };
    let value = machine.value(root);
    machine.faults.is_empty().then_some(value)
}

impl<'m, S: Schedule + ?Sized> Machine<'m, S> {
    pub(crate) fn new(objective: &'m Objective, schedule: &'m S) -> Self {
        Self {
            nodes: &objective.nodes,
            schedule,
            is_whole: objective.is_whole(),
            bound: [0; ADU_VARIABLES_MAX],
            streams: [StreamId(0); LABELLED_MAX],
            faults: Faults::NONE,
        }
    }

    /// Calls `at` with each binding of the variables that are bound by label: once if there are none. Of too many bindings,
    /// the first [`STREAM_BINDINGS_MAX`] are taken.
    pub(crate) fn each_stream<F>(&mut self, labelled: &[Labelled], at: &mut F)
    where
        F: FnMut(&mut Self),
    {
        let mut left = STREAM_BINDINGS_MAX;
        self.bind_stream(labelled, 0, &mut left, at);
    }

    fn bind_stream<F>(&mut self, labelled: &[Labelled], number: usize, left: &mut u32, at: &mut F)
    where
        F: FnMut(&mut Self),
    {
        let Some(wanted) = labelled.get(number) else {
            at(self);
            return;
        };
        for index in 0.. {
            let Some((stream, label)) = self.schedule.labelled(index) else {
                return;
            };
            if label != wanted.symbol {
                continue;
            }
            if *left == 0 {
                self.faults = self.faults.union(Faults::TOO_MANY_CONTEXTS);
                return;
            }
            *left -= 1;
            self.streams[number] = stream;
            self.bind_stream(labelled, number + 1, left, at);
        }
    }

    /// True if a part of a filter is true. False if it cannot be determined.
    pub(crate) fn passes(&mut self, root: NodeId) -> bool {
        // NaN is not above 0.
        self.value_of_filter(root) > 0.0
    }

    /// Number with which a filter compares; NaN if it has no value.
    pub(crate) fn value_of_filter(&mut self, root: NodeId) -> f64 {
        let before = std::mem::take(&mut self.faults);
        let value = self.value(root);
        let is_sound = self.is_sound();
        self.faults = before.union(self.faults.without(Faults::UNKNOWN));
        if is_sound { value } else { f64::NAN }
    }

    /// Gain of the context; 0 unless its goal is true and everything in it is known.
    pub(crate) fn gain(&mut self, objective: &Objective) -> f64 {
        let before = std::mem::take(&mut self.faults);
        let gain = self.outcome(objective);
        self.faults = self.faults.union(before);
        gain.unwrap_or(0.0)
    }

    /// Gain of the context; `None` unless its goal is true and everything in it is known. To be called without faults.
    pub(super) fn outcome(&mut self, objective: &Objective) -> Option<f64> {
        let is_met = self.value(objective.goal) != 0.0;
        let mut sum = 0.0;
        if is_met {
            for &(_, value) in &objective.gains {
                sum += self.value(value);
            }
        }
        (is_met && self.is_sound()).then_some(sum)
    }

    /// True if everything that was evaluated since the faults were taken has a value.
    pub(crate) fn is_sound(&self) -> bool {
        let unsound = Faults::UNKNOWN.union(Faults::DIVISION_BY_ZERO);
        self.faults.without(unsound) == self.faults
    }

    /// Value of a tree; booleans are 0 and 1. `&&` and `||` evaluate their right side only if the left one does not
    /// decide.
    pub(crate) fn value(&mut self, id: NodeId) -> f64 {
        match self.nodes[id.0 as usize] {
            Node::Constant(value) => value,
            Node::Adu { variable, fact } => {
                let adu = self.bound[usize::from(variable)];
                let known = self.schedule.adu(adu, fact);
                self.known(known, fact.is_probability())
            }
            Node::Stream { stream, fact } => {
                let stream = match stream {
                    StreamRef::Known(id) => id,
                    StreamRef::Labelled(number) => self.streams[usize::from(number)],
                };
                let known = match fact {
                    StreamFact::StreamId => stream.0 as f64,
                    fact => self.schedule.stream(stream, fact),
                };
                self.known(known, fact.is_probability())
            }
            Node::Correlated(one, other) => {
                let (one, other) = (self.bound[usize::from(one)], self.bound[usize::from(other)]);
                // Given that an ADU is lost, it is lost with certainty.
                let known = if one == other {
                    1.0
                } else {
                    self.schedule.correlated_loss(one, other)
                };
                self.known(known, true)
            }
            Node::Unary(op, operand) => {
                let x = self.value(operand);
                match op {
                    Unary::Negate => -x,
                    Unary::Not => truth(x == 0.0),
                    Unary::Abs => x.abs(),
                }
            }
            Node::Binary(op, left, right) => self.binary(op, left, right),
        }
    }

    fn binary(&mut self, op: Binary, left: NodeId, right: NodeId) -> f64 {
        let x = self.value(left);
        match op {
            Binary::And if x == 0.0 => return 0.0,
            Binary::Or if x != 0.0 => return 1.0,
            _ => {}
        }
        let y = self.value(right);
        match op {
            Binary::Add => self.in_range(x + y),
            Binary::Subtract => self.in_range(x - y),
            Binary::Multiply => self.in_range(x * y),
            Binary::Divide => self.quotient(x, y),
            Binary::Min => x.min(y),
            Binary::Max => x.max(y),
            Binary::Equal => truth(x == y),
            Binary::NotEqual => truth(x != y),
            Binary::LessEqual => truth(x <= y),
            Binary::GreaterEqual => truth(x >= y),
            Binary::Less => truth(x < y),
            Binary::Greater => truth(x > y),
            Binary::And | Binary::Or => y,
        }
    }

    fn quotient(&mut self, x: f64, y: f64) -> f64 {
        if y == 0.0 {
            self.faults = self.faults.union(Faults::DIVISION_BY_ZERO);
            return 0.0;
        }
        let quotient = x / y;
        self.in_range(if self.is_whole {
            quotient.trunc()
        } else {
            quotient
        })
    }

    /// Converts the caller's answer to the units of the language.
    fn known(&mut self, answer: f64, is_probability: bool) -> f64 {
        if answer.is_nan() {
            self.faults = self.faults.union(Faults::UNKNOWN);
            return 0.0;
        }
        let value = if is_probability {
            answer * 100.0
        } else {
            answer
        };
        self.in_range(if self.is_whole { value.round() } else { value })
    }

    fn in_range(&mut self, value: f64) -> f64 {
        if value.abs() <= NUMBER_MAX {
            return value;
        }
        self.faults = self.faults.union(Faults::OVERFLOW);
        NUMBER_MAX.copysign(value)
    }
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}
