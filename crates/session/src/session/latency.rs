//! Latency-sensitive traffic of a session: the time of the last ADU of a latency-sensitive stream in each direction.

use std::time::Duration;

use anabranch_base::Instant;

/// Time after its last ADU for which a latency-sensitive stream keeps one channel's queue short.
const MEMORY: Duration = Duration::from_secs(2);
/// Coalescing delay while latency-sensitive data flows.
const COALESCING_DELAY: Duration = Duration::from_millis(1);

/// Latest latency-sensitive data. Key: session.
#[derive(Debug, Default)]
pub(super) struct Latency {
    sent_at: Option<Instant>,
    received_at: Option<Instant>,
}

impl Latency {
    /// Notes an ADU that the application handed over.
    pub(super) fn note_sent(&mut self, now: Instant) {
        self.sent_at = Some(now);
    }

    /// Notes a fragment from the peer.
    pub(super) fn note_received(&mut self, now: Instant) {
        self.received_at = Some(now);
    }

    /// True while this side sends latency-sensitive data: its packets should meet short queues.
    pub(super) fn is_sending(&self, now: Instant) -> bool {
        is_recent(self.sent_at, now)
    }

    /// Coalescing delay that latency-sensitive data in either direction permits; `None`: there is none.
    pub(super) fn coalescing_delay(&self, now: Instant) -> Option<Duration> {
        let flows = is_recent(self.sent_at, now) || is_recent(self.received_at, now);
        flows.then_some(COALESCING_DELAY)
    }
}

fn is_recent(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.since(at) < MEMORY)
}
