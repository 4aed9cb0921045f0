//! Schedule of segments, by flow and time [Two-flow §3, Figure 2].
//!
//! ```text
//!   plays             │ segment 0   │ segment 1   │ segment 2   │
//!   enhanced travels  │     0       │     1       │     2       │   in real time
//!   essential travels │     1       │     2       │             │   has a segment's time, lost packets included
//!   prefix: essential 0, at the proxy beforehand
//! ```

use std::time::Duration;

use anabranch_base::Rate;

use crate::{rate, segments::Segments};

/// Transmissions while one segment plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The segment that plays, and whose enhanced part is sent.
    pub segment: usize,
    /// Start of the step, from the beginning of the film.
    pub from: Duration,
    /// End of the step: the deadline of the essential part.
    pub until: Duration,
    /// Bytes of the next segment's essential part; 0 during the last segment.
    pub essential_bytes: u64,
    /// The rate that they need.
    pub essential_rate: Rate,
    /// Bytes of this segment's enhanced part.
    pub enhanced_bytes: u64,
    /// Their constant rate.
    pub enhanced_rate: Rate,
}

impl Step {
    /// Rate of both flows.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.essential_rate.as_bps() + self.enhanced_rate.as_bps())
    }
}

/// All steps of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    steps: Vec<Step>,
    length: Duration,
    prefix_bytes: u64,
}

impl Schedule {
    /// Computes the staggered schedule, with capacity for the share `retransmitted` of essential packets to be sent
    /// again ([`rate::RETRANSMITTED`]). O(segments).
    pub fn new(segments: &Segments, retransmitted: f64) -> Self {
        let all = segments.all().iter();
        let bytes: Vec<[u64; 2]> = all
            .map(|segment| [segment.essential_bytes, segment.enhanced_bytes])
            .collect();
        Self::of_bytes(&bytes, segments.length(), segments.film(), retransmitted)
    }

    /// The same from the known sizes of both parts of every segment, essential and enhanced. All segments have the same `length`; the
    /// last is what `film` leaves, but no longer than the others, and a millisecond at least.
    ///
    /// # Panics
    /// If `length` is zero.
    pub fn of_bytes(
        segments: &[[u64; 2]],
        length: Duration,
        film: Duration,
        retransmitted: f64,
    ) -> Self {
        assert!(length > Duration::ZERO, "segments have a length");
        let step = |(index, &[_, enhanced_bytes]): (usize, &[u64; 2])| {
            let essential_bytes = segments.get(index + 1).map_or(0, |next| next[0]);
            let from = length.saturating_mul(u32::try_from(index).unwrap_or(u32::MAX));
            let is_last = index + 1 == segments.len();
            let lasts = if is_last {
                let left = film.saturating_sub(from);
                left.clamp(Duration::from_millis(1).min(length), length)
            } else {
                length
            };
            Step {
                segment: index,
                from,
                until: from.saturating_add(lasts),
                essential_bytes,
                essential_rate: rate::target(essential_bytes, lasts, retransmitted),
                enhanced_bytes,
                enhanced_rate: rate::target(enhanced_bytes, lasts, 0.0),
            }
        };
        Self {
            steps: segments.iter().enumerate().map(step).collect(),
            length,
            prefix_bytes: segments.first().map_or(0, |first| first[0]),
        }
    }

    /// The steps, in order; as many as segments.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step at this time of the film; `None` after its end. O(1).
    pub fn at(&self, time: Duration) -> Option<&Step> {
        let index = usize::try_from(time.as_nanos() / self.length.as_nanos()).ok()?;
        self.steps.get(index).filter(|step| time < step.until)
    }

    /// Bytes of the first segment's essential part, which no step sends in time: they must be at the proxy when the
    /// film begins.
    pub fn prefix_bytes(&self) -> u64 {
        self.prefix_bytes
    }

    /// Peak rate of both flows together over all steps; admission reserves it.
    pub fn rate_max(&self) -> Rate {
        let rates = self.steps.iter().map(Step::rate);
        rates.max().unwrap_or_default()
    }

    /// Peak rate of the essential flow alone.
    pub fn essential_rate_max(&self) -> Rate {
        let rates = self.steps.iter().map(|step| step.essential_rate);
        rates.max().unwrap_or_default()
    }

    /// Peak rate of the enhanced flow alone.
    pub fn enhanced_rate_max(&self) -> Rate {
        let rates = self.steps.iter().map(|step| step.enhanced_rate);
        rates.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Class, Frame};

    #[test]
    fn essential_segments_travel_one_ahead() {
        // Two frames a segment of 10 s: essential 1000, 2000, 3000 bytes, enhanced 100 each.
        let frames: Vec<Frame> = (0..3)
            .flat_map(|k: u32| {
                let at = Duration::from_secs(10 * u64::from(k));
                [
                    (1_000 * (k + 1), Class::Essential),
                    (100, Class::Enhanced { rank: 0 }),
                ]
                .map(|(bytes, class)| Frame { bytes, at, class })
            })
            .collect();
        let length = Duration::from_secs(10);
        let segments = Segments::new(&frames, 3 * length, length).unwrap();
        let schedule = Schedule::new(&segments, 0.0);
        assert_eq!(schedule.prefix_bytes(), 1_000);
        let bytes: Vec<_> = schedule
            .steps()
            .iter()
            .map(|step| {
                (
                    step.essential_bytes,
                    step.enhanced_bytes,
                    step.until.as_secs(),
                )
            })
            .collect();
        assert_eq!(bytes, [(2_000, 100, 10), (3_000, 100, 20), (0, 100, 30)]);
        assert_eq!(schedule.rate_max(), Rate::from_bps(2_400 + 80));
        assert_eq!(schedule.essential_rate_max(), Rate::from_bps(2_400));
        assert_eq!(schedule.at(length).map(|step| step.segment), Some(1));
        assert_eq!(schedule.at(3 * length), None);
    }
}
