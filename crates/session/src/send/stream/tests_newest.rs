//! Turns of a stream whose newest ADU is sent first.

use super::{
    tests::{Steady, receipt, stream_of, take},
    *,
};

fn stream(lifetime_ms: Option<u64>) -> SendStream {
    stream_of(Order::NewestFirst, true, lifetime_ms)
}

fn push(stream: &mut SendStream, at_ms: u64, length: usize) -> u64 {
    stream.push(Instant::from_millis(at_ms), Bytes::from(vec![1; length]), 0)
}

/// Sequences of the pieces of up to 1000 bytes that are taken until nothing waits.
fn taken(stream: &mut SendStream) -> Vec<u64> {
    std::iter::from_fn(|| take(stream, 1000))
        .map(|piece| piece.place.sequence)
        .collect()
}

#[test]
fn the_newest_goes_first_and_what_was_begun_is_finished() {
    let mut s = stream(Some(5000));
    for at_ms in [0, 40, 80] {
        push(&mut s, at_ms, 1500);
    }
    assert_eq!(s.next_deadline(), Some(Instant::from_millis(5080)));
    assert_eq!(take(&mut s, 1000).expect("data").place.sequence, 2);
    push(&mut s, 120, 1500);
    assert_eq!(s.ahead_bytes(), 500, "of the begun one");
    assert_eq!(s.next_deadline(), Some(Instant::from_millis(5080)));
    assert_eq!(taken(&mut s), [2, 3, 3, 1, 1, 0, 0]);
    assert_eq!((s.backlog_bytes(), s.ahead_bytes()), (0, 0));
    // All was sent, and the next one has its turn.
    push(&mut s, 160, 10);
    assert_eq!(taken(&mut s), [4]);
}

#[test]
fn lost_parts_go_before_the_newest() {
    let mut s = stream(Some(5000));
    push(&mut s, 0, 1500);
    let first = take(&mut s, 1000).expect("data");
    take(&mut s, 1000).expect("the rest");
    push(&mut s, 40, 500);
    assert_eq!(s.on_lost(first.place, 1000), None);
    assert_eq!(s.ahead_bytes(), 1000);
    assert_eq!(s.next_deadline(), Some(Instant::from_millis(5000)));
    assert_eq!(s.instead_of(0), 0, "it has a part to repair");
    assert_eq!(taken(&mut s), [0, 1]);
}

#[test]
fn a_plan_has_the_turns_of_the_stream() {
    let mut s = stream(None);
    for at_ms in [0, 40, 80] {
        push(&mut s, at_ms, 1000);
    }
    let order: Vec<u64> = s.waiting(u64::MAX).map(|adu| adu.sequence).collect();
    assert_eq!(order, [2, 1, 0]);
    assert_eq!(s.instead_of(0), 2);
    let credit = 2 * (1000 + ADU_OVERHEAD_BYTES);
    let order: Vec<u64> = s.waiting(credit).map(|adu| adu.sequence).collect();
    assert_eq!(order, [2, 1], "what there is credit for");
}

/// The window is full with what was begun: it must be finished, or its credit would never come back.
#[test]
fn without_credit_for_the_newest_what_was_begun_is_finished() {
    let mut s = stream(None);
    s.credit = 1500 + ADU_OVERHEAD_BYTES;
    push(&mut s, 0, 1500);
    push(&mut s, 40, 1500);
    assert_eq!(taken(&mut s), [1, 1]);
    assert!(!s.is_sendable(u64::MAX), "no credit for the other");
    s.credit += 1500 + ADU_OVERHEAD_BYTES;
    push(&mut s, 80, 2000);
    assert!(
        !s.is_sendable(u64::MAX),
        "nor for a newer one that is larger"
    );
    s.credit += 500;
    assert_eq!(taken(&mut s), [2, 2]);
}

/// What expires or is acknowledged is forgotten, whichever turn it would have had.
#[test]
fn what_is_settled_has_no_turn() {
    let mut s = stream(Some(100));
    for at_ms in [0, 40, 80] {
        push(&mut s, at_ms, 1000);
    }
    let piece = take(&mut s, 1000).expect("data");
    assert!(
        s.on_acked(receipt(Instant::from_millis(90)), piece.place, 1000)
            .is_some()
    );
    let mut settled = Vec::new();
    s.expire(Instant::from_millis(110), &mut settled);
    assert_eq!(
        settled.iter().map(|one| one.sequence).collect::<Vec<_>>(),
        [0]
    );
    assert_eq!(taken(&mut s), [1]);
}

/// The newer ones are served first, so those before them are late.
#[test]
fn hopeless_are_the_old_behind_the_new() {
    let mut s = stream(Some(100));
    for at_ms in [0, 50, 60] {
        push(&mut s, at_ms, 1000);
    }
    let mut settled = Vec::new();
    // 36 ms and 1 ms for each kB: the first would arrive after 39 ms, with 38 ms left.
    s.drop_hopeless(Instant::from_millis(62), 9000, &Steady(36, 0), &mut settled);
    assert_eq!(
        settled.iter().map(|one| one.sequence).collect::<Vec<_>>(),
        [0]
    );
    // In the order of its turns, the second is judged alone.
    let mut settled = Vec::new();
    s.drop_hopeless(
        Instant::from_millis(62),
        1000,
        &Steady(200, 0),
        &mut settled,
    );
    assert!(settled.is_empty(), "the youngest would be late, too");
}
