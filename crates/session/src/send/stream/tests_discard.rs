//! ADUs that the application discards.

use super::{
    tests::{receipt, stream_of, take},
    *,
};
use crate::{send::ADU_OVERHEAD_BYTES, stats::Discarded};

fn push(s: &mut SendStream, adus: usize) {
    for _ in 0..adus {
        s.push(Instant::EPOCH, Bytes::from(vec![0; 1000]), 0);
    }
}

fn discard(s: &mut SendStream) -> (Discarded, Vec<(u64, Option<u64>)>) {
    let mut settled = Vec::new();
    let discarded = s.discard(&mut settled);
    let skip = |one: &Settled| match one.outcome {
        AduOutcome::Dropped { skip } => (one.sequence, skip),
        ref other => panic!("{other:?}"),
    };
    (discarded, settled.iter().map(skip).collect())
}

/// Sequences of what is still sent, in order.
fn left(s: &mut SendStream) -> Vec<u64> {
    let pieces = std::iter::from_fn(|| take(s, 1000));
    pieces.map(|piece| piece.place.sequence).collect()
}

#[test]
fn what_is_not_sent_completely_is_given_up_and_the_next_adu_goes_at_once() {
    let mut s = stream_of(Order::Ordered, false, None);
    push(&mut s, 4);
    let whole = take(&mut s, 1000).expect("data");
    take(&mut s, 400).expect("data");
    let (discarded, dropped) = discard(&mut s);
    let expected = Discarded {
        adus: 3,
        bytes: 3000,
    };
    assert_eq!(discarded, expected);
    // The receiver of an unreliable stream waits for nothing.
    assert_eq!(dropped, [(1, None), (2, None), (3, None)]);
    assert_eq!((s.backlog_bytes(), s.held_bytes()), (0, 1000));
    assert_eq!(s.counters.shed_adus, 3);
    assert!(!s.has_given_up_within(Instant::EPOCH, Duration::from_secs(1)));
    push(&mut s, 1);
    assert_eq!(left(&mut s), [4]);
    // The one that was sent completely has an outcome of its own.
    let settled = s.on_acked(receipt(Instant::EPOCH), whole.place, 1000);
    assert_eq!(settled.map(|settled| settled.sequence), Some(0));
    assert_eq!(discard(&mut s), (Discarded::default(), vec![]));
}

#[test]
fn an_adu_that_is_delivered_in_part_is_finished() {
    let mut s = stream_of(Order::Ordered, false, None);
    s.spec = StreamSpec {
        partial: true,
        ..(*s.spec).clone()
    }
    .into();
    push(&mut s, 3);
    take(&mut s, 400).expect("data");
    assert_eq!(discard(&mut s).1, [(1, None), (2, None)]);
    assert_eq!(left(&mut s), [0]);
}

/// The receiver of a reliable stream is notified not to wait, and gets the credit back; repairs of what was begun go as well.
#[test]
fn within_a_lifetime_credit_is_returned() {
    let mut s = stream_of(Order::Ordered, true, Some(1_000));
    push(&mut s, 3);
    take(&mut s, 1000).expect("data");
    let begun = take(&mut s, 400).expect("data");
    assert_eq!(s.on_lost(begun.place, 400), None, "it waits to be repaired");
    let used = 1000 + ADU_OVERHEAD_BYTES;
    assert_eq!(discard(&mut s).1, [(1, Some(used)), (2, Some(0))]);
    assert_eq!(s.backlog_bytes(), 0);
    assert_eq!(left(&mut s), [0u64; 0]);
}

#[test]
fn of_a_reliable_stream_only_what_has_a_deadline_may_go() {
    let mut s = stream_of(Order::Ordered, true, None);
    push(&mut s, 2);
    s.spec = StreamSpec {
        lifetime: Some(Duration::from_secs(1)),
        ..(*s.spec).clone()
    }
    .into();
    push(&mut s, 2);
    assert_eq!(discard(&mut s).1, [(2, Some(0)), (3, Some(0))]);
    assert_eq!(left(&mut s), [0, 1], "they were handed over without one");
}

#[test]
fn an_adu_that_overtook_others_is_given_up_like_them() {
    let mut s = stream_of(Order::NewestFirst, false, None);
    push(&mut s, 3);
    assert_eq!(take(&mut s, 400).expect("data").place.sequence, 2);
    assert_eq!(discard(&mut s).0.adus, 3);
    push(&mut s, 2);
    assert_eq!(left(&mut s), [4, 3]);
}
