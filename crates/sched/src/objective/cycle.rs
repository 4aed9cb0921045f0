//! Cycle of decisions: ADUs, slots and channels, as objectives see them.

use std::{cell::RefCell, sync::Arc};

use anabranch_base::StreamId;
use anabranch_hose as hose;
use anabranch_hose::{AduFact, FieldId, StreamFact};

use anabranch_spec::{ChannelMask, Correlation, Slot};

/// Header fields that an application gave an ADU, by number; they stay with the sender. A clone is cheap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Option<Arc<[f64]>>);

impl Fields {
    /// `values` by number; NaN: not set.
    pub fn new(values: &[f64]) -> Self {
        Self((!values.is_empty()).then(|| values.into()))
    }

    /// All up to the last that is set.
    pub fn values(&self) -> &[f64] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// An ADU, or the fragment of one that a packet takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Adu {
    /// Its stream.
    pub stream: StreamId,
    /// Its number in the stream.
    pub sequence: u64,
    /// Payload of the packet.
    pub bytes: u32,
    /// Payload of the whole ADU.
    pub length: u32,
    /// Milliseconds since the application handed it over; for one that was sent, until then.
    pub waited_ms: f64,
    /// Milliseconds from then until it is of no use; NaN: useful for ever.
    pub deadline_ms: f64,
    /// Symbol of its stream's label.
    pub label: f64,
    /// The application's header fields.
    pub fields: Fields,
    /// Its place, from 0, in the order in which streams' shares and priorities would have ADUs go; all 0 where
    /// that does not matter.
    pub turn: u32,
    /// The channels it may use, as indices into [`Cycle::channels`].
    pub channels: ChannelMask,
}

/// Outcome of an ADU that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing is known yet.
    Open,
    /// Acknowledged so many milliseconds after it was handed over.
    Acked {
        /// Milliseconds.
        latency_ms: f64,
    },
    /// Lost.
    Lost,
}

/// An ADU of the transmission history.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// It.
    pub adu: Adu,
    /// The slot that it took.
    pub slot: Slot,
    /// Outcome of it.
    pub outcome: Outcome,
}

/// Measurements of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Its id.
    pub id: StreamId,
    /// Symbol of its label; NaN if it is not open.
    pub label: f64,
    /// Mean latency of its ADUs, in milliseconds; NaN while nothing is known, as the others.
    pub latency_ms: f64,
    /// Standard deviation of the latency.
    pub deviation_ms: f64,
    /// Fraction of its ADUs that were lost.
    pub loss: f64,
    /// Mean difference of the latencies of consecutive ADUs.
    pub jitter_ms: f64,
}

/// Facts about a channel as such.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// Number by which applications know it.
    pub id: u64,
    /// [`symbol`](anabranch_hose::symbol) of its name and technology.
    pub name: f64,
    /// See [`Channel::name`].
    pub technology: f64,
    /// True if its bytes are paid for.
    pub is_metered: bool,
    /// Rate that it is expected to carry.
    pub rate_bps: f64,
    /// Other attributes by number; NaN, or beyond the end: not set.
    pub fields: Vec<f64>,
}

impl Channel {
    /// Its answer to a fact of channels; NaN to others.
    pub(super) fn answer(&self, fact: AduFact) -> f64 {
        match fact {
            AduFact::ChannelId => self.id as f64,
            AduFact::ChannelName => self.name,
            AduFact::ChannelTechnology => self.technology,
            AduFact::ChannelMetered => f64::from(u8::from(self.is_metered)),
            AduFact::ChannelRate => self.rate_bps,
            AduFact::ChannelField(id) => field(&self.fields, id),
            _ => f64::NAN,
        }
    }
}

/// Input of a [`Planner`](super::Planner).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cycle {
    /// Slots that exist and phantoms.
    pub slots: Vec<Slot>,
    /// ADUs that wait: those of a stream together, in its order.
    pub adus: Vec<Adu>,
    /// ADUs sent before.
    pub history: Vec<Sent>,
    /// Streams, ascending by id.
    pub streams: Vec<Stream>,
    /// Channels; slots name them by index, and so does a policy's view.
    pub channels: Vec<Channel>,
    /// Correlation of losses.
    pub correlation: Correlation,
}

impl Cycle {
    /// True if the ADU fits the slot, and may use its channel.
    pub fn fits(&self, adu: usize, slot: usize) -> bool {
        let (adu, slot) = (&self.adus[adu], &self.slots[slot]);
        adu.bytes <= slot.bytes_max && adu.channels.contains(slot.channel as usize)
    }

    fn stream(&self, id: StreamId) -> Option<&Stream> {
        let at = self.streams.binary_search_by_key(&id, |stream| stream.id);
        at.ok().map(|at| &self.streams[at])
    }

    /// P(both are lost | either is lost), of two ADUs in their slots or with their outcomes.
    pub(super) fn correlated_loss(
        &self,
        (a, outcome_a): (Option<&Slot>, Outcome),
        (b, outcome_b): (Option<&Slot>, Outcome),
    ) -> f64 {
        let (Some(a), Some(b)) = (a, b) else {
            return f64::NAN;
        };
        let both = self.correlation.both(a, b);
        match (outcome_a, outcome_b) {
            (Outcome::Open, Outcome::Open) => both,
            (Outcome::Lost, Outcome::Lost) => 1.0,
            // One arrived: they were not lost both.
            (Outcome::Acked { .. }, _) | (_, Outcome::Acked { .. }) => 0.0,
            // One is lost: P(the other is, too), both being as likely to be lost.
            (Outcome::Lost, Outcome::Open) | (Outcome::Open, Outcome::Lost) => {
                2.0 * both / (1.0 + both)
            }
        }
    }

    pub(super) fn of_adu(
        &self,
        adu: &Adu,
        slot: Option<&Slot>,
        outcome: Outcome,
        fact: AduFact,
    ) -> f64 {
        let channel = || slot.and_then(|slot| self.channels.get(slot.channel as usize));
        let latency = |slot: &Slot| adu.waited_ms + slot.wait_ms + slot.round_trip_ms;
        match (fact, outcome) {
            (AduFact::StreamId, _) => adu.stream.0 as f64,
            (AduFact::StreamSeq, _) => adu.sequence as f64,
            (AduFact::Length, _) => f64::from(adu.length),
            (AduFact::QueueDelay, _) => adu.waited_ms,
            (AduFact::Deadline, _) => adu.deadline_ms,
            (AduFact::Label, _) => adu.label,
            (AduFact::Field(id), _) => field(adu.fields.values(), id),
            (AduFact::Loss, Outcome::Open) => slot.map_or(f64::NAN, |slot| slot.loss),
            (AduFact::Loss, Outcome::Acked { .. }) => 0.0,
            (AduFact::Loss, Outcome::Lost) => 1.0,
            (AduFact::Latency, Outcome::Acked { latency_ms }) => latency_ms,
            (AduFact::Latency, _) => slot.map_or(f64::NAN, latency),
            (AduFact::Jitter, Outcome::Acked { .. }) => 0.0,
            (AduFact::Jitter, _) => slot.map_or(f64::NAN, |slot| slot.deviation_ms),
            (AduFact::Late, Outcome::Acked { latency_ms }) => {
                f64::from(u8::from(latency_ms > adu.deadline_ms))
            }
            (AduFact::Late, Outcome::Lost) => 1.0,
            (AduFact::Late, Outcome::Open) => slot.map_or(f64::NAN, |slot| {
                let margin = adu.deadline_ms - latency(slot);
                1.0 - (1.0 - slot.loss) * in_time(margin, slot.deviation_ms)
            }),
            (AduFact::Cost, _) => slot.map_or(f64::NAN, |slot| slot.cost(adu.bytes)),
            (of_channel, _) => channel().map_or(f64::NAN, |channel| channel.answer(of_channel)),
        }
    }
}

fn field(fields: &[f64], id: FieldId) -> f64 {
    fields.get(usize::from(id.0)).copied().unwrap_or(f64::NAN)
}

/// P(a normal delay of this deviation exceeds its mean by less than `margin`), 1 without a deadline.
pub(super) fn in_time(margin_ms: f64, deviation_ms: f64) -> f64 {
    if margin_ms.is_nan() {
        return 1.0;
    }
    if deviation_ms <= 0.0 {
        return f64::from(u8::from(margin_ms >= 0.0));
    }
    // The logistic approximation of the normal distribution [Bowling et al., 2009]: within 0.00014.
    let z = margin_ms / deviation_ms;
    let x = z * (1.5976 + 0.070_56 * z * z);
    if x > CERTAIN {
        return 1.0;
    }
    1.0 / (1.0 + (-x).exp())
}

/// e to the power of minus this added to one is one: the exponential need not be computed.
const CERTAIN: f64 = 37.5;

/// A cycle with a schedule, as objectives see it: ADUs that wait come first, then those of the history.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'c> {
    /// The cycle.
    pub cycle: &'c Cycle,
    /// The slot of each ADU that waits.
    pub slots: &'c [Option<u32>],
}

impl Placed<'_> {
    fn sent(&self, adu: u32) -> (&Adu, Option<&Slot>, Outcome) {
        let cycle = self.cycle;
        match (adu as usize).checked_sub(cycle.adus.len()) {
            None => {
                let slot = self.slots[adu as usize].map(|slot| &cycle.slots[slot as usize]);
                (&cycle.adus[adu as usize], slot, Outcome::Open)
            }
            Some(past) => {
                let sent = &cycle.history[past];
                (&sent.adu, Some(&sent.slot), sent.outcome)
            }
        }
    }
}

impl hose::Schedule for Placed<'_> {
    fn adus(&self) -> u32 {
        (self.cycle.adus.len() + self.cycle.history.len()) as u32
    }

    fn is_sent(&self, adu: u32) -> bool {
        self.sent(adu).1.is_some()
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        let (adu, slot, outcome) = self.sent(adu);
        self.cycle.of_adu(adu, slot, outcome, fact)
    }

    fn stream(&self, stream: StreamId, fact: StreamFact) -> f64 {
        let Some(stream) = self.cycle.stream(stream) else {
            return f64::NAN;
        };
        match fact {
            StreamFact::StreamId => stream.id.0 as f64,
            StreamFact::LatencyMean => stream.latency_ms,
            StreamFact::LatencyDeviation => stream.deviation_ms,
            StreamFact::LossRate => stream.loss,
            StreamFact::Jitter => stream.jitter_ms,
        }
    }

    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        let stream = self.cycle.streams.get(number as usize)?;
        Some((stream.id, stream.label))
    }

    fn correlated_loss(&self, one: u32, other: u32) -> f64 {
        let ((_, a, outcome_a), (_, b, outcome_b)) = (self.sent(one), self.sent(other));
        self.cycle.correlated_loss((a, outcome_a), (b, outcome_b))
    }
}

/// An ADU of a cycle, and slots that stand for those like them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spots<'c> {
    pub cycle: &'c Cycle,
    pub adu: u32,
    /// Indices of the slots, and of each its wait and its round trip.
    pub slots: &'c [u32],
    pub times: &'c [(f64, f64)],
    /// P(it is late) in each slot, once it was asked for: objectives ask again and again.
    pub late: &'c RefCell<Vec<f64>>,
}

impl Spots<'_> {
    /// As `of_adu` has it.
    fn find_late(&self, late: &mut Vec<f64>) {
        let adu = &self.cycle.adus[self.adu as usize];
        let slots = self.slots.iter().zip(self.times);
        late.extend(slots.map(|(&slot, (wait_ms, round_trip_ms))| {
            let slot = &self.cycle.slots[slot as usize];
            let margin_ms = adu.deadline_ms - (adu.waited_ms + wait_ms + round_trip_ms);
            1.0 - (1.0 - slot.loss) * in_time(margin_ms, slot.deviation_ms)
        }));
    }
}

impl hose::evaluate::Places for Spots<'_> {
    type One<'p>
        = Alone<'p>
    where
        Self: 'p;

    fn count(&self) -> usize {
        self.slots.len()
    }

    fn adu(&self) -> u32 {
        self.adu
    }

    fn one(&self, at: usize) -> Alone<'_> {
        Alone {
            cycle: self.cycle,
            slot: &self.cycle.slots[self.slots[at] as usize],
        }
    }

    fn fill(&self, fact: AduFact, from: usize, answers: &mut [f64]) {
        let adu = &self.cycle.adus[self.adu as usize];
        if fact == AduFact::Latency {
            // As `of_adu` has it.
            let times = &self.times[from..];
            for (answer, (wait_ms, round_trip_ms)) in answers.iter_mut().zip(times) {
                *answer = adu.waited_ms + wait_ms + round_trip_ms;
            }
            return;
        }
        if fact == AduFact::Late {
            let mut late = self.late.borrow_mut();
            if late.is_empty() {
                self.find_late(&mut late);
            }
            answers.copy_from_slice(&late[from..from + answers.len()]);
            return;
        }
        for (answer, &slot) in answers.iter_mut().zip(&self.slots[from..]) {
            let slot = &self.cycle.slots[slot as usize];
            *answer = self.cycle.of_adu(adu, Some(slot), Outcome::Open, fact);
        }
    }
}

/// A cycle in which one ADU is in one slot, and nothing is asked of the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone<'c> {
    pub cycle: &'c Cycle,
    pub slot: &'c Slot,
}

impl<'c> Alone<'c> {
    fn unplaced(&self) -> Placed<'c> {
        Placed {
            cycle: self.cycle,
            slots: &[],
        }
    }
}

impl hose::Schedule for Alone<'_> {
    fn adus(&self) -> u32 {
        self.cycle.adus.len() as u32
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        let adu = &self.cycle.adus[adu as usize];
        self.cycle.of_adu(adu, Some(self.slot), Outcome::Open, fact)
    }

    fn stream(&self, stream: StreamId, fact: StreamFact) -> f64 {
        hose::Schedule::stream(&self.unplaced(), stream, fact)
    }

    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        hose::Schedule::labelled(&self.unplaced(), number)
    }

    fn correlated_loss(&self, _: u32, _: u32) -> f64 {
        f64::NAN
    }
}
