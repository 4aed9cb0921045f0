//! Properties of ADUs that arrive in part, at both ends.

use std::{sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_spec::{Order, StreamSpec};
use proptest::prelude::*;

use super::{Capacity, RecvStream, stream::Skipped};
use crate::{
    event::Missing,
    ranges::Ranges,
    send::{ADU_OVERHEAD_BYTES, AduOutcome, Piece, Receipt, SendStream, Settled},
    wire::Fragment,
};

const OVERHEAD: usize = ADU_OVERHEAD_BYTES as usize;
const CAPACITY: Capacity = Capacity {
    held_bytes: 1 << 20,
    reserve_bytes: 1 << 16,
    gaps: 1 << 16,
    gaps_unreliable: 1024,
};

fn spec(partial: bool) -> Arc<StreamSpec> {
    Arc::new(StreamSpec {
        reliable: false,
        order: Order::Unordered,
        partial,
        notify: true,
        ..StreamSpec::default()
    })
}

fn recv(partial: bool) -> RecvStream {
    RecvStream::new(StreamId(0), spec(partial), 1 << 20, 0)
}

fn fragment(piece: &Piece) -> Fragment {
    Fragment {
        stream: StreamId(0),
        sequence: piece.place.sequence,
        offset: piece.place.offset,
        is_final: piece.is_final,
        payload: piece.data.clone(),
    }
}

/// Every ADU that is read, and its missing ranges.
fn read_all(r: &mut RecvStream) -> Vec<(u64, Vec<u8>, Missing)> {
    let mut all = Vec::new();
    while let Some((sequence, data, _)) = r.read() {
        let missing = r.take_missing(sequence);
        all.push((sequence, data.to_vec(), missing));
    }
    all
}

proptest! {
    /// ADUs of any length, cut anywhere, of whose fragments any are lost, in any order of outcomes. Every byte is reported lost or
    /// arrived, never both; exactly those that arrived are in the data that the receiver hands out, and equal those sent;
    /// every ADU of which anything arrived is handed out, once.
    #[test]
    fn a_byte_is_lost_or_delivered(
        lengths in prop::collection::vec(1usize..4_000, 1..8),
        cuts in prop::collection::vec((1usize..1_200, any::<bool>(), 0u64..100), 60),
    ) {
        let mut s = SendStream::new(StreamId(0), spec(true), 0);
        let mut r = recv(true);
        let byte = |sequence: u64, at: usize| (1 + (sequence as usize * 31 + at) % 255) as u8;
        for (sequence, &length) in (0u64..).zip(&lengths) {
            let data: Vec<u8> = (0..length).map(|at| byte(sequence, at)).collect();
            s.push(Instant::EPOCH, data.into(), 0);
        }
        let mut settled: Vec<Settled> = Vec::new();
        let mut flight: Vec<(u64, bool, Piece)> = Vec::new();
        let mut turns = cuts.iter().cycle();
        let land = |s: &mut SendStream, r: &mut RecvStream, is_lost: bool, piece: &Piece| {
            let length = piece.data.len();
            if is_lost {
                return s.on_lost(piece.place, length);
            }
            r.add(Instant::EPOCH, &fragment(piece), CAPACITY).expect("no rule is broken");
            let receipt = Receipt {
                at: Instant::EPOCH,
                channel: ChannelId(0),
                rtt: Duration::ZERO,
            };
            s.on_acked(receipt, piece.place, length)
        };
        loop {
            let &(size_max, is_lost, order) = turns.next().expect("they go round");
            if let Some(piece) = s.take_piece(Instant::EPOCH, 0, |_| size_max) {
                flight.push((order, is_lost, piece));
            } else if flight.is_empty() {
                break;
            }
            // Some arrive while others are still to be sent.
            if order % 3 == 0 || s.backlog_bytes() == 0 {
                flight.sort_by_key(|(order, ..)| *order);
                for (_, is_lost, piece) in flight.drain(..) {
                    settled.extend(land(&mut s, &mut r, is_lost, &piece));
                }
            }
        }
        prop_assert_eq!(settled.len(), lengths.len());
        prop_assert!(s.is_settled() && s.held_bytes() == 0);
        for one in &settled {
            if matches!(one.outcome, AduOutcome::Lost { .. }) {
                r.skip(one.sequence, 0, CAPACITY).expect("no rule is broken");
            }
        }
        let got = read_all(&mut r);
        let mut whole_or_part = 0;
        for Settled { sequence, outcome } in settled {
            let length = lengths[sequence as usize] as u64;
            let (arrived, lost) = match outcome {
                AduOutcome::Acked { .. } => (std::iter::once(0..length).collect(), Vec::new()),
                AduOutcome::Lost { arrived, lost } => (arrived, lost),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            };
            let mut bytes = Ranges::default();
            for range in arrived.iter().chain(&lost) {
                prop_assert_eq!(bytes.insert(range.clone()), range.end - range.start, "reported twice");
            }
            prop_assert!(bytes.covers(&(0..length)), "each byte has an outcome");
            let mut mine = got.iter().filter(|(number, ..)| *number == sequence);
            if arrived.is_empty() {
                prop_assert!(mine.next().is_none());
                continue;
            }
            whole_or_part += 1;
            let (_, data, missing) = mine.next().expect("some of it arrived");
            prop_assert!(mine.next().is_none(), "once");
            let end = arrived.last().expect("not empty").end;
            prop_assert_eq!(data.len() as u64, end);
            prop_assert_eq!(missing.is_cut, end < length);
            let within: Vec<_> = lost.into_iter().filter(|range| range.end <= end).collect();
            prop_assert_eq!(&missing.ranges, &within);
            for (at, &value) in data.iter().enumerate() {
                let is_missing = within.iter().any(|range| range.contains(&(at as u64)));
                prop_assert_eq!(value, if is_missing { 0 } else { byte(sequence, at) });
            }
        }
        prop_assert_eq!(got.len(), whole_or_part);
        prop_assert_eq!(r.held_bytes(), 0);
    }
}

#[test]
fn without_the_option_an_adu_is_whole_or_nothing() {
    let mut s = SendStream::new(StreamId(0), spec(false), 0);
    s.push(Instant::EPOCH, vec![7; 3_000].into(), 0);
    let piece = s.take_piece(Instant::EPOCH, 0, |_| 1_000).expect("data");
    let mut r = recv(false);
    r.add(Instant::EPOCH, &fragment(&piece), CAPACITY)
        .expect("no rule is broken");
    assert_eq!(r.skip(0, 0, CAPACITY), Ok(Skipped::default()));
    assert_eq!((read_all(&mut r).len(), r.held_bytes()), (0, 0));
}

#[test]
fn the_end_of_an_unreliable_stream_is_the_end_of_what_waits() {
    for partial in [false, true] {
        let mut s = SendStream::new(StreamId(0), spec(partial), 0);
        s.push(Instant::EPOCH, vec![7; 3_000].into(), 0);
        let piece = s.take_piece(Instant::EPOCH, 0, |_| 1_000).expect("data");
        let mut r = recv(partial);
        r.add(Instant::EPOCH, &fragment(&piece), CAPACITY)
            .expect("no rule is broken");
        assert_eq!(r.set_end(1, CAPACITY), Ok(partial));
        assert_eq!(read_all(&mut r).len(), usize::from(partial));
        assert!(r.is_finished() && r.held_bytes() == 0);
    }
}

#[test]
fn what_was_too_long_on_its_way_is_not_delivered() {
    let spec = StreamSpec {
        lifetime: Some(Duration::from_millis(100)),
        ..(*spec(false)).clone()
    };
    let mut r = RecvStream::new(StreamId(0), spec.into(), 1 << 20, 0);
    let whole = |sequence| Fragment {
        stream: StreamId(0),
        sequence,
        offset: 0,
        is_final: true,
        payload: vec![1; 10].into(),
    };
    let part = |sequence| Fragment {
        is_final: false,
        ..whole(sequence)
    };
    let mut add = |ms: u64, fragment: Fragment| {
        r.add(Instant::from_millis(ms), &fragment, CAPACITY)
            .expect("no rule is broken");
        let numbers: Vec<u64> = read_all(&mut r)
            .iter()
            .map(|(number, ..)| *number)
            .collect();
        (numbers, r.counters.expired_adus, r.held_bytes())
    };
    assert_eq!(add(0, part(0)), (vec![], 0, 10 + OVERHEAD));
    assert_eq!(add(10, whole(3)), (vec![3], 0, 10 + OVERHEAD));
    assert_eq!(add(99, whole(1)), (vec![1], 0, 10 + OVERHEAD));
    // 3 had arrived 100 ms ago, so 2 is older than that; and 0, which waits for more, has no time left.
    assert_eq!(add(110, whole(2)), (vec![], 2, 0));
    assert_eq!(add(110, part(0)), (vec![], 2, 0));
    assert_eq!(add(111, whole(4)), (vec![4], 2, 0));
}
