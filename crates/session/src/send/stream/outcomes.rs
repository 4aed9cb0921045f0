//! Outcomes of fragments, and with them of their ADUs: acknowledged, lost, moved to another channel.

use super::{AduOutcome, Receipt, SendStream, Settled};
use crate::wire::frame::Place;

impl SendStream {
    /// Handles the acknowledgement of a fragment.
    pub(crate) fn on_acked(
        &mut self,
        receipt: Receipt,
        place: Place,
        length: usize,
    ) -> Option<Settled> {
        let adu = self.adu(place.sequence)?;
        if adu.done {
            return None;
        }
        let range = place.offset as u64..(place.offset + length) as u64;
        if adu.acknowledge(range) {
            let age = receipt.at.since(adu.queued_at);
            self.counters.acked_adus += 1;
            return Some(self.settle(place.sequence, AduOutcome::Acked { age, receipt }));
        }
        self.settle_if_broken(place.sequence)
    }

    /// Handles the loss of one copy of a fragment, or the silence of its channel.
    ///
    /// A reliable stream will send it again; an unreliable one gives its ADU up.
    pub(crate) fn on_lost(&mut self, place: Place, length: usize) -> Option<Settled> {
        let (reliable, partial) = (self.spec.reliable, self.spec.partial);
        let adu = self.adu(place.sequence)?;
        if adu.done {
            return None;
        }
        let range = place.offset as u64..(place.offset + length) as u64;
        let was_last_copy = adu.lose_copy(&range);
        if !was_last_copy || adu.acked.covers(&range) {
            return None;
        }
        if reliable {
            debug_assert!(
                self.is_free(place.sequence, &range),
                "a fragment has one owner"
            );
            self.backlog += range.end - range.start;
            self.lost.push_back((place.sequence, range));
            return None;
        }
        adu.lost_bytes += length as u32;
        let is_first = !std::mem::replace(&mut adu.broken, true);
        if is_first && !partial {
            // Bytes that were not sent yet are of no use without those that were lost.
            let unsent = adu.unsent() as u64;
            adu.lost_bytes += unsent as u32;
            adu.sent = adu.data.len();
            self.backlog -= unsent;
            self.advance_cursor();
        }
        self.settle_if_broken(place.sequence)
    }

    /// Handles the silence of a fragment's channel: it is sent on another one, but the
    /// first copy may still arrive.
    pub(crate) fn on_moved(&mut self, place: Place, length: usize) {
        let range = place.offset as u64..(place.offset + length) as u64;
        let Some(adu) = self.adu(place.sequence).filter(|adu| !adu.done) else {
            return;
        };
        if adu.lose_copy(&range) && !adu.acked.covers(&range) {
            debug_assert!(
                self.is_free(place.sequence, &range),
                "a fragment has one owner"
            );
            self.backlog += range.end - range.start;
            self.lost.push_back((place.sequence, range));
        }
    }

    /// Ends an ADU of which a fragment was lost: at once or, if the application asked for reports, when the outcome of
    /// all of its fragments is known.
    pub(super) fn settle_if_broken(&mut self, sequence: u64) -> Option<Settled> {
        let must_know = self.spec.notify || self.spec.partial;
        let adu = self.adu(sequence)?;
        if !adu.broken || adu.done {
            return None;
        }
        let (mut arrived, mut lost) = (Vec::new(), Vec::new());
        if must_know {
            if adu.acked_bytes + u64::from(adu.lost_bytes) < adu.data.len() as u64 {
                return None;
            }
            arrived.extend(adu.acked.iter());
            lost.extend(adu.acked.gaps(0..adu.data.len() as u64));
        }
        self.counters.lost_adus += 1;
        Some(self.settle(sequence, AduOutcome::Lost { arrived, lost }))
    }

    pub(super) fn settle(&mut self, sequence: u64, outcome: AduOutcome) -> Settled {
        let adu = self.adu(sequence).expect("only a known ADU is settled");
        let length = adu.data.len();
        adu.release();
        self.held_bytes -= length;
        // Its fragments that wait to be repaired are of no use any more.
        let mut freed = 0;
        self.lost.retain(|(lost, range)| {
            let keep = *lost != sequence;
            if !keep {
                freed += range.end - range.start;
            }
            keep
        });
        self.backlog -= freed;
        while self.adus.front().is_some_and(|adu| adu.done) {
            self.adus.pop_front();
            self.base += 1;
        }
        if let Some(rare) = &mut self.rare {
            rare.runs.forget_until(self.base);
        }
        self.cursor = self.cursor.max(self.base);
        debug_assert!(
            !self.adus.is_empty() || (self.backlog, self.held_bytes) == (0, 0),
            "nothing waits of ADUs whose outcome is known"
        );
        Settled { sequence, outcome }
    }
}
