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
    /// The least of the lower bounds since.
    bound: f64,
    /// One bit for each level whose promise is broken.
    broken: u16,
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
    bound: f64,
    broken: u16,
}

impl Completed<'_> {
    pub(super) fn verdict(&self, level: usize) -> Verdict {
        if self.broken & 1 << level != 0 {
            Verdict::Broken
        } else if self.bound < self.promises[level] {
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
            bound: f64::INFINITY,
            broken: 0,
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

    /// A sample came; `value` is what it is taken for, `None` when it says nothing. Calls `broken(level)` for
    /// each promise that it breaks, which is at once and not when the promise's time is over.
    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        value: Option<f64>,
        mut broken: impl FnMut(usize),
    ) {
        let hold = self.entries.len();
        let bps = sample.bps();
        for back in 1..=self.len {
            let index = (self.next + hold - back) % hold;
            let entry = &mut self.entries[index];
            entry.outcome = entry.outcome.min(value.unwrap_or(f64::INFINITY));
            if sample.is_censored() {
                entry.bound = entry.bound.min(bps);
            } else if entry.is_promised {
                let promises = &self.promises[index * self.count..][..self.count];
                for (level, &promise) in promises.iter().enumerate() {
                    if bps < promise && entry.broken & 1 << level == 0 {
                        entry.broken |= 1 << level;
                        broken(level);
                    }
                }
            }
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
            bound: entry.bound,
            broken: entry.broken,
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
            bound: f64::INFINITY,
            broken: 0,
        };
        self.promises[self.next * promises.len()..][..promises.len()].copy_from_slice(promises);
        self.answers[self.next * answers.len()..][..answers.len()].copy_from_slice(answers);
        self.next = (self.next + 1) % self.entries.len();
        self.len += 1;
    }
}
