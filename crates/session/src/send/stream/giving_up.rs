//! ADUs that are given up: late, hopeless, more than may wait, or out of date.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_spec::DropOrder;

use super::{AduOutcome, Outlook, SendAdu, SendStream, Settled};
use crate::{send::ADU_OVERHEAD_BYTES, stats::Discarded};

/// Mean deviations beyond which a prediction is certainly wrong: the K of RFC 6298 §2.
const CERTAIN: u32 = 4;

impl SendStream {
    /// Drops every ADU whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant, settled: &mut Vec<Settled>) {
        let later: Vec<u64> = self.run_begins().collect();
        self.expire_run(now, self.base, settled);
        for begin in later {
            self.expire_run(now, begin, settled);
        }
        self.advance_cursor();
    }

    /// Drops ADUs whose deadline has passed, from `from` on as long as there are any.
    pub(super) fn expire_run(&mut self, now: Instant, from: u64, settled: &mut Vec<Settled>) {
        let from = from.max(self.base);
        let expired = self
            .adus
            .iter()
            .skip((from - self.base) as usize)
            .take_while(|adu| adu.deadline.is_some_and(|deadline| deadline <= now))
            .count();
        for sequence in from..from + expired as u64 {
            let reliable = self.spec.reliable;
            let Some(adu) = self.adu(sequence).filter(|adu| !adu.done) else {
                continue;
            };
            // The network decides the outcome of an unreliable ADU that is sent completely.
            if !reliable && adu.unsent() == 0 {
                continue;
            }
            settled.push(self.give_up(now, sequence));
        }
    }

    /// True if an ADU that waited was given up within this time: the channels carry less than the stream has.
    pub(crate) fn has_given_up_within(&self, now: Instant, time: Duration) -> bool {
        self.given_up_at.is_some_and(|at| now.since(at) < time)
    }

    /// Drops ADUs that are predicted to miss their deadline, while the youngest would meet its own:
    /// data sent in vain makes the ADUs behind it late, too.
    ///
    /// The ADUs within the next `reach` bytes are examined in order of their turn, each as following those that stay.
    /// O(ADUs within `reach`).
    pub(crate) fn drop_hopeless(
        &mut self,
        now: Instant,
        reach: usize,
        outlook: &impl Outlook,
        settled: &mut Vec<Settled>,
    ) {
        let would_miss = |adu: &SendAdu, ahead: usize| {
            let Some(deadline) = adu.deadline else {
                return false;
            };
            let Some(arrival) = outlook.arrival(ahead + adu.unsent()) else {
                return false;
            };
            let left = deadline.since(now);
            let error = outlook.error();
            // An ADU that was begun is given up only when it is certainly late, because the bytes sent of it
            // are wasted then; and none is begun that is not expected to arrive in time.
            if adu.sent > 0 {
                arrival > left + CERTAIN * error
            } else {
                arrival + error > left
            }
        };
        // The youngest is never dropped: a prediction may be wrong, and only sending corrects it.
        if self
            .adus
            .back()
            .is_none_or(|adu| adu.unsent() == 0 || would_miss(adu, 0))
        {
            return;
        }
        let (first, last) = (self.cursor, self.end() - 1);
        let is_descending = self.newest().is_some();
        let mut ahead = match (is_descending, self.adus.back()) {
            (true, Some(youngest)) => youngest.unsent(),
            _ => 0,
        };
        for place in first..last {
            let sequence = match is_descending {
                true => first + (last - 1 - place),
                false => place,
            };
            // One that overtook others may be sent completely.
            let waits = |adu: &&mut SendAdu| !adu.done && adu.unsent() > 0;
            let Some(adu) = self.adu(sequence).filter(waits) else {
                continue;
            };
            let unsent = adu.unsent();
            if would_miss(adu, ahead) {
                settled.push(self.give_up(now, sequence));
                continue;
            }
            ahead += unsent;
            if ahead >= reach {
                break;
            }
        }
        self.advance_cursor();
    }

    /// Drops ADUs in the stream's drop order until no more than `most_bytes` wait. No ADU that was begun
    /// is dropped, and one of the others stays. O(n log n) in the ADUs that wait, when any has
    /// to be dropped.
    pub(crate) fn shed(&mut self, most_bytes: u64, settled: &mut Vec<Settled>) {
        let Some(order) = self.spec.drop.filter(|_| self.backlog > most_bytes) else {
            return;
        };
        let first = self.cursor;
        let waiting = self.adus.iter().skip((first - self.base) as usize);
        let mut victims: Vec<(u8, u64)> = (first..)
            .zip(waiting)
            .filter(|(_, adu)| !adu.done && adu.sent == 0)
            .map(|(sequence, adu)| (adu.importance, sequence))
            .collect();
        match order {
            DropOrder::Oldest => {}
            DropOrder::Newest => victims.reverse(),
            DropOrder::LeastImportant => victims.sort_unstable(),
        }
        victims.pop();
        for (_, sequence) in victims {
            if self.backlog <= most_bytes {
                break;
            }
            settled.push(self.drop_unsent(sequence));
        }
        self.advance_cursor();
    }

    /// Drops every ADU that is not sent completely, and that may be lost: of a reliable stream, those with a deadline. An ADU that may
    /// be delivered in part is finished if it was begun. O(ADUs that wait).
    pub(crate) fn discard(&mut self, settled: &mut Vec<Settled>) -> Discarded {
        let (reliable, partial) = (self.spec.reliable, self.spec.partial);
        let is_dropped = |adu: &SendAdu| {
            let waits = !adu.done && adu.unsent() > 0;
            waits && (!reliable || adu.deadline.is_some()) && (!partial || adu.sent == 0)
        };
        let first = self.cursor;
        let waiting = self.adus.iter().skip((first - self.base) as usize);
        let victims: Vec<(u64, usize)> = (first..)
            .zip(waiting)
            .filter(|(_, adu)| is_dropped(adu))
            .map(|(sequence, adu)| (sequence, adu.data.len()))
            .collect();
        let mut discarded = Discarded::default();
        for (sequence, bytes) in victims {
            discarded.adus += 1;
            discarded.bytes += bytes as u64;
            settled.push(self.drop_unsent(sequence));
        }
        self.advance_cursor();
        discarded
    }

    /// Ends an ADU of which not all was sent.
    fn drop_unsent(&mut self, sequence: u64) -> Settled {
        let (_, skip) = self.cut(sequence);
        self.counters.shed_adus += 1;
        self.settle(sequence, AduOutcome::Dropped { skip })
    }

    /// Ends an ADU that is late or will be.
    pub(super) fn give_up(&mut self, now: Instant, sequence: u64) -> Settled {
        let (unsent, skip) = self.cut(sequence);
        if unsent > 0 {
            self.given_up_at = Some(now);
        }
        self.counters.expired_adus += 1;
        self.settle(sequence, AduOutcome::Expired { skip })
    }

    /// Sends no more of an ADU. Returns the bytes of it that were not sent and, if the receiver must be notified not to wait for it, the
    /// credit that it had used.
    fn cut(&mut self, sequence: u64) -> (u64, Option<u64>) {
        let reliable = self.spec.reliable;
        let adu = self.adu(sequence).expect("only a known ADU is given up");
        // The receiver of an unordered stream waits for nothing, but the credit has to be returned.
        let used = adu.data.len() as u64 + ADU_OVERHEAD_BYTES;
        let skip = reliable.then_some(if adu.is_charged { used } else { 0 });
        let unsent = adu.unsent() as u64;
        adu.sent = adu.data.len();
        self.backlog -= unsent;
        (unsent, skip)
    }
}
