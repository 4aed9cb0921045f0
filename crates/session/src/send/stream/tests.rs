//! Invariants of a send stream, whatever the order of outcomes.

use anabranch_spec::DropOrder;
use proptest::prelude::*;

use super::*;

fn stream(reliable: bool, lifetime_ms: Option<u64>) -> SendStream {
    stream_of(Order::Ordered, reliable, lifetime_ms)
}

pub(super) fn stream_of(order: Order, reliable: bool, lifetime_ms: Option<u64>) -> SendStream {
    let spec = StreamSpec {
        reliable,
        order,
        lifetime: lifetime_ms.map(Duration::from_millis),
        ..StreamSpec::default()
    };
    SendStream::new(StreamId(0), spec.into(), u64::MAX)
}

pub(super) fn receipt(at: Instant) -> Receipt {
    Receipt {
        at,
        channel: ChannelId(0),
        rtt: Duration::ZERO,
    }
}

pub(super) fn take(stream: &mut SendStream, size_max: usize) -> Option<Piece> {
    stream.take_piece(Instant::EPOCH, u64::MAX, |_| size_max)
}

#[test]
fn an_adu_is_cut_to_the_space_there_is() {
    let mut s = stream(true, None);
    s.push(Instant::EPOCH, Bytes::from(vec![7; 2500]), 0);
    let pieces: Vec<Piece> = std::iter::from_fn(|| take(&mut s, 1000)).collect();
    let shape: Vec<_> = pieces
        .iter()
        .map(|p| (p.place.offset, p.data.len(), p.is_final))
        .collect();
    assert_eq!(
        shape,
        [(0, 1000, false), (1000, 1000, false), (2000, 500, true)]
    );
    assert_eq!(s.backlog_bytes(), 0);
    for (index, piece) in pieces.iter().enumerate() {
        let settled = s.on_acked(
            receipt(Instant::from_millis(5)),
            piece.place,
            piece.data.len(),
        );
        assert_eq!(settled.is_some(), index == 2);
    }
    assert!(s.is_settled());
    assert_eq!(s.held_bytes(), 0);
}

#[test]
fn a_lost_fragment_goes_before_new_data() {
    let mut s = stream(true, None);
    s.push(Instant::EPOCH, Bytes::from(vec![1; 3000]), 0);
    let first = take(&mut s, 1000).expect("data");
    assert_eq!(s.on_lost(first.place, 1000), None);
    let again = take(&mut s, 600).expect("repair");
    assert_eq!((again.place.offset, again.data.len()), (0, 600));
    let rest = take(&mut s, 1000).expect("rest of the repair");
    assert_eq!((rest.place.offset, rest.data.len()), (600, 400));
    assert_eq!(take(&mut s, 1000).expect("new data").place.offset, 1000);
}

/// Arrival of the first byte and error of the prediction, in milliseconds, at 1 kB/ms.
pub(super) struct Steady(pub(super) u64, pub(super) u64);

impl Outlook for Steady {
    fn arrival(&self, bytes: usize) -> Option<Duration> {
        Some(Duration::from_millis(self.0) + Duration::from_micros(bytes as u64))
    }

    fn error(&self) -> Duration {
        Duration::from_millis(self.1)
    }
}

/// An ADU that was begun is completed unless it is certainly late; one that may be late is not begun; and those
/// behind it in the same slots are judged with it.
#[test]
fn an_adu_at_the_edge_is_ended_but_not_begun() {
    let drops = |taken: usize, first_ms: u64, error_ms: u64| {
        let mut s = stream(true, Some(100));
        for at_ms in [0, 4, 60] {
            s.push(Instant::from_millis(at_ms), Bytes::from(vec![0; 2000]), 0);
        }
        if taken > 0 {
            take(&mut s, taken).expect("data");
        }
        let mut settled = Vec::new();
        let outlook = Steady(first_ms, error_ms);
        s.drop_hopeless(Instant::from_millis(60), 3000, &outlook, &mut settled);
        settled
            .iter()
            .map(|settled| settled.sequence)
            .collect::<Vec<_>>()
    };
    assert_eq!(drops(0, 36, 0), [0u64; 0]);
    // The first has 40 ms left: 39 may be 42. The second takes its place in the slots.
    assert_eq!(drops(0, 37, 3), [0]);
    // It would take 42, which may be 39; those behind it arrive after it.
    assert_eq!(drops(1000, 41, 1), [1]);
    assert_eq!(drops(1000, 44, 1), [0, 1]);
}

/// ADUs that would be late are dropped as long as a younger one would not be; the youngest never is.
#[test]
fn hopeless_adus_give_way_to_younger_ones() {
    let mut s = stream(true, Some(100));
    for at_ms in [0, 30, 60] {
        s.push(Instant::from_millis(at_ms), Bytes::from(vec![0; 1000]), 0);
    }
    take(&mut s, 400).expect("data");
    let mut settled = Vec::new();
    let mut drop_at = |s: &mut SendStream, now_ms, arrival_ms| {
        settled.clear();
        let outlook = Steady(arrival_ms, 0);
        s.drop_hopeless(Instant::from_millis(now_ms), 1000, &outlook, &mut settled);
        settled
            .iter()
            .map(|settled| settled.sequence)
            .collect::<Vec<_>>()
    };
    assert_eq!(drop_at(&mut s, 60, 39), [0u64; 0]);
    assert_eq!(drop_at(&mut s, 60, 1000), [0u64; 0]);
    assert_eq!(drop_at(&mut s, 60, 80), [0, 1]);
    assert_eq!(drop_at(&mut s, 90, 80), [0u64; 0]);
    assert_eq!(s.backlog_bytes(), 1000);
    assert_eq!(s.next_deadline(), Some(Instant::from_millis(160)));
    assert_eq!(s.counters.expired_adus, 2);
}

#[test]
fn an_unreliable_adu_is_lost_with_its_first_fragment() {
    let mut s = stream(false, None);
    s.push(Instant::EPOCH, Bytes::from(vec![1; 3000]), 0);
    s.push(Instant::EPOCH, Bytes::from(vec![2; 10]), 0);
    let first = take(&mut s, 1000).expect("data");
    let settled = s.on_lost(first.place, 1000).expect("its outcome is known");
    let (arrived, lost) = (Vec::new(), Vec::new());
    assert_eq!(settled.outcome, AduOutcome::Lost { arrived, lost });
    assert_eq!(take(&mut s, 1000).expect("next ADU").place.sequence, 1);
}

#[test]
fn what_arrived_of_a_lost_adu_is_reported() {
    let spec = StreamSpec {
        reliable: false,
        notify: true,
        ..StreamSpec::default()
    };
    let mut s = SendStream::new(StreamId(0), spec.into(), u64::MAX);
    s.push(Instant::EPOCH, Bytes::from(vec![1; 5000]), 0);
    let pieces: Vec<Piece> = (0..4).filter_map(|_| take(&mut s, 1000)).collect();
    let now = receipt(Instant::from_millis(5));
    assert_eq!(s.on_acked(now, pieces[0].place, 1000), None);
    assert_eq!(s.on_lost(pieces[1].place, 1000), None);
    assert_eq!(s.backlog_bytes(), 0, "the last 1000 bytes are not sent");
    assert!(s.copy_piece(pieces[2].place, 1000).is_none(), "nor copied");
    assert_eq!(s.on_acked(now, pieces[3].place, 1000), None);
    let settled = s
        .on_acked(now, pieces[2].place, 1000)
        .expect("all is known");
    let (arrived, lost) = (vec![0..1000, 2000..4000], vec![1000..2000, 4000..5000]);
    assert_eq!(settled.outcome, AduOutcome::Lost { arrived, lost });
    assert!(s.is_settled());
    assert_eq!((s.held_bytes(), s.counters.lost_adus), (0, 1));
}

#[test]
fn a_copy_in_flight_spares_the_repair() {
    let mut s = stream(true, None);
    s.push(Instant::EPOCH, Bytes::from(vec![1; 500]), 0);
    let piece = take(&mut s, 1000).expect("data");
    s.copy_piece(piece.place, 500).expect("still useful");
    assert_eq!(s.on_lost(piece.place, 500), None);
    assert_eq!(s.backlog_bytes(), 0, "the copy may still arrive");
    assert_eq!(s.on_lost(piece.place, 500), None);
    assert_eq!(s.backlog_bytes(), 500, "now both are lost");
}

#[test]
fn expired_adus_are_dropped_and_the_receiver_notified() {
    let mut s = stream(true, Some(100));
    s.push(Instant::EPOCH, Bytes::from(vec![1; 1500]), 0);
    s.push(Instant::EPOCH, Bytes::from(vec![2; 10]), 0);
    take(&mut s, 1000).expect("data");
    let mut settled = Vec::new();
    s.expire(Instant::from_millis(99), &mut settled);
    assert!(settled.is_empty());
    s.expire(Instant::from_millis(100), &mut settled);
    let outcomes: Vec<AduOutcome> = settled.iter().map(|s| s.outcome.clone()).collect();
    assert_eq!(
        outcomes,
        [
            AduOutcome::Expired {
                skip: Some(1500 + ADU_OVERHEAD_BYTES)
            },
            AduOutcome::Expired { skip: Some(0) }
        ]
    );
    assert_eq!((s.backlog_bytes(), s.held_bytes()), (0, 0));
    assert!(take(&mut s, 1000).is_none());
}

fn set_lifetime(stream: &mut SendStream, lifetime_ms: Option<u64>) {
    let lifetime = lifetime_ms.map(Duration::from_millis);
    Arc::make_mut(&mut stream.spec).lifetime = lifetime;
}

#[test]
fn a_changed_lifetime_is_that_of_what_is_handed_over_from_then_on() {
    let expired = |s: &mut SendStream, ms| {
        let mut settled = Vec::new();
        s.expire(Instant::from_millis(ms), &mut settled);
        let sequences = settled.iter().map(|settled| settled.sequence);
        sequences.collect::<Vec<_>>()
    };
    let mut s = stream(true, None);
    for lifetime_ms in [None, Some(500), Some(100), Some(300), None, Some(200)] {
        set_lifetime(&mut s, lifetime_ms);
        s.push(Instant::EPOCH, Bytes::from(vec![1; 10]), 0);
    }
    for (at_ms, next_ms, given_up) in [
        (99, Some(100), vec![]),
        (100, Some(200), vec![2]),
        (250, Some(300), vec![5]),
        (499, Some(500), vec![3]),
        (500, None, vec![1]),
        (9_999, None, vec![]),
    ] {
        assert_eq!(expired(&mut s, at_ms), given_up, "after {at_ms} ms");
        assert_eq!(s.deadline(), next_ms.map(Instant::from_millis));
    }
    // The others are sent: they never become useless.
    let left = std::iter::from_fn(|| take(&mut s, 1000));
    let left: Vec<u64> = left.map(|piece| piece.place.sequence).collect();
    assert_eq!(left, [0, 4]);
}

#[test]
fn credit_is_charged_once_per_adu_and_respected() {
    let mut s = stream(true, None);
    s.credit = 1500 + ADU_OVERHEAD_BYTES;
    s.push(Instant::EPOCH, Bytes::from(vec![1; 1500]), 0);
    s.push(Instant::EPOCH, Bytes::from(vec![1; 1]), 0);
    assert_eq!(
        take(&mut s, 1000).expect("data").charge,
        1500 + ADU_OVERHEAD_BYTES
    );
    assert_eq!(take(&mut s, 1000).expect("data").charge, 0);
    assert!(!s.is_sendable(u64::MAX));
    s.credit += 1 + ADU_OVERHEAD_BYTES;
    assert!(!s.is_sendable(ADU_OVERHEAD_BYTES));
    assert!(s.is_sendable(1 + ADU_OVERHEAD_BYTES));
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Take(usize),
    Ack(usize),
    Lose(usize),
    Copy(usize),
    Expire(u64),
    Lifetime(Option<u64>),
    Discard,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1usize..4000).prop_map(Step::Push),
        (1usize..1500).prop_map(Step::Take),
        (0usize..64).prop_map(Step::Ack),
        (0usize..64).prop_map(Step::Lose),
        (0usize..64).prop_map(Step::Copy),
        (0u64..30).prop_map(Step::Expire),
        prop::option::of(10u64..100).prop_map(Step::Lifetime),
        Just(Step::Discard),
    ]
}

proptest! {
    /// After any history, acknowledging all packets in flight and sending the rest settles every ADU
    /// exactly once, and the accounts are balanced.
    #[test]
    fn every_adu_is_settled_exactly_once(
        order in prop::sample::select(vec![Order::Ordered, Order::NewestFirst]),
        reliable: bool,
        lifetime in prop::option::of(10u64..100),
        steps in prop::collection::vec(any_step(), 0..120),
    ) {
        let mut s = stream_of(order, reliable, lifetime);
        let mut now = Instant::EPOCH;
        let mut flight: Vec<(Place, usize)> = Vec::new();
        let mut settled: Vec<Settled> = Vec::new();
        for step in steps {
            match step {
                Step::Push(length) => {
                    s.push(now, Bytes::from(vec![0; length]), 0);
                }
                Step::Take(size_max) => {
                    let unsent = |adu: &SendAdu| !adu.done && adu.unsent() > 0;
                    let newest = s.adus.iter().rposition(unsent).map(|at| s.base + at as u64);
                    let begun = s.adus.iter().any(|adu| unsent(adu) && adu.sent > 0);
                    let repairs = !s.lost.is_empty();
                    if let Some(piece) = take(&mut s, size_max) {
                        if order == Order::NewestFirst && !repairs && !begun {
                            prop_assert_eq!(Some(piece.place.sequence), newest);
                        }
                        flight.push((piece.place, piece.data.len()));
                    }
                }
                Step::Ack(index) if !flight.is_empty() => {
                    let (place, length) = flight.swap_remove(index % flight.len());
                    settled.extend(s.on_acked(receipt(now), place, length));
                }
                Step::Lose(index) if !flight.is_empty() => {
                    let (place, length) = flight.swap_remove(index % flight.len());
                    settled.extend(s.on_lost(place, length));
                }
                Step::Copy(index) if !flight.is_empty() => {
                    let (place, length) = flight[index % flight.len()];
                    if s.copy_piece(place, length).is_some() {
                        flight.push((place, length));
                    }
                }
                Step::Expire(ms) => {
                    now += Duration::from_millis(ms);
                    s.expire(now, &mut settled);
                    // Nothing is left that is useless, and the next expiry is not missed.
                    let may_expire = |adu: &&SendAdu| !adu.done && (reliable || adu.unsent() > 0);
                    let next = s.adus.iter().filter(may_expire).filter_map(|adu| adu.deadline).min();
                    prop_assert!(next.is_none_or(|at| at > now), "{next:?} at {now}");
                    prop_assert!(s.deadline().is_none_or(|at| at > now));
                    prop_assert!(next.is_none_or(|next| s.deadline().is_some_and(|at| at <= next)));
                }
                Step::Lifetime(lifetime_ms) => set_lifetime(&mut s, lifetime_ms),
                Step::Discard => {
                    let before = (settled.len(), s.counters.shed_adus);
                    let discarded = s.discard(&mut settled);
                    prop_assert_eq!(discarded.adus, (settled.len() - before.0) as u64);
                    prop_assert_eq!(discarded.adus, s.counters.shed_adus - before.1);
                    // What waits may not be lost.
                    let mut waiting = s.adus.iter().filter(|adu| !adu.done && adu.unsent() > 0);
                    prop_assert!(waiting.all(|adu| reliable && adu.deadline.is_none()));
                    prop_assert!(reliable || s.next_new() == s.end());
                }
                _ => {}
            }
        }
        loop {
            for (place, length) in flight.drain(..) {
                settled.extend(s.on_acked(receipt(now), place, length));
            }
            match take(&mut s, 1200) {
                Some(piece) => flight.push((piece.place, piece.data.len())),
                None => break,
            }
        }
        prop_assert!(s.is_settled());
        prop_assert_eq!((s.backlog_bytes(), s.held_bytes()), (0, 0));
        let mut sequences: Vec<u64> = settled.iter().map(|s| s.sequence).collect();
        sequences.sort_unstable();
        prop_assert_eq!(sequences, (0..s.end()).collect::<Vec<_>>());
    }
}

/// Sequences of the ADUs that stay, of ten of 1000 bytes, importance 2, 1, 0, 2, 1, 0 …, when at most `most_bytes` may wait.
fn left_of_ten(order: DropOrder, most_bytes: u64) -> Vec<u64> {
    let spec = StreamSpec {
        reliable: false,
        drop: Some(order),
        ..StreamSpec::default()
    };
    let mut s = SendStream::new(StreamId(0), spec.into(), u64::MAX);
    for number in 0..10_u8 {
        s.push(
            Instant::EPOCH,
            Bytes::from(vec![number; 1000]),
            2 - number % 3,
        );
    }
    // The first has begun.
    take(&mut s, 400).expect("data");
    let mut settled = Vec::new();
    s.shed(most_bytes, &mut settled);
    assert!(
        settled
            .iter()
            .all(|s| s.outcome == AduOutcome::Dropped { skip: None })
    );
    assert_eq!(s.counters.shed_adus, settled.len() as u64);
    let mut left: Vec<u64> = Vec::new();
    while let Some(piece) = take(&mut s, 1000) {
        left.push(piece.place.sequence);
        assert!(settled.iter().all(|s| s.sequence != piece.place.sequence));
    }
    assert_eq!(s.backlog_bytes(), 0);
    assert_eq!(left.len() + settled.len(), 10);
    left
}

#[test]
fn every_drop_order_keeps_what_it_should() {
    assert_eq!(left_of_ten(DropOrder::Oldest, 3600), [0, 7, 8, 9]);
    assert_eq!(left_of_ten(DropOrder::Newest, 3600), [0, 1, 2, 3]);
    assert_eq!(left_of_ten(DropOrder::LeastImportant, 3600), [0, 3, 6, 9]);
    assert_eq!(
        left_of_ten(DropOrder::LeastImportant, 6000),
        [0, 3, 4, 6, 7, 9]
    );
    assert_eq!(left_of_ten(DropOrder::Oldest, 9600).len(), 10, "it fits");
    // The ADU that was begun stays, and one of the others.
    assert_eq!(left_of_ten(DropOrder::Oldest, 0), [0, 9]);
    assert_eq!(left_of_ten(DropOrder::Newest, 0), [0, 1]);
    assert_eq!(left_of_ten(DropOrder::LeastImportant, 0), [0, 9]);
}

#[test]
fn importance_may_change_while_an_adu_waits() {
    let spec = StreamSpec {
        reliable: false,
        drop: Some(DropOrder::LeastImportant),
        ..StreamSpec::default()
    };
    let mut s = SendStream::new(StreamId(0), spec.into(), u64::MAX);
    for _ in 0..3 {
        s.push(Instant::EPOCH, Bytes::from(vec![0; 100]), 5);
    }
    assert!(s.set_importance(1, 4) && !s.set_importance(3, 9));
    let mut settled = Vec::new();
    s.shed(200, &mut settled);
    assert_eq!(settled.iter().map(|s| s.sequence).collect::<Vec<_>>(), [1]);
    assert!(!s.set_importance(1, 9), "it is gone");
}

#[test]
fn a_named_adu_overtakes_and_is_repaired_apart() {
    let mut s = stream(true, None);
    for _ in 0..3 {
        s.push(Instant::EPOCH, Bytes::from(vec![1; 1500]), 0);
    }
    let named = |s: &mut SendStream, adu| {
        let piece = s.take_piece_of(Instant::EPOCH, adu, u64::MAX, |_| 1000)?;
        Some((piece.place, piece.data.len(), piece.is_final))
    };
    let (place, length, is_final) = named(&mut s, 2).expect("it waits");
    assert_eq!(
        (place.sequence, place.offset, length, is_final),
        (2, 0, 1000, false)
    );
    assert_eq!(s.on_lost(place, length), None);
    // Fragments of another ADU that are to be repaired are not taken.
    assert_eq!(named(&mut s, 1).map(|(place, ..)| place.sequence), Some(1));
    let waits: Vec<_> = s
        .waiting(u64::MAX)
        .map(|adu| (adu.sequence, adu.bytes))
        .collect();
    assert_eq!(waits, [(0, 1500), (1, 500), (2, 1500)]);
    let (again, length, _) = named(&mut s, 2).expect("the repair");
    assert_eq!((again, length), (place, 1000));
    assert_eq!(
        named(&mut s, 2).map(|(place, length, _)| (place.offset, length)),
        Some((1000, 500))
    );
    assert_eq!(named(&mut s, 2), None);
    assert_eq!(named(&mut s, 9), None);
    // In order, the rest.
    let rest: Vec<_> = std::iter::from_fn(|| take(&mut s, 4000))
        .map(|piece| (piece.place.sequence, piece.data.len()))
        .collect();
    assert_eq!(rest, [(0, 1500), (1, 500)]);
    assert_eq!(s.backlog_bytes(), 0);
}

#[test]
fn nothing_overtakes_where_the_receiver_would_drop_what_is_overtaken() {
    let spec = StreamSpec {
        reliable: false,
        order: Order::Ordered,
        ..StreamSpec::default()
    };
    let mut s = SendStream::new(StreamId(0), spec.into(), u64::MAX);
    s.push(Instant::EPOCH, Bytes::from(vec![1; 100]), 0);
    s.push(Instant::EPOCH, Bytes::from(vec![1; 100]), 0);
    let sent = |s: &mut SendStream, adu| {
        s.take_piece_of(Instant::EPOCH, adu, u64::MAX, |_| 1000)
            .is_some()
    };
    assert!(!sent(&mut s, 1));
    // A plan that names the second first gets the first: the slot is not wasted.
    assert_eq!(s.instead_of(1), 0);
    assert!(sent(&mut s, 0));
    assert_eq!(s.instead_of(1), 1);
    assert!(sent(&mut s, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Whatever ADUs are named, lost and repaired: all arrive once, in order on ordered streams, within credit that
    /// only reading gives back; and all credit comes back.
    #[test]
    fn named_adus_arrive_once_and_never_use_up_the_credit_of_those_before(
        is_ordered: bool,
        lengths in prop::collection::vec(1usize..3000, 1..40),
        picks in prop::collection::vec((0usize..40, 1usize..1500, any::<bool>()), 0..400),
    ) {
        use crate::{recv::{RecvStream, Capacity}, wire::Fragment};
        const CAPACITY: Capacity = Capacity { held_bytes: 0, reserve_bytes: 0, gaps: 1 << 16, gaps_unreliable: 1 };
        const WINDOW: u64 = 8_000;
        let spec: Arc<StreamSpec> = StreamSpec {
            order: if is_ordered { Order::Ordered } else { Order::Unordered },
            ..StreamSpec::default()
        }
        .into();
        let mut s = SendStream::new(StreamId(0), spec.clone(), WINDOW);
        let mut r = RecvStream::new(StreamId(0), spec, WINDOW, WINDOW);
        for (sequence, &length) in lengths.iter().enumerate() {
            s.push(Instant::EPOCH, Bytes::from(vec![sequence as u8; length]), 0);
        }
        let mut read = Vec::new();
        let mut settled = Vec::new();
        let mut picks = picks.into_iter();
        let mut idle = 0;
        while read.len() < lengths.len() {
            let before = s.backlog_bytes();
            let waits: Vec<(u64, u64)> = s.waiting(u64::MAX).map(|adu| (adu.sequence, adu.bytes)).collect();
            prop_assert!(waits.iter().map(|(_, bytes)| bytes).sum::<u64>() <= before);
            // In the end, the last that may go goes first, and nothing is lost.
            let (pick, size_max, is_lost) = picks.next().unwrap_or((usize::MAX, 1200, false));
            let Some(&(adu, bytes)) = waits.get(pick).or(waits.last()) else {
                return Err(TestCaseError::fail("credit is used up and nothing can be read"));
            };
            let piece = s.take_piece_of(Instant::EPOCH, adu, u64::MAX, |_| size_max);
            let Some(piece) = piece else {
                return Err(TestCaseError::fail("what waits can be sent"));
            };
            prop_assert!(piece.place.sequence == adu && piece.data.len() as u64 <= bytes);
            prop_assert_eq!(s.backlog_bytes(), before - piece.data.len() as u64);
            if is_lost {
                settled.extend(s.on_lost(piece.place, piece.data.len()));
                continue;
            }
            let fragment = Fragment {
                stream: StreamId(0),
                sequence: adu,
                offset: piece.place.offset,
                is_final: piece.is_final,
                payload: piece.data.clone(),
            };
            prop_assert!(r.add(Instant::EPOCH, &fragment, CAPACITY).is_ok(), "within the credit");
            settled.extend(s.on_acked(receipt(Instant::EPOCH), piece.place, piece.data.len()));
            while let Some((sequence, data, _)) = r.read() {
                prop_assert_eq!(data.len(), lengths[sequence as usize]);
                read.push(sequence);
            }
            if let Some(credit) = r.next_grant() {
                s.credit = credit;
            }
            idle += 1;
            prop_assert!(idle < 10_000);
        }
        let in_order: Vec<u64> = (0..lengths.len() as u64).collect();
        prop_assert!(!is_ordered || read == in_order);
        read.sort_unstable();
        prop_assert_eq!(read, in_order);
        prop_assert_eq!(settled.len(), lengths.len());
        prop_assert!(s.is_settled() && s.backlog_bytes() == 0 && s.held_bytes() == 0);
        prop_assert_eq!(r.accounts().settle(s.charged), Ok((0, 0)));
    }
}

/// An ADU that overtook the next one and has used credit continues when there is none for the next one: otherwise neither
/// would ever be complete.
#[test]
fn what_has_overtaken_is_finished_when_credit_is_short() {
    let spec = StreamSpec {
        order: Order::Unordered,
        ..StreamSpec::default()
    };
    let mut s = SendStream::new(StreamId(0), spec.into(), 5_000);
    for length in [4_000, 2_000] {
        s.push(Instant::EPOCH, Bytes::from(vec![7; length]), 0);
    }
    let first = s.take_piece_of(Instant::EPOCH, 1, u64::MAX, |_| 500);
    assert_eq!(first.map(|piece| piece.data.len()), Some(500));
    let waits: Vec<(u64, u64)> = s
        .waiting(u64::MAX)
        .map(|adu| (adu.sequence, adu.bytes))
        .collect();
    assert_eq!(waits, [(1, 1_500)]);
    assert!(s.is_sendable(0));
    let rest = take(&mut s, 5_000).expect("its credit is used");
    assert_eq!((rest.place.sequence, rest.data.len()), (1, 1_500));
    assert!(!s.is_sendable(u64::MAX) && take(&mut s, 5_000).is_none());
}

#[test]
fn a_limit_on_what_waits_unsent_holds_back_and_releases_at_half() {
    const BUFFER: usize = 100_000;
    let mut s = stream(false, None);
    assert_eq!(s.space(BUFFER), BUFFER);
    s.unsent_max = std::num::NonZeroU32::new(4_000);
    assert_eq!(s.space(BUFFER), 4_000);
    for _ in 0..4 {
        assert!(s.space(BUFFER) > 0);
        s.push(Instant::EPOCH, Bytes::from(vec![1; 1_200]), 0);
    }
    // One ADU more than the limit at most.
    assert_eq!((s.space(BUFFER), s.backlog_bytes()), (0, 4_800));
    assert!(!s.has_drained(BUFFER));
    assert!(take(&mut s, 1_200).is_some() && take(&mut s, 1_200).is_some());
    // What is in flight does not count.
    assert_eq!((s.space(BUFFER), s.held_bytes()), (1_600, 4_800));
    assert!(!s.has_drained(BUFFER), "2,400 of 4,000 wait");
    assert!(take(&mut s, 1_200).is_some());
    assert!(s.has_drained(BUFFER));
    // The buffer still bounds the rest.
    assert_eq!(s.space(4_800), 0);
    assert!(!s.has_drained(4_800));
    s.unsent_max = None;
    assert_eq!(s.space(BUFFER), BUFFER - 4_800);
}
