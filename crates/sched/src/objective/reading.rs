//! Facts that the objectives in force read, so that others may change.

use anabranch_hose::{AduFact, Objective, ObjectiveId, Objectives, evaluate::Single};

use super::cycle::{Adu, Channel, Cycle, Stream};
use anabranch_spec::slot::Slot;

/// Properties of an ADU on which the gains of objectives depend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Looks(u8);

impl Looks {
    const WAITED: u8 = 1;
    const DEADLINE: u8 = 2;
    const LENGTH: u8 = 4;
    const SEQUENCE: u8 = 8;
    const FIELDS: u8 = 16;
    /// Latency, whether it is late, or how it varies: what is in a hurry.
    const TIMED: u8 = 32;

    fn of(objective: &Objective) -> Self {
        let bits = |fact: &AduFact| match fact {
            AduFact::StreamSeq => Self::SEQUENCE,
            AduFact::Length => Self::LENGTH,
            AduFact::QueueDelay => Self::WAITED,
            AduFact::Deadline => Self::DEADLINE,
            AduFact::Field(_) => Self::FIELDS,
            AduFact::Latency => Self::WAITED | Self::TIMED,
            AduFact::Late => Self::WAITED | Self::DEADLINE | Self::TIMED,
            AduFact::Jitter => Self::TIMED,
            // Of its stream, its bytes or its slot, which are always looked at.
            _ => 0,
        };
        Self(
            objective
                .reads()
                .iter()
                .fold(0, |all, fact| all | bits(fact)),
        )
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if an objective is about its latency.
    pub(super) fn are_timed(self) -> bool {
        self.0 & Self::TIMED != 0
    }

    /// True if two ADUs are alike in all that is looked at.
    pub(super) fn same(self, one: &Adu, other: &Adu) -> bool {
        let looked = |bit: u8| self.0 & bit != 0;
        one.stream == other.stream
            && one.bytes == other.bytes
            && one.channels == other.channels
            && (!looked(Self::WAITED) || is_same(one.waited_ms, other.waited_ms))
            && (!looked(Self::DEADLINE) || is_same(one.deadline_ms, other.deadline_ms))
            && (!looked(Self::LENGTH) || one.length == other.length)
            && (!looked(Self::SEQUENCE) || one.sequence == other.sequence)
            && (!looked(Self::FIELDS) || are_same(one.fields.values(), other.fields.values()))
    }
}

/// The objectives over one ADU, as they were in the cycle before, and what they saw that is not of ADUs or slots.
#[derive(Debug, Default)]
pub(super) struct Reading {
    known: Vec<(ObjectiveId, u32, Objective)>,
    /// By the place of an objective.
    looks: Vec<Looks>,
    /// Facts of channels that objectives use, and whether they use any of streams.
    of_channels: Vec<AduFact>,
    reads_streams: bool,
    channels: Vec<Channel>,
    streams: Vec<Stream>,
    /// By index in the cycle.
    has_changed: Vec<bool>,
}

impl Reading {
    /// Looks at the next cycle; true: other objectives are in force, or streams changed that they ask about, so that
    /// nothing is known any more.
    pub(super) fn begin(&mut self, cycle: &Cycle, objectives: &Objectives) -> bool {
        let is_it = |(one, known): (Single<'_>, &(ObjectiveId, u32, Objective))| {
            (one.id, one.place) == (known.0, known.1) && one.objective.is_same(&known.2)
        };
        let is_new = objectives.singles().count() != self.known.len()
            || !objectives.singles().zip(&self.known).all(is_it);
        if is_new {
            self.learn(objectives);
        }
        self.compare_channels(cycle, is_new);
        let are_same = cycle.streams.len() == self.streams.len()
            && cycle.streams.iter().zip(&self.streams).all(is_same_stream);
        if self.reads_streams && !are_same || is_new {
            self.streams.clone_from(&cycle.streams);
            return true;
        }
        false
    }

    fn learn(&mut self, objectives: &Objectives) {
        let clone = |one: Single<'_>| (one.id, one.place, one.objective.clone());
        self.known.clear();
        self.known.extend(objectives.singles().map(clone));
        self.looks.clear();
        self.of_channels.clear();
        self.reads_streams = false;
        for single in objectives.singles() {
            let place = single.place as usize;
            if self.looks.len() <= place {
                self.looks.resize(place + 1, Looks::default());
            }
            self.looks[place] = Looks::of(single.objective);
            let reads = single.objective.reads().iter();
            self.of_channels
                .extend(reads.filter(|fact| is_of_channel(fact)));
            self.reads_streams |= single.objective.reads_streams();
        }
        self.of_channels.sort_unstable();
        self.of_channels.dedup();
    }

    fn compare_channels(&mut self, cycle: &Cycle, is_new: bool) {
        let count = cycle.channels.len().max(self.channels.len());
        self.has_changed.clear();
        self.has_changed.resize(count, false);
        if self.of_channels.is_empty() && !is_new {
            return;
        }
        for (at, has_changed) in self.has_changed.iter_mut().enumerate() {
            let answers = |channels: &[Channel], fact| channels.get(at).map(|one| one.answer(fact));
            *has_changed = self.of_channels.iter().any(|&fact| {
                let before = answers(&self.channels, fact).map(f64::to_bits);
                before != answers(&cycle.channels, fact).map(f64::to_bits)
            });
        }
        if is_new || self.has_changed.contains(&true) {
            self.channels.clone_from(&cycle.channels);
        }
    }

    /// Properties on which an objective, by its index, depends.
    pub(super) fn looks(&self, place: u32) -> Looks {
        self.looks[place as usize]
    }

    /// True if all that objectives see of a slot is what it was.
    pub(super) fn same(&self, slot: &Slot, before: &Slot) -> bool {
        let changed = self.has_changed.get(slot.channel as usize);
        slot.is_like(before) && !changed.is_some_and(|&changed| changed)
    }
}

fn is_of_channel(fact: &AduFact) -> bool {
    matches!(
        fact,
        AduFact::ChannelId
            | AduFact::ChannelName
            | AduFact::ChannelTechnology
            | AduFact::ChannelMetered
            | AduFact::ChannelRate
            | AduFact::ChannelField(_)
    )
}

fn is_same_stream((one, other): (&Stream, &Stream)) -> bool {
    let measures = |stream: &Stream| {
        [
            stream.label,
            stream.latency_ms,
            stream.deviation_ms,
            stream.loss,
            stream.jitter_ms,
        ]
    };
    one.id == other.id && are_same(&measures(one), &measures(other))
}

/// Unknown values are equal to each other.
fn is_same(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits()
}

fn are_same(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same(*a, *b))
}
