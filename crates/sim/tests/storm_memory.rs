//! Memory of the process during storms, counted by the allocator. This file has a single test, because the allocator
//! counts for the whole process.

use std::alloc::System;

use anabranch_sim::storm::{self, Invariant, Options, Reach, Tamper};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SEEDS: u64 = 60;
/// Further seeds, each of which found a fault: 522, whose bound had no memory for the models of eight channels to satellites.
const FOUND_FAULTS: [u64; 1] = [522];

/// Bytes allocated and not freed.
fn allocated() -> u64 {
    let stats = ALLOCATOR.stats();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated) as u64
}

#[test]
fn memory_keeps_to_what_the_windows_allow() {
    let options = Options {
        allocated: Some(allocated),
        ..Options::default()
    };
    let mut reach = Reach::default();
    for seed in (0..SEEDS).chain(FOUND_FAULTS) {
        let report = storm::run(seed, options);
        assert_eq!(report.broken, [], "seed {seed}");
        reach = reach.max(report.reach);
    }
    // A bound that is never approached proves nothing.
    assert!(reach.memory > 0.4, "{reach:?}");
    let leaking = Options {
        tamper: Some(Tamper::Leak),
        ..options
    };
    let found = (0..SEEDS).find_map(|seed| {
        let broken = storm::run(seed, leaking).broken;
        (!broken.is_empty()).then_some((seed, broken))
    });
    let (seed, broken) = found.expect("some storm has small windows");
    let all: Vec<Invariant> = broken.iter().map(|one| one.invariant).collect();
    assert_eq!(all, [Invariant::Memory], "seed {seed}");
}
