//! Clock of a peer, as it is estimated from messages that are answered at once [RFC 5905 §8]: applications tell by it how old
//! something is that the peer has dated.

use std::{collections::VecDeque, time::Duration};

/// Answers of which the one with the shortest round trip counts.
const SAMPLES: usize = 16;
/// Our own time in which two clocks drift apart by one unit at most: each may be slewed by 500 in a million [RFC 5905 §11.3].
const DRIFT: u64 = 1_000;

/// Difference of a peer's clock and our own. The error is at most half of the round trip.
///
/// A clock may jump: those of most systems stand still while the machine sleeps. What an answer contradicts, beyond the errors of
/// both and what clocks drift, is forgotten, so that ages are right from the first answer after a jump on.
#[derive(Clone, Debug, Default)]
pub struct PeerClock {
    samples: VecDeque<Sample>,
}

/// An answer, in microseconds; they are ordered by round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sample {
    trip: u64,
    /// By so much the peer's clock is ahead of ours.
    ahead: i64,
    received: u64,
}

impl Sample {
    /// True if there is a difference of two steady clocks by which both answers are as they are.
    fn agrees(self, other: Self) -> bool {
        let errors = self.trip / 2 + other.trip / 2;
        let drift = self.received.abs_diff(other.received) / DRIFT;
        self.ahead.abs_diff(other.ahead) <= errors.saturating_add(drift).saturating_add(1)
    }
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
        let Ok(ahead) = i64::try_from(difference) else {
            return;
        };
        let sample = Sample {
            trip,
            ahead,
            received: received_us,
        };
        self.samples.retain(|known| known.agrees(sample));
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Age at our own time `now_us` of something that was dated by the peer's time `dated_us`; `None`: nothing was answered yet. An
    /// age is not below 0.
    pub fn age(&self, now_us: u64, dated_us: u64) -> Option<Age> {
        let Sample { trip, ahead, .. } = self.samples.iter().min()?;
        let peer_now = i128::from(now_us) + i128::from(*ahead);
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

    /// One of both machines slept for half a minute, in which its clock stood still: the next answer says so, whatever its round trip.
    #[test]
    fn a_clock_that_jumps_is_followed_at_once() {
        for jump_us in [30_000_000, 0] {
            let mut clock = PeerClock::default();
            let second = |number: u64| 1_000_000 * number;
            for number in 0..20 {
                clock.answered(
                    second(number),
                    second(number) + 50_100,
                    second(number) + 200,
                );
            }
            let age = clock.age(second(20), second(20)).unwrap();
            assert_eq!(age.age, Duration::from_micros(50_000));
            // Ours has gone on by a minute, or by half of one; the peer's by the other.
            let now = second(20) + 60_000_000 - jump_us;
            let peer_us = second(20) + 30_000_000 + jump_us;
            clock.answered(now, peer_us, now + 400_000);
            let age = clock.age(now + 400_000, peer_us).unwrap();
            assert_eq!(age.age, Duration::from_micros(200_000));
            assert_eq!(age.error, Duration::from_micros(200_000));
        }
    }

    /// Clocks that drift by 500 in a million, and answers that take longer, are no jumps.
    #[test]
    fn drift_and_delay_leave_the_best_answer_as_it_is() {
        let mut clock = PeerClock::default();
        for number in 0..SAMPLES as u64 {
            let at = 1_000_000 * number;
            let trip = 200 + 90_000 * (number % 4);
            clock.answered(at, at + trip / 2 + 500 * number, at + trip);
        }
        assert_eq!(clock.samples.len(), SAMPLES);
        assert_eq!(clock.age(0, 0).unwrap().error, Duration::from_micros(100));
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
