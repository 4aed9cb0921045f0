//! Rate of the pipe, and its division between plays [Two-flow §4, §6]. Pure: time and observations are arguments.
//!
//! The pipe's channels are held to the sum of the target rates of the active plays, with headers and acknowledgements; there is
//! capacity for fetched data while it is fetched. Where the pipe shows signs of being too narrow the enhanced flows yield;
//! where it is known to have spare capacity they get ahead.

use std::time::Duration;

use anabranch::base::{Instant, Rate};
use anabranch_twoflow::{
    adaptation::{Seen, Yielding},
    ahead::{self, Lead},
};

use super::{counters::FlowStats, play::Need};
use crate::load;

/// Maximum rate of data fetched besides plays, so that it does not displace the plays in queues along the path.
pub(super) const FETCH_RATE_MAX: Rate = Rate::from_mbps(12);
/// Share of a pipe's rate that packets may take, without the headers of IP and UDP and without other traffic.
const HELD: f64 = 0.96;
/// Margin over the sum of the plays' rates: timers are late now and then, and data that waits for one leaves after it.
const SLACK: f64 = 1.04;
/// Time within which the backlog is to leave.
const BACKLOG_TIME: Duration = Duration::from_secs(1);
/// Share of packets that may be lost in the network without a sign of congestion: it is repaired. Data for which the pipe has
/// no capacity is not sent at all, and counts in full [Two-flow §6 tolerates 5 %].
const LOSS_REPAIRED: f64 = 0.05;
/// Of few packets the share that is lost varies much between intervals: the excess over [`LOSS_REPAIRED`] must be so many
/// standard deviations of a pipe that loses that much.
const LOSS_CERTAIN: f64 = 3.0;
/// Least rate that a session is held to: the rest of a film that has ended, or is sent again, is not to wait.
const HELD_MIN: Rate = Rate::from_kbps(256);
/// Essential data that wait longer than this at their target rate are behind.
const BEHIND: Duration = Duration::from_millis(250);
/// Pause in prefetching after signs of congestion: an adjustment interval.
const PREFETCH_PAUSE: Duration = Duration::from_secs(8);
/// Lead that every play may gain after that, in paces of the film; doubled each second without another sign, so that not all
/// plays at once probe a pipe of which nothing is known.
const PREFETCH_MIN: f64 = 1.0 / 16.0;
/// Time after a prefetch was cut short in which its data still waits, and is no sign of the pipe's state.
const SETTLING: Duration = Duration::from_secs(2);

/// The governor of one session.
#[derive(Debug)]
pub(super) struct Governor {
    /// Capacity of each path, where it is known.
    capacity: Option<Rate>,
    yielding: Yielding,
    /// Time before which no play prefetches.
    prefetch_from: Instant,
    /// Lead that every play may gain, in paces of the film.
    prefetch: f64,
    /// Time until which observations reflect the governor's own prefetching more than the pipe.
    settled_at: Instant,
}

/// Traffic of a session besides its plays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Besides {
    /// True if something is fetched.
    pub(super) is_fetching: bool,
    /// Bytes of plays that wait to be sent.
    pub(super) backlog_bytes: u64,
    /// Paths that carry data.
    pub(super) paths: usize,
}

/// The rate that a path is configured to hold before anything is known: the rate of fetches.
pub(super) fn first_rate(capacity: Option<Rate>) -> Rate {
    let fetching = load::reliable(FETCH_RATE_MAX);
    most_of_path(capacity).map_or(fetching, |most| most.min(fetching))
}

/// Maximum rate that a path is held to.
pub(super) fn most_of_path(capacity: Option<Rate>) -> Option<Rate> {
    capacity.map(|rate| rate * HELD)
}

impl Governor {
    /// A governor of a session whose paths carry `capacity` each.
    pub(super) fn new(capacity: Option<Rate>) -> Self {
        Self {
            capacity,
            yielding: Yielding::new(Rate::ZERO),
            prefetch_from: Instant::EPOCH,
            prefetch: 1.0,
            settled_at: Instant::EPOCH,
        }
    }

    /// Share of enhanced data that is sent.
    pub(super) fn part(&self) -> f64 {
        self.yielding.part()
    }

    /// Rate that the session is held to, as UDP payload of all paths together.
    pub(super) fn hold(&self, needs: &[Need], besides: Besides) -> Rate {
        let mut sum = self.taken(needs, |need| need.pace).max(HELD_MIN);
        if besides.is_fetching || needs.is_empty() {
            sum = sum + load::reliable(FETCH_RATE_MAX);
        }
        sum = sum + Rate::from_bytes_per(besides.backlog_bytes, BACKLOG_TIME);
        match self.whole(besides.paths) {
            Some(most) => sum.min(most),
            None => sum,
        }
    }

    /// Extra speed of each play over its film, in paces of the film: its share of the spare capacity, or as it comes where
    /// nothing is known of the pipe; zero while the pipe is narrow.
    pub(super) fn extras(&self, now: Instant, needs: &[Need], paths: usize) -> Vec<f64> {
        if self.part() < 1.0 || now < self.prefetch_from {
            return vec![0.0; needs.len()];
        }
        let Some(whole) = self.whole(paths) else {
            return vec![self.prefetch; needs.len()];
        };
        let leads: Vec<Lead> = needs
            .iter()
            .map(|need| Lead {
                rate: need.enhanced,
                lead: need.ahead,
                lead_max: need.ahead_max,
            })
            .collect();
        let taken = self.taken(needs, |need| need.pace.min(1.0));
        let extras = ahead::divide(whole, taken, &leads).into_iter().zip(needs);
        extras
            .map(|(extra, need)| extra.as_bps() as f64 / need.enhanced.as_bps().max(1) as f64)
            .collect()
    }

    /// Takes the statistics of an interval of about a second; `flow_stats` covers all plays together.
    pub(super) fn observe(&mut self, now: Instant, needs: &[Need], flow_stats: &FlowStats) {
        let target: Rate = needs.iter().map(|need| need.essential).sum();
        let full: Rate = needs.iter().map(|need| need.enhanced).sum();
        let waits = target.bytes_in(BEHIND).max(16 << 10);
        let essential_target = if flow_stats.backlog_bytes > waits {
            target.max(flow_stats.essential)
        } else {
            // All that was due was sent.
            flow_stats.essential
        };
        let lost = (flow_stats.lost - LOSS_REPAIRED - loss_noise(flow_stats.outcomes)).max(0.0);
        let seen = Seen {
            essential_target,
            essential: flow_stats.essential,
            enhanced: flow_stats.enhanced,
            enhanced_loss: (flow_stats.dropped + lost).min(1.0),
        };
        let is_hasty = needs.iter().any(|need| need.pace > 1.05);
        let is_sign = seen.enhanced_loss > 0.0 || essential_target > seen.essential;
        if is_hasty && is_sign {
            // The governor's own prefetching caused it.
            self.prefetch_from = now + PREFETCH_PAUSE;
            self.prefetch = PREFETCH_MIN;
            self.settled_at = now + SETTLING;
            return;
        }
        if is_sign && now < self.settled_at || needs.is_empty() {
            return;
        }
        if is_hasty {
            self.prefetch = (2.0 * self.prefetch).min(1.0);
        }
        self.yielding.set_full(full);
        self.yielding.observe(seen);
    }

    /// Capacity of all paths together.
    fn whole(&self, paths: usize) -> Option<Rate> {
        let each = most_of_path(self.capacity)?;
        Some(each * (paths.max(1) as f64))
    }

    fn taken(&self, needs: &[Need], pace: impl Fn(&Need) -> f64) -> Rate {
        let each = needs.iter().map(|need| {
            let enhanced = need.enhanced * (need.kept * pace(need));
            load::reliable(need.essential) + enhanced
        });
        (each.sum::<Rate>() + load::CONTROL) * SLACK
    }
}

/// Amount by which the share of `count` packets that are lost exceeds [`LOSS_REPAIRED`] by chance; zero where they were not
/// counted.
fn loss_noise(count: u64) -> f64 {
    match count {
        0 => 0.0,
        count => LOSS_CERTAIN * (LOSS_REPAIRED * (1.0 - LOSS_REPAIRED) / count as f64).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kbps(kbps: u64) -> Rate {
        Rate::from_kbps(kbps)
    }

    fn at(secs: u64) -> Instant {
        Instant::from_secs(secs)
    }

    fn need(essential: u64, enhanced: u64) -> Need {
        Need {
            essential: kbps(essential),
            essential_usual: kbps(essential),
            enhanced: kbps(enhanced),
            kept: 1.0,
            pace: 1.0,
            ahead: Duration::ZERO,
            ahead_max: Duration::from_secs(8),
        }
    }

    const ONE: Besides = Besides {
        is_fetching: false,
        backlog_bytes: 0,
        paths: 1,
    };

    #[test]
    fn the_pipe_is_held_to_the_sum_of_those_who_play() {
        let governor = Governor::new(None);
        let hold = |needs: &[Need], besides| governor.hold(needs, besides).as_bps() as f64 / 1e3;
        let one = hold(&[need(200, 800)], ONE);
        assert!((one - 1.04 * (209.0 + 800.0 + 32.0)).abs() < 1.0, "{one}");
        let two = hold(&[need(200, 800), need(100, 400)], ONE);
        assert!((two - one - 1.04 * (104.5 + 400.0)).abs() < 1.0, "{two}");
        let hasty = Need {
            pace: 1.5,
            ..need(200, 800)
        };
        assert!((hold(&[hasty], ONE) - one - 1.04 * 400.0).abs() < 1.0);
        let thinned = Need {
            kept: 0.5,
            ..need(200, 800)
        };
        assert!((one - hold(&[thinned], ONE) - 1.04 * 400.0).abs() < 1.0);
        let waiting = Besides {
            backlog_bytes: 10_000,
            ..ONE
        };
        assert!((hold(&[need(200, 800)], waiting) - one - 80.0).abs() < 1.0);
        let fetching = Besides {
            is_fetching: true,
            ..ONE
        };
        assert!(hold(&[need(200, 800)], fetching) > 12_000.0);
        assert!(
            hold(&[], ONE) > 12_000.0,
            "nothing is held up without plays"
        );
    }

    #[test]
    fn a_known_pipe_is_never_asked_for_more() {
        let governor = Governor::new(Some(kbps(2_000)));
        let fetching = Besides {
            is_fetching: true,
            ..ONE
        };
        assert_eq!(governor.hold(&[need(200, 800)], fetching), kbps(1_920));
        let two = Besides {
            paths: 2,
            ..fetching
        };
        assert_eq!(governor.hold(&[need(200, 800)], two), kbps(3_840));
        assert_eq!(first_rate(Some(kbps(2_000))), kbps(1_920));
        assert!(first_rate(None) > FETCH_RATE_MAX);
    }

    #[test]
    fn what_is_left_of_a_known_pipe_makes_leads() {
        let governor = Governor::new(Some(kbps(2_000)));
        let wide = governor.extras(at(0), &[need(100, 400)], 1);
        assert_eq!(wide, [1.0]);
        // 1920 less a twentieth, and 2 × 1.04 × (104.5 + 600) + 33 taken: 326 for both.
        let needs = [need(100, 600), need(100, 600)];
        let narrow = governor.extras(at(0), &needs, 1);
        assert!((narrow[0] - 326.0 / 1_200.0).abs() < 0.01, "{narrow:?}");
        let full = [need(200, 1_500), need(100, 600)];
        assert_eq!(governor.extras(at(0), &full, 1), [0.0; 2]);
        let ready = Need {
            ahead: Duration::from_secs(8),
            ..need(100, 400)
        };
        assert_eq!(governor.extras(at(0), &[ready], 1), [0.0]);
    }

    fn flow_stats(enhanced: u64, dropped: f64, lost: f64) -> FlowStats {
        FlowStats {
            essential: kbps(200),
            enhanced: kbps(enhanced),
            dropped,
            lost,
            outcomes: 0,
            backlog_bytes: 0,
        }
    }

    #[test]
    fn what_is_repaired_is_no_sign() {
        let mut governor = Governor::new(None);
        for second in 0..60 {
            governor.observe(at(second), &[need(200, 800)], &flow_stats(780, 0.0, 0.04));
        }
        assert_eq!(governor.part(), 1.0);
    }

    #[test]
    fn a_pipe_without_capacity_makes_the_enhanced_flow_yield() {
        let mut governor = Governor::new(None);
        for second in 0..10 {
            let rate = (800.0 * governor.part()).min(400.0);
            let dropped = (1.0 - rate / (800.0 * governor.part())).max(0.0);
            let flow_stats = flow_stats(rate as u64, dropped, 0.0);
            governor.observe(at(second), &[need(200, 800)], &flow_stats);
        }
        assert!((0.3..0.6).contains(&governor.part()), "{}", governor.part());
        assert_eq!(governor.extras(at(10), &[need(200, 800)], 1), [0.0]);
    }

    /// An essential flow that does not get its rate is a sign of congestion, although nothing is lost.
    #[test]
    fn essential_data_that_wait_are_a_sign() {
        let mut governor = Governor::new(None);
        for second in 0..10 {
            let behind = FlowStats {
                essential: kbps(150),
                backlog_bytes: 100_000,
                ..flow_stats(800, 0.0, 0.0)
            };
            governor.observe(at(second), &[need(200, 800)], &behind);
        }
        assert!(governor.part() < 0.95, "{}", governor.part());
    }

    #[test]
    fn prefetch_ends_before_anything_is_left_out() {
        let mut governor = Governor::new(None);
        let hasty = Need {
            pace: 2.0,
            ..need(200, 800)
        };
        assert_eq!(governor.extras(at(3), &[hasty], 1), [1.0]);
        governor.observe(at(3), &[hasty], &flow_stats(1_200, 0.2, 0.0));
        assert_eq!(governor.extras(at(4), &[hasty], 1), [0.0]);
        // Backlog from that time.
        governor.observe(at(4), &[need(200, 800)], &flow_stats(600, 0.2, 0.0));
        assert_eq!(governor.part(), 1.0);
        // Gradually.
        assert_eq!(governor.extras(at(12), &[hasty], 1), [PREFETCH_MIN]);
        governor.observe(at(12), &[hasty], &flow_stats(850, 0.0, 0.0));
        assert_eq!(governor.extras(at(12), &[hasty], 1), [2.0 * PREFETCH_MIN]);
        for second in 13..20 {
            governor.observe(at(second), &[hasty], &flow_stats(900, 0.0, 0.0));
        }
        assert_eq!(governor.extras(at(20), &[hasty], 1), [1.0]);
        // A backlog that the governor's own prefetching did not cause is a sign.
        governor.observe(at(20), &[need(200, 800)], &flow_stats(600, 0.2, 0.0));
        assert!(governor.part() < 1.0);
    }

    /// A slow film has some fifty packets a second: of a pipe that loses two of a hundred, three of them now and then.
    #[test]
    fn a_few_lost_packets_are_no_sign() {
        let of = |lost: u64, outcomes: u64| {
            let mut governor = Governor::new(None);
            let needs = [need(100, 200)];
            let flow_stats = FlowStats {
                outcomes,
                ..flow_stats(200, 0.0, lost as f64 / outcomes as f64)
            };
            for second in 1..4 {
                governor.observe(at(second), &needs, &flow_stats);
            }
            governor.part()
        };
        assert_eq!([of(3, 50), of(5, 50)], [1.0, 1.0]);
        assert!(of(15, 50) < 1.0);
        // Of many packets the same share is no noise.
        assert!(of(1_500, 15_000) < 1.0);
        assert_eq!(of(300, 15_000), 1.0);
    }
}
