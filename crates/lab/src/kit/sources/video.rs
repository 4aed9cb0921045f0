//! Layered video like MPEG-4 FGS [IQ-Paths §VI-D]: a base layer that must arrive, and an enhancement layer that may be left
//! out.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Rate, Seed};
use bytes::Bytes;

use super::{Frame, Offer, Source, frames::FrameSizes};

/// Mean rate of the base layer [IQ-Paths Table V].
pub const BASE: Rate = Rate::from_kbps(1_482);
/// Mean rate of the enhancement layer [IQ-Paths Table V].
pub const ENHANCEMENT: Rate = Rate::from_bps(11_290_100);
/// Rate promised to the base layer, with probability [`PROBABILITY`]: about the rate that it exceeds in 95 % of the time
/// [IQ-Paths §VI-D].
pub const PROMISED: Rate = Rate::from_kbps(1_220);
/// Probability of [`PROMISED`].
pub const PROBABILITY: f64 = 0.95;
/// Number of frames of a generated film, 400 s.
const FRAMES: usize = 9_600;

/// A film in two layers, in a loop.
#[derive(Clone, Debug)]
pub struct LayeredVideo {
    offers: Vec<Offer>,
    period: Duration,
    /// Bytes of each frame in each layer.
    sizes: Arc<[[usize; 2]]>,
    content: Bytes,
    next: u64,
}

impl LayeredVideo {
    /// A film whose base layer has the sizes of `base`, fitted to the paper's mean and promised rate ([`FrameSizes::fitted`]),
    /// and whose enhancement layer has those of `enhancement`, scaled to the paper's mean. The film has the period of `base`
    /// and the length of the shorter one.
    pub fn published(base: &FrameSizes, enhancement: &FrameSizes) -> Self {
        let count = base.bytes.len().min(enhancement.bytes.len());
        let period = base.period;
        let enhancement = FrameSizes {
            period,
            ..enhancement.part(0, count)
        };
        let promised = (PROMISED.as_bps() as f64, PROBABILITY);
        let base = base.part(0, count).fitted(BASE.as_bps() as f64, promised);
        let enhancement = enhancement.at_mean(ENHANCEMENT.as_bps() as f64);
        Self::new(&base, &enhancement)
    }

    /// A generated film at the paper's rates.
    pub fn generated(seed: Seed) -> Self {
        let film = FrameSizes::generated(FRAMES, seed);
        // Finer quantisation costs most in detailed scenes, and only a little less elsewhere.
        let enhancement = FrameSizes {
            bytes: film.bytes.iter().map(|size| size.sqrt()).collect(),
            period: film.period,
        };
        Self::published(&film, &enhancement)
    }

    /// Layers of equal length and period, unchanged.
    fn new(base: &FrameSizes, enhancement: &FrameSizes) -> Self {
        let whole = |size: f64| size.round().max(1.0) as usize;
        let pairs = base.bytes.iter().zip(&enhancement.bytes);
        let sizes: Vec<[usize; 2]> = pairs
            .map(|(&base, &enhancement)| [whole(base), whole(enhancement)])
            .collect();
        let largest = sizes.iter().flatten().copied().max().unwrap_or_default();
        let content: Vec<u8> = (0..largest).map(|index| (index % 253) as u8).collect();
        let offer = |name, layer: &FrameSizes, promise| {
            let rate = Rate::from_bps(layer.mean_bps() as u64);
            Offer {
                name,
                rate,
                promise,
                share: rate,
            }
        };
        Self {
            offers: vec![
                offer("base", base, Some((PROMISED, PROBABILITY))),
                offer("enhancement", enhancement, None),
            ],
            period: base.period,
            sizes: sizes.into(),
            content: content.into(),
            next: 0,
        }
    }
}

impl Source for LayeredVideo {
    fn offers(&self) -> &[Offer] {
        &self.offers
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn next_frame(&mut self) -> Frame {
        let number = self.next;
        self.next += 1;
        let sizes = self.sizes[(number % self.sizes.len() as u64) as usize];
        let parts = sizes.into_iter().enumerate();
        Frame {
            number,
            at: Duration::from_nanos(self.period.as_nanos() as u64 * number),
            parts: parts
                .map(|(layer, size)| (layer, self.content.slice(..size)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_has_the_published_rates() {
        let mut film = LayeredVideo::generated(Seed(1));
        let mut bytes = [0; 2];
        for number in 0..FRAMES as u64 {
            let frame = film.next_frame();
            assert_eq!(frame.number, number);
            for (layer, data) in frame.parts {
                bytes[layer] += data.len();
            }
        }
        let time_s = film.period().as_secs_f64() * FRAMES as f64;
        let rates = bytes.map(|sum| sum as f64 * 8.0 / time_s);
        assert!((rates[0] / 1.482e6 - 1.0).abs() < 1e-3, "{rates:?}");
        assert!((rates[1] / 11.2901e6 - 1.0).abs() < 1e-3, "{rates:?}");
        assert_eq!(film.offers()[0].target(), PROMISED);
        assert!(!film.offers()[1].is_critical());
    }
}
