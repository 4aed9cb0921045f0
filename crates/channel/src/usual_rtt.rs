//! Usual round trip of a path: what a packet takes when there is no queue.
//!
//! The shortest round trip is that of a single packet which met neither jitter nor a batch of acknowledgements. Where both are common
//! (radio, busy hosts), packets take longer even on an empty path, and what is in flight is rate times *mean* round trip
//! [Little's law]. A window for the shortest one is used up before it is acknowledged: the path idles, is measured to
//! be slower, and the window shrinks with the rate.
//!
//! The mean of a round trip's packets exceeds the shortest round trip by jitter, and by the queue. A queue that stands meets all packets of
//! a round, and jitter does not: so no more than [`SPREADS`] times what the mean exceeds the smallest *of the same round* is taken for jitter,
//! less the time that the path takes for one packet: by so much, packets of a queue that stands differ on a slow path.
//! Of the rounds of the last [`LIFE_MS`] milliseconds, the one with the smallest excess counts: it met the least queue.

use std::time::Instant;

use crate::control::filter::MaxFilter;

/// Time after which a round is forgotten, in milliseconds: longer than that between two rounds in which a controller drains the path.
const LIFE_MS: u64 = 12_000;
/// Packets of a round that make a mean.
const SAMPLES_MIN: u32 = 8;
/// Most excess, in multiples of the difference between mean and smallest of a round: where packets stay in order, the smallest of a few
/// hundred shows about half of the jitter.
const SPREADS: f64 = 3.0;

/// See the module.
#[derive(Debug)]
pub(crate) struct UsualRtt {
    begun: Instant,
    /// The largest of the negated excesses, in seconds, by time in milliseconds.
    least: MaxFilter,
    round: Round,
}

/// The running round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// The `delivered` mark that ends it.
    ends_at: u64,
    sum_s: f64,
    samples: u32,
    smallest_s: f64,
}

impl Round {
    fn until(delivered: u64) -> Self {
        Self {
            ends_at: delivered,
            sum_s: 0.0,
            samples: 0,
            smallest_s: f64::INFINITY,
        }
    }
}

impl UsualRtt {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            begun: now,
            least: MaxFilter::default(),
            round: Round::until(0),
        }
    }

    /// Notes that a packet was acknowledged after `rtt_s`, the peer's waiting included, with the bytes delivered when it was sent, and now.
    /// `rtt_min_s` is the shortest round trip, and the path takes `packet_s` for a packet. O(1).
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        (rtt_s, rtt_min_s, packet_s): (f64, f64, f64),
        (delivered_at_sent, delivered): (u64, u64),
    ) {
        self.round.sum_s += rtt_s;
        self.round.samples += 1;
        self.round.smallest_s = self.round.smallest_s.min(rtt_s);
        if delivered_at_sent < self.round.ends_at {
            return;
        }
        let round = std::mem::replace(&mut self.round, Round::until(delivered));
        if round.samples >= SAMPLES_MIN {
            let mean_s = round.sum_s / f64::from(round.samples);
            let spread_s = (mean_s - round.smallest_s - packet_s).max(0.0);
            let excess_s = (mean_s - rtt_min_s).min(SPREADS * spread_s);
            let at_ms = now.saturating_duration_since(self.begun).as_millis();
            self.least.update(-excess_s, at_ms as u64, LIFE_MS);
        }
    }

    /// Excess of the usual round trip over the shortest one, in seconds; 0 before the first round with enough packets.
    pub(crate) fn excess_s(&self) -> f64 {
        (-self.least.get()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Rounds of 10 packets with these round trips in milliseconds, 100 ms apart; the usual excess over 60 after each, in milliseconds.
    fn usual_ms(rounds: &[&[u32]]) -> Vec<u32> {
        let begun = crate::control::test_epoch();
        let mut usual = UsualRtt::new(begun);
        let mut delivered = 0;
        let of_round = |(round, rtts_ms): (usize, &&[u32])| {
            let now = begun + Duration::from_millis(100) * round as u32;
            let at_sent = delivered;
            for (number, rtt_ms) in rtts_ms.iter().enumerate() {
                delivered += 1;
                // The last one was sent when the first was acknowledged.
                let at_sent = if number + 1 == rtts_ms.len() {
                    delivered
                } else {
                    at_sent
                };
                let rtt_s = f64::from(*rtt_ms) * 1e-3;
                usual.on_ack(now, (rtt_s, 0.060, 0.0), (at_sent, delivered));
            }
            (usual.excess_s() * 1e3).round() as u32
        };
        rounds.iter().enumerate().map(of_round).collect()
    }

    #[test]
    fn the_round_with_the_least_queue_counts() {
        let jitter: &[u32] = &[60, 64, 68, 72, 76, 60, 64, 68, 72, 76];
        let queued = jitter.iter().map(|rtt_ms| rtt_ms + 30);
        let queued: Vec<u32> = queued.collect();
        let few: &[u32] = &[60; 3];
        assert_eq!(
            usual_ms(&[few, &queued, jitter, &queued, few]),
            [0, 27, 9, 9, 9]
        );
    }

    #[test]
    fn a_queue_that_stands_is_no_jitter() {
        let queue: &[u32] = &[90, 91, 92, 90, 91, 92, 90, 91, 92];
        assert_eq!(usual_ms(&[queue]), [3]);
        // The smallest of a round is not the shortest of all where packets stay in order.
        let held: &[u32] = &[66, 70, 74, 70, 66, 70, 74, 70, 66, 70, 74, 70];
        assert_eq!(usual_ms(&[held]), [10]);
    }

    #[test]
    fn packets_of_a_queue_on_a_slow_path_are_no_jitter() {
        let mut usual = UsualRtt::new(crate::control::test_epoch());
        // Packets of 6 ms each; a round trip meets one or two of them.
        for number in 1..20_u64 {
            let rtt_s = 0.072 + 0.006 * (number % 2) as f64;
            let marks = (number / 9 * 9, number);
            usual.on_ack(crate::control::test_epoch(), (rtt_s, 0.060, 0.006), marks);
        }
        assert_eq!(usual.excess_s(), 0.0);
    }

    #[test]
    fn a_round_is_forgotten_after_some_time() {
        let mut rounds: Vec<&[u32]> = vec![&[60; 10]];
        let jitter: &[u32] = &[60, 68, 76, 60, 68, 76, 60, 68, 76];
        rounds.extend(vec![jitter; 130]);
        let usual = usual_ms(&rounds);
        assert_eq!((usual[100], usual[130]), (0, 9));
    }
}
