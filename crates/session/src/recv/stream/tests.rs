use super::*;
use proptest::prelude::*;

const CAPACITY: Capacity = Capacity {
    held_bytes: 100_000,
    reserve_bytes: 1 << 16,
    gaps: 1 << 16,
    gaps_unreliable: 1024,
};

fn stream(reliable: bool, order: Order) -> RecvStream {
    let spec = StreamSpec {
        reliable,
        order,
        ..StreamSpec::default()
    };
    RecvStream::new(StreamId(0), Arc::new(spec), 10_000, 10_000)
}

fn reliable(order: Order, window: u64) -> RecvStream {
    let spec = StreamSpec {
        reliable: true,
        order,
        ..StreamSpec::default()
    };
    RecvStream::new(StreamId(0), Arc::new(spec), window, window)
}

fn fragment(sequence: u64, offset: usize, length: usize, is_final: bool) -> Fragment {
    Fragment {
        stream: StreamId(0),
        sequence,
        offset,
        is_final,
        payload: Bytes::from(vec![sequence as u8; length]),
    }
}

fn read_all(s: &mut RecvStream) -> Vec<u64> {
    std::iter::from_fn(|| s.read()).map(|(q, ..)| q).collect()
}

#[test]
fn ordered_waits_unordered_does_not() {
    let mut ordered = stream(true, Order::Ordered);
    let mut unordered = stream(true, Order::Unordered);
    assert_eq!(
        ordered.add(Instant::EPOCH, &fragment(1, 0, 10, true), CAPACITY),
        Ok(Accepted::Stored)
    );
    assert_eq!(
        unordered.add(Instant::EPOCH, &fragment(1, 0, 10, true), CAPACITY),
        Ok(Accepted::Readable)
    );
    assert_eq!(
        ordered.add(Instant::EPOCH, &fragment(0, 0, 10, true), CAPACITY),
        Ok(Accepted::Readable)
    );
    assert_eq!(read_all(&mut ordered), [0, 1]);
    assert_eq!(read_all(&mut unordered), [1]);
}

#[test]
fn a_skipped_adu_is_not_waited_for() {
    let mut s = stream(true, Order::Ordered);
    s.add(Instant::EPOCH, &fragment(0, 0, 10, false), CAPACITY)
        .expect("within credit");
    s.add(Instant::EPOCH, &fragment(1, 0, 10, true), CAPACITY)
        .expect("within credit");
    let charged = 20 + ADU_OVERHEAD_BYTES;
    let skipped = Skipped {
        credit: charged,
        is_readable: true,
    };
    assert_eq!(s.skip(0, charged, CAPACITY), Ok(skipped));
    assert_eq!(read_all(&mut s), [1]);
    assert_eq!(
        s.add(Instant::EPOCH, &fragment(0, 10, 10, true), CAPACITY),
        Ok(Accepted::Ignored),
        "late fragments of it change nothing"
    );
}

#[test]
fn sending_beyond_the_credit_is_a_violation() {
    let mut s = stream(true, Order::Ordered);
    assert_eq!(
        s.add(
            Instant::EPOCH,
            &fragment(0, 0, 10_001 - OVERHEAD, true),
            CAPACITY
        ),
        Err(Violation::Credit)
    );
    let mut s = stream(true, Order::Ordered);
    s.add(
        Instant::EPOCH,
        &fragment(0, 0, 10_000 - OVERHEAD, true),
        CAPACITY,
    )
    .expect("fits exactly");
    assert!(s.next_grant().is_none(), "nothing was read");
    s.read().expect("one ADU");
    assert_eq!(s.next_grant(), Some(20_000));
}

#[test]
fn a_slow_reader_of_an_unreliable_stream_loses_the_oldest() {
    let mut s = stream(false, Order::Unordered);
    for sequence in 0..30 {
        s.add(Instant::EPOCH, &fragment(sequence, 0, 1000, true), CAPACITY)
            .expect("no credit needed");
        assert!(s.held_bytes() <= 10_000);
    }
    assert_eq!(
        s.counters.dropped_adus, 22,
        "eight of them fit, with what each takes beside"
    );
    assert_eq!(read_all(&mut s), (22..30).collect::<Vec<_>>());
}

#[test]
fn a_skip_beyond_the_credit_is_a_violation() {
    let mut s = stream(true, Order::Ordered);
    assert_eq!(s.skip(0, 10_001, CAPACITY), Err(Violation::Credit));
    assert_eq!(s.skip(0, u64::MAX, CAPACITY), Err(Violation::Charge));
}

#[test]
fn an_unreliable_fragment_without_space_is_dropped() {
    let mut s = stream(false, Order::Unordered);
    let capacity = Capacity {
        held_bytes: 500,
        ..CAPACITY
    };
    assert_eq!(
        s.add(Instant::EPOCH, &fragment(0, 9_000_000, 10, false), capacity),
        Ok(Accepted::Ignored)
    );
    assert_eq!(s.held_bytes(), 0);
}

proptest! {
    /// Fragments in any order, with repetitions: every ADU is delivered once, in order on ordered streams.
    #[test]
    fn delivers_once(
        ordered: bool,
        lengths in prop::collection::vec(1usize..300, 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        let order_kind = if ordered { Order::Ordered } else { Order::Unordered };
        let mut s = stream(true, order_kind);
        let mut fragments = Vec::new();
        for (sequence, &length) in lengths.iter().enumerate() {
            let cut = length / 2;
            if cut > 0 {
                fragments.push(fragment(sequence as u64, 0, cut, false));
            }
            fragments.push(fragment(sequence as u64, cut, length - cut, true));
        }
        let mut got = Vec::new();
        let shuffled = order.iter().map(|i| i.index(fragments.len()));
        for index in shuffled.chain(0..fragments.len()) {
            s.add(Instant::EPOCH, &fragments[index], CAPACITY).expect("within credit");
            while let Some((sequence, data, _)) = s.read() {
                prop_assert_eq!(data.len(), lengths[sequence as usize]);
                got.push(sequence);
            }
        }
        s.set_end(lengths.len() as u64, CAPACITY).expect("the first word");
        prop_assert!(s.is_finished());
        prop_assert_eq!(s.held_bytes(), 0);
        if !ordered {
            got.sort_unstable();
        }
        prop_assert_eq!(got, (0..lengths.len() as u64).collect::<Vec<_>>());
    }
}

/// A SKIP gives back the charge that the peer reports, and that counts as used: pairs of a far fragment and a SKIP of an ADU
/// that was never sent, of which one packet carries sixty, end when the credit does.
#[test]
fn skips_of_what_was_never_sent_give_no_credit_for_what_was() {
    const FAR: usize = (16 << 20) - 16;
    let window = 2 * (16 << 20) + 4096;
    let mut s = reliable(Order::Ordered, window);
    let mut most = 0;
    let end = (0u64..60).find_map(|pair| {
        let far = s.add(Instant::EPOCH, &fragment(2 * pair, FAR, 1, false), CAPACITY);
        let skipped = far.and_then(|_| s.skip(2 * pair + 1, 0x0100_0000, CAPACITY));
        s.next_grant();
        most = most.max(s.held_bytes());
        skipped.err()
    });
    assert_eq!(end, Some(Violation::Credit));
    assert!(most < 2_000, "{most} bytes for as many fragments of one");
}

#[test]
fn a_charge_fits_what_is_known_of_the_adu() {
    let cost = |bytes: u64| bytes + ADU_OVERHEAD_BYTES;
    let known = |is_final| {
        let mut s = reliable(Order::Unordered, 1 << 20);
        s.add(Instant::EPOCH, &fragment(0, 990, 10, is_final), CAPACITY)
            .expect("within credit");
        s
    };
    for charged in [0, 1, cost(999), cost(16 << 20) + 1] {
        assert_eq!(
            known(false).skip(0, charged, CAPACITY),
            Err(Violation::Charge)
        );
        assert_eq!(
            known(true).skip(0, charged, CAPACITY),
            Err(Violation::Charge)
        );
    }
    assert_eq!(
        known(true).skip(0, cost(1001), CAPACITY),
        Err(Violation::Charge)
    );
    for mut s in [known(true), known(false)] {
        assert!(s.skip(0, cost(1000), CAPACITY).is_ok());
        assert_eq!(
            (s.held_bytes(), s.seen, s.consumed),
            (0, cost(1000), cost(1000))
        );
    }
    // Of an ADU that never arrived, all or nothing.
    let mut s = reliable(Order::Unordered, 1 << 20);
    assert_eq!(
        s.skip(0, ADU_OVERHEAD_BYTES, CAPACITY),
        Err(Violation::Charge)
    );
    assert!(s.skip(0, 0, CAPACITY).is_ok() && s.skip(1, cost(1), CAPACITY).is_ok());
}

#[test]
fn a_reset_gives_back_what_was_charged_and_not_consumed() {
    let cost = 10 + ADU_OVERHEAD_BYTES;
    let mut s = reliable(Order::Unordered, 10_000);
    for sequence in 0..3 {
        s.add(Instant::EPOCH, &fragment(sequence, 0, 10, true), CAPACITY)
            .expect("within credit");
    }
    s.read().expect("one of three");
    assert_eq!(s.accounts().settle(5 * cost), Ok((2 * cost, 4 * cost)));
    assert_eq!(s.accounts().settle(2 * cost), Err(Violation::Charge));
    assert_eq!(s.accounts().settle(10_001), Err(Violation::Credit));
    // An unreliable one uses no credit.
    let mut s = stream(false, Order::Unordered);
    s.add(Instant::EPOCH, &fragment(0, 0, 10, true), CAPACITY)
        .expect("no credit needed");
    assert_eq!(s.accounts().settle(0), Ok((0, 0)));
    assert_eq!(s.accounts().settle(1), Err(Violation::Credit));
}

#[test]
fn next_to_nothing_of_an_adu_is_not_handed_out() {
    let spec = StreamSpec {
        reliable: false,
        order: Order::Unordered,
        partial: true,
        ..StreamSpec::default()
    };
    let mut s = RecvStream::new(StreamId(0), Arc::new(spec), 32 << 20, 0);
    let capacity = Capacity {
        held_bytes: 32 << 20,
        ..CAPACITY
    };
    let part = |s: &mut RecvStream, sequence, at, length| {
        s.add(
            Instant::EPOCH,
            &fragment(sequence, at, length, false),
            capacity,
        )
        .expect("no rule is broken");
        s.skip(sequence, 0, capacity)
            .expect("no rule is broken")
            .is_readable
    };
    assert!(!part(&mut s, 0, 16 << 20, 1));
    assert_eq!((s.held_bytes(), s.counters.dropped_adus), (0, 1));
    assert!(part(&mut s, 1, 4_000, 1));
    assert!(s.held_bytes() > 4_000);
    // Nor is a part for which there is no space.
    let mut short = |sequence, held_bytes| {
        s.add(
            Instant::EPOCH,
            &fragment(sequence, 200_000, 1000, false),
            capacity,
        )
        .expect("no rule is broken");
        let capacity = Capacity {
            held_bytes,
            ..capacity
        };
        s.skip(sequence, 0, capacity).expect("no rule is broken");
        s.counters.partial_adus
    };
    assert_eq!((short(2, 100_000), short(3, 300_000)), (1, 2));
}

/// One-byte ADUs and one-byte pieces count with their overhead.
#[test]
fn what_is_held_counts_what_it_takes() {
    let mut s = stream(false, Order::Unordered);
    for sequence in 0..1000 {
        s.add(Instant::EPOCH, &fragment(sequence, 0, 1, true), CAPACITY)
            .expect("no credit needed");
        assert!(s.held_bytes() <= 10_000);
    }
    assert_eq!(read_all(&mut s).len(), 10_000 / (1 + OVERHEAD));
    let mut s = stream(false, Order::Unordered);
    for at in 1..1000 {
        s.add(Instant::EPOCH, &fragment(0, at * 1000, 1, false), CAPACITY)
            .expect("no credit needed");
        assert!(s.held_bytes() <= 10_000);
    }
    // Together they cost more than the window: the ADU is dropped as the oldest, and its later fragments are late.
    assert_eq!((s.held_bytes(), s.counters.dropped_adus), (0, 1));
}

proptest! {
    /// Whatever is sent, read or skipped: held data costs no more than the credit that was granted and not consumed by the
    /// application.
    #[test]
    fn what_is_held_stays_within_the_window(
        is_ordered: bool,
        steps in prop::collection::vec((0u8..4, 0u64..12, 0usize..3_000, 1usize..400, any::<bool>()), 1..200),
    ) {
        const WINDOW: u64 = 8_000;
        let order = if is_ordered { Order::Ordered } else { Order::Unordered };
        let mut s = reliable(order, WINDOW);
        for (kind, sequence, at, length, flag) in steps {
            let done = match kind {
                0 | 1 => s.add(Instant::EPOCH, &fragment(sequence, at, length, flag), CAPACITY).err(),
                2 => {
                    let charged = (at + length) as u64 * u64::from(flag);
                    let charged = charged + ADU_OVERHEAD_BYTES * u64::from(charged > 0);
                    s.skip(sequence, charged, CAPACITY).err()
                }
                _ => {
                    s.read();
                    s.next_grant();
                    None
                }
            };
            if done.is_some() {
                break;
            }
            prop_assert!(s.consumed <= s.seen && s.seen <= s.granted);
            prop_assert!(s.granted <= s.consumed + WINDOW);
            prop_assert!(s.held_bytes() as u64 <= s.seen - s.consumed);
        }
    }
}
