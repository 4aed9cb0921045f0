//! Rate of each path of a pipe.

use anabranch::base::Rate;

/// Rate of a path over its share, so that what another path turns out not to carry fits.
const MARGIN: f64 = 1.1;
/// Least rate of a path, in equal shares: one that is thought to carry nothing must be able to show that it does.
const LEAST: f64 = 0.25;

/// Divides `total` among paths in proportion to their measured rates (`None`: nothing is known, and the path is taken to be
/// like the others), none above `most`. With one path it is simply the total. O(n²).
pub(super) fn divide(total: Rate, carry: &[Option<Rate>], most: Option<Rate>) -> Vec<Rate> {
    let most = most.map_or(f64::INFINITY, |rate| rate.as_bps() as f64);
    let total = total.as_bps() as f64;
    let count = carry.len();
    if count <= 1 {
        return vec![Rate::from_bps(total.min(most) as u64); count];
    }
    let known = carry.iter().flatten().map(|rate| rate.as_bps() as f64);
    let (sum, seen) = known.fold((0.0, 0), |(sum, seen), rate| (sum + rate, seen + 1));
    let usual = if sum > 0.0 {
        sum / f64::from(seen)
    } else {
        1.0
    };
    let weight = |rate: &Option<Rate>| rate.map_or(usual, |rate| rate.as_bps() as f64);
    let weights: Vec<f64> = carry
        .iter()
        .map(weight)
        .map(|w| w.max(LEAST * usual))
        .collect();
    let mut shares = vec![0.0; count];
    let mut left = total * MARGIN;
    // The excess of a path that is full goes to the others.
    for _ in 0..count {
        let open = |at: &usize| shares[*at] < most;
        let places: Vec<usize> = (0..count).filter(open).collect();
        let sum: f64 = places.iter().map(|&at| weights[at]).sum();
        let mut rest = 0.0;
        for at in places {
            let share = shares[at] + left * weights[at] / sum;
            rest += (share - most).max(0.0);
            shares[at] = share.min(most);
        }
        left = rest;
        if left < 1.0 {
            break;
        }
    }
    shares
        .into_iter()
        .map(|share| Rate::from_bps(share as u64))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kbps(kbps: u64) -> Rate {
        Rate::from_kbps(kbps)
    }

    #[test]
    fn paths_are_held_by_what_they_carry() {
        let total = kbps(1_000);
        assert_eq!(divide(total, &[None], None), [total]);
        assert_eq!(
            divide(total, &[Some(kbps(1))], Some(kbps(900))),
            [kbps(900)]
        );
        assert_eq!(divide(total, &[None, None], None), [kbps(550); 2]);
        let known = [Some(kbps(600)), Some(kbps(200))];
        assert_eq!(divide(total, &known, None), [kbps(825), kbps(275)]);
        let full = divide(total, &known, Some(kbps(700)));
        assert_eq!(full, [kbps(700), kbps(400)]);
        let dead = divide(total, &[Some(kbps(1_000)), Some(Rate::ZERO)], None);
        assert!(dead[1] > kbps(100), "{dead:?}");
        assert_eq!(divide(total, &[], None), []);
    }

    proptest! {
        #[test]
        fn together_they_carry_all_and_none_exceeds_its_maximum(
            total in 1u64..50_000,
            carry in prop::collection::vec(prop::option::of(0u64..20_000), 1..8),
            most in prop::option::of(1u64..20_000),
        ) {
            let carry: Vec<Option<Rate>> = carry.into_iter().map(|rate| rate.map(kbps)).collect();
            let shares = divide(kbps(total), &carry, most.map(kbps));
            let sum: u64 = shares.iter().map(|rate| rate.as_bps()).sum();
            let all = most.map_or(u64::MAX, |most| most * 1_000 * carry.len() as u64);
            prop_assert!(sum + 100 >= (total * 1_000).min(all), "{shares:?}");
            prop_assert!(sum <= total * 1_100 + 100);
            prop_assert!(shares.iter().all(|rate| most.is_none_or(|most| *rate <= kbps(most))));
        }
    }
}
