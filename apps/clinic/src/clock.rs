//! Clock of the ambulance, as the hospital estimates it from questions that are answered at once [RFC 5905 §8].

use std::{collections::VecDeque, time::Duration};

/// Answers of which the one with the shortest round trip counts.
const SAMPLES: usize = 16;

/// Difference of the ambulance's clock and the hospital's. Its error is at most half of the round trip.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Round trip and difference of each answer, in microseconds.
    samples: VecDeque<(u64, i64)>,
}

/// Age of what was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Time since it was captured.
    pub age: Duration,
    /// Largest error of it.
    pub error: Duration,
}

impl Clock {
    /// An answer: sent and received by the hospital's clock, and the ambulance's clock between, in microseconds. One that cannot be
    /// is ignored.
    pub fn answered(&mut self, sent_us: u64, ambulance_us: u64, received_us: u64) {
        let Some(trip) = received_us.checked_sub(sent_us) else {
            return;
        };
        let middle = sent_us + trip / 2;
        let difference = i128::from(ambulance_us) - i128::from(middle);
        let Ok(difference) = i64::try_from(difference) else {
            return;
        };
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((trip, difference));
    }

    /// Age at the hospital's time `now_us` of what was captured at the ambulance's time `captured_us`; `None`: nothing was answered
    /// yet.
    pub fn age(&self, now_us: u64, captured_us: u64) -> Option<Age> {
        let (trip, difference) = self.samples.iter().min()?;
        let there = i128::from(now_us) + i128::from(*difference);
        let age = (there - i128::from(captured_us)).clamp(0, i128::from(u64::MAX));
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
        let mut clock = Clock::default();
        assert_eq!(clock.age(5, 0), None);
        // The ambulance is 1,000,000 ahead; the way back of the first takes longer.
        clock.answered(1_000, 1_001_500, 4_000);
        clock.answered(5_000, 1_005_100, 5_200);
        clock.answered(10, 0, 9);
        clock.answered(0, u64::MAX, 1);
        let age = clock.age(10_000, 990_000).unwrap();
        assert_eq!((age.age.as_micros(), age.error.as_micros()), (20_000, 100));
        assert_eq!(clock.age(10_000, 2_000_000).unwrap().age, Duration::ZERO);
        for at in 0..SAMPLES as u64 {
            clock.answered(at, at + 50, at + 20);
        }
        assert_eq!(
            clock.age(0, 0).unwrap().error,
            Duration::from_micros(10),
            "old answers do not count"
        );
    }
}
