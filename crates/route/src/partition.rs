//! Partition of a message over paths, so that all parts arrive together [Daemons §4, Eqs. (11)–(13)].
//!
//! With bandwidths bᵢ and delays dᵢ, all paths whose delay is below the common finishing time T take part, and
//! T = (r + Σ bᵢ·dᵢ) / Σ bᵢ over them; path i gets rᵢ = bᵢ·(T − dᵢ). That is Eq. (11) solved for any number
//! of paths; Eq. (13) is the case of two. A path with dᵢ ≥ T would get a negative share and is left out.
//!
//! Here T is the least whole nanosecond by which the paths can carry r whole bytes, found by bisection in integers: the shares
//! sum to r exactly, none ends after T, and no other division, over these paths or some of them, ends before.

use std::time::Duration;

use anabranch_base::Rate;

use crate::graph::{DELAY_MAX, Path};

/// A path's properties that count for the division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// EBW; a path of rate zero gets nothing.
    pub bandwidth: Rate,
    /// d_min, capped at [`DELAY_MAX`] for each of 1,000 links.
    pub delay_min: Duration,
}

impl From<&Path> for Leg {
    fn from(path: &Path) -> Self {
        Self {
            bandwidth: path.bandwidth,
            delay_min: path.delay_min,
        }
    }
}

/// A message divided among paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Bytes of each path, in the order given; zero for one that is left out. They add up to the message.
    pub bytes: Vec<u64>,
    /// Time from the start to the arrival of the last byte.
    pub finish: Duration,
}

/// Longest time that is computed, about 142 years: paths slower than that carry nothing.
const FINISH_MAX_NS: u64 = 1 << 62;

/// Divides `bytes` among paths so that the message is complete as early as possible. `None` when no path carries
/// anything in a hundred years. An empty message is complete at once. O(paths · 62).
pub fn partition(legs: &[Leg], bytes: u64) -> Option<Partition> {
    let finish_ns = finish_ns(legs, bytes)?;
    // One nanosecond earlier it would not be complete: the missing bytes then go to the paths that carry more by T, the
    // first ones first.
    let before_ns = finish_ns.saturating_sub(1);
    let mut shares: Vec<u64> = legs
        .iter()
        .map(|leg| narrow(carried(leg, before_ns)).min(bytes))
        .collect();
    let mut missing = bytes.saturating_sub(shares.iter().fold(0, |sum, &s| sum.saturating_add(s)));
    for (share, leg) in shares.iter_mut().zip(legs) {
        let more = narrow(carried(leg, finish_ns)).saturating_sub(*share);
        let more = more.min(missing);
        *share += more;
        missing -= more;
    }
    if bytes == 0 {
        shares.fill(0);
    }
    Some(Partition {
        bytes: shares,
        finish: Duration::from_nanos(finish_ns),
    })
}

/// Completion time of a message of `bytes` divided well among the paths; as [`partition`], without the shares, and
/// without allocation.
pub fn finish(legs: &[Leg], bytes: u64) -> Option<Duration> {
    finish_ns(legs, bytes).map(Duration::from_nanos)
}

/// Completion time of a message that is divided as given: that of the latest part. Paths with a share of zero do not
/// count. [`Duration::MAX`] for a share on a path of rate zero.
///
/// # Panics
/// The number of shares differs from the number of paths.
pub fn finish_of(legs: &[Leg], bytes: &[u64]) -> Duration {
    assert_eq!(legs.len(), bytes.len(), "a share for each path");
    let used = legs.iter().zip(bytes).filter(|(_, bytes)| **bytes > 0);
    let ends = used.map(|(leg, &bytes)| {
        let sending = leg.bandwidth.time_to_send(bytes);
        sending.saturating_add(leg.delay_min)
    });
    ends.max().unwrap_or(Duration::ZERO)
}

/// The least time by which the paths carry `bytes`.
fn finish_ns(legs: &[Leg], bytes: u64) -> Option<u64> {
    let is_done = |time_ns: u64| {
        let carried = legs.iter().map(|leg| carried(leg, time_ns));
        carried.fold(0u128, u128::saturating_add) >= u128::from(bytes)
    };
    if bytes == 0 {
        return (!legs.is_empty()).then_some(0);
    }
    if !is_done(FINISH_MAX_NS) {
        return None;
    }
    let (mut too_early, mut enough) = (0, FINISH_MAX_NS);
    while enough - too_early > 1 {
        let middle = too_early + (enough - too_early) / 2;
        if is_done(middle) {
            enough = middle;
        } else {
            too_early = middle;
        }
    }
    Some(enough)
}

/// Whole bytes that a path carries within a time.
fn carried(leg: &Leg, time_ns: u64) -> u128 {
    let delay_ns = leg.delay_min.min(DELAY_MAX * 1000).as_nanos();
    let sending_ns = u128::from(time_ns).saturating_sub(delay_ns);
    u128::from(leg.bandwidth.as_bps()) * sending_ns / 8_000_000_000
}

fn narrow(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leg(kbps: u64, delay_ms: u64) -> Leg {
        Leg {
            bandwidth: Rate::from_kbps(kbps),
            delay_min: Duration::from_millis(delay_ms),
        }
    }

    /// Eq. (13): r₁ = b₁·r/(b₁+b₂) + b₁·b₂·(d₂−d₁)/(b₁+b₂); 8 and 4 Mbit/s, 20 and 50 ms, 1 MB.
    #[test]
    fn equation_13() {
        let legs = [leg(8_000, 20), leg(4_000, 50)];
        let two = partition(&legs, 1_000_000).expect("carried");
        // In bytes: 1e6·2/3 + (1e6·5e5/1.5e6)·0.03 = 676,667.
        assert_eq!(two.bytes, [676_667, 323_333]);
        assert_eq!(two.finish.as_micros(), 696_667);
    }

    #[test]
    fn a_path_that_would_get_less_than_nothing_is_left_out() {
        let legs = [leg(8_000, 20), leg(80_000, 500), leg(0, 0)];
        let small = partition(&legs, 100_000).expect("carried");
        assert_eq!(small.bytes, [100_000, 0, 0]);
        assert_eq!(small.finish, Duration::from_millis(120));
        let large = partition(&legs, 10_000_000).expect("carried");
        assert!(
            large.bytes[1] > 8_000_000 && large.bytes[2] == 0,
            "{large:?}"
        );
    }

    #[test]
    fn nothing_to_send_and_nothing_to_send_it_on() {
        let empty = partition(&[leg(1, 5)], 0).expect("carried");
        assert_eq!((empty.bytes, empty.finish), (vec![0], Duration::ZERO));
        assert_eq!(partition(&[], 0), None);
        assert_eq!(partition(&[], 9), None);
        assert_eq!(partition(&[leg(0, 5)], 9), None);
        let late = Leg {
            delay_min: Duration::MAX,
            ..leg(1, 0)
        };
        assert!(finish(&[late], 1).is_some_and(|time| time > DELAY_MAX));
        assert_eq!(finish_of(&[leg(0, 0)], &[1]), Duration::MAX);
        assert_eq!(
            finish(
                &[Leg {
                    bandwidth: Rate::from_bps(u64::MAX),
                    ..leg(0, 3)
                }],
                u64::MAX
            ),
            Some(Duration::from_nanos(3_000_000 + 8_000_000_000))
        );
    }

    fn legs() -> impl Strategy<Value = Vec<Leg>> {
        prop::collection::vec((0u64..50_000, 0u64..900), 1..6)
            .prop_map(|legs| legs.into_iter().map(|(kbps, ms)| leg(kbps, ms)).collect())
    }

    /// The least finishing time by closed form, over all subsets.
    fn brute_force(legs: &[Leg], bytes: u64) -> f64 {
        let subsets = 1..1u32 << legs.len();
        let times = subsets.filter_map(|subset| {
            let (mut work, mut rate) = (bytes as f64 * 8.0, 0.0);
            let members = || {
                legs.iter()
                    .enumerate()
                    .filter(|(at, _)| subset >> at & 1 == 1)
            };
            for (_, leg) in members() {
                let bps = leg.bandwidth.as_bps() as f64;
                work += bps * leg.delay_min.as_secs_f64();
                rate += bps;
            }
            let time = work / rate;
            let is_feasible =
                rate > 0.0 && members().all(|(_, leg)| leg.delay_min.as_secs_f64() <= time);
            is_feasible.then_some(time)
        });
        times.fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn sums_ends_together_and_is_best(legs in legs(), bytes in 1u64..20_000_000) {
            let best = brute_force(&legs, bytes);
            let Some(divided) = partition(&legs, bytes) else {
                prop_assert!(best.is_infinite());
                return Ok(());
            };
            prop_assert_eq!(divided.bytes.iter().sum::<u64>(), bytes);
            let finish = divided.finish;
            prop_assert!(finish_of(&legs, &divided.bytes) <= finish);
            // Whole bytes on slow paths: up to a byte each is rounded away and carried by the others.
            let slack = legs.iter().filter(|leg| leg.bandwidth > Rate::ZERO).count() as f64;
            let total: f64 = legs.iter().filter(|leg| leg.delay_min < finish).map(|leg| leg.bandwidth.as_bytes_per_s()).sum();
            prop_assert!((finish.as_secs_f64() - best).abs() <= slack / total + 2e-9, "{:?} {}", finish, best);
            for (leg, &bytes) in legs.iter().zip(&divided.bytes) {
                if bytes > 0 {
                    let more = finish_of(std::slice::from_ref(leg), &[bytes + 2]);
                    prop_assert!(more >= finish, "all end together, to a byte");
                } else {
                    prop_assert!(finish_of(std::slice::from_ref(leg), &[2]) >= finish, "left out without need");
                }
            }
            // No subset is earlier.
            for skip in 0..legs.len() {
                let mut fewer = legs.clone();
                fewer.remove(skip);
                prop_assert!(super::finish(&fewer, bytes).is_none_or(|time| time >= finish));
            }
            let alone = legs.iter().map(|leg| finish_of(std::slice::from_ref(leg), &[bytes])).min();
            prop_assert!(alone.is_none_or(|alone| alone + Duration::from_nanos(1) >= finish));
        }
    }
}
