//! Order of delivery: complete ADUs become ready at once, or when those before them are done.

use std::ops::Range;

use anabranch_base::Instant;
use anabranch_spec::Order;
use bytes::Bytes;

use super::{Accepted, Capacity, RecvStream};
use crate::recv::waiting::patience;

impl RecvStream {
    /// True of a stream on which an ADU waits for earlier ones, but not for ever.
    fn is_impatient(&self) -> bool {
        !self.spec.reliable && self.spec.order == Order::Ordered
    }

    /// True if an ADU with this number is too late to be delivered in order.
    pub(super) fn is_overtaken(&self, sequence: u64) -> bool {
        self.is_impatient() && sequence < self.next
    }

    /// Takes a complete ADU.
    pub(super) fn finish(
        &mut self,
        now: Instant,
        sequence: u64,
        data: Bytes,
        capacity: Capacity,
    ) -> Accepted {
        self.mark_done(sequence, capacity);
        self.counters.received_adus += 1;
        self.counters.received_bytes += data.len() as u64;
        let was_empty = self.ready.is_empty();
        if self.spec.order == Order::Unordered {
            self.push_ready(sequence, data);
        } else if self.spec.reliable {
            if sequence == self.next {
                self.next += 1;
                self.push_ready(sequence, data);
            } else {
                self.complete.insert(sequence, data);
            }
            self.hand_out();
        } else if sequence == self.next && self.waiting.is_none() {
            self.next += 1;
            self.push_ready(sequence, data);
        } else if sequence < self.next {
            // Dropped rather than delivered out of order.
            self.let_go(sequence, &data);
            self.counters.dropped_adus += 1;
        } else {
            let waiting = self.waiting.get_or_insert_default();
            waiting.add(now, sequence, data);
            // Its number, too, is one of those whose memory is bounded.
            self.pass(sequence..sequence + 1, capacity);
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

    /// Moves the ADUs that are next in order to `ready` (ordered and reliable streams).
    pub(super) fn hand_out(&mut self) {
        loop {
            if let Some(data) = self.complete.remove(&self.next) {
                if self.complete.is_empty() {
                    self.complete = Default::default();
                }
                self.push_ready(self.next, data);
            } else if !self.done.contains(self.next) || self.partial.contains_key(&self.next) {
                return;
            }
            self.next += 1;
        }
    }

    /// Lets later ADUs go before these, where they waited for them (ordered and unreliable streams). One that is complete
    /// before anything later was handed over is delivered all the same.
    pub(super) fn pass(&mut self, range: Range<u64>, capacity: Capacity) {
        if !self.is_impatient() || range.end <= self.next {
            return;
        }
        let range = range.start.max(self.next)..range.end;
        let waiting = self.waiting.get_or_insert_default();
        waiting.pass(range, capacity.gaps_unreliable);
        self.hand_out_waiting();
    }

    /// Moves the waiting ADUs that are next in order to `ready`; what is incomplete before them is dropped.
    fn hand_out_waiting(&mut self) {
        let Some(mut waiting) = self.waiting.take() else {
            return;
        };
        while let Some((sequence, data)) = waiting.take(&mut self.next) {
            self.push_ready(sequence, data);
        }
        if !waiting.is_empty() {
            self.waiting = Some(waiting);
        }
        while let Some((&first, _)) = self.partial.first_key_value()
            && first < self.next
        {
            self.take_partial(first);
        }
    }

    /// Time at which an ADU has waited for earlier ones as long as it may.
    pub(crate) fn release_at(&self) -> Option<Instant> {
        let waiting = self.waiting.as_ref()?;
        waiting.due(patience(&self.spec))
    }

    /// Hands over what has waited long enough for earlier ADUs; returns whether the application has something to read because
    /// of it.
    pub(crate) fn release(&mut self, now: Instant) -> bool {
        let was_empty = self.ready.is_empty();
        if let Some(waiting) = &mut self.waiting {
            waiting.release(now, patience(&self.spec));
            self.hand_out_waiting();
        }
        was_empty && !self.ready.is_empty()
    }

    /// Hands over all that waits: what is missing before `end` does not come any more (ordered and unreliable streams).
    pub(super) fn end_waiting(&mut self, end: u64) {
        if !self.is_impatient() {
            return;
        }
        while let Some(waiting) = &mut self.waiting
            && let Some((sequence, data)) = waiting.take_first(&mut self.next)
        {
            self.push_ready(sequence, data);
        }
        self.waiting = None;
        self.next = self.next.max(end);
    }

    /// Drops the oldest ADUs of an unreliable stream that the application does not read, or that wait.
    pub(super) fn drop_oldest(&mut self, capacity: Capacity) {
        if self.spec.reliable {
            return;
        }
        while self.held_bytes as u64 > self.window {
            if let Some((&sequence, _)) = self.partial.first_key_value() {
                self.take_partial(sequence);
                self.mark_done(sequence, capacity);
                self.pass(sequence..sequence + 1, capacity);
            } else if let Some((sequence, data)) = self.ready.pop_front() {
                self.let_go(sequence, &data);
            } else if let Some((sequence, data)) =
                (self.waiting.as_mut()).and_then(|waiting| waiting.take_first(&mut self.next))
            {
                self.let_go(sequence, &data);
            } else {
                return;
            }
            self.counters.dropped_adus += 1;
        }
    }
}

#[cfg(test)]
mod tests;
