//! Deadlines of a stream's queue, as runs in which they ascend: one while the lifetime of the stream stays, or becomes longer.

use std::collections::VecDeque;

use anabranch_base::Instant;

/// Runs of ascending deadlines: the sequences at which one begins, after the first, ascending.
#[derive(Debug, Default)]
pub(super) struct Runs(VecDeque<u64>);

impl Runs {
    /// True if a run begins with an ADU with this deadline that is queued behind one with the deadline `last`; `None`: it never becomes
    /// useless.
    pub(super) fn begins_anew(last: Option<Instant>, deadline: Option<Instant>) -> bool {
        deadline.is_some_and(|at| last.is_none_or(|last| at < last))
    }

    /// Notes that a run begins with this ADU.
    pub(super) fn begin(&mut self, sequence: u64) {
        self.0.push_back(sequence);
    }

    /// Forgets runs that begin at the first ADU of the queue, or before it.
    pub(super) fn forget_until(&mut self, first: u64) {
        while self.0.front().is_some_and(|&begin| begin <= first) {
            self.0.pop_front();
        }
    }

    /// Sequences at which a run begins, after the first.
    pub(super) fn begins(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
}
