//! Budget of the probes of all sessions of a node.

use std::collections::VecDeque;

use anabranch_base::Instant;

use crate::config::Probing;

/// Seconds over which the budget holds: any ten, so eleven that began.
const SECONDS: u64 = 11;

/// Bytes that a node sent in the last seconds. Key: node.
#[derive(Debug, Default)]
pub(super) struct ProbeBudget {
    seconds: VecDeque<Second>,
}

#[derive(Clone, Copy, Debug)]
struct Second {
    at_s: u64,
    sent_bytes: u64,
    probe_bytes: u64,
}

impl ProbeBudget {
    fn second(&mut self, now: Instant) -> &mut Second {
        let at_s = now.since_epoch().as_secs();
        if self.seconds.back().is_none_or(|last| last.at_s < at_s) {
            self.seconds.push_back(Second {
                at_s,
                sent_bytes: 0,
                probe_bytes: 0,
            });
        }
        while (self.seconds.front()).is_some_and(|first| first.at_s + SECONDS <= at_s) {
            self.seconds.pop_front();
        }
        self.seconds.back_mut().expect("one was added")
    }

    /// Notes bytes that the node sent, probes included.
    pub(super) fn sent(&mut self, now: Instant, bytes: u64) {
        self.second(now).sent_bytes += bytes;
    }

    /// Notes bytes of probes.
    pub(super) fn spend(&mut self, now: Instant, bytes: u64) {
        if bytes > 0 {
            self.second(now).probe_bytes += bytes;
        }
    }

    /// Bytes that probes may cost now. O(1).
    pub(super) fn left(&mut self, now: Instant, limits: &Probing) -> u64 {
        self.second(now);
        let (sent, spent) = self.seconds.iter().fold((0, 0), |(sent, spent), second| {
            (sent + second.sent_bytes, spent + second.probe_bytes)
        });
        let share = (sent as f64 * limits.share) as u64;
        share.max(limits.idle_bytes).saturating_sub(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_any_ten_seconds_no_more_is_spent_than_the_larger_of_both_bounds() {
        let limits = Probing {
            idle_bytes: 64_000,
            share: 0.05,
            metered: false,
        };
        let mut budget = ProbeBudget::default();
        let at = Instant::from_millis;
        assert_eq!(budget.left(at(900), &limits), 64_000);
        budget.spend(at(900), 60_000);
        assert_eq!(budget.left(at(10_899), &limits), 4_000);
        budget.sent(at(5_000), 2_000_000);
        assert_eq!(budget.left(at(10_900), &limits), 40_000);
        assert_eq!(budget.left(at(11_900), &limits), 100_000);
        assert_eq!(budget.left(at(60_000), &limits), 64_000);
    }
}
