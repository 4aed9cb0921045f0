//! Deliberate faults: for each, some storm in which exactly its invariant reports it. An invariant that no fault breaks
//! would be a check that cannot fail.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anabranch_sim::storm::{self, Invariant, Options, Tamper};

/// Number of storms in which a fault may find its preconditions: a stream of the right kind, a loss, a reset.
const SEEDS: u64 = 60;

/// First storm in which the fault shows, and the other violations reported there.
fn shows(tamper: Tamper) -> Option<(u64, Vec<Invariant>)> {
    (0..SEEDS).find_map(|seed| {
        let with = Options {
            tamper: Some(tamper),
            ..Options::default()
        };
        let broken = storm::run(seed, with).broken;
        let found: Vec<Invariant> = broken.iter().map(|one| one.invariant).collect();
        found.contains(&tamper.breaks()).then_some((seed, found))
    })
}

/// True if breaking `other` is a consequence of the fault: for example, a lost ADU is acknowledged and not delivered.
fn follows(tamper: Tamper, other: Invariant) -> bool {
    let consequences: &[Invariant] = match tamper {
        // It is missing from all records.
        Tamper::Lose | Tamper::Renumber => &[
            Invariant::AckedDelivered,
            Invariant::Complete,
            Invariant::Intact,
            Invariant::Once,
        ],
        Tamper::CloseSession | Tamper::ConnectAgain => &[
            Invariant::OneSession,
            Invariant::SessionLives,
            Invariant::Complete,
        ],
        // Of unreliable streams the same forgery leaves bytes unaccounted for.
        Tamper::ForgeLoss => &[Invariant::PartsReported],
        Tamper::Linger => &[Invariant::Identity, Invariant::Once, Invariant::Order],
        _ => &[],
    };
    other == tamper.breaks() || consequences.contains(&other)
}

#[test]
fn every_deliberate_fault_is_reported_by_its_invariant() {
    // The allocator's invariant needs a process of its own: `storm_memory.rs`.
    let faults: Vec<Tamper> = Tamper::ALL
        .into_iter()
        .filter(|fault| *fault != Tamper::Leak)
        .collect();
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let shown = shows(fault);
                    let (seed, found) = shown
                        .unwrap_or_else(|| panic!("{fault:?} shows in none of {SEEDS} storms"));
                    let strange = found.iter().find(|other| !follows(fault, **other));
                    assert_eq!(strange, None, "seed {seed}, {fault:?}: {found:?}");
                    let without = storm::run(seed, Options::default()).broken;
                    assert_eq!(without, [], "seed {seed} without a fault");
                }
            });
        }
    });
}

#[test]
fn every_invariant_has_a_fault_that_breaks_it() {
    let broken: BTreeSet<Invariant> = Tamper::ALL.into_iter().map(Tamper::breaks).collect();
    let all: BTreeSet<Invariant> = Invariant::ALL.into_iter().collect();
    assert_eq!(broken, all);
}
