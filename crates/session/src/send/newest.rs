//! Turn of a stream whose newest ADU is sent first.

use std::collections::VecDeque;

/// Sequences of the ADUs that have unsent bytes. One that has ended otherwise stays until it would be next, or all before it have ended.
#[derive(Debug, Default)]
pub(super) struct Newest {
    waiting: VecDeque<u64>,
    /// The one of which a part was sent: the rest of it goes before all others.
    begun: Option<u64>,
}

impl Newest {
    pub(super) fn push(&mut self, sequence: u64) {
        self.waiting.push_back(sequence);
    }

    /// The ADU whose bytes are sent next.
    pub(super) fn next(&self) -> Option<u64> {
        self.begun.or_else(|| self.waiting.back().copied())
    }

    /// The ADU of which a part was sent.
    pub(super) fn begun(&self) -> Option<u64> {
        self.begun
    }

    /// Bytes of this ADU were sent, and it may have more of them.
    pub(super) fn note_sent(&mut self, sequence: u64) {
        self.begun = Some(sequence);
    }

    /// Forgets what does not wait any more, and all ADUs before `first`. Amortised O(1).
    pub(super) fn settle(&mut self, first: u64, waits: impl Fn(u64) -> bool) {
        self.begun = self.begun.filter(|&begun| waits(begun));
        while self.waiting.back().is_some_and(|&last| !waits(last)) {
            self.waiting.pop_back();
        }
        while self.waiting.front().is_some_and(|&oldest| oldest < first) {
            self.waiting.pop_front();
        }
    }
}
