//! Packet loss on the wire: independent, or in bursts.

mod doubling;

use anabranch_base::{Random, Seed};

pub use doubling::{BURST_MAX, Doubling, HORDE_DECAY};

use crate::limits::{ConfigError, probability};

/// Loss of packets after they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Each packet with the same probability, independently of the others.
    Random {
        /// The probability that a packet is lost.
        probability: f64,
    },
    /// Bursts of geometric length.
    GilbertElliott(GilbertElliott),
    /// Bursts of 1, 2, 4, … packets.
    Doubling(Doubling),
}

/// The Gilbert–Elliott model: a hidden state, good or bad, with a loss probability in each.
///
/// The state may change before each packet (Gilbert 1960, Elliott 1963). All four are probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// P(good → bad), per packet.
    pub good_to_bad: f64,
    /// P(bad → good), per packet. Its inverse is the mean length of a bad period in packets.
    pub bad_to_good: f64,
    /// P(lost) in the good state.
    pub loss_good: f64,
    /// P(lost) in the bad state.
    pub loss_bad: f64,
}

impl Loss {
    /// Independent losses.
    ///
    /// # Errors
    /// `probability` is not a probability.
    pub fn random(probability: f64) -> Result<Self, ConfigError> {
        let loss = Self::Random { probability };
        loss.validate().map(|()| loss)
    }

    /// Bursts, from measured values: the fraction of packets lost over a long time and the mean number of packets lost
    /// in a row.
    ///
    /// The good state loses nothing and the bad one everything (Gilbert's original model), so with
    /// rate m and burst b: P(bad → good) = 1/b and P(good → bad) = m / (b·(1 − m)).
    ///
    /// # Errors
    /// `rate` is not a probability, `burst_packets` is below 1, or too short for the rate.
    pub fn bursts(rate: f64, burst_packets: f64) -> Result<Self, ConfigError> {
        probability("loss", rate)?;
        let bad_to_good = 1.0 / burst_packets;
        let good_to_bad = rate * bad_to_good / (1.0 - rate);
        // Written so that NaN is rejected, too.
        if !(burst_packets >= 1.0 && burst_packets.is_finite() && good_to_bad <= 1.0) {
            return Err(ConfigError::Burst {
                rate,
                burst_packets,
            });
        }
        Ok(Self::GilbertElliott(GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_good: 0.0,
            loss_bad: 1.0,
        }))
    }

    /// The fraction of packets lost over a long time.
    pub fn rate_mean(&self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Random { probability } => *probability,
            Self::GilbertElliott(model) => {
                let bad = model.bad_share();
                bad * model.loss_bad + (1.0 - bad) * model.loss_good
            }
            Self::Doubling(model) => model.rate_mean(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            Self::None => Ok(()),
            Self::Random { probability: p } => probability("loss", p),
            Self::GilbertElliott(model) => {
                probability("P(good to bad)", model.good_to_bad)?;
                probability("P(bad to good)", model.bad_to_good)?;
                probability("loss in the good state", model.loss_good)?;
                probability("loss in the bad state", model.loss_bad)
            }
            Self::Doubling(model) => model.validate(),
        }
    }
}

impl GilbertElliott {
    /// The share of packets that meet the bad state, over a long time; 0 if the state never changes.
    fn bad_share(&self) -> f64 {
        let changes = self.good_to_bad + self.bad_to_good;
        if changes == 0.0 {
            return 0.0;
        }
        self.good_to_bad / changes
    }
}

/// State of a loss process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    model: Loss,
    /// Of Gilbert–Elliott: 0 good, 1 bad. Of doubling: packets of the burst still to be lost.
    state: u32,
    random: Random,
}

impl Process {
    /// Starts in a state drawn from the model's long-run shares, so there is no initial transient.
    pub(crate) fn new(model: Loss, seed: Seed) -> Self {
        let mut random = seed.stream("loss");
        let state = match model {
            Loss::GilbertElliott(model) => u32::from(random.chance(model.bad_share())),
            Loss::Doubling(model) => model.any_state(&mut random),
            Loss::None | Loss::Random { .. } => 0,
        };
        Self {
            model,
            state,
            random,
        }
    }

    /// True if the next packet is lost.
    pub(crate) fn takes_next(&mut self) -> bool {
        match self.model {
            Loss::None => false,
            Loss::Random { probability } => self.random.chance(probability),
            Loss::GilbertElliott(model) => {
                let (leave, stay_loss, other_loss) = if self.state == 1 {
                    (model.bad_to_good, model.loss_bad, model.loss_good)
                } else {
                    (model.good_to_bad, model.loss_good, model.loss_bad)
                };
                let changes = self.random.chance(leave);
                self.state ^= u32::from(changes);
                self.random
                    .chance(if changes { other_loss } else { stay_loss })
            }
            Loss::Doubling(model) => {
                self.state = model.step(self.state, &mut self.random);
                self.state > 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: usize = 400_000;

    /// Fraction lost and mean run of losses.
    fn observe(model: Loss, seed: u64) -> (f64, f64) {
        let mut process = Process::new(model, Seed(seed));
        let (mut lost, mut runs, mut in_run) = (0, 0, false);
        for _ in 0..PACKETS {
            let takes = process.takes_next();
            lost += usize::from(takes);
            runs += usize::from(takes && !in_run);
            in_run = takes;
        }
        (
            lost as f64 / PACKETS as f64,
            lost as f64 / runs.max(1) as f64,
        )
    }

    #[test]
    fn independent_losses_have_the_stated_rate() {
        let (rate, run) = observe(Loss::random(0.1).unwrap(), 1);
        assert!((rate - 0.1).abs() < 0.003, "{rate}");
        // P(a run continues) = 0.1, so runs have 1/0.9 packets on average.
        assert!((run - 1.0 / 0.9).abs() < 0.02, "{run}");
    }

    #[test]
    fn bursts_have_the_stated_rate_and_length() {
        for (rate, burst) in [(0.02, 5.0), (0.1, 2.0), (0.3, 10.0)] {
            let model = Loss::bursts(rate, burst).unwrap();
            assert!((model.rate_mean() - rate).abs() < 1e-12);
            let (seen_rate, seen_burst) = observe(model, 2);
            // Runs are geometric; 400,000 packets hold at least 1,600 of them, so 10 % is four sigma.
            assert!(
                (seen_rate / rate - 1.0).abs() < 0.1,
                "{seen_rate} for {rate}"
            );
            assert!(
                (seen_burst / burst - 1.0).abs() < 0.1,
                "{seen_burst} for {burst}"
            );
        }
    }

    #[test]
    fn partial_losses_reach_the_stationary_mean() {
        let model = Loss::GilbertElliott(GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.09,
            loss_good: 0.001,
            loss_bad: 0.5,
        });
        // A tenth of the packets meet the bad state: 0.1 × 0.5 + 0.9 × 0.001.
        assert!((model.rate_mean() - 0.0509).abs() < 1e-12);
        let (rate, _) = observe(model, 3);
        assert!((rate - 0.0509).abs() < 0.003, "{rate}");
    }

    #[test]
    fn impossible_models_are_refused() {
        assert!(Loss::random(1.5).is_err());
        assert!(Loss::random(f64::NAN).is_err());
        assert!(Loss::bursts(0.9, 1.0).is_err());
        assert!(Loss::bursts(0.1, 0.5).is_err());
        assert!(Loss::bursts(0.1, f64::NAN).is_err());
        assert!(Loss::bursts(1.0, 4.0).is_err());
        assert!(Loss::bursts(0.5, 1.0).is_ok());
    }
}
