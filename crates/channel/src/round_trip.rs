//! Round trip of one packet, without the time for which the peer waited before it acknowledged.
//!
//! The peer states that time in its acknowledgement, and QUIC's estimator takes it off before it smooths; the controller is not
//! notified of it. The sample is recovered from two smoothed values. The estimator does not take it off where the rest would be shorter than
//! every round trip so far [RFC 9002 §5.3], and those of the handshake, whose packets are large, are often the only ones.

use std::time::Duration;

/// Rounding of two smoothed values.
const ROUNDING: Duration = Duration::from_nanos(64);

/// Evidence of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acknowledgement {
    /// The last sample of QUIC's estimator.
    pub(crate) stated: Duration,
    /// Shortest time from a packet to its acknowledgement so far.
    pub(crate) shortest: Duration,
    /// Time after which the peer was asked to acknowledge.
    pub(crate) delay_max: Duration,
    /// It is for one packet, and came without data that could have taken it along: the peer waited for as long as it was asked to.
    pub(crate) alone: bool,
}

impl Acknowledgement {
    /// Round trip of a packet that was acknowledged after `raw`.
    pub fn round_trip(&self, raw: Duration) -> Duration {
        if self.stated + ROUNDING < raw {
            self.stated
        } else if self.alone && raw < self.shortest.saturating_add(self.delay_max) {
            // One that came earlier had another cause.
            raw.checked_sub(self.delay_max).unwrap_or(raw)
        } else {
            raw
        }
    }
}

/// The sample that changed the smoothed round trip from `before` to `now`: smoothed = 7/8 smoothed + 1/8 sample [RFC 9002 §5.3].
pub(crate) fn sample(before: Duration, now: Duration) -> Duration {
    (8 * now).saturating_sub(7 * before)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_sample_is_recovered() {
        let smoothed = Duration::from_nanos(40_123_457);
        for of in [ms(1), ms(40), ms(900)] {
            let now = (7 * smoothed + of) / 8;
            let found = sample(smoothed, now);
            assert!(found <= of && of - found < ROUNDING, "{found:?} of {of:?}");
        }
    }

    #[test]
    fn the_delay_of_the_peer_is_taken_off() {
        let acknowledgement = |stated: u64, alone: bool| Acknowledgement {
            stated: ms(stated),
            shortest: ms(101),
            delay_max: ms(4),
            alone,
        };
        // As QUIC did.
        assert_eq!(acknowledgement(102, true).round_trip(ms(106)), ms(102));
        // QUIC did not, because the rest is below the shortest.
        assert_eq!(acknowledgement(104, true).round_trip(ms(104)), ms(100));
        // Nothing shows a delay.
        assert_eq!(acknowledgement(104, false).round_trip(ms(104)), ms(104));
        assert_eq!(acknowledgement(120, true).round_trip(ms(120)), ms(120));
    }
}
