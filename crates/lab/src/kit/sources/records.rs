//! Records of a climate database [IQ-Paths §VI-C]: 25 a second, each with numeric data, a small image and a large one.

use std::time::Duration;

use anabranch_base::Rate;
use bytes::Bytes;

use super::{Frame, Offer, Source};

/// Time between two records.
pub const PERIOD: Duration = Duration::from_millis(40);
/// Probability of the promises of the first two components.
pub const PROBABILITY: f64 = 0.95;
/// Names of the components; the first two are critical.
pub const NAMES: [&str; 3] = ["DT1", "DT2", "DT3"];
/// Sizes of the components in the paper, in bytes.
pub const PUBLISHED: [usize; 3] = [172_800, 128_000, 384_000];

/// The database's records, without end. The content is arbitrary; only sizes and times matter.
#[derive(Clone, Debug)]
pub struct Records {
    offers: [Offer; 3],
    parts: [Bytes; 3],
    next: u64,
}

impl Records {
    /// Records whose components have these sizes in bytes.
    pub fn of_sizes(sizes: [usize; 3]) -> Self {
        let largest = sizes.into_iter().max().unwrap_or_default();
        let content: Vec<u8> = (0..largest).map(|index| (index % 251) as u8).collect();
        let content = Bytes::from(content);
        let offer = |index: usize| {
            let rate = Rate::from_bytes_per(sizes[index] as u64, PERIOD);
            Offer {
                name: NAMES[index],
                rate,
                promise: (index < 2).then_some((rate, PROBABILITY)),
                share: rate,
            }
        };
        Self {
            offers: [offer(0), offer(1), offer(2)],
            parts: sizes.map(|size| content.slice(..size)),
            next: 0,
        }
    }

    /// Changes the share of the elastic component: fair queuing gives critical ones their rate on average if this is the capacity left
    /// by them.
    #[must_use]
    pub fn sharing(mut self, elastic: Rate) -> Self {
        self.offers[2].share = elastic;
        self
    }

    /// Sizes of the components, in bytes.
    pub fn sizes(&self) -> [usize; 3] {
        [0, 1, 2].map(|index| self.parts[index].len())
    }
}

impl Source for Records {
    fn offers(&self) -> &[Offer] {
        &self.offers
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn keeps_elastic(&self) -> bool {
        true
    }

    fn next_frame(&mut self) -> Frame {
        let number = self.next;
        self.next += 1;
        Frame {
            number,
            at: Duration::from_nanos(PERIOD.as_nanos() as u64 * number),
            parts: self.parts.iter().cloned().enumerate().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sizes_make_the_published_rates() {
        let mut source = Records::of_sizes(PUBLISHED);
        assert_eq!(source.sizes(), PUBLISHED);
        let rates = source.offers().iter().map(|offer| offer.rate.as_bps());
        let rates: Vec<u64> = rates.collect();
        assert_eq!(rates, [34_560_000, 25_600_000, 76_800_000]);
        let critical: Vec<bool> = source.offers().iter().map(Offer::is_critical).collect();
        assert_eq!(critical, [true, true, false]);
        source.next_frame();
        let frame = source.next_frame();
        assert_eq!((frame.number, frame.at), (1, PERIOD));
        let sizes: Vec<usize> = frame.parts.iter().map(|(_, data)| data.len()).collect();
        assert_eq!(sizes, PUBLISHED);
    }
}
