//! Jitter: delay that differs from packet to packet.

use std::time::Duration;

use anabranch_base::{Random, Seed};

use crate::limits::{self, ConfigError};

/// Delay added to the propagation delay, packet by packet.
///
/// Never negative: the propagation delay is the minimum for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// No jitter.
    #[default]
    None,
    /// Random jitter.
    Some {
        /// Distribution of the amount.
        shape: Shape,
        /// True if a packet may overtake an earlier one. If not, it arrives together with the earlier one at the earliest.
        reorders: bool,
    },
}

/// Distribution of an amount of jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Uniformly from zero to this.
    Uniform(Duration),
    /// The absolute value of a normal deviate with this standard deviation: mostly small, mean 0.8 of it, rarely above
    /// three times of it.
    Normal(Duration),
    /// A normal deviate with this standard deviation around three times it, so that the delay of a link is
    /// Gaussian; the 0.13 % below zero count as zero.
    Gaussian(Duration),
}

impl Jitter {
    /// Uniform from zero to `most`, in order.
    pub const fn uniform(most: Duration) -> Self {
        Self::Some {
            shape: Shape::Uniform(most),
            reorders: false,
        }
    }

    /// Half-normal with this deviation, in order.
    pub const fn normal(deviation: Duration) -> Self {
        Self::Some {
            shape: Shape::Normal(deviation),
            reorders: false,
        }
    }

    /// Gaussian with this deviation around three times it, in order.
    pub const fn gaussian(deviation: Duration) -> Self {
        Self::Some {
            shape: Shape::Gaussian(deviation),
            reorders: false,
        }
    }

    /// The same jitter, with packets allowed to overtake each other.
    #[must_use]
    pub const fn reordering(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Some { shape, .. } => Self::Some {
                shape,
                reorders: true,
            },
        }
    }

    /// True if packets may arrive in another order than they were sent.
    pub const fn reorders(&self) -> bool {
        matches!(self, Self::Some { reorders: true, .. })
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            Self::None => Ok(()),
            Self::Some {
                shape: Shape::Uniform(amount) | Shape::Normal(amount) | Shape::Gaussian(amount),
                ..
            } => limits::at_most("jitter", amount, limits::DURATION_MAX),
        }
    }
}

/// State of a jitter process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    jitter: Jitter,
    random: Random,
}

impl Process {
    pub(crate) fn new(jitter: Jitter, seed: Seed) -> Self {
        Self {
            jitter,
            random: seed.stream("jitter"),
        }
    }

    /// Delay of the next packet on top of the propagation delay.
    pub(crate) fn next(&mut self) -> Duration {
        match self.jitter {
            Jitter::None => Duration::ZERO,
            Jitter::Some { shape, .. } => match shape {
                Shape::Uniform(most) => {
                    Duration::from_nanos(self.random.between(0, most.as_nanos() as u64))
                }
                Shape::Normal(deviation) => {
                    let amount = self.random.normal(0.0, deviation.as_nanos() as f64).abs();
                    Duration::from_nanos(amount as u64)
                }
                Shape::Gaussian(deviation) => {
                    let deviation = deviation.as_nanos() as f64;
                    // The cast turns negative values into zero.
                    let amount = self.random.normal(3.0 * deviation, deviation) as u64;
                    Duration::from_nanos(amount)
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_ms(jitter: Jitter) -> f64 {
        let mut process = Process::new(jitter, Seed(1));
        (0..20_000)
            .map(|_| process.next().as_secs_f64())
            .sum::<f64>()
            / 20.0
    }

    #[test]
    fn means_are_right() {
        let two = Duration::from_millis(2);
        assert!((mean_ms(Jitter::uniform(two)) - 1.0).abs() < 0.02);
        // The mean of |N(0, σ)| is σ·√(2/π) = 0.798 σ.
        assert!((mean_ms(Jitter::normal(two)) - 1.596).abs() < 0.03);
        assert!((mean_ms(Jitter::gaussian(two)) - 6.0).abs() < 0.06);
        assert_eq!(mean_ms(Jitter::None), 0.0);
    }

    #[test]
    fn uniform_stays_in_range() {
        let most = Duration::from_nanos(3);
        let mut process = Process::new(Jitter::uniform(most).reordering(), Seed(2));
        let draws: Vec<_> = (0..200).map(|_| process.next()).collect();
        assert_eq!(draws.iter().max(), Some(&most));
        assert_eq!(draws.iter().min(), Some(&Duration::ZERO));
    }
}
