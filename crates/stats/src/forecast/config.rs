//! Configuration of a forecaster.

/// Configuration of promises.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The probabilities with which promises are to be kept, each within 0.5 to 0.99, increasing, at most
    /// [`LEVELS_MAX`](Self::LEVELS_MAX). Each level is calibrated on its own.
    pub levels: Vec<f64>,
    /// For how many samples a promise must stand, 1 to 60.
    pub hold: usize,
    /// Unit that is kept as often as promised when a promise stands for several samples.
    pub judged: Judged,
}

/// Judgement of a promise for a term of H samples. With H = 1 both mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Judged {
    /// As a whole: it is kept when all H samples reach it. Of all terms, the share P is kept.
    #[default]
    Whole,
    /// Each sample on its own: of all samples of all terms, the share P reaches what was promised for
    /// the term. It holds for promises made anew with each sample, and for those of somebody who renews
    /// every H samples, from whichever sample on.
    Each,
}

impl Config {
    /// The most levels that one forecaster serves.
    pub const LEVELS_MAX: usize = 16;
    /// The longest time for which a promise can be asked to stand, in samples.
    pub const HOLD_MAX: usize = 60;

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.levels.is_empty() || self.levels.len() > Self::LEVELS_MAX {
            return Err(ConfigError::Levels(self.levels.len()));
        }
        if let Some(&level) = self.levels.iter().find(|p| !(0.5..=0.99).contains(*p)) {
            return Err(ConfigError::Level(level));
        }
        if self.levels.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(ConfigError::Order);
        }
        if !(1..=Self::HOLD_MAX).contains(&self.hold) {
            return Err(ConfigError::Hold(self.hold));
        }
        Ok(())
    }
}

impl Default for Config {
    /// The levels that streams ask for, for the next sample.
    fn default() -> Self {
        Self {
            levels: vec![0.5, 0.75, 0.9, 0.95, 0.99],
            hold: 1,
            judged: Judged::Whole,
        }
    }
}

/// Reason why a configuration is refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No level, or too many.
    #[error("{0} levels; give 1 to {max}", max = Config::LEVELS_MAX)]
    Levels(usize),
    /// A level that cannot be calibrated.
    #[error("a level of {0} is not within 0.5 to 0.99")]
    Level(f64),
    /// The levels do not increase.
    #[error("levels must increase, each of them once")]
    Order,
    /// The time for which a promise must stand is out of range.
    #[error("a promise held for {0} samples is not within 1 to {max}", max = Config::HOLD_MAX)]
    Hold(usize),
}
