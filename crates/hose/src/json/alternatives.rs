//! Alternatives: the utility of a schedule with one ADU in other slots.

use std::collections::{BTreeMap, BTreeSet};

use super::{document::Document, schedule::JsonSchedule};
use crate::{
    evaluate::{Objectives, Schedule},
    fact::AduFact,
};

/// Choices for one ADU that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternatives {
    /// Number of the ADU in the schedule.
    pub adu: usize,
    /// The slot that it has, if any, then the others: the earliest free one on each channel that exists, and that is expected, in
    /// order of channels; last, not sent.
    pub choices: Vec<Alternative>,
}

/// One choice for an ADU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// The slot; `None`: not sent.
    pub slot: Option<usize>,
    /// True if the schedule has it there.
    pub is_chosen: bool,
    /// Expected latency of the ADU there, in milliseconds.
    pub latency_ms: Option<f64>,
    /// Probability that it is lost or late there.
    pub late: Option<f64>,
    /// Utility that the whole schedule has with the ADU there, less what it has: below 0 if the choice is worse.
    pub difference: f64,
}

impl JsonSchedule {
    /// The choices of the first ADUs that wait, `adus_max` at most, with all others where they are. The schedule is the same
    /// afterwards. O(ADUs · channels · contexts that involve an ADU).
    pub fn alternatives(
        &mut self,
        objectives: &mut Objectives,
        adus_max: usize,
    ) -> Vec<Alternatives> {
        objectives.begin(self);
        let free = free(self.document());
        let waiting: Vec<usize> = (self.document().adus.iter().enumerate())
            .filter(|(_, adu)| adu.is_waiting())
            .map(|(at, _)| at)
            .take(adus_max)
            .collect();
        let mut all = Vec::with_capacity(waiting.len());
        for adu in waiting {
            let slots = self.choices(adu, &free);
            let chosen = slots[0];
            let involved = [adu as u32];
            let utility = objectives.utility_involving(self, &involved);
            let choices = slots.into_iter().map(|slot| {
                self.put(adu, slot);
                let fact = |fact| Some(self.adu(adu as u32, fact)).filter(|value| !value.is_nan());
                let (latency_ms, late) = (fact(AduFact::Latency), fact(AduFact::Late));
                let other = objectives.utility_involving(self, &involved);
                self.put(adu, chosen);
                Alternative {
                    slot,
                    is_chosen: slot == chosen,
                    latency_ms,
                    late,
                    difference: other - utility,
                }
            });
            let choices = choices.collect();
            all.push(Alternatives { adu, choices });
        }
        all
    }

    /// The slots that an ADU may have, its own first.
    fn choices(&self, adu: usize, free: &BTreeMap<String, Free>) -> Vec<Option<usize>> {
        let document = self.document();
        let entry = &document.adus[adu];
        let bytes = entry.bytes.or(entry.length).unwrap_or(0);
        let may_use = |name: &String| {
            let channels = entry.channels.as_ref();
            channels.is_none_or(|channels| channels.iter().any(|own| own == name))
        };
        let fits = |slot: &usize| {
            let max = document.slots[*slot].bytes_max;
            max.is_none_or(|max| bytes <= max)
        };
        let mut slots = vec![entry.slot];
        for (_, free) in free.iter().filter(|(name, _)| may_use(name)) {
            let both = [free.existing, free.expected];
            slots.extend(both.into_iter().flatten().filter(fits).map(Some));
        }
        if entry.slot.is_some() {
            slots.push(None);
        }
        slots
    }
}

/// The earliest free slots of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct Free {
    existing: Option<usize>,
    expected: Option<usize>,
}

fn free(document: &Document) -> BTreeMap<String, Free> {
    let taken: BTreeSet<usize> = document.adus.iter().filter_map(|adu| adu.slot).collect();
    let mut all: BTreeMap<String, Free> = BTreeMap::new();
    for (at, slot) in document.slots.iter().enumerate() {
        if taken.contains(&at) {
            continue;
        }
        let free = all
            .entry(slot.channel.clone().unwrap_or_default())
            .or_default();
        let known = if slot.is_phantom() {
            &mut free.expected
        } else {
            &mut free.existing
        };
        let is_earlier = known.is_none_or(|known| slot.wait_ms < document.slots[known].wait_ms);
        if is_earlier {
            *known = Some(at);
        }
    }
    all
}
