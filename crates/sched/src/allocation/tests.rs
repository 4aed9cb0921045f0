use proptest::prelude::*;

use super::*;
use crate::{
    pick::{Picker, tests::stream},
    view::View,
};

fn ask(weight: u32, demand: Option<u64>) -> Ask {
    Ask {
        priority: Priority::NORMAL,
        weight,
        demand,
        cap: None,
        claim: None,
    }
}

fn shares(capacity: u64, asks: &[Ask]) -> Vec<u64> {
    Allocator::default().allocate(capacity, asks).to_vec()
}

/// Figure 3-2 with its intent: a unit to every stream that has less than it requested, until all is used.
fn figure_3_2(total: u64, requested: &[u64]) -> Vec<u64> {
    let mut allocated = vec![0; requested.len()];
    let mut unallocated = total;
    loop {
        let before = unallocated;
        for (share, requested) in allocated.iter_mut().zip(requested) {
            if unallocated > 0 && *share < *requested {
                unallocated -= 1;
                *share += 1;
            }
        }
        if unallocated == before {
            return allocated;
        }
    }
}

#[test]
fn by_hand() {
    let capped = |cap| Ask {
        cap: Some(cap),
        ..ask(100, None)
    };
    let equal = |demands: &[u64]| -> Vec<Ask> {
        let asks = demands.iter().map(|&demand| ask(100, Some(demand)));
        asks.collect()
    };
    assert_eq!(shares(10, &equal(&[2, 3, 9])), [2, 3, 5]);
    assert_eq!(shares(10, &equal(&[2, 3, 4])), [2, 3, 4], "1 is wasted");
    assert_eq!(shares(10, &equal(&[9, 9, 9])), [3, 3, 4]);
    assert_eq!(
        shares(12, &[ask(200, None), ask(100, None), capped(3)]),
        [6, 3, 3]
    );
    assert_eq!(
        shares(100, &[ask(3, None), ask(1, Some(60)), ask(1, None)]),
        [60, 20, 20]
    );
    assert_eq!(shares(0, &equal(&[1, 2])), [0, 0]);
    assert_eq!(shares(7, &[]), [0; 0]);
    let most = shares(u64::MAX, &[ask(10_000, None), ask(10_000, None)]);
    assert_eq!(most, [u64::MAX / 2, u64::MAX / 2 + 1]);
}

#[test]
fn promises_then_priorities_then_weights() {
    let promised = |rank, rate, demand| Ask {
        claim: Some(Reserve { rank, rate }),
        ..ask(100, demand)
    };
    let urgent = Ask {
        priority: Priority::URGENT,
        ..ask(100, Some(30))
    };
    // 40 set aside, 30 urgent, 30 for the two of normal priority.
    let all = [promised(0, 40, None), urgent, ask(200, None)];
    assert_eq!(shares(100, &all), [40 + 10, 30, 20]);
    // What a promised stream does not want is not kept from the others.
    let quiet = [promised(0, 40, Some(5)), urgent, ask(200, None)];
    assert_eq!(shares(100, &quiet), [5, 30, 65]);
    // Too little for all promises: the first in precedence first.
    let many = [
        promised(1, 60, None),
        promised(0, 70, None),
        ask(9_999, None),
    ];
    assert_eq!(shares(100, &many), [30, 70, 0]);
}

#[test]
fn an_offer_is_what_would_be_had() {
    let mut allocator = Allocator::default();
    let mut offers = |capacity, asks: &[Ask]| {
        allocator.allocate(capacity, asks);
        allocator.offers(asks).to_vec()
    };
    // Alone with little to send: all of it. With an elastic one: half of it.
    assert_eq!(offers(100, &[ask(100, Some(1))]), [100]);
    assert_eq!(offers(100, &[ask(100, Some(1)), ask(100, None)]), [50, 99]);
    assert_eq!(
        offers(100, &[ask(100, Some(1)), ask(100, Some(9))]),
        [91, 99]
    );
    let capped = Ask {
        cap: Some(20),
        ..ask(100, Some(1))
    };
    assert_eq!(offers(100, &[capped]), [20]);
    let promised = Ask {
        claim: Some(Reserve { rank: 0, rate: 40 }),
        ..ask(100, Some(0))
    };
    assert_eq!(offers(100, &[promised, ask(100, None)]), [40 + 30, 100]);
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let amount = || prop_oneof![0..20_u64, 0..5_000_u64, 0..=u64::MAX];
    (
        prop_oneof![Just(64_u8), Just(128), any::<u8>()],
        prop_oneof![Just(100_u32), 0..20_000_u32],
        proptest::option::of(amount()),
        proptest::option::weighted(0.2, amount()),
        proptest::option::weighted(0.2, (0..3_u32, amount())),
    )
        .prop_map(|(priority, weight, demand, cap, claim)| Ask {
            priority: Priority(priority),
            weight,
            demand,
            cap,
            claim: claim.map(|(rank, rate)| Reserve { rank, rate }),
        })
}

fn any_capacity() -> impl Strategy<Value = u64> {
    prop_oneof![0..50_u64, 0..50_000_u64, 0..=u64::MAX]
}

proptest! {
    /// "No stream is ever allocated more bandwidth than it requests; any extra bandwidth is wasted", and
    /// nothing else is.
    #[test]
    fn exact(capacity in any_capacity(), asks in proptest::collection::vec(any_ask(), 0..40)) {
        let mut allocator = Allocator::default();
        let shares = allocator.allocate(capacity, &asks).to_vec();
        for (share, ask) in shares.iter().zip(&asks) {
            prop_assert!(*share <= ask.wants());
        }
        let wanted: u128 = asks.iter().map(|ask| u128::from(ask.wants())).sum();
        let given: u128 = shares.iter().map(|&share| u128::from(share)).sum();
        prop_assert_eq!(given, wanted.min(u128::from(capacity)));
        prop_assert_eq!(u128::from(allocator.unallocated()), u128::from(capacity) - given);
        // Buffers that held something else change nothing.
        allocator.allocate(capacity / 2, &asks[asks.len() / 2..]);
        prop_assert_eq!(allocator.allocate(capacity, &asks), &shares[..]);
    }

    /// "If min(requested) ≥ total/|streams| then bandwidth is divided evenly", to one unit.
    #[test]
    fn even(total in 0..1_000_000_u64, extra in proptest::collection::vec(0..100_000_u64, 1..40)) {
        let even = total.div_ceil(extra.len() as u64);
        let asks: Vec<Ask> = extra.iter().map(|more| ask(100, Some(even + more))).collect();
        for share in shares(total, &asks) {
            prop_assert!(share == even || share + 1 == even, "{} of {}", share, even);
        }
    }

    /// The pseudo-code gives the same amounts; who gets the odd units is the only difference.
    #[test]
    fn as_the_pseudo_code(total in 0..2_000_u64, requested in proptest::collection::vec(0..200_u64, 0..30)) {
        let asks: Vec<Ask> = requested.iter().map(|&demand| ask(100, Some(demand))).collect();
        let (mut ours, mut theirs) = (shares(total, &asks), figure_3_2(total, &requested));
        ours.sort_unstable();
        theirs.sort_unstable();
        prop_assert_eq!(ours, theirs);
    }

    /// Max–min: nobody who gets less than it wants could get more without taking it from one that has no
    /// more per weight. To one unit each.
    #[test]
    fn max_min(capacity in 0..100_000_u64, list in proptest::collection::vec((1..10_000_u32, proptest::option::of(0..9_000_u64)), 1..40)) {
        let asks: Vec<Ask> = list.iter().map(|&(weight, demand)| ask(weight, demand)).collect();
        let shares = shares(capacity, &asks);
        for (mine, own) in shares.iter().zip(&asks).filter(|(share, ask)| **share < ask.wants()) {
            for (theirs, other) in shares.iter().zip(&asks) {
                let (mine, theirs) = ((mine + 1) * other.width(), theirs.saturating_sub(1) * own.width());
                prop_assert!(theirs < mine.max(1), "{:?}: {:?} and {:?}", shares, own, other);
            }
        }
    }

    /// A stream with twice the weight gets twice as much, to one unit.
    #[test]
    fn by_weight(capacity in 0..1_000_000_u64, weights in proptest::collection::vec(1..10_000_u32, 1..40)) {
        let asks: Vec<Ask> = weights.iter().map(|&weight| ask(weight, None)).collect();
        let all: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        for (share, weight) in shares(capacity, &asks).iter().zip(weights) {
            let exact = capacity as f64 * f64::from(weight) / all as f64;
            prop_assert!((*share as f64 - exact).abs() < 1.0 + 1e-6);
        }
    }

    /// A lower priority gets something only when all higher ones have what they want; promises come
    /// before both.
    #[test]
    fn in_order(capacity in any_capacity(), asks in proptest::collection::vec(any_ask(), 0..40)) {
        let shares = shares(capacity, &asks);
        let reserve = |ask: &Ask| ask.claim.map_or(0, |claim| claim.rate).min(ask.wants());
        let promised: u128 = asks.iter().map(|ask| u128::from(reserve(ask))).sum();
        if promised <= u128::from(capacity) {
            for (share, ask) in shares.iter().zip(&asks) {
                prop_assert!(*share >= reserve(ask));
            }
            for (_, high) in shares.iter().zip(&asks).filter(|(share, ask)| **share < ask.wants()) {
                for (share, low) in shares.iter().zip(&asks).filter(|(_, ask)| ask.priority < high.priority) {
                    prop_assert_eq!(*share, reserve(low));
                }
            }
        } else {
            for (share, ask) in shares.iter().zip(&asks) {
                prop_assert!(*share <= reserve(ask), "nothing is left to be divided");
            }
        }
    }

    /// The property that the scheduler's picker enforces: over any interval in which two streams of equal priority have a
    /// backlog, what they sent per weight differs by no more than a packet of each per weight
    /// [Goyal et al. 1996, Theorem 1].
    #[test]
    fn shares_are_kept_to_a_packet(
        weights in proptest::collection::vec(1..1_000_u32, 2..6),
        packets in proptest::collection::vec(1..=1_500_usize, 50..300),
    ) {
        let streams: Vec<_> = (0..weights.len())
            .map(|index| stream(index as u64, Priority::NORMAL, weights[index], 1 << 40))
            .collect();
        let view = View {
            now: anabranch_base::Instant::EPOCH,
            channels: &[],
            streams: &streams,
        };
        let mut picker = Picker::default();
        let mut served = vec![0_u64; weights.len()];
        let mut history = vec![served.clone()];
        for bytes in packets {
            let index = picker.pick(&view, |_| true).expect("all have a backlog");
            picker.charge(&streams[index], bytes);
            served[index] += bytes as u64;
            history.push(served.clone());
        }
        let weight = |index: usize| f64::from(weights[index]);
        for before in history.iter().step_by(13) {
            for after in &history {
                for (i, j) in (0..weights.len()).zip(1..weights.len()) {
                    let sent = |index: usize| after[index].saturating_sub(before[index]) as f64 / weight(index);
                    let apart = (sent(i) - sent(j)).abs();
                    let bound = 1_500.0 / weight(i) + 1_500.0 / weight(j);
                    prop_assert!(apart <= bound + 1e-6, "{} > {}", apart, bound);
                }
            }
        }
    }

    /// Offers are what another allocation would give, to one unit.
    #[test]
    fn offers_hold(capacity in 0..100_000_u64, mut asks in proptest::collection::vec(any_ask(), 1..20)) {
        let count = asks.len() as u64;
        for ask in &mut asks {
            if let Some(claim) = &mut ask.claim {
                // Promises that fit.
                claim.rate %= capacity / count + 1;
            }
        }
        let mut allocator = Allocator::default();
        let shares = allocator.allocate(capacity, &asks).to_vec();
        let offers = allocator.offers(&asks).to_vec();
        for index in 0..asks.len() {
            let before = asks[index].demand.take();
            let would = allocator.allocate(capacity, &asks)[index];
            asks[index].demand = before;
            prop_assert!(offers[index].abs_diff(would) <= 1, "{}: {} would be {}", index, offers[index], would);
            prop_assert!(offers[index] >= shares[index]);
        }
    }
}
