//! Loss bursts and their lengths.

use crate::evidence::{EstimateError, enough};

/// Burst lengths counted one by one; longer bursts share the last count.
pub const LENGTH_MAX: usize = 64;

/// The distribution of burst lengths: a burst of length k is a run of k lost packets with none lost
/// before and after it [Horde §A.3.7].
///
/// A burst counts when it ends. Two views, and they differ: the share of *bursts* with a length, and the
/// share of *lost packets* that lie in bursts of a length, which Horde's Figures show.
/// `observe`: O(1), no allocation; counts are halved every `memory_packets`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bursts {
    /// `count[k − 1]`: bursts of length k; the last: of length ≥ 64.
    counts: [f64; LENGTH_MAX],
    /// Lost packets in bursts of length ≥ 64.
    lost_in_long: f64,
    run: usize,
    memory_packets: u64,
    age: u64,
}

impl Bursts {
    /// Empty. Every `memory_packets` packets (at least one) the past loses half its weight.
    pub fn new(memory_packets: u64) -> Self {
        Self {
            counts: [0.0; LENGTH_MAX],
            lost_in_long: 0.0,
            run: 0,
            memory_packets: memory_packets.max(1),
            age: 0,
        }
    }

    /// Takes the outcome of the next packet in the order of sending.
    pub fn observe(&mut self, lost: bool) {
        if lost {
            self.run = self.run.saturating_add(1);
        } else if self.run > 0 {
            self.counts[self.run.min(LENGTH_MAX) - 1] += 1.0;
            if self.run >= LENGTH_MAX {
                self.lost_in_long += self.run as f64;
            }
            self.run = 0;
        }
        self.age += 1;
        if self.age == self.memory_packets {
            self.age = 0;
            for count in &mut self.counts {
                *count *= 0.5;
            }
            self.lost_in_long *= 0.5;
        }
    }

    /// Lost packets in a row up to now; 0 when the last packet arrived.
    pub fn current(&self) -> usize {
        self.run
    }

    /// Bursts seen, faded.
    pub fn bursts(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// Mean length of a burst in packets, at least 1.
    ///
    /// # Errors
    /// No burst has ended yet.
    pub fn mean(&self) -> Result<f64, EstimateError> {
        Ok(self.lost_in(1, usize::MAX) / self.some()?)
    }

    /// P(a burst has at least `length` packets); exact up to 64, an upper bound above.
    ///
    /// # Errors
    /// No burst has ended yet.
    pub fn at_least(&self, length: usize) -> Result<f64, EstimateError> {
        let total = self.some()?;
        let from = length.clamp(1, LENGTH_MAX) - 1;
        Ok((self.counts[from..].iter().sum::<f64>() / total).min(1.0))
    }

    /// P(the next packet is lost, too | the last `run` packets were lost and the one before was not).
    ///
    /// # Errors
    /// Fewer than `evidence` bursts reached `run`.
    pub fn continues(&self, run: usize, evidence: usize) -> Result<f64, EstimateError> {
        let run = run.clamp(1, LENGTH_MAX - 1);
        let reached: f64 = self.counts[run - 1..].iter().sum();
        enough("burst continuation", reached as usize, evidence.max(1))?;
        Ok((1.0 - self.counts[run - 1] / reached).clamp(0.0, 1.0))
    }

    /// The share of lost packets that lie in bursts of `from` to `to` packets [Horde Figures ].
    /// Bursts of 64 and more count as one class, in when `to` is at least 64.
    ///
    /// # Errors
    /// No burst has ended yet.
    pub fn share_of_losses(&self, from: usize, to: usize) -> Result<f64, EstimateError> {
        self.some()?;
        Ok(self.lost_in(from, to) / self.lost_in(1, usize::MAX))
    }

    fn some(&self) -> Result<f64, EstimateError> {
        let total = self.bursts();
        if total > 0.0 {
            Ok(total)
        } else {
            enough("burst length", 0, 1).map(|()| total)
        }
    }

    fn lost_in(&self, from: usize, to: usize) -> f64 {
        let short: f64 = (from.max(1)..=to.min(LENGTH_MAX - 1))
            .map(|length| length as f64 * self.counts[length - 1])
            .sum();
        if to >= LENGTH_MAX && from <= LENGTH_MAX {
            short + self.lost_in_long
        } else {
            short
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes bursts of the given lengths, an arrived packet after each.
    fn of(lengths: impl IntoIterator<Item = usize>) -> Bursts {
        let mut bursts = Bursts::new(u64::MAX);
        for length in lengths {
            (0..length).for_each(|_| bursts.observe(true));
            bursts.observe(false);
        }
        bursts
    }

    #[test]
    fn none_yet() {
        let mut bursts = Bursts::new(1000);
        bursts.observe(true);
        assert!(bursts.mean().is_err() && bursts.at_least(1).is_err());
        assert!(bursts.share_of_losses(1, 9).is_err() && bursts.continues(1, 1).is_err());
        assert_eq!(bursts.current(), 1);
    }

    /// The shares that [Horde §A.3.7] reads off Figure A-13: of the lost packets 25 % in bursts of 3 to 7,
    /// 12 % in bursts of 2, 18 % in bursts of 8 to 20, almost 10 % in longer ones, the rest alone.
    #[test]
    fn horde_figure_a_13_counts_lost_packets_not_bursts() {
        let lengths = [(1, 350), (2, 60), (5, 50), (12, 15), (25, 4)]
            .into_iter()
            .flat_map(|(length, times)| std::iter::repeat_n(length, times));
        let bursts = of(lengths);
        let share = |from, to| bursts.share_of_losses(from, to).unwrap();
        assert_eq!(share(3, 7), 0.25);
        assert_eq!(share(2, 2), 0.12);
        assert_eq!(share(8, 20), 0.18);
        assert_eq!(share(21, usize::MAX), 0.10);
        // Of the bursts, though, only one in ten is of 3 to 7.
        let of_bursts = bursts.at_least(3).unwrap() - bursts.at_least(8).unwrap();
        assert!((of_bursts - 50.0 / 479.0).abs() < 1e-12);
    }

    #[test]
    fn halves() {
        let mut bursts = Bursts::new(4);
        for lost in [true, false, true, false] {
            bursts.observe(lost);
        }
        assert_eq!(bursts.bursts(), 1.0);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(lengths in prop::collection::vec(1usize..90, 1..60), at in 1usize..64) {
            let bursts = of(lengths.iter().copied());
            let n = lengths.len() as f64;
            let sum: usize = lengths.iter().sum();
            prop_assert!((bursts.mean().unwrap() - sum as f64 / n).abs() < 1e-9);
            let longer = lengths.iter().filter(|&&l| l >= at).count() as f64;
            prop_assert!((bursts.at_least(at).unwrap() - longer / n).abs() < 1e-12);
            let inside: usize = lengths.iter().filter(|&&l| l <= at.min(63)).sum();
            let expected = inside as f64 / sum as f64;
            prop_assert!((bursts.share_of_losses(1, at.min(63)).unwrap() - expected).abs() < 1e-12);
            if longer > 0.0 && at < 63 {
                let on = lengths.iter().filter(|&&l| l > at).count() as f64;
                prop_assert!((bursts.continues(at, 1).unwrap() - on / longer).abs() < 1e-12);
            }
        }
    }
}
