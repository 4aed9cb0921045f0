//! Legs that carried less than the overlay says: a link is measured anew only when the overlay probes it.

use std::{collections::BTreeMap, time::Duration};

use anabranch::base::{Instant, NodeId, Rate};
use anabranch_processing::process::place::Leg;

/// Time for which a rate counts that was measured, once the place is left.
const KNOWN_TIME: Duration = Duration::from_secs(300);
/// Change of the overlay's rate from which on it is a new one.
const CHANGE: f64 = 0.1;

/// Rates of legs that were full, by place and subscriber.
#[derive(Debug, Default)]
pub(super) struct Narrow(BTreeMap<(usize, NodeId), Known>);

#[derive(Debug)]
struct Known {
    rate: Rate,
    /// Rate that the overlay had of it then.
    published: Rate,
    at: Instant,
}

impl Narrow {
    /// Notes the rate of a leg from the place in use, while data waits for it; `None` if none does, so that its rate is not known.
    /// `published` is the overlay's rate of it at `at`.
    pub(super) fn measured(
        &mut self,
        leg: (usize, NodeId),
        rate: Option<Rate>,
        (published, at): (Rate, Instant),
    ) {
        match rate {
            Some(rate) => {
                let known = Known {
                    rate,
                    published,
                    at,
                };
                self.0.insert(leg, known);
            }
            None => drop(self.0.remove(&leg)),
        }
    }

    /// A leg as the overlay has it, or with the rate that was measured, as long as it counts.
    pub(super) fn leg(&self, of: (usize, NodeId), leg: Leg, now: Instant) -> Leg {
        let counts = |known: &&Known| {
            let (now_bps, then_bps) = (leg.mean().as_bps() as f64, known.published.as_bps() as f64);
            let is_same = (now_bps - then_bps).abs() <= CHANGE * then_bps;
            is_same && now.since(known.at) < KNOWN_TIME && known.rate < leg.mean()
        };
        match self.0.get(&of).filter(counts) {
            Some(known) => leg.at(known.rate),
            None => leg,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_rate_counts_until_the_overlay_has_another_one() {
        let of = |number: u8| (0, NodeId::from_public_key([number; 32]));
        let leg = |mbps: u64| Leg::of_mean(Rate::from_mbps(mbps), 0.0, Duration::ZERO);
        let at = Instant::from_secs(10);
        let mut narrow = Narrow::default();
        narrow.measured(of(1), Some(Rate::from_mbps(1)), (Rate::from_mbps(20), at));
        let rate = |narrow: &Narrow, number: u8, mbps: u64, second: u64| {
            let leg = narrow.leg(of(number), leg(mbps), Instant::from_secs(second));
            leg.mean().as_bps() as f64 / 1e6
        };
        assert_eq!(rate(&narrow, 1, 20, 10), 1.0);
        assert_eq!(rate(&narrow, 1, 19, 309), 1.0);
        assert_eq!(rate(&narrow, 2, 20, 10), 20.0);
        // The overlay has measured it; it is long ago.
        assert_eq!(rate(&narrow, 1, 5, 10), 5.0);
        assert_eq!(rate(&narrow, 1, 20, 310), 20.0);
        narrow.measured(of(1), None, (Rate::from_mbps(20), at));
        assert_eq!(rate(&narrow, 1, 20, 10), 20.0);
        // It carries more than the overlay says.
        narrow.measured(of(1), Some(Rate::from_mbps(30)), (Rate::from_mbps(20), at));
        assert_eq!(rate(&narrow, 1, 20, 10), 20.0);
    }
}
