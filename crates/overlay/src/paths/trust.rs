//! Trust in published links.
//!
//! A record is an unproven statement of its origin. Measurements by the ends of a route prevail: a link that carried
//! less than its origin published counts for what it carried, and the links of an origin with repeated shortfalls count
//! for a quarter of the published rates. Both corrections fade. A link that was seen to carry more than its origin
//! published counts for the higher rate, for a while.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, Rate};

use crate::members::Moves;

/// Half-life of the count of an origin's shortfalls …
const ORIGIN_HALF: Duration = Duration::from_secs(600);
/// … and the count up to which the origin is trusted.
const ORIGIN_MOST: f64 = 3.0;
const ORIGIN_FACTOR: f64 = 0.25;
/// A link's factor returns to 1 with this time constant.
const LINK_MEMORY: Duration = Duration::from_secs(120);
const FACTOR_MIN: f64 = 0.001;
/// Time for which an observed rate of a link is valid.
const SEEN: Duration = Duration::from_secs(60);
/// Weight of a new rate when the link was the limit.
const SEEN_SHARE: f64 = 0.25;
/// Longest time for which a failed link or relay is left out.
const PENALTY_MAX: Duration = Duration::from_secs(600);
/// Most entries remembered in each table; the oldest is replaced.
const REMEMBERED: usize = 1_024;

/// A directed link, by places in the member table.
pub(crate) type Pair = (usize, usize);

#[derive(Debug, Clone, Copy)]
struct Factor {
    factor: f64,
    at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Penalty {
    until: Instant,
    length: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Trust {
    links: BTreeMap<Pair, Factor>,
    /// Observed rates of links, with their times.
    seen: BTreeMap<Pair, (Rate, Instant)>,
    /// By origin: decayed number of shortfalls.
    origins: BTreeMap<usize, (f64, Instant)>,
    failed_links: BTreeMap<Pair, Penalty>,
    failed_relays: BTreeMap<usize, Penalty>,
}

impl Trust {
    /// Follows the members to other places; what is known of those that are gone is forgotten.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        moves.rekey(&mut self.links, Moves::pair);
        moves.rekey(&mut self.seen, Moves::pair);
        moves.rekey(&mut self.origins, Moves::of);
        moves.rekey(&mut self.failed_links, Moves::pair);
        moves.rekey(&mut self.failed_relays, Moves::of);
    }

    /// Factor of the published bandwidth of a link, in (0, 1].
    pub(crate) fn factor(&self, link: Pair, now: Instant) -> f64 {
        let of_link = self.links.get(&link).map_or(1.0, |known| {
            let faded = (-now.since(known.at).as_secs_f64() / LINK_MEMORY.as_secs_f64()).exp();
            1.0 - (1.0 - known.factor) * faded
        });
        let is_liar = self.shortfalls(link.0, now) > ORIGIN_MOST;
        of_link * if is_liar { ORIGIN_FACTOR } else { 1.0 }
    }

    /// Notes that a link carried `rate`, or more; `is_limit`: as far as is known, it could not carry more.
    pub(crate) fn carried(&mut self, link: Pair, rate: Rate, is_limit: bool, now: Instant) {
        let known = self.seen(link, now);
        let rate = match known {
            // The maximum of many noisy rates is more than the link carries.
            Some(known) if is_limit => known * (1.0 - SEEN_SHARE) + rate * SEEN_SHARE,
            Some(known) if rate < known => return,
            _ => rate,
        };
        bound(&mut self.seen, |&(_, at)| at);
        self.seen.insert(link, (rate, now));
    }

    /// Rate that a link was seen to carry recently.
    pub(crate) fn seen(&self, link: Pair, now: Instant) -> Option<Rate> {
        let (rate, at) = self.seen.get(&link)?;
        (now.since(*at) < SEEN).then_some(*rate)
    }

    /// Notes that a link carried `ratio` of the expected rate; below 1. `is_own`: the expectation is this node's own.
    pub(crate) fn fell_short(&mut self, link: Pair, ratio: f64, is_own: bool, now: Instant) {
        let factor = (self.factor(link, now) * ratio).clamp(FACTOR_MIN, 1.0);
        // Until its origin publishes a new value for the link, this is the same shortfall.
        let is_known = self.links.contains_key(&link);
        self.seen.remove(&link);
        bound(&mut self.links, |known| known.at);
        self.links.insert(link, Factor { factor, at: now });
        if !is_own && !is_known {
            let score = self.shortfalls(link.0, now) + 1.0;
            self.origins.insert(link.0, (score, now));
        }
    }

    /// Restores the trust in a link that was measured again, or for which its origin published a new value.
    pub(crate) fn renew(&mut self, link: Pair) {
        self.links.remove(&link);
    }

    fn shortfalls(&self, origin: usize, now: Instant) -> f64 {
        self.origins.get(&origin).map_or(0.0, |&(score, at)| {
            score * (-now.since(at).as_secs_f64() / ORIGIN_HALF.as_secs_f64()).exp2()
        })
    }

    /// Leaves out a link that failed under a route, for `first`, and twice as long every time.
    pub(crate) fn link_failed(&mut self, link: Pair, first: Duration, now: Instant) {
        penalise(&mut self.failed_links, link, first, now);
    }

    /// Leaves out a relay through which a route failed, in the same way.
    pub(crate) fn relay_failed(&mut self, relay: usize, first: Duration, now: Instant) {
        penalise(&mut self.failed_relays, relay, first, now);
    }

    pub(crate) fn is_left_out(&self, link: Pair, now: Instant) -> bool {
        self.failed_links
            .get(&link)
            .is_some_and(|penalty| now < penalty.until)
    }

    pub(crate) fn is_relay_left_out(&self, relay: usize, now: Instant) -> bool {
        self.failed_relays
            .get(&relay)
            .is_some_and(|penalty| now < penalty.until)
    }
}

fn penalise<K: Ord + Copy>(
    penalties: &mut BTreeMap<K, Penalty>,
    what: K,
    first: Duration,
    now: Instant,
) {
    let length = match penalties.get(&what) {
        // A report during the penalty is about the same failure.
        Some(known) if now < known.until => return,
        // A failure long ago does not count.
        Some(known) if now.since(known.until) < known.length * 4 => known.length * 2,
        _ => first,
    };
    let length = length.min(PENALTY_MAX);
    bound(penalties, |known| known.until);
    let until = now + length;
    penalties.insert(what, Penalty { until, length });
}

/// Removes the oldest entry of a full table.
fn bound<K: Ord + Copy, V>(table: &mut BTreeMap<K, V>, at: impl Fn(&V) -> Instant) {
    if table.len() >= REMEMBERED {
        let oldest = table
            .iter()
            .min_by_key(|(_, value)| at(value))
            .map(|(&key, _)| key);
        if let Some(oldest) = oldest {
            table.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn a_measured_shortfall_prevails_and_fades() {
        let mut trust = Trust::default();
        trust.fell_short((1, 2), 0.1, false, at(10));
        assert!((trust.factor((1, 2), at(10)) - 0.1).abs() < 1e-9);
        assert_eq!(
            trust.factor((1, 3), at(10)),
            1.0,
            "its other links are trusted"
        );
        assert!(trust.factor((1, 2), at(600)) > 0.95);
    }

    #[test]
    fn an_observed_rate_holds_until_the_link_falls_short() {
        let mut trust = Trust::default();
        trust.carried((1, 2), Rate::from_mbps(9), false, at(10));
        trust.carried((1, 2), Rate::from_mbps(5), false, at(20));
        assert_eq!(trust.seen((1, 2), at(69)), Some(Rate::from_mbps(9)));
        assert_eq!(
            trust.seen((1, 2), at(70)),
            None,
            "the observation has expired"
        );
        trust.carried((1, 2), Rate::from_mbps(5), false, at(80));
        trust.fell_short((1, 2), 0.5, false, at(81));
        assert_eq!(trust.seen((1, 2), at(82)), None);
    }

    #[test]
    fn noise_of_a_link_that_is_the_limit_is_averaged() {
        let mut trust = Trust::default();
        for second in 0..60 {
            let mbps = if second % 2 == 0 { 8 } else { 12 };
            trust.carried((1, 2), Rate::from_mbps(mbps), true, at(second));
        }
        let seen = trust.seen((1, 2), at(60)).unwrap();
        assert!((9e6..11e6).contains(&(seen.as_bps() as f64)), "{seen:?}");
    }

    #[test]
    fn an_origin_wrong_repeatedly_is_trusted_for_a_quarter() {
        let mut trust = Trust::default();
        for time in 0..20 {
            trust.fell_short((1, 50), 0.9, false, at(time));
        }
        assert_eq!(
            trust.factor((1, 99), at(20)),
            1.0,
            "one link counts as one shortfall"
        );
        for (time, peer) in (0..5).zip(2..) {
            trust.fell_short((1, peer), 0.5, false, at(time));
        }
        assert_eq!(trust.factor((1, 99), at(5)), ORIGIN_FACTOR);
        assert_eq!(trust.factor((3, 99), at(5)), 1.0);
        assert_eq!(trust.factor((1, 99), at(5_000)), 1.0);
    }

    #[test]
    fn a_link_that_fails_again_is_left_out_longer() {
        let mut trust = Trust::default();
        let first = Duration::from_secs(10);
        trust.link_failed((1, 2), first, at(0));
        trust.link_failed((1, 2), first, at(5));
        assert!(trust.is_left_out((1, 2), at(9)) && !trust.is_left_out((1, 2), at(10)));
        trust.link_failed((1, 2), first, at(12));
        assert!(trust.is_left_out((1, 2), at(31)) && !trust.is_left_out((1, 2), at(32)));
    }
}
