//! Loss bursts of 1, 2, 4, … packets: the Markov process of [Horde Figure 7-6].

use anabranch_base::Random;

use crate::limits::{ConfigError, probability};

/// The longest burst accepted.
pub const BURST_MAX: u32 = 1 << 16;

/// The published decay: each doubling of the length is a fifth as probable.
pub const HORDE_DECAY: f64 = 0.2;

/// A Markov process with a state for every packet of a burst still to be lost, and state 0, in which
/// packets pass [Horde §7.2.1, Figure 7-6].
///
/// From state 0 a burst begins with probability `start`. It has 2^i packets with probability decay^i,
/// i = 1 … log₂ `burst_max`, and else, with 1 − s, s = Σ decay^i, one packet. From state n the process
/// steps down to n − 1, so between two bursts at least one packet passes and every run of losses has
/// one of these lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doubling {
    /// P(a burst begins), per packet that is not in one: the paper's q.
    pub start: f64,
    /// Ratio of the probabilities of successive doublings, 0 to 0.5.
    pub decay: f64,
    /// The longest burst: a power of two, 1 to [`BURST_MAX`].
    pub burst_max: u32,
}

impl Doubling {
    /// The published process with the `start` that gives this fraction of packets lost.
    ///
    /// # Errors
    /// The fraction is not a probability or cannot be reached, or `burst_max` is out of range.
    pub fn horde(rate: f64, burst_max: u32) -> Result<Self, ConfigError> {
        probability("loss", rate)?;
        let shape = Self {
            start: 0.0,
            decay: HORDE_DECAY,
            burst_max,
        };
        shape.validate()?;
        let burst_packets = shape.burst_mean();
        // A cycle is 1/q packets that pass and a burst, so rate = b/(1/q + b).
        let start = rate / (burst_packets * (1.0 - rate));
        // Written so that NaN and infinity are rejected, too.
        if !(0.0..=1.0).contains(&start) {
            return Err(ConfigError::Burst {
                rate,
                burst_packets,
            });
        }
        Ok(Self { start, ..shape })
    }

    /// The lengths of bursts with their probabilities, shortest first; the probabilities add up to 1.
    pub fn bursts(&self) -> impl Iterator<Item = (u32, f64)> {
        let Self {
            decay, burst_max, ..
        } = *self;
        let doublings = burst_max.ilog2() as i32;
        let longer: f64 = (1..=doublings).map(|i| decay.powi(i)).sum();
        (0..=doublings).map(move |i| {
            let share = if i == 0 { 1.0 - longer } else { decay.powi(i) };
            (1 << i, share)
        })
    }

    /// The mean length of a burst in packets.
    pub fn burst_mean(&self) -> f64 {
        self.bursts()
            .map(|(packets, share)| f64::from(packets) * share)
            .sum()
    }

    /// The fraction of packets lost over a long time.
    pub fn rate_mean(&self) -> f64 {
        let burst = self.start * self.burst_mean();
        burst / (1.0 + burst)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        probability("P(a burst begins)", self.start)?;
        if !(0.0..=0.5).contains(&self.decay) {
            return Err(ConfigError::Decay { value: self.decay });
        }
        if !self.burst_max.is_power_of_two() || self.burst_max > BURST_MAX {
            return Err(ConfigError::BurstMax {
                value: self.burst_max,
                most: BURST_MAX,
            });
        }
        Ok(())
    }

    /// A state drawn from the long-run shares.
    pub fn any_state(&self, random: &mut Random) -> u32 {
        if !random.chance(self.rate_mean()) {
            return 0;
        }
        // A packet in a burst meets a burst with a probability in proportion to its length.
        let mut left = random.unit() * self.burst_mean();
        let mut found = 1;
        for (packets, share) in self.bursts() {
            found = packets;
            left -= f64::from(packets) * share;
            if left < 0.0 {
                break;
            }
        }
        random.between(1, u64::from(found)) as u32
    }

    /// The state after this one; a packet in a state above 0 is lost.
    pub fn step(&self, state: u32, random: &mut Random) -> u32 {
        if state > 0 {
            return state - 1;
        }
        if !random.chance(self.start) {
            return 0;
        }
        let mut unit = random.unit();
        for (packets, share) in self.bursts().skip(1) {
            if unit < share {
                return packets;
            }
            unit -= share;
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loss;
    use anabranch_base::Seed;
    use std::collections::BTreeMap;

    #[test]
    fn the_papers_figures() {
        // Bursts of 1, 2, 4, 8 and 16: s = 0.2 + 0.04 + 0.008 + 0.0016.
        let model = Doubling::horde(0.2, 16).unwrap();
        let shares: Vec<_> = model.bursts().collect();
        assert_eq!(shares.len(), 5);
        assert!((shares[0].1 - (1.0 - 0.2496)).abs() < 1e-12);
        assert!((shares.iter().map(|&(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-12);
        // 0.7504 + 2·0.2 + 4·0.04 + 8·0.008 + 16·0.0016 = 1.4 packets.
        assert!((model.burst_mean() - 1.4).abs() < 1e-12);
        // q = 0.2/(1.4·0.8).
        assert!((model.start - 0.178_571_428).abs() < 1e-8);
        assert!((model.rate_mean() - 0.2).abs() < 1e-12);
        // Bursts of 1, 2 and 4, of the GPRS channels: 0.76 + 0.4 + 0.16.
        assert!((Doubling::horde(0.03, 4).unwrap().burst_mean() - 1.32).abs() < 1e-12);
    }

    #[test]
    fn runs_have_the_stated_lengths_and_shares() {
        for (rate, burst_max) in [(0.2, 16), (0.005, 16), (0.03, 4), (0.1, 1)] {
            let model = Doubling::horde(rate, burst_max).unwrap();
            let mut process = super::super::Process::new(Loss::Doubling(model), Seed(7));
            let packets = 1_000_000;
            let (mut lost, mut run) = (0u64, 0u32);
            let mut runs: BTreeMap<u32, u64> = BTreeMap::new();
            // A run in progress at the beginning may be incomplete.
            let mut is_whole = false;
            for _ in 0..packets {
                if process.takes_next() {
                    lost += 1;
                    run += 1;
                } else {
                    if run > 0 && is_whole {
                        *runs.entry(run).or_default() += 1;
                    }
                    is_whole = true;
                    run = 0;
                }
            }
            let seen = lost as f64 / f64::from(packets);
            assert!((seen / rate - 1.0).abs() < 0.1, "{seen} for {rate}");
            let total: u64 = runs.values().sum();
            let expected: Vec<_> = model.bursts().collect();
            assert!(
                runs.keys()
                    .all(|length| expected.iter().any(|(l, _)| l == length))
            );
            for (length, share) in expected {
                let count = runs.get(&length).copied().unwrap_or(0) as f64;
                let mean = share * total as f64;
                // Four deviations of a binomial count.
                let tolerance = 4.0 * (mean * (1.0 - share)).sqrt() + 1.0;
                assert!(
                    (count - mean).abs() < tolerance,
                    "{count} bursts of {length}, expected {mean}"
                );
            }
        }
    }

    #[test]
    fn it_begins_in_its_long_run_state() {
        let model = Doubling::horde(0.3, 8).unwrap();
        let lost =
            |seed| super::super::Process::new(Loss::Doubling(model), Seed(seed)).takes_next();
        let share = (0..20_000).filter(|&seed| lost(seed)).count() as f64 / 20_000.0;
        assert!((share - 0.3).abs() < 0.015, "{share}");
    }

    #[test]
    fn impossible_models_are_refused() {
        assert!(Doubling::horde(0.2, 3).is_err());
        assert!(Doubling::horde(0.2, 0).is_err());
        assert!(Doubling::horde(0.2, 1 << 17).is_err());
        assert!(Doubling::horde(1.0, 16).is_err());
        assert!(Doubling::horde(f64::NAN, 16).is_err());
        // Between bursts of one packet at least one passes.
        assert!(Doubling::horde(0.6, 1).is_err());
        let model = Doubling {
            start: 0.1,
            decay: 0.6,
            burst_max: 4,
        };
        assert!(model.validate().is_err());
    }
}
