//! Latency-sensitive traffic of a session: the time of the last ADU of a latency-sensitive stream in each direction, and
//! the lifetime of what is sent.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_spec::LIFETIME_SHORT;

/// Time after its last ADU for which a latency-sensitive stream keeps one channel's queue short.
const MEMORY: Duration = Duration::from_secs(2);
/// Coalescing delay while latency-sensitive data flows.
const COALESCING_DELAY: Duration = Duration::from_millis(1);

/// Traffic of one direction, as it decides how long the queues of channels may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// No latency-sensitive data.
    Elastic,
    /// Latency-sensitive data that should be as early as possible, or that others share channels with.
    Urgent,
    /// Nothing but data that is useless after this lifetime, a short one.
    Live(Duration),
}

/// Latest latency-sensitive data. Key: session.
#[derive(Debug, Default)]
pub(super) struct Latency {
    sent_at: Option<Instant>,
    received_at: Option<Instant>,
    /// Shortest lifetime of the latency-sensitive data sent lately.
    lifetime: Option<Duration>,
    /// Time of the last data sent that has no lifetime.
    lasting_sent_at: Option<Instant>,
}

impl Latency {
    /// Notes an ADU of a latency-sensitive stream that the application handed over, and its lifetime.
    pub(super) fn note_sent(&mut self, now: Instant, lifetime: Option<Duration>) {
        let known = self.lifetime.filter(|_| self.is_sending(now));
        self.lifetime = known.into_iter().chain(lifetime).min();
        self.sent_at = Some(now);
    }

    /// Notes data without a lifetime that is sent.
    pub(super) fn note_lasting_sent(&mut self, now: Instant) {
        self.lasting_sent_at = Some(now);
    }

    /// Traffic that this side sends.
    pub(super) fn traffic(&self, now: Instant) -> Traffic {
        match self.lifetime {
            _ if !self.is_sending(now) => Traffic::Elastic,
            Some(lifetime)
                if lifetime <= LIFETIME_SHORT && !is_recent(self.lasting_sent_at, now) =>
            {
                Traffic::Live(lifetime)
            }
            _ => Traffic::Urgent,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: Duration = Duration::from_millis(300);

    #[test]
    fn the_shortest_lifetime_counts_while_all_data_has_one() {
        let mut latency = Latency::default();
        let at = Instant::from_secs;
        assert_eq!(latency.traffic(at(0)), Traffic::Elastic);
        for lifetime in [Duration::from_secs(1), LIVE, Duration::from_secs(2)] {
            latency.note_sent(at(1), Some(lifetime));
        }
        assert_eq!(latency.traffic(at(2)), Traffic::Live(LIVE));
        latency.note_lasting_sent(at(2));
        latency.note_sent(at(3), Some(LIVE));
        assert_eq!(latency.traffic(at(3)), Traffic::Urgent);
        assert_eq!(latency.traffic(at(4)), Traffic::Live(LIVE));
        assert_eq!(latency.traffic(at(5)), Traffic::Elastic);
    }

    /// An urgent stream whose data lives for long is one of messages, not of media.
    #[test]
    fn a_long_lifetime_permits_no_long_queue() {
        let mut latency = Latency::default();
        latency.note_sent(Instant::from_secs(1), Some(2 * LIFETIME_SHORT));
        assert_eq!(latency.traffic(Instant::from_secs(1)), Traffic::Urgent);
    }

    #[test]
    fn a_lifetime_is_forgotten_with_its_stream() {
        let mut latency = Latency::default();
        latency.note_sent(Instant::from_secs(1), Some(LIVE));
        latency.note_sent(Instant::from_secs(9), None);
        assert_eq!(latency.traffic(Instant::from_secs(9)), Traffic::Urgent);
    }
}
