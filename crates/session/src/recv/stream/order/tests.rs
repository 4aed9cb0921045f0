use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anabranch_base::StreamId;
use anabranch_spec::StreamSpec;
use proptest::prelude::*;

use super::*;
use crate::wire::Fragment;

const LIFETIME: Duration = Duration::from_millis(800);
const PATIENCE: Duration = Duration::from_millis(600);

const CAPACITY: Capacity = Capacity {
    held_bytes: 1 << 20,
    reserve_bytes: 1 << 16,
    gaps: 1 << 16,
    gaps_unreliable: 1024,
};

fn unreliable(lifetime: Option<Duration>, window: u64) -> RecvStream {
    let spec = StreamSpec {
        reliable: false,
        order: Order::Ordered,
        lifetime,
        ..StreamSpec::default()
    };
    RecvStream::new(StreamId(0), Arc::new(spec), window, 0)
}

fn live() -> RecvStream {
    unreliable(Some(LIFETIME), 1 << 20)
}

fn ms(at: u64) -> Instant {
    Instant::from_millis(at)
}

/// A whole ADU, or the part of one that begins at `offset`, of 100 bytes.
fn part(sequence: u64, offset: usize, is_final: bool) -> Fragment {
    Fragment {
        stream: StreamId(0),
        sequence,
        offset,
        is_final,
        payload: Bytes::from(vec![sequence as u8; 100]),
    }
}

fn add(s: &mut RecvStream, at: u64, fragment: &Fragment) -> Accepted {
    let added = s.add(ms(at), fragment, CAPACITY);
    added.expect("no rule is broken")
}

fn skip(s: &mut RecvStream, at: u64, sequence: u64, more: u64) -> bool {
    let skipped = s.skip(ms(at), sequence, more, CAPACITY);
    skipped.expect("no rule is broken").is_readable
}

fn read_all(s: &mut RecvStream) -> Vec<u64> {
    std::iter::from_fn(|| s.read()).map(|(q, ..)| q).collect()
}

#[test]
fn an_adu_that_is_repaired_in_time_keeps_its_place() {
    let mut s = live();
    assert_eq!(add(&mut s, 0, &part(0, 0, false)), Accepted::Stored);
    assert_eq!(add(&mut s, 40, &part(1, 0, true)), Accepted::Stored);
    assert_eq!(s.release_at(), Some(ms(640)));
    // The rest of the first one comes by another path.
    assert_eq!(add(&mut s, 300, &part(0, 100, true)), Accepted::Readable);
    assert_eq!(read_all(&mut s), [0, 1]);
    assert_eq!((s.counters.dropped_adus, s.release_at()), (0, None));
}

#[test]
fn what_the_sender_gave_up_is_not_waited_for() {
    let mut s = live();
    add(&mut s, 0, &part(4, 0, true));
    add(&mut s, 0, &part(0, 0, false));
    assert!(!skip(&mut s, 50, 1, 2), "1 to 3; 0 may come");
    assert!(skip(&mut s, 60, 0, 0));
    assert_eq!(read_all(&mut s), [4]);
    assert_eq!(s.held_bytes(), 0, "nothing of 0 is kept");
    // Its rest is late.
    assert_eq!(add(&mut s, 70, &part(0, 100, true)), Accepted::Ignored);
    assert_eq!(s.counters.dropped_adus, 1);
}

#[test]
fn an_adu_that_was_given_up_counts_while_nothing_later_was_handed_over() {
    let mut s = live();
    add(&mut s, 0, &part(0, 0, false));
    skip(&mut s, 50, 0, 0);
    add(&mut s, 60, &part(0, 100, true));
    add(&mut s, 70, &part(1, 0, true));
    assert_eq!(read_all(&mut s), [0, 1]);
}

#[test]
fn nothing_waits_longer_than_three_quarters_of_the_lifetime() {
    for (lifetime, most) in [(Some(LIFETIME), 600), (None, 1000)] {
        let mut s = unreliable(lifetime, 1 << 20);
        add(&mut s, 100, &part(3, 0, true));
        assert_eq!(s.release_at(), Some(ms(100 + most)));
        assert!(!s.release(ms(100 + most - 1)));
        assert!(s.release(ms(100 + most)));
        assert_eq!((read_all(&mut s), s.release_at()), (vec![3], None));
        assert_eq!(add(&mut s, 1200, &part(2, 0, true)), Accepted::Ignored);
        assert_eq!(add(&mut s, 1200, &part(4, 0, true)), Accepted::Readable);
    }
}

#[test]
fn the_end_of_the_stream_releases_what_waits() {
    let mut s = live();
    add(&mut s, 0, &part(1, 0, true));
    add(&mut s, 0, &part(3, 0, true));
    add(&mut s, 0, &part(2, 0, false));
    assert_eq!(s.set_end(ms(10), 5, CAPACITY), Ok(true));
    assert!(!s.is_finished(), "before they are read");
    assert_eq!(read_all(&mut s), [1, 3]);
    assert!(s.is_finished());
    assert_eq!((s.held_bytes(), s.release_at()), (0, None));
}

#[test]
fn what_waits_is_within_the_window() {
    let mut s = unreliable(Some(LIFETIME), 2_000);
    for sequence in 1..40 {
        add(&mut s, sequence, &part(sequence, 0, true));
        assert!(s.held_bytes() <= 2_000);
    }
    assert_eq!(s.counters.dropped_adus, 39 - 8);
    s.release(ms(1000));
    assert_eq!(read_all(&mut s), (32..40).collect::<Vec<_>>());
    assert_eq!(s.held_bytes(), 0);
}

/// Event at the receiver.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A fragment: number, offset, true for the last one.
    Fragment(u64, usize, bool),
    Skip(u64),
}

proptest! {
    /// ADUs of one or two fragments, one every few milliseconds, whose fragments take any time and may be lost, which the
    /// sender states after any time. They are delivered once and in order, and none waits longer than it may; one that is
    /// complete is delivered as soon as all before it are complete or stated to be lost.
    #[test]
    fn order_is_kept_and_waits_are_bounded(
        adus in prop::collection::vec((1u64..60, 0u64..500, prop::option::weighted(0.5, 0u64..500), 0u8..8, 50u64..900), 1..60),
    ) {
        let mut steps: Vec<(u64, Step)> = Vec::new();
        let mut made_at = 0;
        for (number, &(period, delay, second, fate, stated)) in (0u64..).zip(&adus) {
            made_at += period;
            if fate > 0 {
                steps.push((made_at + delay, Step::Fragment(number, 0, second.is_none())));
            }
            if let Some(delay) = second.filter(|_| fate != 1) {
                steps.push((made_at + delay, Step::Fragment(number, 100, true)));
            }
            if fate == 0 || (fate == 1 && second.is_some()) {
                steps.push((made_at + stated, Step::Skip(number)));
            }
        }
        steps.sort_by_key(|(at, _)| *at);
        let mut s = live();
        let mut pieces: BTreeMap<u64, usize> = BTreeMap::new();
        let mut complete: BTreeMap<u64, Instant> = BTreeMap::new();
        let mut settled: BTreeSet<u64> = BTreeSet::new();
        let mut delivered: Vec<(u64, Instant)> = Vec::new();
        let mut steps = steps.into_iter().peekable();
        loop {
            let next = steps.peek().map(|(at, _)| ms(*at));
            let now = match (s.release_at(), next) {
                (Some(at), next) if next.is_none_or(|next| at <= next) => {
                    s.release(at);
                    at
                }
                (_, Some(next)) => {
                    let (_, step) = steps.next().expect("looked at it");
                    match step {
                        Step::Skip(number) => {
                            settled.insert(number);
                            s.skip(next, number, 0, CAPACITY).expect("no rule is broken");
                        }
                        Step::Fragment(number, offset, is_final) => {
                            s.add(next, &part(number, offset, is_final), CAPACITY).expect("no rule is broken");
                            let got = pieces.entry(number).or_default();
                            *got += 1;
                            let all = if adus[number as usize].2.is_some() { 2 } else { 1 };
                            if *got == all {
                                complete.insert(number, next);
                                settled.insert(number);
                            }
                        }
                    }
                    next
                }
                (_, None) => break,
            };
            delivered.extend(read_all(&mut s).into_iter().map(|number| (number, now)));
            let first_open = (0..).find(|number| !settled.contains(number)).expect("there are few");
            let last = delivered.last().map(|(number, _)| *number);
            for &number in complete.keys().filter(|&&number| number < first_open) {
                let is_delivered = delivered.iter().any(|(other, _)| *other == number);
                // What came too late is dropped, and what outlived its lifetime.
                let is_over = last.is_some_and(|last| last > number) || s.counters.expired_adus > 0;
                prop_assert!(is_delivered || is_over, "{number} at {now:?}");
            }
        }
        prop_assert!(delivered.windows(2).all(|pair| pair[0].0 < pair[1].0), "{delivered:?}");
        for (number, at) in delivered {
            let waited = at.since(complete[&number]);
            prop_assert!(waited <= PATIENCE, "{number} waited for {waited:?}");
        }
        prop_assert_eq!(s.release_at(), None);
        prop_assert!(s.ready.is_empty());
    }
}
