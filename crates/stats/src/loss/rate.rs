//! The fraction of packets lost.

use crate::evidence::{EstimateError, enough, within};

/// Loss rate over the last N packets.
///
/// `observe`: O(1), no allocation; N bits of memory (rounded up to 64).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossRate {
    /// One bit a packet, set when lost.
    words: Box<[u64]>,
    capacity: usize,
    /// Index of the next outcome.
    next: usize,
    packets: usize,
    lost: usize,
}

/// An interval for a probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end, in [0, 1].
    pub low: f64,
    /// Upper end, in [0, 1].
    pub high: f64,
}

impl LossRate {
    /// Remembers the outcomes of the last `packets` packets, at least one.
    pub fn new(packets: usize) -> Self {
        let capacity = packets.max(1);
        Self {
            words: vec![0; capacity.div_ceil(64)].into(),
            capacity,
            next: 0,
            packets: 0,
            lost: 0,
        }
    }

    /// Takes the outcome of the next packet in the order of sending.
    pub fn observe(&mut self, lost: bool) {
        let (word, bit) = (self.next / 64, 1u64 << (self.next % 64));
        if self.packets == self.capacity {
            self.lost -= usize::from(self.words[word] & bit != 0);
        } else {
            self.packets += 1;
        }
        if lost {
            self.words[word] |= bit;
            self.lost += 1;
        } else {
            self.words[word] &= !bit;
        }
        self.next = (self.next + 1) % self.capacity;
    }

    /// Packets in the window.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Packets lost in the window.
    pub fn lost(&self) -> usize {
        self.lost
    }

    /// The fraction lost, in [0, 1].
    ///
    /// # Errors
    /// No packet yet.
    pub fn rate(&self) -> Result<f64, EstimateError> {
        enough("loss rate", self.packets, 1)?;
        Ok(self.lost as f64 / self.packets as f64)
    }

    /// Wilson's score interval for the loss probability: `deviations` 1.96 gives 95 %.
    ///
    /// It stays honest with no loss seen at all. Bursts carry less information than independent losses:
    /// with `correlation` ρ between the outcomes of neighbouring packets, N packets count as
    /// N·(1 − ρ)/(1 + ρ). Take ρ from [`super::GilbertElliott::correlation`]; 0 for independent losses.
    ///
    /// # Errors
    /// No packet yet; `deviations` not positive; `correlation` outside [0, 1).
    pub fn interval(&self, deviations: f64, correlation: f64) -> Result<Interval, EstimateError> {
        let sane = deviations.is_finite() && deviations > 0.0;
        within("deviations", deviations, "a finite number above 0", sane)?;
        let range = "at least 0 and below 1";
        within(
            "correlation",
            correlation,
            range,
            (0.0..1.0).contains(&correlation),
        )?;
        let p = self.rate()?;
        let n = self.packets as f64 * (1.0 - correlation) / (1.0 + correlation);
        let square = deviations * deviations;
        let centre = p + square / (2.0 * n);
        let spread = deviations * (p * (1.0 - p) / n + square / (4.0 * n * n)).sqrt();
        let scale = 1.0 + square / n;
        Ok(Interval {
            low: ((centre - spread) / scale).clamp(0.0, p),
            high: ((centre + spread) / scale).clamp(p, 1.0),
        })
    }

    /// The outcomes in the window, oldest first: true for lost.
    pub fn outcomes(&self) -> impl Iterator<Item = bool> + '_ {
        let oldest = (self.next + self.capacity - self.packets) % self.capacity;
        (0..self.packets).map(move |offset| {
            let place = (oldest + offset) % self.capacity;
            self.words[place / 64] & (1 << (place % 64)) != 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_packet_no_rate() {
        let rate = LossRate::new(100);
        assert!(rate.rate().is_err() && rate.interval(1.96, 0.0).is_err());
    }

    #[test]
    fn wilson_against_tables() {
        let mut rate = LossRate::new(1000);
        (0..10).for_each(|i| rate.observe(i < 1));
        let Interval { low, high } = rate.interval(1.959_964, 0.0).unwrap();
        // Wilson's interval of 1 in 10, as tables give it: 0.0179 to 0.4042.
        assert!(
            (low - 0.0179).abs() < 1e-4 && (high - 0.4042).abs() < 1e-4,
            "{low} {high}"
        );
        let wider = rate.interval(1.959_964, 0.5).unwrap();
        assert!(wider.low < low && wider.high > high);
        assert!(rate.interval(f64::NAN, 0.0).is_err() && rate.interval(1.0, 1.0).is_err());
    }

    #[test]
    fn nothing_lost_is_not_zero_risk() {
        let mut rate = LossRate::new(1000);
        (0..100).for_each(|_| rate.observe(false));
        let interval = rate.interval(1.96, 0.0).unwrap();
        assert!(interval.low == 0.0 && interval.high > 0.03);
    }

    proptest! {
        #[test]
        fn counts_the_window(outcomes in prop::collection::vec(any::<bool>(), 1..400), n in 1usize..150) {
            let mut rate = LossRate::new(n);
            for &lost in &outcomes {
                rate.observe(lost);
            }
            let window = &outcomes[outcomes.len().saturating_sub(n)..];
            prop_assert_eq!(rate.packets(), window.len());
            prop_assert_eq!(rate.lost(), window.iter().filter(|&&lost| lost).count());
            prop_assert!(rate.outcomes().eq(window.iter().copied()));
            let p = rate.rate().unwrap();
            let interval = rate.interval(1.96, 0.3).unwrap();
            prop_assert!(0.0 <= interval.low && interval.low <= p);
            prop_assert!(p <= interval.high && interval.high <= 1.0);
        }
    }
}
