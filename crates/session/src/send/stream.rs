//! A send stream: its queue of new data, and of lost fragments that are sent again first.

use std::{collections::VecDeque, num::NonZeroU32, ops::Range, sync::Arc, time::Duration};

use anabranch_admission::Refusal;
use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_sched::objective::Fields;
use anabranch_spec::{Order, StreamSpec};
use bytes::Bytes;

use super::{ADU_OVERHEAD_BYTES, adu::SendAdu, carried::Carried, newest::Newest, runs::Runs};
use crate::wire::frame::Place;

/// A fragment to put into a packet.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub place: Place,
    pub is_final: bool,
    pub data: Bytes,
    /// Credit used by sending it: not zero for the first fragment of an ADU of a reliable stream.
    pub charge: u64,
}

/// Prediction of arrival times of data that is sent from now on.
pub(crate) trait Outlook {
    /// Predicted time until the last of so many bytes has arrived; `None` while nothing is known.
    fn arrival(&self, bytes: usize) -> Option<Duration>;

    /// Mean deviation of that prediction.
    fn error(&self) -> Duration;
}

/// Acknowledgement of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub at: Instant,
    pub channel: ChannelId,
    pub rtt: Duration,
}

/// An ADU with something to send, or to send again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingAdu<'a> {
    pub sequence: u64,
    /// Bytes of it that wait.
    pub bytes: u64,
    /// Its length, in bytes.
    pub length: usize,
    pub queued_at: Instant,
    pub deadline: Option<Instant>,
    pub fields: &'a Fields,
}

/// Outcome of an ADU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AduOutcome {
    /// All of it is at the peer's node.
    Acked {
        /// Time since it was handed over.
        age: Duration,
        /// Receipt of the packet whose acknowledgement completed it.
        receipt: Receipt,
    },
    /// It was dropped before all of it was sent: too much was waiting, or its application discarded it.
    Dropped {
        /// As of [`AduOutcome::Expired`].
        skip: Option<u64>,
    },
    /// Part of it was lost, and it is not to be sent again.
    Lost {
        /// The bytes that arrived; for streams with `notify` or `partial` only.
        arrived: Vec<Range<u64>>,
        /// All other bytes; for the same streams.
        lost: Vec<Range<u64>>,
    },
    /// It outlived its lifetime.
    Expired {
        /// Credit it had used; `Some` when the receiver must be notified not to wait for it.
        skip: Option<u64>,
    },
}

/// An ADU whose outcome is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub sequence: u64,
    pub outcome: AduOutcome,
}

/// Key: session, stream.
///
/// Invariants: `base` is the sequence of `adus[0]`; no ADU before `cursor` has unsent bytes; `backlog`
/// is the number of unsent bytes plus those in `lost`. Each byte of an open ADU has exactly one owner: it is unsent, in
/// `lost`, in flight, or acknowledged; one moved off a silent channel may be acknowledged while it is in `lost`.
#[derive(Debug)]
pub(crate) struct SendStream {
    pub id: StreamId,
    /// Shared with the receive stream, if there is one.
    pub spec: Arc<StreamSpec>,
    /// True if the peer has acknowledged the announcement of the stream.
    pub announced: bool,
    adus: VecDeque<SendAdu>,
    base: u64,
    /// First ADU with unsent bytes.
    cursor: u64,
    lost: VecDeque<(u64, Range<u64>)>,
    backlog: u64,
    /// Bytes of ADUs whose outcome is open.
    held_bytes: usize,
    /// Credit used and granted (reliable streams only). Invariant: `charged ≤ credit`; both only grow.
    pub charged: u64,
    pub credit: u64,
    pub finish: Finish,
    /// Bytes that may wait unsent before the application is held back.
    pub unsent_max: Option<NonZeroU32>,
    /// True if the application was notified that the buffer is full and waits for space.
    pub blocked: bool,
    /// True if it is among those that its session has marked as changed.
    pub touched: bool,
    pub sent_at: Option<Instant>,
    /// Time at which an ADU that waited was last given up.
    given_up_at: Option<Instant>,
    rare: Option<Box<Rare>>,
    pub counters: Counters,
    pub carried: Carried,
}

/// State that few streams need: idle ones are small. Key: session, stream.
#[derive(Debug, Default)]
struct Rare {
    /// Parts of the queue in which deadlines ascend.
    runs: Runs,
    /// True if an ADU was begun before one in front of it.
    has_overtaken: bool,
    /// The turn of a stream whose newest ADU is sent first.
    newest: Option<Newest>,
}

/// End of a send stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finish {
    /// No more ADUs will be accepted.
    pub is_asked: bool,
    /// Warning of its promise for which it was finished.
    pub warning: Option<Box<Refusal>>,
    pub is_sent: bool,
    pub is_acked: bool,
}

/// Totals of a send stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub adus: u64,
    pub bytes: u64,
    pub acked_adus: u64,
    pub lost_adus: u64,
    pub expired_adus: u64,
    pub shed_adus: u64,
    pub repaired_bytes: u64,
    pub copied_bytes: u64,
}

impl SendStream {
    pub(crate) fn new(id: StreamId, spec: Arc<StreamSpec>, credit: u64) -> Self {
        let newest = (spec.order == Order::NewestFirst).then(Newest::default);
        Self {
            id,
            spec,
            announced: false,
            adus: VecDeque::new(),
            base: 0,
            cursor: 0,
            lost: VecDeque::new(),
            backlog: 0,
            held_bytes: 0,
            charged: 0,
            credit,
            finish: Finish::default(),
            unsent_max: None,
            blocked: false,
            touched: false,
            sent_at: None,
            given_up_at: None,
            rare: newest.map(|newest| {
                Box::new(Rare {
                    newest: Some(newest),
                    ..Rare::default()
                })
            }),
            counters: Counters::default(),
            carried: Carried::default(),
        }
    }

    /// Queues an ADU and returns its sequence.
    pub(crate) fn push(&mut self, now: Instant, data: Bytes, importance: u8) -> u64 {
        let sequence = self.end();
        let deadline = self.spec.lifetime.map(|lifetime| now + lifetime);
        let last = self.adus.back();
        if last.is_some_and(|last| Runs::begins_anew(last.deadline, deadline)) {
            self.rare.get_or_insert_default().runs.begin(sequence);
        }
        self.backlog += data.len() as u64;
        self.held_bytes += data.len();
        self.counters.adus += 1;
        self.counters.bytes += data.len() as u64;
        if let Some(newest) = self.newest_mut() {
            newest.push(sequence);
        }
        if self.adus.capacity() == 0 {
            // Space for one only: most idle streams have carried single messages.
            self.adus.reserve_exact(1);
        }
        self.adus
            .push_back(SendAdu::new(now, data, deadline, importance));
        sequence
    }

    /// Sequences at which deadlines begin anew.
    fn run_begins(&self) -> impl Iterator<Item = u64> + '_ {
        self.rare.iter().flat_map(|rare| rare.runs.begins())
    }

    fn newest(&self) -> Option<&Newest> {
        self.rare.as_ref()?.newest.as_ref()
    }

    fn newest_mut(&mut self) -> Option<&mut Newest> {
        self.rare.as_mut()?.newest.as_mut()
    }

    /// Sequence of the next ADU.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.adus.len() as u64
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.backlog
    }

    /// Bytes that may be queued now, where a send buffer holds `buffer_bytes`; one ADU more is accepted while it is not 0.
    pub(crate) fn space(&self, buffer_bytes: usize) -> usize {
        let space = buffer_bytes.saturating_sub(self.held_bytes);
        match self.unsent_max {
            None => space,
            Some(max) => space.min((max.get() as usize).saturating_sub(self.backlog as usize)),
        }
    }

    /// True if an application that was held back may go on: a quarter of the buffer is free, and half of what may wait unsent.
    pub(crate) fn has_drained(&self, buffer_bytes: usize) -> bool {
        self.held_bytes <= buffer_bytes - buffer_bytes / 4
            && self
                .unsent_max
                .is_none_or(|max| self.backlog <= u64::from(max.get()) / 2)
    }

    /// True if every ADU's outcome is known.
    pub(crate) fn is_settled(&self) -> bool {
        self.adus.is_empty()
    }

    /// Time since which the oldest ADU whose outcome is open has been waiting.
    pub(crate) fn oldest_at(&self) -> Option<Instant> {
        self.adus.front().map(|adu| adu.queued_at)
    }

    /// Time at which the next ADU may have to be given up: the deadline of the oldest whose outcome is open or,
    /// on an unreliable stream, of the oldest that is not sent completely.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let first = if self.spec.reliable {
            0
        } else {
            (self.cursor - self.base) as usize
        };
        let first = self.adus.get(first).and_then(|adu| adu.deadline);
        let later = self.run_begins();
        first
            .into_iter()
            .chain(later.filter_map(|begin| self.deadline_from(begin)))
            .min()
    }

    /// Deadline of the first ADU from `begin` on that may have to be given up.
    fn deadline_from(&self, begin: u64) -> Option<Instant> {
        let reliable = self.spec.reliable;
        let from = begin.saturating_sub(self.base) as usize;
        let mut open = self.adus.iter().skip(from);
        let adu = open.find(|adu| !adu.done && (reliable || adu.unsent() > 0));
        adu.and_then(|adu| adu.deadline)
    }

    /// True if there is something to send, to give up in time, or to announce.
    pub(crate) fn is_active(&self) -> bool {
        self.backlog > 0
            || self.deadline().is_some()
            || (self.finish.is_asked && !self.finish.is_sent)
    }

    /// Deadline of the ADU with bytes to send, or to send again, that is next in turn.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let repaired = self.lost.front().map(|(sequence, _)| *sequence);
        let next = match (self.newest(), repaired) {
            (None, Some(repaired)) => repaired.min(self.cursor),
            (Some(_), Some(repaired)) => repaired,
            (_, None) => self.next_new(),
        };
        self.deadline_of(next)
    }

    /// The ADU whose unsent bytes are next in turn; if there are none, one that is settled or to come.
    fn next_new(&self) -> u64 {
        let newest = self.newest().and_then(Newest::next);
        newest.unwrap_or(self.cursor)
    }

    /// Bytes that are sent before those of an ADU that is handed over now.
    pub(crate) fn ahead_bytes(&self) -> u64 {
        let Some(newest) = self.newest() else {
            return self.backlog;
        };
        let lost = self.lost.iter().map(|(_, range)| range.end - range.start);
        let begun = newest.begun().and_then(|begun| self.known(begun));
        lost.sum::<u64>() + begun.map_or(0, |adu| adu.unsent() as u64)
    }

    /// Deadline of the ADU that was handed over last, if its outcome is open.
    pub(crate) fn last_deadline(&self) -> Option<Instant> {
        self.adus.back().and_then(|adu| adu.deadline)
    }

    /// Time at which this ADU becomes useless; `None`: never, or it is settled.
    pub(crate) fn deadline_of(&self, sequence: u64) -> Option<Instant> {
        self.known(sequence)?.deadline
    }

    fn known(&self, sequence: u64) -> Option<&SendAdu> {
        let index = usize::try_from(sequence.checked_sub(self.base)?).ok()?;
        self.adus.get(index)
    }

    fn adu(&mut self, sequence: u64) -> Option<&mut SendAdu> {
        let index = sequence.checked_sub(self.base)?;
        self.adus.get_mut(usize::try_from(index).ok()?)
    }

    /// ADUs from sequence `first` to `last`, both included, as far as they are known.
    fn span(&self, first: u64, last: u64) -> impl Iterator<Item = &SendAdu> {
        let from = first.saturating_sub(self.base) as usize;
        let to = (last + 1).saturating_sub(self.base) as usize;
        self.adus
            .range(from.min(self.adus.len())..to.min(self.adus.len()))
    }

    /// ADUs that may be sent, in order of their turn, those with fragments to repair included, and the bytes of each
    /// that wait. New ones end where credit does. O(ADUs that wait); O(ADUs · fragments to repair) while there are
    /// any of these.
    pub(crate) fn waiting(&self, session_credit: u64) -> impl Iterator<Item = WaitingAdu<'_>> {
        let first = if self.lost.is_empty() {
            self.cursor
        } else {
            self.base
        };
        let mut charged = 0;
        let mut is_spent = false;
        let is_descending = self.newest().is_some();
        let end = self.end();
        (first..end).filter_map(move |place| {
            let sequence = match is_descending {
                true => first + (end - 1 - place),
                false => place,
            };
            let adu = self.known(sequence).filter(|adu| !adu.done)?;
            let lost = self.lost.iter().filter(|(lost, _)| *lost == sequence);
            let mut bytes: u64 = lost.map(|(_, range)| range.end - range.start).sum();
            let is_new = self.spec.reliable && !adu.is_charged;
            if adu.unsent() > 0 && is_new && !is_spent {
                charged += adu.data.len() as u64 + ADU_OVERHEAD_BYTES;
                is_spent = !self.fits(charged, session_credit);
            }
            if adu.unsent() > 0 && !(is_new && is_spent) {
                bytes += adu.unsent() as u64;
            }
            (bytes > 0).then_some(WaitingAdu {
                sequence,
                bytes,
                length: adu.data.len(),
                queued_at: adu.queued_at,
                deadline: adu.deadline,
                fields: &adu.fields,
            })
        })
    }

    /// Sets header fields of an ADU; returns whether its outcome is open.
    pub(crate) fn set_fields(&mut self, sequence: u64, fields: Fields) -> bool {
        let adu = self.adu(sequence).filter(|adu| !adu.done);
        adu.map(|adu| adu.fields = fields).is_some()
    }

    /// Header fields of an ADU whose outcome is open.
    pub(crate) fn fields(&self, sequence: u64) -> Option<&Fields> {
        let adu = self.known(sequence).filter(|adu| !adu.done)?;
        Some(&adu.fields)
    }

    /// Changes the importance of an ADU; returns whether it is still known.
    pub(crate) fn set_importance(&mut self, sequence: u64, importance: u8) -> bool {
        let adu = self.adu(sequence).filter(|adu| !adu.done);
        adu.map(|adu| adu.importance = importance).is_some()
    }
}

mod credit;
mod giving_up;
mod outcomes;
mod pieces;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_discard;
#[cfg(test)]
mod tests_newest;
