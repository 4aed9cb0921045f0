//! Promises that still stand.

use crate::bandwidth::Sample;

use super::{experts::EXPERTS, state::Situation};

/// What became of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    Broken,
    /// A lower bound fell short of the promise, which says nothing.
    Unknown,
}

/// One point of time at which promises were made.
#[derive(Debug, Clone, Copy)]
struct Entry {
    situation: Situation,
    is_promised: bool,
    /// The least of the samples since, bounds replaced; infinite when none said anything.
    outcome: f64,
    /// The least of the exact samples since, and of the lower bounds.
    exact: f64,
    bound: f64,
}

/// The promises of the last `hold` points of time, oldest first, in a ring.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    entries: Vec<Entry>,
    /// Of each entry, one row.
    promises: Vec<f64>,
    answers: Vec<f64>,
    count: usize,
    next: usize,
    len: usize,
}

/// Promises whose time is over.
pub(super) struct Completed<'a> {
    pub(super) situation: &'a Situation,
    /// Whether promises were made at all.
    pub(super) is_promised: bool,
    pub(super) promises: &'a [f64],
    pub(super) answers: &'a [f64],
    /// The least of the samples; `None` when nothing was learnt.
    pub(super) outcome: Option<f64>,
    exact: f64,
    bound: f64,
}

impl Completed<'_> {
    pub(super) fn verdict(&self, promise: f64) -> Verdict {
        if self.exact < promise {
            Verdict::Broken
        } else if self.bound < promise {
            Verdict::Unknown
        } else {
            Verdict::Kept
        }
    }
}

impl Pending {
    /// For promises of `count` levels that stand for `hold` samples.
    pub(super) fn new(hold: usize, count: usize) -> Self {
        let entry = Entry {
            situation: Situation::default(),
            is_promised: false,
            outcome: f64::INFINITY,
            exact: f64::INFINITY,
            bound: f64::INFINITY,
        };
        Self {
            entries: vec![entry; hold],
            promises: vec![0.0; hold * count],
            answers: vec![0.0; hold * count * EXPERTS],
            count,
            next: 0,
            len: 0,
        }
    }

    pub(super) fn hold(&self) -> usize {
        self.entries.len()
    }

    /// A sample came; `value` is what it is taken for, `None` when it says nothing.
    pub(super) fn observe(&mut self, sample: &Sample, value: Option<f64>) {
        let hold = self.entries.len();
        for back in 1..=self.len {
            let entry = &mut self.entries[(self.next + hold - back) % hold];
            let least = if sample.is_censored() {
                &mut entry.bound
            } else {
                &mut entry.exact
            };
            *least = least.min(sample.bps());
            entry.outcome = entry.outcome.min(value.unwrap_or(f64::INFINITY));
        }
    }

    /// Takes out the oldest promises if their time is over.
    pub(super) fn completed(&mut self) -> Option<Completed<'_>> {
        if self.len < self.entries.len() {
            return None;
        }
        self.len -= 1;
        // In a full ring the oldest is where the next will be.
        let entry = &self.entries[self.next];
        let (promises, answers) = (self.count, self.count * EXPERTS);
        Some(Completed {
            situation: &entry.situation,
            is_promised: entry.is_promised,
            promises: &self.promises[self.next * promises..][..promises],
            answers: &self.answers[self.next * answers..][..answers],
            outcome: entry.outcome.is_finite().then_some(entry.outcome),
            exact: entry.exact,
            bound: entry.bound,
        })
    }

    /// Promises made in `situation`, and what the experts had said.
    pub(super) fn promise(
        &mut self,
        is_promised: bool,
        situation: &Situation,
        promises: &[f64],
        answers: &[f64],
    ) {
        self.entries[self.next] = Entry {
            situation: *situation,
            is_promised,
            outcome: f64::INFINITY,
            exact: f64::INFINITY,
            bound: f64::INFINITY,
        };
        self.promises[self.next * promises.len()..][..promises.len()].copy_from_slice(promises);
        self.answers[self.next * answers.len()..][..answers.len()].copy_from_slice(answers);
        self.next = (self.next + 1) % self.entries.len();
        self.len += 1;
    }
}
