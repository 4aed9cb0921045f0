//! Slots that are alike.

use crate::assign::Utility;
use anabranch_spec::Slot;

/// ADUs to which an objective about latency is indifferent take the quicker path, and the older first: steps
/// of quickness, and of age.
pub(super) const STEPS: usize = 16;

/// Classes of a cycle's slots: those of one differ in nothing but their numbers. Neighbours of a channel are compared, so that
/// alike ones that are not next to each other may be in several.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// The class of each slot.
    of: Vec<u32>,
    /// The first slot of each class,
    first: Vec<u32>,
    /// and its wait and round trip.
    times: Vec<(f64, f64)>,
    /// The last class of each channel.
    last: Vec<Option<u32>>,
    /// Time at which an ADU sent in each class is acknowledged, the quickest first.
    ranked: Vec<(f64, u32)>,
    /// Of [`STEPS`] steps.
    quickness: Vec<Utility>,
    bytes_min: u32,
}

impl Classes {
    /// Those of these slots. O(slots · log slots).
    pub(super) fn fill(&mut self, slots: &[Slot]) {
        self.of.clear();
        self.first.clear();
        self.times.clear();
        self.last.clear();
        self.bytes_min = u32::MAX;
        for (at, slot) in slots.iter().enumerate() {
            let channel = slot.channel as usize;
            if self.last.len() <= channel {
                self.last.resize(channel + 1, None);
            }
            let like = |class: &u32| slots[self.first[*class as usize] as usize].is_like(slot);
            let class = self.last[channel].filter(like).unwrap_or_else(|| {
                self.first.push(at as u32);
                self.times.push((slot.wait_ms, slot.round_trip_ms));
                self.first.len() as u32 - 1
            });
            self.last[channel] = Some(class);
            self.of.push(class);
            self.bytes_min = self.bytes_min.min(slot.bytes_max);
        }
        self.rank();
    }

    fn rank(&mut self) {
        let arrivals = self.times.iter().map(|(wait, trip)| wait + trip);
        self.ranked.clear();
        self.ranked.extend(arrivals.zip(0..));
        let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0);
        self.ranked.sort_unstable_by(order);
        self.quickness.clear();
        self.quickness.resize(self.first.len(), 0);
        let (mut rank, mut before) = (0, f64::NEG_INFINITY);
        for &(arrival, class) in &self.ranked {
            // Equally quick ones share a rank.
            if arrival > before && before > f64::NEG_INFINITY {
                rank += 1;
            }
            before = arrival;
            self.quickness[class as usize] = STEPS.saturating_sub(1 + rank) as Utility;
        }
    }

    /// The class of a slot.
    pub(super) fn of(&self, slot: usize) -> u32 {
        self.of[slot]
    }

    /// Speed of a class, of [`STEPS`] steps.
    pub(super) fn quickness(&self, class: u32) -> Utility {
        self.quickness[class as usize]
    }

    /// A slot of each class.
    pub(super) fn first(&self) -> &[u32] {
        &self.first
    }

    /// The wait and the round trip of each class, in milliseconds.
    pub(super) fn times(&self) -> &[(f64, f64)] {
        &self.times
    }

    /// Size that fits all of them.
    pub(super) fn bytes_min(&self) -> u32 {
        self.bytes_min
    }
}
