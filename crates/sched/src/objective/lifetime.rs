//! Lifetimes: data that comes later is of no use, whatever objectives find in the slot that carries it (deviation:
//! assign-lifetimes).
//!
//! An ADU is kept out of slots in which it would be late, if another slot of its cycle, later or on another channel, has it
//! in time. The latest fragment decides when an ADU is usable, so one that is late wastes all others; and an objective
//! that asks for few losses alone would have it late rather than lost. One that is late everywhere is left alone:
//! dropping it is the stream's matter.

use super::Adu;
use anabranch_spec::Slot;

/// Worth of a slot to an ADU that would be late in it, and in time elsewhere.
pub(super) const LATE: f64 = -1e6;

/// Time in milliseconds behind which an arrival that varies counts as late: it lies in a queue, or on a path that changes, and nobody knows
/// for how long (docs/results/clinic.md).
const FAR_MS: f64 = 350.0;
/// Deviation of an arrival that varies, as a share of the round trip.
const VARIES: f64 = 0.25;

/// Times at which the data sent in the slots of a cycle are expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    soonest_ms: f64,
    latest_ms: f64,
}

impl Arrivals {
    /// O(slots).
    pub(super) fn of<'s>(slots: impl Iterator<Item = &'s Slot>) -> Self {
        let none = Self {
            soonest_ms: f64::INFINITY,
            latest_ms: f64::NEG_INFINITY,
        };
        slots.map(arrival_ms).fold(none, |all, at| Self {
            soonest_ms: all.soonest_ms.min(at),
            latest_ms: all.latest_ms.max(at),
        })
    }

    /// Rest of the ADU's lifetime, if it is in time in some slots and late in others.
    pub(super) fn divide(self, adu: &Adu) -> Option<f64> {
        // NaN, without a lifetime, is neither.
        let left_ms = adu.deadline_ms - adu.waited_ms;
        (self.soonest_ms <= left_ms && left_ms < self.latest_ms).then_some(left_ms)
    }
}

/// True if a fragment in this slot must be expected to arrive after its ADU's lifetime, of which so much is left: by one
/// deviation of the round trip.
pub(super) fn is_late(slot: &Slot, left_ms: f64) -> bool {
    arrival_ms(slot) > left_ms
}

/// Expected arrival, from now, in milliseconds; infinite where nothing is known, or no more than that it will take long.
fn arrival_ms(slot: &Slot) -> f64 {
    let at_ms = slot.wait_ms + slot.round_trip_ms + slot.deviation_ms;
    let varies = slot.deviation_ms > VARIES * slot.round_trip_ms;
    if at_ms.is_nan() || (varies && at_ms > FAR_MS) {
        return f64::INFINITY;
    }
    at_ms
}
