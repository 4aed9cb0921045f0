//! Completion of an arriving chunk, and the lost frames to ask for again. Pure: time is an argument.

use std::time::{Duration, Instant};

use crate::wire::REPAIRED_MAX;

/// Time after the last of a chunk's enhanced data was sent at which missing data is lost: its lifetime, and some time on the
/// path.
pub(super) const GRACE: Duration = Duration::from_millis(800);
/// Divisor of a chunk's enhanced data: lost frames are requested again up to this share of it.
const REPAIRED_SHARE: u64 = 5;

/// Report of the origin on a chunk's enhanced data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// ADUs that were handed over.
    pub(super) adus: u32,
    /// Frames that were left out, because the pipe has no capacity for them.
    pub(super) left_out: u32,
    /// Time at which the report arrived.
    pub(super) reported_at: Instant,
}

/// State of an arriving chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Its essential part is there, or on disk.
    pub(super) has_essential: bool,
    /// ADUs of its enhanced part that have come.
    pub(super) adus: u32,
    pub(super) sent: Option<Sent>,
    /// Time at which enhanced data of a later chunk first came.
    pub(super) passed: Option<Instant>,
    /// Time by which a waiting viewer gets it, complete or not.
    pub(super) deadline: Option<Instant>,
}

impl State {
    /// True if it is to be finished now: nothing more will come of it, or it cannot be waited for. Never without its essential
    /// part.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_late = |at: Instant| now.saturating_duration_since(at) >= GRACE;
        let is_all_there = self
            .sent
            .is_some_and(|sent| self.adus >= sent.adus || is_late(sent.reported_at));
        self.has_essential
            && (is_all_there
                || self.passed.is_some_and(is_late)
                || self.deadline.is_some_and(|at| now >= at))
    }
}

/// The `missing` frames (number and bytes, the most needed first) to request again, in ascending order; of a chunk with so many
/// bytes of enhanced data, `left_out` frames of which were not sent for lack of capacity.
pub(super) fn to_repair(missing: &[(u32, u64)], enhanced_bytes: u64, left_out: u32) -> Vec<u32> {
    if left_out > 0 {
        // It is not known which of them are missing for lack of capacity, and there is none for them now either.
        return Vec::new();
    }
    // A pipe that loses much has no capacity for more.
    let mut left = enhanced_bytes / REPAIRED_SHARE;
    let fits = missing.iter().take_while(|(_, bytes)| {
        let rest = left.checked_sub(*bytes);
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    let mut frames: Vec<u32> = fits.map(|(number, _)| *number).collect();
    frames.truncate(REPAIRED_MAX);
    frames.sort_unstable();
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_chunk_is_due_when_nothing_more_will_come() {
        let begun = Clock::system().now();
        let ms = |ms| begun + Duration::from_millis(ms);
        let sent = Sent {
            adus: 5,
            left_out: 0,
            reported_at: ms(1_000),
        };
        let arriving = State {
            has_essential: true,
            adus: 4,
            ..State::default()
        };
        assert!(
            !arriving.is_due(ms(100_000)),
            "it is not known that everything was sent"
        );
        let sent_all = State {
            sent: Some(sent),
            ..arriving
        };
        assert!(!sent_all.is_due(ms(1_700)));
        assert!(sent_all.is_due(ms(1_800)), "the fifth is lost");
        let whole = State {
            adus: 5,
            ..sent_all
        };
        assert!(whole.is_due(ms(1_000)));
        let without = State {
            has_essential: false,
            ..whole
        };
        assert!(
            !without.is_due(ms(100_000)),
            "never without what must arrive"
        );
        let passed = State {
            passed: Some(ms(500)),
            ..arriving
        };
        assert!(!passed.is_due(ms(1_299)) && passed.is_due(ms(1_300)));
        let awaited = State {
            deadline: Some(ms(700)),
            ..arriving
        };
        assert!(!awaited.is_due(ms(699)) && awaited.is_due(ms(700)));
    }

    #[test]
    fn repairs_have_a_budget() {
        // The most needed first: two of 10 kB.
        let missing = [(7, 900), (3, 1_000), (5, 200), (1, 50)];
        assert_eq!(to_repair(&missing, 10_000, 0), [3, 7]);
        assert_eq!(to_repair(&missing, 100_000, 0), [1, 3, 5, 7]);
        assert_eq!(to_repair(&missing, 1_000, 0), [0; 0]);
        assert_eq!(to_repair(&missing, 100_000, 1), [0; 0]);
        let many: Vec<(u32, u64)> = (0..2_000).map(|number| (number, 1)).collect();
        assert_eq!(to_repair(&many, 1_000_000, 0).len(), REPAIRED_MAX);
    }
}
