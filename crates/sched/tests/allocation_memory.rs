//! Dividing capacity takes no memory once the buffers are there.
//!
//! Without the test harness, whose threads would be counted, too.
#![allow(clippy::print_stdout, reason = "it says itself what the harness would")]

use std::alloc::System;

use anabranch_sched::allocation::{Allocator, Ask, Reserve};
use anabranch_spec::Priority;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let mut asks: Vec<Ask> = (0..10_000)
        .map(|index| Ask {
            priority: Priority(64 * (index % 3) as u8),
            weight: 1 + index % 997,
            demand: (index % 5 != 0).then_some(u64::from(index * 7919 % 100_003)),
            cap: (index % 7 == 0).then_some(50_000),
            claim: (index % 11 == 0).then_some(Reserve {
                rank: index,
                rate: 100,
            }),
        })
        .collect();
    let mut allocator = Allocator::default();
    allocator.allocate(200_000_000, &asks);
    allocator.offers(&asks);
    let calls = || {
        let stats = ALLOCATOR.stats();
        stats.allocations + stats.reallocations
    };
    let before = calls();
    for round in 1..20 {
        for ask in &mut asks {
            ask.weight = ask.weight % 1000 + 1;
        }
        let shares: u64 = allocator.allocate(round * 10_000_000, &asks).iter().sum();
        let offers = allocator.offers(&asks).iter().max();
        assert!(shares <= round * 10_000_000 && offers.is_some());
    }
    assert_eq!(calls() - before, 0);
    println!("test no_allocation_in_steady_state ... ok");
}
