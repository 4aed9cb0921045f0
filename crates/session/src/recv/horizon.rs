//! Horizon of an unreliable stream: the ADUs that have outlived their lifetime, as far as their receiver can know.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::Instant;

/// Steps into which a lifetime is divided; it bounds the memory.
const STEPS: u32 = 64;

/// ADUs of an unreliable stream that have outlived their lifetime.
///
/// The clocks of the two nodes are not related. But ADUs are handed over in the order of their numbers, and a fragment of one
/// proves that it, and so all before it, had been handed over by then. A lifetime later all of them have expired: never
/// too early; too late by the time that the next ADU took to arrive, and by a 64th of the lifetime.
///
/// Key: session, stream (unreliable ones with a lifetime). O(1) a fragment, amortised.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// The highest number received in each step, ascending.
    received: VecDeque<Step>,
    /// ADUs below this number have expired.
    over: u64,
}

/// Highest number received in one step of time.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: Instant,
    /// Time by which this ADU and all before it had been handed over.
    at: Instant,
    last: u64,
}

impl Horizon {
    /// Notes that a fragment of this ADU has arrived; ADUs with numbers below the result have expired.
    pub(super) fn note_fragment(&mut self, now: Instant, sequence: u64, lifetime: Duration) -> u64 {
        while let Some(step) = self.received.front()
            && now.since(step.at) >= lifetime
        {
            self.over = step.last.saturating_add(1);
            self.received.pop_front();
        }
        let newest = Step {
            from: now,
            at: now,
            last: sequence,
        };
        match self.received.back_mut() {
            Some(step) if sequence <= step.last => {}
            Some(step) if now.since(step.from) * STEPS < lifetime => {
                (step.at, step.last) = (now, sequence);
            }
            None if sequence < self.over => {}
            _ => self.received.push_back(newest),
        }
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// An ADU is handed over every few milliseconds and arrives after any delay: none expires before its time, and
        /// every one soon after, as long as others arrive.
        #[test]
        fn what_is_over_has_outlived_its_lifetime(
            steps in prop::collection::vec((1u64..40, 0u64..600), 1..200),
        ) {
            let lifetime = Duration::from_millis(200);
            let mut at = 0;
            let mut arrivals: Vec<(u64, u64, u64)> = Vec::new();
            for (sequence, (period, delay)) in (0u64..).zip(steps) {
                at += period;
                arrivals.push((at + delay, sequence, at));
            }
            let made: Vec<u64> = arrivals.iter().map(|arrival| arrival.2).collect();
            arrivals.sort_unstable();
            let mut horizon = Horizon::default();
            let mut received: Vec<(u64, u64)> = Vec::new();
            for (now, sequence, _) in arrivals {
                let over = horizon.note_fragment(Instant::from_millis(now), sequence, lifetime);
                for number in 0..over {
                    prop_assert!(made[number as usize] + 200 <= now, "{number} at {now}");
                }
                // 207 ms after the first fragment of it, or of a later one, it has expired.
                let known = received.iter().filter(|(at, _)| at + 207 <= now).map(|(_, last)| *last).max();
                prop_assert!(known.is_none_or(|known| known < over), "{known:?} at {now}, {over}");
                received.push((now, sequence));
                prop_assert!(horizon.received.len() <= STEPS as usize + 1);
            }
        }
    }
}
