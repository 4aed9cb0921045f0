//! Pieces of ADUs for packets: new data in turn, lost fragments again, second copies.

use std::ops::Range;

use anabranch_base::Instant;
use anabranch_spec::Order;

use super::{Piece, SendAdu, SendStream};
use crate::wire::frame::Place;

impl SendStream {
    /// Takes the next piece. `size_max` returns the bytes of data that fit the packet for a fragment at this place.
    pub(crate) fn take_piece(
        &mut self,
        now: Instant,
        session_credit: u64,
        mut size_max: impl FnMut(Place) -> usize,
    ) -> Option<Piece> {
        while let Some((sequence, range)) = self.lost.pop_front() {
            self.backlog -= range.end - range.start;
            if let Some(piece) = self.take_repair(sequence, range, &mut size_max) {
                return piece;
            }
        }
        if !self.is_sendable(session_credit) {
            return None;
        }
        let charge = self.next_charge();
        if self.fits(charge, session_credit) {
            return self.take_new(now, self.next_new(), charge, size_max);
        }
        let begun = self.begun_ahead()?;
        self.take_new(now, begun, 0, size_max)
    }

    /// The ADU to send where a plan names this one: the next in turn of an unreliable ordered stream, whose receiver would
    /// drop overtaken ADUs, and of one whose newest goes first, unless this one has lost parts; else this one.
    pub(crate) fn instead_of(&self, sequence: u64) -> u64 {
        let is_repaired = || self.lost.iter().any(|(lost, _)| *lost == sequence);
        match (self.spec.reliable, self.spec.order) {
            (false, Order::Ordered) => self.cursor,
            (_, Order::NewestFirst) if !is_repaired() => self.next_new(),
            _ => sequence,
        }
    }

    /// As [`take_piece`](Self::take_piece), of this ADU alone; it may overtake others. `None` also when the stream does
    /// not permit that: the receiver of an unreliable ordered one would drop the ADUs that are overtaken.
    pub(crate) fn take_piece_of(
        &mut self,
        now: Instant,
        sequence: u64,
        session_credit: u64,
        mut size_max: impl FnMut(Place) -> usize,
    ) -> Option<Piece> {
        while let Some(at) = self.lost.iter().position(|(lost, _)| *lost == sequence) {
            let (_, range) = self.lost.remove(at)?;
            self.backlog -= range.end - range.start;
            if let Some(piece) = self.take_repair(sequence, range, &mut size_max) {
                return piece;
            }
        }
        let adu = self.adu(sequence)?;
        if adu.done || adu.unsent() == 0 {
            return None;
        }
        if !self.spec.reliable && self.spec.order == Order::Ordered && sequence > self.cursor {
            return None;
        }
        let charge = self.charge_of(sequence);
        if !self.fits(charge, session_credit) {
            return None;
        }
        self.take_new(now, sequence, charge, size_max)
    }

    /// Takes bytes of an ADU that were never sent; the ADU has some.
    fn take_new(
        &mut self,
        now: Instant,
        sequence: u64,
        charge: u64,
        mut size_max: impl FnMut(Place) -> usize,
    ) -> Option<Piece> {
        let id = self.id;
        let adu = self.adu(sequence).expect("it has bytes to send");
        let place = Place {
            stream: id,
            sequence,
            offset: adu.sent,
        };
        let length = size_max(place).min(adu.unsent());
        if length == 0 {
            return None;
        }
        let data = adu.data.slice(adu.sent..adu.sent + length);
        adu.sent += length;
        let is_final = adu.unsent() == 0;
        self.backlog -= length as u64;
        self.charge_for(sequence, charge);
        if sequence > self.cursor {
            self.rare.get_or_insert_default().has_overtaken = true;
        }
        if let Some(newest) = self.newest_mut() {
            newest.note_sent(sequence);
        }
        self.sent_at = Some(now);
        self.advance_cursor();
        Some(Piece {
            place,
            is_final,
            data,
            charge,
        })
    }

    /// The first part of `range` that still needs to be sent again. `None`: no part does.
    /// `Some(None)`: a part does, but it does not fit.
    fn take_repair(
        &mut self,
        sequence: u64,
        range: Range<u64>,
        size_max: &mut impl FnMut(Place) -> usize,
    ) -> Option<Option<Piece>> {
        let id = self.id;
        let adu = self.adu(sequence).filter(|adu| !adu.done)?;
        let mut gaps = adu.acked.gaps(range);
        let gap = gaps.next()?;
        let rest: Vec<Range<u64>> = gaps.collect();
        let place = Place {
            stream: id,
            sequence,
            offset: gap.start as usize,
        };
        let length = size_max(place).min((gap.end - gap.start) as usize) as u64;
        let taken = gap.start..gap.start + length;
        let piece = (length > 0).then(|| {
            let data = adu.data.slice(taken.start as usize..taken.end as usize);
            Piece {
                place,
                is_final: taken.end == adu.data.len() as u64,
                data,
                charge: 0,
            }
        });
        for left in rest.into_iter().rev() {
            self.requeue(sequence, left);
        }
        if taken.end < gap.end {
            self.requeue(sequence, taken.end..gap.end);
        }
        self.counters.repaired_bytes += length;
        Some(piece)
    }

    fn requeue(&mut self, sequence: u64, range: Range<u64>) {
        debug_assert!(self.is_free(sequence, &range), "a fragment has one owner");
        self.backlog += range.end - range.start;
        self.lost.push_front((sequence, range));
    }

    /// True if these bytes were sent, and do not wait to be repaired. O(fragments to repair).
    pub(super) fn is_free(&self, sequence: u64, range: &Range<u64>) -> bool {
        let adu = self.adus.get((sequence - self.base) as usize);
        let overlaps = |(lost, other): &(u64, Range<u64>)| {
            *lost == sequence && other.start < range.end && range.start < other.end
        };
        adu.is_some_and(|adu| range.end <= adu.sent as u64) && !self.lost.iter().any(overlaps)
    }

    /// Goes on to the next ADU with unsent bytes, once those of another were sent or given up.
    pub(super) fn advance_cursor(&mut self) {
        let waits = |adu: &SendAdu| !adu.done && adu.unsent() > 0;
        while let Some(adu) = self.adus.get((self.cursor - self.base) as usize) {
            if waits(adu) {
                break;
            }
            self.cursor += 1;
        }
        if let Some(newest) = self.rare.as_mut().and_then(|rare| rare.newest.as_mut()) {
            let (adus, base) = (&self.adus, self.base);
            newest.settle(self.cursor, |sequence| {
                let at = sequence.checked_sub(base);
                at.and_then(|at| adus.get(at as usize)).is_some_and(waits)
            });
        }
    }

    /// Bytes of a fragment that is in flight, for sending a second copy of it; `None` when that
    /// would be of no use any more.
    pub(crate) fn copy_piece(&mut self, place: Place, length: usize) -> Option<Piece> {
        let range = place.offset as u64..(place.offset + length) as u64;
        let adu = self.adu(place.sequence);
        let adu = adu.filter(|adu| !adu.done && !adu.broken)?;
        if adu.acked.covers(&range) {
            return None;
        }
        let data = adu.data.slice(place.offset..place.offset + length);
        let is_final = place.offset + length == adu.data.len();
        adu.add_copy(range);
        self.counters.copied_bytes += length as u64;
        Some(Piece {
            place,
            is_final,
            data,
            charge: 0,
        })
    }
}
