//! A receive stream.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use anabranch_base::{Instant, StreamId};
use anabranch_spec::{ADU_BYTES_MAX, Order, StreamSpec};
use bytes::Bytes;

use super::{
    Violation,
    assembly::{Allowance, Assembly, FIRST_PIECE_BYTES, PIECE_BYTES},
    horizon::Horizon,
};
use crate::{
    config::grant_step, event::Missing, ranges::Ranges, send::ADU_OVERHEAD_BYTES, wire::Fragment,
};

/// Longest ADU from which the length of the next is predicted: no more space is reserved ahead.
const EXPECTED_BYTES_MAX: usize = 512 << 10;

/// Most pieces of one ADU of an unreliable stream; a fragment that would be one more is dropped.
const PIECES_MAX: usize = 16_384;

/// Largest ratio of the length of a partial ADU to its bytes that have arrived, apart from a little more: zeros
/// cost time.
const GAPS_RATIO: u64 = 256;
const GAPS_FREE_BYTES: u64 = 4 << 10;

/// Capacity that the session has left for a stream. None of it concerns data for which reliable streams have credit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    /// Bytes of unreliable streams that may be held.
    pub held_bytes: usize,
    /// Bytes that may be reserved for data that has not arrived.
    pub reserve_bytes: usize,
    /// Further gaps between received ADUs that reliable streams may have.
    pub gaps: usize,
    /// Gaps that each unreliable stream may have; ADUs older than those count as received.
    pub gaps_unreliable: usize,
}

/// Part of a stream in the resources that the session's streams share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Bytes held; of unreliable streams only.
    pub held_bytes: usize,
    pub reserved_bytes: usize,
    /// Gaps between ADUs received; of reliable streams only.
    pub gaps: usize,
    /// Credit that the peer is known to have used.
    pub seen: u64,
}

impl Load {
    /// Updates a sum in which one load was `before` and is `after` now.
    pub(crate) fn change(&mut self, before: Self, after: Self) {
        self.held_bytes = (self.held_bytes + after.held_bytes).saturating_sub(before.held_bytes);
        self.reserved_bytes =
            (self.reserved_bytes + after.reserved_bytes).saturating_sub(before.reserved_bytes);
        self.gaps = (self.gaps + after.gaps).saturating_sub(before.gaps);
        self.seen = (self.seen + after.seen).saturating_sub(before.seen);
    }
}

/// The credit of a stream that ended before all was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accounts {
    seen: u64,
    consumed: u64,
    granted: u64,
}

impl Accounts {
    /// Takes the total charge that the peer reports for the stream; returns the credit that is now known to have been used, and
    /// the credit to give back.
    pub(crate) fn settle(self, charged_bytes: u64) -> Result<(u64, u64), Violation> {
        if charged_bytes > self.granted {
            return Err(Violation::Credit);
        }
        if charged_bytes < self.seen {
            return Err(Violation::Charge);
        }
        Ok((charged_bytes - self.seen, charged_bytes - self.consumed))
    }
}

/// Effect of a SKIP frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Credit to give back to the session.
    pub credit: u64,
    /// True if the application has something to read because of it.
    pub is_readable: bool,
}

const OVERHEAD: usize = ADU_OVERHEAD_BYTES as usize;

/// Effect of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// It contained nothing new, or there was no space for it.
    Ignored,
    /// It waits for further fragments or ADUs.
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
    /// Shared with the send stream, if there is one.
    pub spec: Arc<StreamSpec>,
    done: Ranges,
    partial: BTreeMap<u64, Box<Assembly>>,
    complete: BTreeMap<u64, Bytes>,
    ready: VecDeque<(u64, Bytes)>,
    /// Next sequence to hand out (ordered streams only).
    next: u64,
    end: Option<u64>,
    window: u64,
    /// Bytes (and overheads) that the peer is known to have used, consumed, and granted; reliable streams only. Held
    /// data never costs more than was seen and not consumed. Invariant: `consumed ≤ seen`; all three only grow.
    seen: u64,
    consumed: u64,
    granted: u64,
    /// Bytes of all data that waits, with the overhead of each ADU and piece.
    held_bytes: usize,
    reserved_bytes: usize,
    /// Size of the latest ADU of several fragments, as a prediction of the next one's.
    latest_bytes: usize,
    /// The ADUs that have outlived their lifetime (unreliable streams with a lifetime).
    horizon: Option<Box<Horizon>>,
    /// Missing parts of the ADUs in `ready` that are not whole.
    missing: BTreeMap<u64, Missing>,
    pub counters: Counters,
}

/// Counters of a receive stream that only grow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// ADUs dropped because the application did not read (unreliable streams only).
    pub dropped_adus: u64,
    /// ADUs dropped because their lifetime was over (unreliable streams only).
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
            reserved_bytes: 0,
            latest_bytes: 0,
            horizon: None,
            missing: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    /// Raises the window, and the granted credit with it; the peer is notified by other means.
    pub(crate) fn widen(&mut self, window: u64) {
        self.window = self.window.max(window);
        if self.end.is_none() {
            self.granted = self.granted.max(window);
        }
    }

    /// Adds a fragment. A fragment of an unreliable stream that exceeds `capacity` is dropped, as if it had been lost.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        fragment: &Fragment,
        capacity: Capacity,
    ) -> Result<Accepted, Violation> {
        let sequence = fragment.sequence;
        if self.end.is_some_and(|end| sequence >= end) {
            return Err(Violation::AfterEnd);
        }
        if self.done.contains(sequence) {
            self.counters.duplicate_bytes += fragment.payload.len() as u64;
            return Ok(Accepted::Ignored);
        }
        self.check_gaps(capacity)?;
        if self.is_expired(now, sequence, capacity) {
            return Ok(Accepted::Ignored);
        }
        let known = self.partial.get(&sequence);
        let is_new = known.is_none();
        if !self.spec.reliable {
            let more = fragment.payload.len() + FIRST_PIECE_BYTES + PIECE_BYTES + OVERHEAD;
            let is_scattered = known.is_some_and(|known| known.pieces() >= PIECES_MAX);
            if is_scattered || more > capacity.held_bytes {
                return Ok(Accepted::Ignored);
            }
        }
        if is_new && fragment.offset == 0 && fragment.is_final {
            self.account(fragment.payload.len() as u64 + ADU_OVERHEAD_BYTES)?;
            // A copy, so that a small ADU does not keep a whole receive buffer alive.
            let data = Bytes::copy_from_slice(&fragment.payload);
            self.held_bytes += data.len() + OVERHEAD;
            return Ok(self.finish(sequence, data, capacity));
        }
        // Credit first: data that exceeds it must not even be allocated.
        let reach = known.map_or(0, |known| known.extent());
        let growth = (fragment.offset + fragment.payload.len()).saturating_sub(reach);
        let overhead = if is_new { ADU_OVERHEAD_BYTES } else { 0 };
        self.account(growth as u64 + overhead)?;
        let allowance = Allowance {
            expected_bytes: self.latest_bytes,
            reserve_bytes: if self.spec.reliable {
                capacity.reserve_bytes
            } else {
                capacity.reserve_bytes.min(capacity.held_bytes)
            },
        };
        let assembly = self.partial.entry(sequence).or_default();
        let (held, reserved) = (assembly.held_bytes(), assembly.reserved_bytes());
        let (offset, is_final) = (fragment.offset, fragment.is_final);
        let is_complete = assembly.add(offset, &fragment.payload, is_final, allowance)?;
        self.held_bytes += assembly.held_bytes();
        self.held_bytes -= held;
        self.held_bytes += if is_new { OVERHEAD } else { 0 };
        self.reserved_bytes += assembly.reserved_bytes() - reserved;
        if !is_complete {
            self.drop_oldest(capacity);
            return Ok(Accepted::Stored);
        }
        let Some(assembly) = self.take_partial(sequence) else {
            return Ok(Accepted::Stored);
        };
        let data = assembly.finish();
        self.held_bytes += data.len() + OVERHEAD;
        self.latest_bytes = data.len().min(EXPECTED_BYTES_MAX);
        Ok(self.finish(sequence, data, capacity))
    }

    /// Refuses a peer that numbers its ADUs more sparsely than any conforming one: it would use memory that no credit covers.
    fn check_gaps(&self, capacity: Capacity) -> Result<(), Violation> {
        if self.spec.reliable && capacity.gaps == 0 && self.done.len() > 1 {
            return Err(Violation::Gaps);
        }
        Ok(())
    }

    /// Removes an incomplete ADU, and the memory it held.
    fn take_partial(&mut self, sequence: u64) -> Option<Assembly> {
        let assembly = self.partial.remove(&sequence)?;
        if self.partial.is_empty() {
            // An emptied map keeps a node of eleven entries; an idle stream needs none.
            self.partial = BTreeMap::new();
        }
        self.held_bytes -= assembly.held_bytes() + OVERHEAD;
        self.reserved_bytes -= assembly.reserved_bytes();
        Some(*assembly)
    }

    /// True if the ADU has outlived its lifetime; it is given up then, and so are all incomplete ones that have. The sender
    /// expires ADUs that it has not sent; this is about those that took too long on their way.
    fn is_expired(&mut self, now: Instant, sequence: u64, capacity: Capacity) -> bool {
        let Some(lifetime) = self.spec.lifetime.filter(|_| !self.spec.reliable) else {
            return false;
        };
        let horizon = self.horizon.get_or_insert_default();
        let over = horizon.note_fragment(now, sequence, lifetime);
        while let Some((&late, _)) = self.partial.first_key_value()
            && late < over
        {
            self.take_partial(late);
            self.mark_done(late, capacity);
            self.counters.expired_adus += 1;
        }
        let is_over = sequence < over;
        if is_over && !self.done.contains(sequence) {
            self.mark_done(sequence, capacity);
            self.counters.expired_adus += 1;
        }
        is_over
    }

    /// Gives up an ADU whose rest will not arrive: of a stream with `partial`, the application gets the part that has arrived,
    /// unless it is very small or exceeds the capacity. Returns whether the application has something to read because of it.
    fn give_up(&mut self, sequence: u64, capacity: Capacity) -> bool {
        let Some(assembly) = self.take_partial(sequence) else {
            return false;
        };
        let extent = assembly.extent();
        let is_sparse = extent as u64 > GAPS_RATIO * assembly.got_bytes() + GAPS_FREE_BYTES;
        let more = extent.saturating_sub(assembly.held_bytes());
        if !self.spec.partial || is_sparse || more > capacity.held_bytes {
            self.counters.dropped_adus += u64::from(self.spec.partial);
            self.mark_done(sequence, capacity);
            return false;
        }
        let (data, missing) = assembly.give_up();
        self.held_bytes += data.len() + OVERHEAD + gaps_bytes(&missing);
        self.missing.insert(sequence, missing);
        self.counters.partial_adus += 1;
        let accepted = self.finish(sequence, data, capacity);
        accepted == Accepted::Readable
    }

    /// Missing parts of the ADU that was read last; usually none.
    pub(crate) fn take_missing(&mut self, sequence: u64) -> Missing {
        if self.missing.is_empty() {
            return Missing::default();
        }
        let missing = self.missing.remove(&sequence).unwrap_or_default();
        self.held_bytes -= gaps_bytes(&missing);
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

    fn finish(&mut self, sequence: u64, data: Bytes, capacity: Capacity) -> Accepted {
        self.mark_done(sequence, capacity);
        self.counters.received_adus += 1;
        self.counters.received_bytes += data.len() as u64;
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
            // Unreliable and ordered: a late ADU is dropped rather than delivered out of order.
            self.let_go(sequence, &data);
            self.counters.dropped_adus += 1;
        } else {
            self.next = self.next.max(sequence + 1);
            self.push_ready(sequence, data);
        }
        self.drop_oldest(capacity);
        if was_empty && !self.ready.is_empty() {
            Accepted::Readable
        } else {
            Accepted::Stored
        }
    }

    /// Appends an ADU to `ready`. The first one reserves space for one only: most idle streams have carried single messages.
    fn push_ready(&mut self, sequence: u64, data: Bytes) {
        if self.ready.capacity() == 0 {
            self.ready.reserve_exact(1);
        }
        self.ready.push_back((sequence, data));
    }

    /// Releases an ADU that was complete, and its record of missing parts.
    fn let_go(&mut self, sequence: u64, data: &Bytes) {
        self.held_bytes -= data.len() + OVERHEAD;
        self.take_missing(sequence);
    }

    fn mark_done(&mut self, sequence: u64, capacity: Capacity) {
        self.done.insert(sequence..sequence + 1);
        while !self.spec.reliable && self.done.len() > capacity.gaps_unreliable {
            // Give up on the oldest gap.
            if let Some(first) = self.done.first() {
                let from = if first.start == 0 { first.end } else { 0 };
                let gap = self.done.gaps(from..u64::MAX).next();
                if let Some(gap) = gap {
                    self.done.insert(gap);
                }
            }
        }
    }

    /// Moves the ADUs that are next in order to `ready` (ordered and reliable streams).
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

    /// Drops the oldest ADUs of an unreliable stream that the application does not read.
    fn drop_oldest(&mut self, capacity: Capacity) {
        if self.spec.reliable {
            return;
        }
        while self.held_bytes as u64 > self.window {
            if let Some((&sequence, _)) = self.partial.first_key_value() {
                self.take_partial(sequence);
                self.mark_done(sequence, capacity);
            } else if let Some((sequence, data)) = self.ready.pop_front() {
                self.let_go(sequence, &data);
            } else {
                return;
            }
            self.counters.dropped_adus += 1;
        }
    }

    /// Ends an ADU that will never be complete. Of an unreliable stream with `partial`, the part that has arrived is handed out.
    ///
    /// The charge that the peer reports counts as used from now on, whether or not any of the ADU arrived. So no credit is given
    /// back that the peer did not have, and held data stays within the window.
    pub(crate) fn skip(
        &mut self,
        sequence: u64,
        charged_bytes: u64,
        capacity: Capacity,
    ) -> Result<Skipped, Violation> {
        if !self.spec.reliable {
            return Ok(Skipped {
                credit: 0,
                is_readable: self.give_up(sequence, capacity),
            });
        }
        if self.done.contains(sequence) {
            return Ok(Skipped::default());
        }
        if self.end.is_some_and(|end| sequence >= end) {
            return Err(Violation::AfterEnd);
        }
        self.check_gaps(capacity)?;
        let known = self.check_charge(sequence, charged_bytes)?;
        self.account(charged_bytes - known)?;
        self.mark_done(sequence, capacity);
        self.take_partial(sequence);
        self.consumed += charged_bytes;
        let was_empty = self.ready.is_empty();
        self.hand_out();
        Ok(Skipped {
            credit: charged_bytes,
            is_readable: was_empty && !self.ready.is_empty(),
        })
    }

    /// Part of an incomplete ADU's cost that was seen already; an error if `charged_bytes` cannot be its cost. A sender charges
    /// all of an ADU or, while none of it was sent, perhaps nothing.
    fn check_charge(&self, sequence: u64, charged_bytes: u64) -> Result<u64, Violation> {
        let possible = ADU_OVERHEAD_BYTES + 1..=ADU_OVERHEAD_BYTES + ADU_BYTES_MAX as u64;
        let Some(assembly) = self.partial.get(&sequence) else {
            let is_possible = charged_bytes == 0 || possible.contains(&charged_bytes);
            return is_possible.then_some(0).ok_or(Violation::Charge);
        };
        let known = assembly.extent() as u64 + ADU_OVERHEAD_BYTES;
        let is_possible = match assembly.length() {
            Some(length) => charged_bytes == length as u64 + ADU_OVERHEAD_BYTES,
            None => charged_bytes >= known && possible.contains(&charged_bytes),
        };
        is_possible.then_some(known).ok_or(Violation::Charge)
    }

    /// Sets the end of the stream: no ADU will follow `end - 1`; of an unreliable stream, nothing more will arrive. Returns
    /// whether the application has something to read because of it.
    ///
    /// # Errors
    /// The end differs from the one announced before.
    pub(crate) fn set_end(&mut self, end: u64, capacity: Capacity) -> Result<bool, Violation> {
        if self.end.is_some_and(|before| before != end) {
            return Err(Violation::AfterEnd);
        }
        self.end = Some(end);
        let mut is_readable = false;
        while !self.spec.reliable
            && let Some((&sequence, _)) = self.partial.first_key_value()
        {
            is_readable |= self.give_up(sequence, capacity);
        }
        Ok(is_readable)
    }

    /// True if the peer has finished the stream and everything has been read.
    pub(crate) fn is_finished(&self) -> bool {
        let Some(end) = self.end else {
            return false;
        };
        self.ready.is_empty()
            && if self.spec.reliable {
                self.done.covers(&(0..end))
            } else {
                // Missing data is lost.
                self.partial.is_empty()
            }
    }

    /// Next ADU to read, and the credit that reading it gives back.
    pub(crate) fn read(&mut self) -> Option<(u64, Bytes, u64)> {
        let (sequence, data) = self.ready.pop_front()?;
        self.held_bytes -= data.len() + OVERHEAD;
        let credit = if self.spec.reliable {
            data.len() as u64 + ADU_OVERHEAD_BYTES
        } else {
            0
        };
        self.consumed += credit;
        debug_assert!(self.consumed <= self.seen, "what was not seen is not read");
        Some((sequence, data, credit))
    }

    /// Its part in the resources that the session's streams share.
    pub(crate) fn load(&self) -> Load {
        let is_reliable = self.spec.reliable;
        Load {
            held_bytes: if is_reliable { 0 } else { self.held_bytes },
            reserved_bytes: self.reserved_bytes,
            gaps: if is_reliable {
                self.done.len().saturating_sub(1)
            } else {
                0
            },
            seen: if is_reliable { self.seen } else { 0 },
        }
    }

    /// The credit that remains when it ends before all was read.
    pub(crate) fn accounts(&self) -> Accounts {
        let is_reliable = self.spec.reliable;
        Accounts {
            seen: if is_reliable { self.seen } else { 0 },
            consumed: self.consumed,
            granted: if is_reliable { self.granted } else { 0 },
        }
    }

    /// Bytes that have arrived, each counted once, those of incomplete ADUs included. O(incomplete ADUs).
    pub(crate) fn arrived_bytes(&self) -> u64 {
        let partial = self.partial.values().map(|partial| partial.got_bytes());
        self.counters.received_bytes + partial.sum::<u64>()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The credit to announce, when enough has been consumed to be worth a frame.
    pub(crate) fn next_grant(&mut self) -> Option<u64> {
        if !self.spec.reliable || self.end.is_some() {
            return None;
        }
        let target = self.consumed.saturating_add(self.window);
        if target.saturating_sub(self.granted) < grant_step(self.window) {
            return None;
        }
        debug_assert!(target >= self.granted, "granted credit only grows");
        self.granted = target;
        Some(target)
    }
}

/// Memory of the gap list of an ADU that is handed out in part.
fn gaps_bytes(missing: &Missing) -> usize {
    missing.ranges.len() * size_of::<std::ops::Range<u64>>()
}

#[cfg(test)]
mod tests;
