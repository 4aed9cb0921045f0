//! Clock of a peer, as it is estimated from messages that are answered at once [RFC 5905 §8]: applications tell by it how old
//! something is that the peer has dated.

use std::{collections::VecDeque, time::Duration};

/// Answers of which the one with the shortest round trip counts.
const SAMPLES: usize = 16;

/// Difference of a peer's clock and our own. The error is at most half of the round trip.
#[derive(Clone, Debug, Default)]
pub struct PeerClock {
    /// Round trip and difference of each answer, in microseconds.
    samples: VecDeque<(u64, i64)>,
}

/// Age of something that a peer has dated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Time since that date.
    pub age: Duration,
    /// Largest error of the age.
    pub error: Duration,
}

impl PeerClock {
    /// An answer: sent and received by our own clock, and the peer's clock between, in microseconds. One that cannot be is
    /// ignored.
    pub fn answered(&mut self, sent_us: u64, peer_us: u64, received_us: u64) {
        let Some(trip) = received_us.checked_sub(sent_us) else {
            return;
        };
        let middle = sent_us + trip / 2;
        let difference = i128::from(peer_us) - i128::from(middle);
        let Ok(difference) = i64::try_from(difference) else {
            return;
        };
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((trip, difference));
    }

    /// Age at our own time `now_us` of something that was dated by the peer's time `dated_us`; `None`: nothing was answered yet. An
    /// age is not below 0.
    pub fn age(&self, now_us: u64, dated_us: u64) -> Option<Age> {
        let (trip, difference) = self.samples.iter().min()?;
        let peer_now = i128::from(now_us) + i128::from(*difference);
        let age = (peer_now - i128::from(dated_us)).clamp(0, i128::from(u64::MAX));
        Some(Age {
            age: Duration::from_micros(age as u64),
            error: Duration::from_micros(trip / 2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_counts() {
        let mut clock = PeerClock::default();
        assert_eq!(clock.age(5, 0), None);
        // The peer is 1,000,000 ahead; the way back of the first takes longer.
        clock.answered(1_000, 1_001_500, 4_000);
        clock.answered(5_000, 1_005_100, 5_200);
        let age = clock.age(10_000, 990_000).unwrap();
        assert_eq!(age.age, Duration::from_micros(20_000));
        assert_eq!(age.error, Duration::from_micros(100));
        assert_eq!(clock.age(10_000, 2_000_000).unwrap().age, Duration::ZERO);
    }

    #[test]
    fn old_and_impossible_answers_do_not_count() {
        let mut clock = PeerClock::default();
        clock.answered(10, 0, 9);
        clock.answered(0, u64::MAX, 1);
        assert_eq!(clock.age(0, 0), None);
        clock.answered(0, 0, 2);
        for at in 0..SAMPLES as u64 {
            clock.answered(at, at + 50, at + 20);
        }
        assert_eq!(clock.age(0, 0).unwrap().error, Duration::from_micros(10));
        assert!(clock.age(u64::MAX, 0).is_some());
    }
}
