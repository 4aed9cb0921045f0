//! The receiving half of one stream.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use anabranch_base::{Instant, StreamId};
use anabranch_sched::{Order, StreamSpec};
use bytes::Bytes;

use super::{assembly::Assembly, horizon::Horizon};
use crate::{event::Missing, ranges::Ranges, send::ADU_OVERHEAD_BYTES, wire::Fragment};

/// Gaps kept in the memory of what was received on an unreliable stream; older ADUs than the oldest
/// gap count as received.
const GAPS_MAX: usize = 1024;

/// Gaps that a reliable stream may have: a peer that numbers its ADUs more sparsely is at fault.
const RELIABLE_GAPS_MAX: usize = 1 << 16;

/// Memory reserved for an ADU when its first fragment arrives, at most, and only while few others are
/// incomplete: a peer that leaves many unfinished cannot make much be reserved.
const EXPECTED_BYTES_MAX: usize = 512 << 10;
const FEW_PARTIAL: usize = 16;

/// The peer broke the rules; the session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// Two fragments of an ADU disagree about its length.
    #[error("fragments of one ADU disagree about its length")]
    Length,
    /// More was sent than there was credit for.
    #[error("more was sent than there was credit for")]
    Credit,
    /// An ADU after the announced end of the stream.
    #[error("an ADU follows the announced end of its stream")]
    AfterEnd,
    /// The numbers of ADUs have more gaps than any honest sender leaves.
    #[error("the numbers of ADUs have too many gaps")]
    Gaps,
}

/// What a fragment did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Nothing new, or no room for it.
    Ignored,
    /// It waits for more.
    Stored,
    /// The application has something to read.
    Readable,
}

/// Key: session, stream.
///
/// Invariants: an ADU's sequence is in exactly one of: `done`, `partial`, or not yet seen; for
/// ordered streams complete ADUs wait in `complete` until all before them are done.
#[derive(Debug)]
pub(crate) struct RecvStream {
    pub id: StreamId,
    /// Shared with the sending half, if there is one.
    pub spec: Arc<StreamSpec>,
    done: Ranges,
    partial: BTreeMap<u64, Assembly>,
    complete: BTreeMap<u64, Bytes>,
    ready: VecDeque<(u64, Bytes)>,
    /// Ordered streams: next sequence to hand out.
    next: u64,
    end: Option<u64>,
    window: u64,
    /// Bytes (and overheads) seen, consumed, and granted; reliable streams only.
    seen: u64,
    consumed: u64,
    granted: u64,
    held_bytes: usize,
    /// Size of the latest ADU of several fragments: what the next may need.
    latest_bytes: usize,
    /// Unreliable streams with a lifetime: what has outlived it.
    horizon: Option<Box<Horizon>>,
    /// What is missing of those in `ready` that are not whole.
    missing: BTreeMap<u64, Missing>,
    /// ADUs thrown away because the application did not read (unreliable streams only).
    pub dropped_adus: u64,
    /// ADUs thrown away because their lifetime was over (unreliable streams only).
    pub expired_adus: u64,
    /// ADUs of which the application gets only a part.
    pub partial_adus: u64,
    pub received_adus: u64,
    pub received_bytes: u64,
    pub duplicate_bytes: u64,
}

impl RecvStream {
    pub(crate) fn new(id: StreamId, spec: Arc<StreamSpec>, window: u64, granted: u64) -> Self {
        Self {
            id,
            spec,
            done: Ranges::default(),
            partial: BTreeMap::new(),
            complete: BTreeMap::new(),
            ready: VecDeque::new(),
            next: 0,
            end: None,
            window,
            seen: 0,
            consumed: 0,
            granted,
            held_bytes: 0,
            latest_bytes: 0,
            horizon: None,
            missing: BTreeMap::new(),
            dropped_adus: 0,
            expired_adus: 0,
            partial_adus: 0,
            received_adus: 0,
            received_bytes: 0,
            duplicate_bytes: 0,
        }
    }

    /// Takes in a fragment. `room` is what the session can still hold of unreliable streams; a
    /// fragment that does not fit is dropped, as if it had been lost.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        fragment: &Fragment,
        room: usize,
    ) -> Result<Accepted, Violation> {
        let sequence = fragment.sequence;
        if self.end.is_some_and(|end| sequence >= end) {
            return Err(Violation::AfterEnd);
        }
        if self.done.contains(sequence) {
            self.duplicate_bytes += fragment.payload.len() as u64;
            return Ok(Accepted::Ignored);
        }
        if self.spec.reliable && self.done.len() > RELIABLE_GAPS_MAX {
            return Err(Violation::Gaps);
        }
        if self.is_expired(now, sequence) {
            return Ok(Accepted::Ignored);
        }
        let partial = self.partial.get(&sequence).map_or(0, Assembly::held_bytes);
        let end = fragment.offset + fragment.payload.len();
        let growth = end.saturating_sub(partial);
        if !self.spec.reliable && growth > room {
            return Ok(Accepted::Ignored);
        }
        let whole = fragment.offset == 0 && fragment.is_final;
        if whole && !self.partial.contains_key(&sequence) {
            self.account(fragment.payload.len() as u64 + ADU_OVERHEAD_BYTES)?;
            // A copy, so that a small ADU does not keep a whole receive buffer alive.
            let data = Bytes::copy_from_slice(&fragment.payload);
            self.held_bytes += data.len();
            return Ok(self.finish(sequence, data));
        }
        let is_new = !self.partial.contains_key(&sequence);
        let overhead = if is_new { ADU_OVERHEAD_BYTES } else { 0 };
        // Credit first: what exceeds it must not even be allocated.
        self.account(growth as u64 + overhead)?;
        self.held_bytes += growth;
        let expected = if self.partial.len() < FEW_PARTIAL {
            self.latest_bytes
        } else {
            0
        };
        let assembly = self
            .partial
            .entry(sequence)
            .or_insert_with(|| Assembly::with_capacity(expected));
        let complete = assembly.add(fragment.offset, &fragment.payload, fragment.is_final)?;
        if !complete {
            self.make_room();
            return Ok(Accepted::Stored);
        }
        let assembly = self.partial.remove(&sequence).expect("just added to");
        if self.partial.is_empty() {
            // An emptied map keeps a node of eleven; a stream at rest needs none.
            self.partial = BTreeMap::new();
        }
        let data = assembly.finish();
        self.latest_bytes = data.len().min(EXPECTED_BYTES_MAX);
        Ok(self.finish(sequence, data))
    }

    /// Whether the ADU has outlived its lifetime; it is given up then, as all that wait for more and have. The sender
    /// expires what it has not sent; this is about what was too long on its way.
    fn is_expired(&mut self, now: Instant, sequence: u64) -> bool {
        let Some(lifetime) = self.spec.lifetime.filter(|_| !self.spec.reliable) else {
            return false;
        };
        let horizon = self.horizon.get_or_insert_default();
        let over = horizon.hear(now, sequence, lifetime);
        while let Some(entry) = self.partial.first_entry()
            && *entry.key() < over
        {
            let (late, assembly) = entry.remove_entry();
            self.held_bytes -= assembly.held_bytes();
            self.mark_done(late);
            self.expired_adus += 1;
        }
        let is_over = sequence < over;
        if is_over && !self.done.contains(sequence) {
            self.mark_done(sequence);
            self.expired_adus += 1;
        }
        is_over
    }

    /// The rest of an ADU will not come: where the stream says so, the application gets what has come of it. Whether the
    /// application has something to read because of it.
    fn give_up(&mut self, sequence: u64) -> bool {
        let Some(assembly) = self.partial.remove(&sequence) else {
            return false;
        };
        if !self.spec.partial {
            self.held_bytes -= assembly.held_bytes();
            self.mark_done(sequence);
            return false;
        }
        let (data, missing) = assembly.give_up();
        self.missing.insert(sequence, missing);
        self.partial_adus += 1;
        let accepted = self.finish(sequence, data);
        let is_ready = self.ready.iter().any(|(ready, _)| *ready == sequence);
        if !is_ready {
            self.take_missing(sequence);
        }
        accepted == Accepted::Readable
    }

    /// What is missing of the ADU that was read last; nothing as a rule.
    pub(crate) fn take_missing(&mut self, sequence: u64) -> Missing {
        if self.missing.is_empty() {
            return Missing::default();
        }
        let missing = self.missing.remove(&sequence).unwrap_or_default();
        if self.missing.is_empty() {
            // As `partial`.
            self.missing = BTreeMap::new();
        }
        missing
    }

    fn account(&mut self, bytes: u64) -> Result<(), Violation> {
        self.seen += bytes;
        if self.spec.reliable && self.seen > self.granted {
            return Err(Violation::Credit);
        }
        Ok(())
    }

    fn finish(&mut self, sequence: u64, data: Bytes) -> Accepted {
        self.mark_done(sequence);
        self.received_adus += 1;
        self.received_bytes += data.len() as u64;
        let was_empty = self.ready.is_empty();
        if self.spec.reliable && self.spec.order == Order::Ordered {
            if sequence == self.next {
                self.next += 1;
                self.push_ready(sequence, data);
            } else {
                self.complete.insert(sequence, data);
            }
            self.hand_out();
        } else if self.spec.order == Order::Ordered && sequence < self.next {
            // Unreliable and ordered: what comes late is dropped rather than delivered out of order.
            self.held_bytes -= data.len();
            self.dropped_adus += 1;
        } else {
            self.next = self.next.max(sequence + 1);
            self.push_ready(sequence, data);
        }
        self.make_room();
        if was_empty && !self.ready.is_empty() {
            Accepted::Readable
        } else {
            Accepted::Stored
        }
    }

    /// The first one takes the room of one only: most streams that idle have carried single messages.
    fn push_ready(&mut self, sequence: u64, data: Bytes) {
        if self.ready.capacity() == 0 {
            self.ready.reserve_exact(1);
        }
        self.ready.push_back((sequence, data));
    }

    fn mark_done(&mut self, sequence: u64) {
        self.done.insert(sequence..sequence + 1);
        if !self.spec.reliable && self.done.len() > GAPS_MAX {
            // Give up on the oldest gap.
            if let Some(first) = self.done.first() {
                let from = if first.start == 0 { first.end } else { 0 };
                let gap = self.done.gaps(from..u64::MAX).next();
                if let Some(gap) = gap {
                    self.done.insert(gap.start..gap.start + 1);
                    self.done.insert(gap);
                }
            }
        }
    }

    /// Ordered and reliable: moves what is next in order to `ready`.
    fn hand_out(&mut self) {
        loop {
            if let Some(data) = self.complete.remove(&self.next) {
                if self.complete.is_empty() {
                    self.complete = BTreeMap::new();
                }
                self.push_ready(self.next, data);
            } else if !self.done.contains(self.next) || self.partial.contains_key(&self.next) {
                return;
            }
            self.next += 1;
        }
    }

    /// An application that does not read an unreliable stream loses the oldest of it.
    fn make_room(&mut self) {
        if self.spec.reliable {
            return;
        }
        while self.held_bytes as u64 > self.window {
            if let Some((sequence, assembly)) = self.partial.pop_first() {
                self.held_bytes -= assembly.held_bytes();
                self.mark_done(sequence);
            } else if let Some((sequence, data)) = self.ready.pop_front() {
                self.held_bytes -= data.len();
                self.take_missing(sequence);
            } else {
                return;
            }
            self.dropped_adus += 1;
        }
    }

    /// The ADU will never be complete. Of an unreliable stream, what has come of it is handed out if the stream says so. Returns credit to give back to the session, and whether the
    /// application has something to read because of it.
    pub(crate) fn skip(
        &mut self,
        sequence: u64,
        charged_bytes: u64,
    ) -> Result<(u64, bool), Violation> {
        if !self.spec.reliable {
            return Ok((0, self.give_up(sequence)));
        }
        if self.done.contains(sequence) {
            return Ok((0, false));
        }
        if self.end.is_some_and(|end| sequence >= end) {
            return Err(Violation::AfterEnd);
        }
        if self.done.len() > RELIABLE_GAPS_MAX {
            return Err(Violation::Gaps);
        }
        let consumed = self.consumed.checked_add(charged_bytes);
        if consumed.is_none_or(|consumed| consumed > self.granted) {
            return Err(Violation::Credit);
        }
        self.mark_done(sequence);
        if let Some(assembly) = self.partial.remove(&sequence) {
            self.held_bytes -= assembly.held_bytes();
        }
        self.consumed += charged_bytes;
        let was_empty = self.ready.is_empty();
        self.hand_out();
        Ok((charged_bytes, was_empty && !self.ready.is_empty()))
    }

    /// The credit still to be given back when the peer says what a stream had used in all.
    pub(crate) fn settle_credit(
        consumed: u64,
        granted: u64,
        charged_bytes: u64,
    ) -> Result<u64, Violation> {
        if charged_bytes > granted {
            return Err(Violation::Credit);
        }
        Ok(charged_bytes.saturating_sub(consumed))
    }

    /// No ADU will follow `end - 1`; of an unreliable stream, nothing more will come. Whether the application has
    /// something to read because of it.
    pub(crate) fn set_end(&mut self, end: u64) -> bool {
        self.end = Some(end);
        let mut is_readable = false;
        while !self.spec.reliable
            && let Some((&sequence, _)) = self.partial.first_key_value()
        {
            is_readable |= self.give_up(sequence);
        }
        is_readable
    }

    /// Whether the peer has finished and everything has been read.
    pub(crate) fn is_finished(&self) -> bool {
        let Some(end) = self.end else {
            return false;
        };
        self.ready.is_empty()
            && if self.spec.reliable {
                self.done.covers(&(0..end))
            } else {
                // What is missing is lost.
                self.partial.is_empty()
            }
    }

    /// Next ADU to read, and the credit that reading it gives back.
    pub(crate) fn read(&mut self) -> Option<(u64, Bytes, u64)> {
        let (sequence, data) = self.ready.pop_front()?;
        self.held_bytes -= data.len();
        let credit = if self.spec.reliable {
            data.len() as u64 + ADU_OVERHEAD_BYTES
        } else {
            0
        };
        self.consumed += credit;
        Some((sequence, data, credit))
    }

    /// Credit that what has arrived is known to have used; 0 for unreliable streams.
    pub(crate) fn seen(&self) -> u64 {
        if self.spec.reliable { self.seen } else { 0 }
    }

    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Bytes that have arrived, each counted once, those of incomplete ADUs included. O(incomplete ADUs).
    pub(crate) fn arrived_bytes(&self) -> u64 {
        let partial = self.partial.values().map(Assembly::got_bytes);
        self.received_bytes + partial.sum::<u64>()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The credit to announce, when enough has been consumed to be worth a frame.
    pub(crate) fn next_grant(&mut self) -> Option<u64> {
        if !self.spec.reliable || self.end.is_some() {
            return None;
        }
        let target = self.consumed + self.window;
        if target - self.granted < self.window / 4 {
            return None;
        }
        self.granted = target;
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOM: usize = 100_000;

    fn stream(reliable: bool, order: Order) -> RecvStream {
        let spec = StreamSpec {
            reliable,
            order,
            ..StreamSpec::default()
        };
        RecvStream::new(StreamId(0), Arc::new(spec), 10_000, 10_000)
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
            ordered.add(Instant::EPOCH, &fragment(1, 0, 10, true), ROOM),
            Ok(Accepted::Stored)
        );
        assert_eq!(
            unordered.add(Instant::EPOCH, &fragment(1, 0, 10, true), ROOM),
            Ok(Accepted::Readable)
        );
        assert_eq!(
            ordered.add(Instant::EPOCH, &fragment(0, 0, 10, true), ROOM),
            Ok(Accepted::Readable)
        );
        assert_eq!(read_all(&mut ordered), [0, 1]);
        assert_eq!(read_all(&mut unordered), [1]);
    }

    #[test]
    fn a_skipped_adu_is_not_waited_for() {
        let mut s = stream(true, Order::Ordered);
        s.add(Instant::EPOCH, &fragment(0, 0, 10, false), ROOM)
            .expect("within credit");
        s.add(Instant::EPOCH, &fragment(1, 0, 10, true), ROOM)
            .expect("within credit");
        assert_eq!(s.skip(0, 52), Ok((52, true)));
        assert_eq!(read_all(&mut s), [1]);
        assert_eq!(
            s.add(Instant::EPOCH, &fragment(0, 10, 10, true), ROOM),
            Ok(Accepted::Ignored),
            "late fragments of it change nothing"
        );
    }

    #[test]
    fn sending_beyond_the_credit_is_a_violation() {
        let mut s = stream(true, Order::Ordered);
        assert_eq!(
            s.add(Instant::EPOCH, &fragment(0, 0, 9_969, true), ROOM),
            Err(Violation::Credit)
        );
        let mut s = stream(true, Order::Ordered);
        s.add(Instant::EPOCH, &fragment(0, 0, 9_968, true), ROOM)
            .expect("fits exactly");
        assert!(s.next_grant().is_none(), "nothing was read");
        s.read().expect("one ADU");
        assert_eq!(s.next_grant(), Some(20_000));
    }

    #[test]
    fn a_slow_reader_of_an_unreliable_stream_loses_the_oldest() {
        let mut s = stream(false, Order::Unordered);
        for sequence in 0..30 {
            s.add(Instant::EPOCH, &fragment(sequence, 0, 1000, true), ROOM)
                .expect("no credit needed");
            assert!(s.held_bytes() <= 10_000);
        }
        assert_eq!(s.dropped_adus, 20);
        assert_eq!(read_all(&mut s), (20..30).collect::<Vec<_>>());
    }

    #[test]
    fn a_skip_beyond_the_credit_is_a_violation() {
        let mut s = stream(true, Order::Ordered);
        assert_eq!(s.skip(0, 10_001), Err(Violation::Credit));
        assert_eq!(s.skip(0, u64::MAX), Err(Violation::Credit));
    }

    #[test]
    fn an_unreliable_fragment_without_room_is_dropped_before_it_is_allocated() {
        let mut s = stream(false, Order::Unordered);
        assert_eq!(
            s.add(Instant::EPOCH, &fragment(0, 9_000_000, 10, false), ROOM),
            Ok(Accepted::Ignored)
        );
        assert_eq!(s.held_bytes(), 0);
    }

    proptest! {
        /// Fragments in any order, with repetitions: every ADU once, in order where asked.
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
                s.add(Instant::EPOCH, &fragments[index], ROOM).expect("within credit");
                while let Some((sequence, data, _)) = s.read() {
                    prop_assert_eq!(data.len(), lengths[sequence as usize]);
                    got.push(sequence);
                }
            }
            s.set_end(lengths.len() as u64);
            prop_assert!(s.is_finished());
            prop_assert_eq!(s.held_bytes(), 0);
            if !ordered {
                got.sort_unstable();
            }
            prop_assert_eq!(got, (0..lengths.len() as u64).collect::<Vec<_>>());
        }
    }
}
