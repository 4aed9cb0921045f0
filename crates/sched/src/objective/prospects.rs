//! Ranges of the facts about ADUs of a cycle, before they have slots.

use anabranch_hose::{
    AduFact,
    evaluate::{Outlook, Range},
};

use super::{
    Cycle,
    cycle::{Adu, in_time},
};

/// Facts of the slots of a cycle, from the least to the greatest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prospects<'c> {
    cycle: &'c Cycle,
    loss: Range,
    /// Wait and round trip together.
    trip_ms: Range,
    deviation_ms: Range,
    cost_per_byte: Range,
}

impl<'c> Prospects<'c> {
    /// O(slots).
    pub(super) fn of(cycle: &'c Cycle) -> Self {
        let slots = || cycle.slots.iter();
        Self {
            cycle,
            loss: range(slots().map(|slot| slot.loss)),
            trip_ms: range(slots().map(|slot| slot.wait_ms + slot.round_trip_ms)),
            deviation_ms: range(slots().map(|slot| slot.deviation_ms)),
            cost_per_byte: range(slots().map(|slot| slot.cost_per_byte)),
        }
    }

    fn of_waiting(&self, adu: &Adu, fact: AduFact) -> Range {
        match fact {
            AduFact::Loss => self.loss,
            AduFact::Latency => Range {
                low: adu.waited_ms + self.trip_ms.low,
                high: adu.waited_ms + self.trip_ms.high,
                ..self.trip_ms
            },
            AduFact::Jitter => self.deviation_ms,
            AduFact::Late => self.late(adu),
            AduFact::Cost => {
                let bytes = f64::from(adu.bytes);
                Range {
                    low: self.cost_per_byte.low * bytes,
                    high: self.cost_per_byte.high * bytes,
                    ..self.cost_per_byte
                }
            }
            of_channel => {
                let channels = self.cycle.channels.iter();
                range(channels.map(|channel| channel.answer(of_channel)))
            }
        }
    }
}

impl Prospects<'_> {
    /// As `of_adu` has it, in the best and the worst of all slots that one can think of.
    fn late(&self, adu: &Adu) -> Range {
        let Self {
            loss,
            trip_ms,
            deviation_ms,
            ..
        } = self;
        if !(loss.is_known && trip_ms.is_known && deviation_ms.is_known) {
            return Range::ANY;
        }
        let left_ms = adu.deadline_ms - adu.waited_ms;
        let (best, worst) = (left_ms - trip_ms.low, left_ms - trip_ms.high);
        // A deviation makes it likelier that what would be late is in time, and the other way round.
        let ends = [deviation_ms.low, deviation_ms.high];
        let most = ends.map(|deviation| in_time(best, deviation));
        let least = ends.map(|deviation| in_time(worst, deviation));
        Range::new(
            1.0 - (1.0 - loss.low) * most[0].max(most[1]),
            1.0 - (1.0 - loss.high) * least[0].min(least[1]),
        )
    }
}

impl Outlook for Prospects<'_> {
    fn range(&self, adu: u32, fact: AduFact) -> Range {
        let cycle = self.cycle;
        match (adu as usize).checked_sub(cycle.adus.len()) {
            None => self.of_waiting(&cycle.adus[adu as usize], fact),
            Some(past) => {
                let sent = &cycle.history[past];
                Range::of(cycle.of_adu(&sent.adu, Some(&sent.slot), sent.outcome, fact))
            }
        }
    }
}

/// From the least to the greatest; anything if one is unknown, or there are none.
fn range(values: impl Iterator<Item = f64>) -> Range {
    let mut ends: Option<(f64, f64)> = None;
    for value in values {
        if value.is_nan() {
            return Range::ANY;
        }
        let (low, high) = ends.unwrap_or((value, value));
        ends = Some((low.min(value), high.max(value)));
    }
    ends.map_or(Range::ANY, |(low, high)| Range::new(low, high))
}
