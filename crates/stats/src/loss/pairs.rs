//! P(both lost | either lost) for packets of one channel.

use crate::evidence::{EstimateError, enough, within};

/// Largest distance that can be asked for, in packets.
pub const DISTANCE_MAX: usize = 256;

/// P(packets i and i + k are both lost | at least one of them is), for k from 1 to a maximum
/// [Horde §4.2 `lossCorrelation`, Appendix A].
///
/// 1 means that losses always come together, the value for independent losses of rate m is m/(2 − m), so
/// about half the rate. `observe`: O(k_max), no allocation.
#[derive(Debug, Clone, PartialEq)]
pub struct PairLoss {
    /// The last outcomes: the one k packets ago at `(next − k) mod len`; `None` before the first packet.
    last: Box<[Option<bool>]>,
    next: usize,
    /// Pairs at each distance in which both were lost, and in which at least one was; faded.
    both: Box<[f64]>,
    either: Box<[f64]>,
    keep: f64,
}

impl PairLoss {
    /// Distances 1 to `distance_max`; the weight of a packet falls to 1/e after `memory_packets` (infinite:
    /// never).
    ///
    /// # Errors
    /// `distance_max` outside 1 to 256, `memory_packets` below 10 or NaN.
    pub fn new(distance_max: usize, memory_packets: f64) -> Result<Self, EstimateError> {
        let sane = (1..=DISTANCE_MAX).contains(&distance_max);
        within(
            "distance_max",
            distance_max as f64,
            "1 to 256 packets",
            sane,
        )?;
        let range = "at least 10 packets";
        within(
            "memory_packets",
            memory_packets,
            range,
            memory_packets >= 10.0,
        )?;
        Ok(Self {
            last: vec![None; distance_max].into(),
            next: 0,
            both: vec![0.0; distance_max].into(),
            either: vec![0.0; distance_max].into(),
            keep: (-1.0 / memory_packets).exp(),
        })
    }

    /// Takes the outcome of the next packet in the order of sending.
    pub fn observe(&mut self, lost: bool) {
        let length = self.last.len();
        for distance in 1..=length {
            let at = distance - 1;
            self.both[at] *= self.keep;
            self.either[at] *= self.keep;
            if let Some(before) = self.last[(self.next + length - distance) % length] {
                self.both[at] += f64::from(u8::from(before && lost));
                self.either[at] += f64::from(u8::from(before || lost));
            }
        }
        self.last[self.next] = Some(lost);
        self.next = (self.next + 1) % length;
    }

    /// P(both lost | either lost) of packets `distance` apart.
    ///
    /// # Errors
    /// `distance` outside 1 to the maximum; fewer than `evidence` pairs (at least one) with a loss.
    pub fn both_given_either(
        &self,
        distance: usize,
        evidence: usize,
    ) -> Result<f64, EstimateError> {
        let sane = (1..=self.last.len()).contains(&distance);
        within("distance", distance as f64, "1 to distance_max", sane)?;
        let either = self.either[distance - 1];
        enough("correlated loss", either as usize, evidence.max(1))?;
        Ok(self.both[distance - 1] / either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{GilbertElliott, gilbert::tests::draw};
    use proptest::prelude::*;

    #[test]
    fn agrees_with_the_model() {
        let model = GilbertElliott {
            good_to_bad: 0.02,
            bad_to_good: 0.15,
            loss_good: 0.005,
            loss_bad: 0.7,
        };
        let mut pairs = PairLoss::new(16, f64::INFINITY).unwrap();
        draw(model, 300_000, 1)
            .into_iter()
            .for_each(|lost| pairs.observe(lost));
        for k in [1, 2, 4, 8, 16] {
            let measured = pairs.both_given_either(k, 100).unwrap();
            let expected = model.both_given_either(k as u32);
            assert!(
                (measured - expected).abs() < 0.01,
                "k {k}: {measured}, {expected}"
            );
        }
    }

    /// Horde's simulated channel managers assume adjacent slots perfectly correlated and slots more than
    /// eight apart uncorrelated [Horde §7.2.1]: so they are when all bursts have eight packets.
    #[test]
    fn bursts_of_eight() {
        let mut pairs = PairLoss::new(20, f64::INFINITY).unwrap();
        for _ in 0..1000 {
            (0..8).for_each(|_| pairs.observe(true));
            (0..92).for_each(|_| pairs.observe(false));
        }
        // In a burst of 8, 8 − k pairs are both lost of 8 + k with a loss.
        let at = |k| pairs.both_given_either(k, 100).unwrap();
        assert!((at(1) - 7.0 / 9.0).abs() < 1e-3 && (at(7) - 1.0 / 15.0).abs() < 1e-3);
        assert_eq!((at(8), at(9)), (0.0, 0.0));
    }

    #[test]
    fn too_little_is_said() {
        let mut pairs = PairLoss::new(4, 1000.0).unwrap();
        assert!(pairs.both_given_either(1, 1).is_err());
        (0..100).for_each(|_| pairs.observe(false));
        assert!(matches!(
            pairs.both_given_either(1, 20),
            Err(EstimateError::TooFew {
                have: 0,
                need: 20,
                ..
            })
        ));
        assert!(pairs.both_given_either(5, 1).is_err() && pairs.both_given_either(0, 1).is_err());
        assert!(PairLoss::new(0, 100.0).is_err() && PairLoss::new(4, f64::NAN).is_err());
    }

    proptest! {
        #[test]
        fn counts_pairs(outcomes in prop::collection::vec(any::<bool>(), 2..300), k in 1usize..20) {
            let mut pairs = PairLoss::new(20, f64::INFINITY).unwrap();
            for &lost in &outcomes {
                pairs.observe(lost);
            }
            let all = || outcomes.iter().zip(outcomes.iter().skip(k));
            let both = all().filter(|&(a, b)| *a && *b).count();
            let either = all().filter(|&(a, b)| *a || *b).count();
            match pairs.both_given_either(k, 1) {
                Ok(p) => prop_assert!((p - both as f64 / either as f64).abs() < 1e-12),
                Err(_) => prop_assert_eq!(either, 0),
            }
        }
    }
}
