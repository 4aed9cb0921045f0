//! Promises that still stand.

use crate::bandwidth::Sample;

use super::{experts::EXPERTS, state::Situation};

/// Outcome of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    Broken,
    /// A lower bound fell short of the promise, which gives no information.
    Unknown,
}

/// One point of time at which promises were made.
#[derive(Debug, Clone, Copy)]
struct Entry {
    situation: Situation,
    is_promised: bool,
    /// The least of the samples since, bounds replaced; infinite when none gave information.
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
    /// The last `hold` samples and what they are taken for, in a ring: those of the oldest promises' term.
    seen: Vec<Seen>,
    values: Vec<f64>,
    seen_next: usize,
    count: usize,
    next: usize,
    len: usize,
}

/// One sample.
#[derive(Debug, Clone, Copy)]
struct Seen {
    bps: f64,
    is_censored: bool,
}

/// Outcome of the samples of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) kept: usize,
    pub(super) broken: usize,
    pub(super) unknown: usize,
}

/// Promises whose time is over.
pub(super) struct Completed<'a> {
    pub(super) situation: &'a Situation,
    /// True if promises were made at all.
    pub(super) is_promised: bool,
    pub(super) promises: &'a [f64],
    pub(super) answers: &'a [f64],
    /// The least of the samples; `None` when nothing was learnt.
    pub(super) outcome: Option<f64>,
    /// Value that each of the samples is taken for, in no order; NaN for one that gives no information.
    pub(super) outcomes: &'a [f64],
    /// Index of the sequence of promises that do not overlap to which they belong, 0 to H − 1.
    pub(super) phase: usize,
    bound: f64,
    broken: u16,
    seen: &'a [Seen],
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

    /// Each sample on its own.
    pub(super) fn tally(&self, level: usize) -> Tally {
        let mut tally = Tally::default();
        for seen in self.seen {
            if seen.bps >= self.promises[level] {
                tally.kept += 1;
            } else if seen.is_censored {
                tally.unknown += 1;
            } else {
                tally.broken += 1;
            }
        }
        tally
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
            seen: vec![
                Seen {
                    bps: 0.0,
                    is_censored: true
                };
                hold
            ],
            values: vec![f64::NAN; hold],
            seen_next: 0,
            count,
            next: 0,
            len: 0,
        }
    }

    pub(super) fn hold(&self) -> usize {
        self.entries.len()
    }

    /// A sample came by which promises are judged as a whole; `value` is what it is taken for, `None` when it
    /// gives no information. Calls `broken(level)` for
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

    /// A sample came by which promises are judged each on its own; `value` is as in
    /// [`observe`](Self::observe).
    pub(super) fn record(&mut self, sample: &Sample, value: Option<f64>) {
        self.seen[self.seen_next] = Seen {
            bps: sample.bps(),
            is_censored: sample.is_censored(),
        };
        self.values[self.seen_next] = value.unwrap_or(f64::NAN);
        self.seen_next = (self.seen_next + 1) % self.seen.len();
    }

    /// The situation that lies back by the share `back`, in [0, 1), of those that still matter: at 0 the
    /// newest. `None` when there is none.
    pub(super) fn situation(&self, back: f64) -> Option<&Situation> {
        let hold = self.entries.len();
        let back = 1 + (back * self.len as f64) as usize;
        (back <= self.len).then(|| &self.entries[(self.next + hold - back) % hold].situation)
    }

    /// Index of the sequence of promises that do not overlap to which the next ones belong.
    pub(super) fn phase(&self) -> usize {
        self.next
    }

    /// Of the promises of `level` that stand, the share that `bps` breaks; `None` when none stands.
    pub(super) fn broken_share(&self, level: usize, bps: f64) -> Option<f64> {
        let hold = self.entries.len();
        let (mut broken, mut all) = (0.0, 0.0);
        for back in 1..=self.len {
            let index = (self.next + hold - back) % hold;
            if self.entries[index].is_promised {
                all += 1.0;
                broken += f64::from(u8::from(bps < self.promises[index * self.count + level]));
            }
        }
        (all > 0.0).then(|| broken / all)
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
            outcomes: &self.values,
            phase: self.next,
            seen: &self.seen,
        })
    }

    /// Promises made in `situation`, and the answers of the experts.
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
