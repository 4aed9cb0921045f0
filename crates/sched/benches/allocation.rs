//! Cost of dividing capacity among streams: `cargo bench -p anabranch-sched --bench allocation`.
//!
//! 100, 1,000, 10,000 and 65,536 streams of three priorities, a fifth of them elastic, the others with
//! demands over four decades, some with a cap or a promise; scarce, so that levels must be found. Prints
//! one JSON object in the lab's shape. Times are wall-clock times of one thread, the median of several runs
//! with the smallest and the largest.

mod common;

use std::{hint::black_box, time::Instant as Clock};

use anabranch_sched::allocation::{Allocator, Ask, Reserve};
use anabranch_spec::Priority;
use serde_json::{Value, json};

/// Streams looked at in one run.
const WORK: usize = 2_000_000;

/// The k-th number of a fixed sequence without pattern (the splitmix64 finaliser).
fn scrambled(k: u64) -> u64 {
    let mut x = k.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn asks(count: u64) -> Vec<Ask> {
    let ask = |k| {
        let demand = 10_u64.pow(4 + (scrambled(k) % 4) as u32) + scrambled(k + count) % 10_000;
        Ask {
            priority: [Priority::BULK, Priority::NORMAL, Priority::URGENT][(k % 3) as usize],
            weight: 1 + (scrambled(k) >> 32) as u32 % 1000,
            demand: (!scrambled(k).is_multiple_of(5)).then_some(demand),
            cap: k.is_multiple_of(7).then_some(1_000_000),
            claim: k.is_multiple_of(100).then_some(Reserve {
                rank: k as u32,
                rate: 10_000,
            }),
        }
    };
    (0..count).map(ask).collect()
}

/// Microseconds per allocation, with offers or without.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn measure(allocator: &mut Allocator, asks: &[Ask], with_offers: bool) -> f64 {
    let rounds = (WORK / asks.len()).max(10) as u64;
    // What the urgent ones want, and half of the rest.
    let capacity = asks.len() as u64 * 1_500_000;
    let start = Clock::now();
    for round in 0..rounds {
        let shares = allocator.allocate(black_box(capacity + round), asks);
        black_box(shares);
        if with_offers {
            black_box(allocator.offers(asks));
        }
    }
    start.elapsed().as_secs_f64() * 1e6 / rounds as f64
}

fn row(count: u64, with_offers: bool) -> Value {
    let asks = asks(count);
    let mut allocator = Allocator::default();
    measure(&mut allocator, &asks, with_offers);
    let [median, least, most] =
        common::times(100.0, || measure(&mut allocator, &asks, with_offers));
    json!({
        "bench": if with_offers { "allocation_and_offers" } else { "allocation" },
        "streams": count,
        "us_median": median,
        "us_min": least,
        "us_max": most,
        "runs": common::RUNS,
    })
}

fn main() {
    if !common::is_measuring() {
        return;
    }
    let mut rows = Vec::new();
    for count in [100, 1_000, 10_000, 65_536] {
        rows.push(row(count, false));
        rows.push(row(count, true));
    }
    common::print("allocation", &rows);
}
