//! Deadlines of a stream's queue, as runs in which they ascend: one while the lifetime of the stream stays, or becomes longer.

use std::collections::VecDeque;

use anabranch_base::Instant;

/// Sequences at which a run begins, after the first one. Boxed, because hardly any stream has several. Key: session, stream.
///
/// Invariant: not empty, ascending.
#[derive(Debug)]
struct Begins(VecDeque<u64>);

/// Runs of ascending deadlines. Key: session, stream.
#[derive(Debug, Default)]
pub(super) struct Runs(Option<Box<Begins>>);

impl Runs {
    /// Notes that an ADU with this deadline is queued behind one with the deadline `last`; `None`: it never becomes useless.
    pub(super) fn note(
        &mut self,
        sequence: u64,
        (last, deadline): (Option<Instant>, Option<Instant>),
    ) {
        let is_earlier = deadline.is_some_and(|at| last.is_none_or(|last| at < last));
        if is_earlier {
            let begins = (self.0).get_or_insert_with(|| Box::new(Begins(VecDeque::new())));
            begins.0.push_back(sequence);
        }
    }

    /// Forgets runs that begin at the first ADU of the queue, or before it.
    pub(super) fn forget_until(&mut self, first: u64) {
        let Some(begins) = &mut self.0 else {
            return;
        };
        while begins.0.front().is_some_and(|&begin| begin <= first) {
            begins.0.pop_front();
        }
        if begins.0.is_empty() {
            self.0 = None;
        }
    }

    /// Sequences at which a run begins, after the first.
    pub(super) fn begins(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(|begins| begins.0.iter().copied())
    }
}
