use super::*;
use proptest::prelude::*;

const ALLOWANCE: Allowance = Allowance {
    expected_bytes: 0,
    reserve_bytes: 0,
};

fn add(assembly: &mut Assembly, offset: usize, payload: &[u8], is_final: bool) -> bool {
    assembly
        .add(offset, payload, is_final, ALLOWANCE)
        .expect("consistent")
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

fn bytes(range: std::ops::Range<usize>) -> Vec<u8> {
    range.map(byte).collect()
}

proptest! {
    /// Any fragmentation, order and repetition, overlapping or not, with space reserved ahead or not, gives the same ADU; until
    /// then it holds no more than its extent, and knows which bytes have arrived.
    #[test]
    fn reassembles(
        length in 1usize..6_000,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        order in prop::collection::vec((any::<prop::sample::Index>(), 0usize..300), 120),
        expected_bytes in prop_oneof![Just(0), 1usize..8_000],
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|c| c.index(length)).collect();
        at.extend([0, length]);
        at.sort_unstable();
        at.dedup();
        let parts: Vec<_> = at.windows(2).map(|w| w[0]..w[1]).collect();
        let allowance = Allowance { expected_bytes, reserve_bytes: 8_000 };
        let mut assembly = Assembly::default();
        let mut known = vec![false; length];
        let mut is_complete = false;
        let shuffled = order.iter().map(|(i, more)| (i.index(parts.len()), *more));
        for (index, more) in shuffled.chain((0..parts.len()).map(|index| (index, 0))) {
            let end = (parts[index].end + more).min(length);
            let part = parts[index].start..end;
            known[part.clone()].fill(true);
            let payload = bytes(part.clone());
            let now = assembly.add(part.start, &payload, end == length, allowance).expect("consistent");
            prop_assert_eq!(now, known.iter().all(|&is_known| is_known));
            prop_assert_eq!(assembly.got_bytes(), known.iter().filter(|&&k| k).count() as u64);
            let extent = known.iter().rposition(|&k| k).map_or(0, |last| last + 1);
            prop_assert_eq!(assembly.extent(), extent);
            prop_assert!(assembly.held_bytes() <= extent);
            is_complete |= now;
        }
        prop_assert!(is_complete);
        prop_assert_eq!(assembly.finish(), bytes(0..length));
    }

    /// An ADU that is given up consists of the bytes that have arrived, zeros elsewhere, and the ranges of these.
    #[test]
    fn what_is_given_up_knows_its_gaps(
        parts in prop::collection::vec((0usize..4_000, 1usize..700), 1..30),
    ) {
        let mut assembly = Assembly::default();
        let mut known = vec![false; 5_000];
        for (start, length) in parts {
            known[start..start + length].fill(true);
            add(&mut assembly, start, &bytes(start..start + length), false);
        }
        let extent = known.iter().rposition(|&k| k).expect("some") + 1;
        let (data, missing) = assembly.give_up();
        prop_assert_eq!(data.len(), extent);
        let mut is_missing = vec![false; extent];
        for range in &missing.ranges {
            is_missing[range.start as usize..range.end as usize].fill(true);
        }
        prop_assert!(missing.ranges.windows(2).all(|w| w[0].end < w[1].start));
        for at in 0..extent {
            prop_assert_eq!(is_missing[at], !known[at]);
            prop_assert_eq!(data[at], if known[at] { byte(at) } else { 0 });
        }
    }
}

#[test]
fn contradicting_lengths_are_refused() {
    let mut assembly = Assembly::default();
    let mut add =
        |at, length: usize, is_final| assembly.add(at, &vec![1; length], is_final, ALLOWANCE);
    assert_eq!(add(0, 10, true), Ok(true));
    assert_eq!(add(5, 10, false), Err(Violation::Length));
    assert_eq!(add(5, 3, true), Err(Violation::Length));
    let mut assembly = Assembly::default();
    let mut add =
        |at, length: usize, is_final| assembly.add(at, &vec![1; length], is_final, ALLOWANCE);
    assert_eq!(add(10_000, 10, false), Ok(false));
    assert_eq!(add(5, 3, true), Err(Violation::Length));
}

#[test]
fn a_far_offset_takes_what_arrived() {
    let mut assembly = Assembly::default();
    assert!(!add(&mut assembly, (16 << 20) - 16, &[9], false));
    assert_eq!(assembly.held_bytes(), 1 + PIECE_BYTES + FIRST_PIECE_BYTES);
    assert_eq!(assembly.data.capacity(), 0);
    // Nor is capacity reserved ahead for an ADU of which hardly anything has arrived.
    let allowance = Allowance {
        expected_bytes: 512 << 10,
        reserve_bytes: 1 << 20,
    };
    let mut assembly = Assembly::default();
    assert_eq!(assembly.add(0, &[9], false, allowance), Ok(false));
    assert_eq!(
        (assembly.reserved_bytes(), assembly.data.capacity()),
        (0, 1)
    );
    let part = bytes(0..32 << 10);
    assert_eq!(assembly.add(0, &part, false, allowance), Ok(false));
    assert_eq!(assembly.reserved_bytes(), 512 << 10);
}

/// The order and fragmentation that cost most: the bytes moved again stay in proportion to the fragments.
#[test]
fn no_order_of_fragments_is_quadratic() {
    const COUNT: usize = 100_000;
    let descending: Vec<usize> = (0..COUNT).rev().collect();
    let sparse = (0..COUNT)
        .rev()
        .step_by(2)
        .chain((0..COUNT).step_by(2))
        .collect();
    let inwards = (0..COUNT / 2).flat_map(|n| [n, COUNT - 1 - n]).collect();
    for order in [descending, sparse, inwards] {
        let mut assembly = Assembly::default();
        let mut is_complete = false;
        let mut most = 0;
        for at in order {
            is_complete |= add(&mut assembly, at, &[byte(at)], at == COUNT - 1);
            most = most.max(assembly.pieces());
        }
        assert!(is_complete);
        assert!(most <= COUNT / PIECE_BYTES, "{most} pieces");
        let moved = assembly.moved / COUNT;
        assert!(moved <= JOIN_BYTES, "{moved} bytes moved for each fragment");
        assert_eq!(assembly.finish(), bytes(0..COUNT));
    }
}

/// In order, with the length of the previous ADU known: space is reserved once, early, and nothing is moved.
#[test]
fn in_order_it_is_one_buffer() {
    let allowance = Allowance {
        expected_bytes: 64 << 10,
        reserve_bytes: 1 << 20,
    };
    let mut assembly = Assembly::default();
    let mut capacities = std::collections::BTreeSet::new();
    for at in (0..64 << 10).step_by(1024) {
        let part = bytes(at..at + 1024);
        let is_final = at + 1024 == 64 << 10;
        assembly
            .add(at, &part, is_final, allowance)
            .expect("consistent");
        capacities.insert(assembly.data.capacity());
    }
    assert!(capacities.len() <= 5, "{capacities:?}");
    assert_eq!(assembly.moved, 0);
    let data = assembly.finish();
    assert_eq!(data.len(), 64 << 10);
}

/// Memory that was reserved for a long ADU does not stay with a short one.
#[test]
fn a_short_adu_keeps_no_spare_capacity() {
    let allowance = Allowance {
        expected_bytes: 8 << 10,
        reserve_bytes: 1 << 20,
    };
    let mut assembly = Assembly::default();
    assert_eq!(assembly.add(0, &[1], false, allowance), Ok(false));
    assert_eq!(assembly.reserved_bytes(), 8 << 10);
    assert_eq!(assembly.add(1, &[2], true, allowance), Ok(true));
    let data = Vec::from(assembly.finish());
    assert!(data.capacity() <= 16, "{}", data.capacity());
}
