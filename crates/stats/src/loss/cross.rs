//! P(both lost | either lost) for packets of two channels.

use crate::evidence::{EstimateError, enough, within};

/// Largest lag that can be asked for, in slices.
pub const LAG_MAX: usize = 256;

/// Packets sent on a channel during one slice of time, and how many of them were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// Packets sent.
    pub sent: u32,
    /// Of these, lost.
    pub lost: u32,
}

/// P(both lost | either lost) of two packets, one on each of two channels, sent `lag` slices of time
/// apart [Horde §4.2 `lossCorrelation`, Appendix A].
///
/// Packets of two channels have no common numbers, so they are paired by time: of all pairs with one
/// packet from each channel's slice, a·b are both lost and a·n_b + b·n_a − a·b have a loss (a, b lost of n_a,
/// n_b sent). `observe`: O(lags), no allocation. Slices of about the packet spacing (10–50 ms) see bursts
/// best.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossLoss {
    /// The last slices of both channels, by slice number modulo the length.
    last: Box<[[Slice; 2]]>,
    slices: usize,
    /// Index `lag_max + lag`; lag > 0: the second channel's packet was sent later.
    both: Box<[f64]>,
    either: Box<[f64]>,
    /// Pairs that hold a loss, unweighted by the packets of a slice: the basis of the estimate.
    support: Box<[f64]>,
    keep: f64,
}

impl CrossLoss {
    /// Lags −`lag_max` to `lag_max` slices; the weight of a slice falls to 1/e after `memory_slices`
    /// (infinite: never).
    ///
    /// # Errors
    /// `lag_max` above 256, `memory_slices` below 10 or NaN.
    pub fn new(lag_max: usize, memory_slices: f64) -> Result<Self, EstimateError> {
        within(
            "lag_max",
            lag_max as f64,
            "at most 256 slices",
            lag_max <= LAG_MAX,
        )?;
        let range = "at least 10 slices";
        within("memory_slices", memory_slices, range, memory_slices >= 10.0)?;
        let lags = 2 * lag_max + 1;
        Ok(Self {
            last: vec![[Slice::default(); 2]; lag_max + 1].into(),
            slices: 0,
            both: vec![0.0; lags].into(),
            either: vec![0.0; lags].into(),
            support: vec![0.0; lags].into(),
            keep: (-1.0 / memory_slices).exp(),
        })
    }

    /// Takes the next slice of time of both channels; of a channel that sent nothing, the empty slice.
    ///
    /// # Errors
    /// More packets lost than sent; nothing is taken then.
    pub fn observe(&mut self, first: Slice, second: Slice) -> Result<(), EstimateError> {
        for slice in [first, second] {
            let lost = f64::from(slice.lost);
            within(
                "lost",
                lost,
                "at most the packets sent",
                slice.lost <= slice.sent,
            )?;
        }
        let length = self.last.len();
        self.last[self.slices % length] = [first, second];
        for array in [&mut self.both, &mut self.either, &mut self.support] {
            array.iter_mut().for_each(|value| *value *= self.keep);
        }
        for back in 0..length.min(self.slices + 1) {
            let [first_then, second_then] = self.last[(self.slices - back) % length];
            self.count(length - 1 + back, first_then, second);
            if back > 0 {
                self.count(length - 1 - back, first, second_then);
            }
        }
        self.slices += 1;
        Ok(())
    }

    /// P(both lost | either lost), the second packet sent `lag` slices after the first (before, if negative).
    ///
    /// # Errors
    /// `lag` beyond the maximum; fewer than `evidence` pairs of slices (at least one) with a loss.
    pub fn both_given_either(&self, lag: isize, evidence: usize) -> Result<f64, EstimateError> {
        let reach = self.last.len() as isize - 1;
        within("lag", lag as f64, "within ± lag_max", lag.abs() <= reach)?;
        let at = (lag + reach) as usize;
        enough(
            "correlated loss across channels",
            self.support[at] as usize,
            evidence.max(1),
        )?;
        Ok(self.both[at] / self.either[at])
    }

    fn count(&mut self, at: usize, first: Slice, second: Slice) {
        if first.lost + second.lost == 0 || first.sent == 0 || second.sent == 0 {
            return;
        }
        let (a, b) = (f64::from(first.lost), f64::from(second.lost));
        let both = a * b;
        self.both[at] += both;
        self.either[at] += a * f64::from(second.sent) + b * f64::from(first.sent) - both;
        self.support[at] += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    fn one(lost: bool) -> Slice {
        Slice {
            sent: 1,
            lost: u32::from(lost),
        }
    }

    #[test]
    fn independent_channels() {
        let mut random = Seed(1).stream("cross");
        let mut cross = CrossLoss::new(4, f64::INFINITY).unwrap();
        for _ in 0..100_000 {
            cross
                .observe(one(random.chance(0.1)), one(random.chance(0.1)))
                .unwrap();
        }
        for lag in -4..=4 {
            // m²/(2m − m²) with m = 0.1.
            let p = cross.both_given_either(lag, 100).unwrap();
            assert!((p - 0.01 / 0.19).abs() < 0.01, "lag {lag}: {p}");
        }
    }

    #[test]
    fn finds_the_lag_of_a_shared_queue() {
        let mut random = Seed(2).stream("cross");
        let mut cross = CrossLoss::new(5, f64::INFINITY).unwrap();
        let mut delayed = [false; 3];
        for _ in 0..20_000 {
            let lost = random.chance(0.05);
            // The second channel meets the same queue three slices later.
            cross.observe(one(lost), one(delayed[2])).unwrap();
            delayed = [lost, delayed[0], delayed[1]];
        }
        assert!(cross.both_given_either(3, 100).unwrap() > 0.999);
        assert!(cross.both_given_either(-3, 100).unwrap() < 0.1);
        assert!(cross.both_given_either(0, 100).unwrap() < 0.1);
    }

    #[test]
    fn bad_and_little_input() {
        let mut cross = CrossLoss::new(2, 100.0).unwrap();
        assert!(cross.both_given_either(0, 1).is_err());
        assert!(
            cross
                .observe(Slice { sent: 1, lost: 2 }, Slice::default())
                .is_err()
        );
        (0..50).for_each(|_| cross.observe(one(false), one(false)).unwrap());
        assert!(matches!(
            cross.both_given_either(0, 5),
            Err(EstimateError::TooFew { have: 0, .. })
        ));
        assert!(cross.both_given_either(3, 1).is_err());
        assert!(CrossLoss::new(500, 100.0).is_err() && CrossLoss::new(1, f64::NAN).is_err());
    }

    proptest! {
        #[test]
        fn counts_pairs_of_packets(
            slices in prop::collection::vec(((0u32..4, 0u32..4), (0u32..4, 0u32..4)), 1..60),
            lag in -3isize..=3,
        ) {
            let slice = |(arrived, lost)| Slice { sent: arrived + lost, lost };
            let rows: Vec<_> = slices.into_iter().map(|(a, b)| (slice(a), slice(b))).collect();
            let mut cross = CrossLoss::new(3, f64::INFINITY).unwrap();
            for &(a, b) in &rows {
                cross.observe(a, b).unwrap();
            }
            // Packet by packet.
            let (mut both, mut either) = (0, 0);
            for at in 0..rows.len() as isize {
                let Some(&(_, b)) = usize::try_from(at + lag).ok().and_then(|other| rows.get(other)) else {
                    continue;
                };
                let a = rows[at as usize].0;
                for i in 0..a.sent {
                    for j in 0..b.sent {
                        both += u32::from(i < a.lost && j < b.lost);
                        either += u32::from(i < a.lost || j < b.lost);
                    }
                }
            }
            match cross.both_given_either(lag, 1) {
                Ok(p) => prop_assert!((p - f64::from(both) / f64::from(either)).abs() < 1e-12),
                Err(_) => prop_assert_eq!(either, 0),
            }
        }
    }
}
