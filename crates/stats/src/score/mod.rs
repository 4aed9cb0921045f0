//! Scores of a series of promises.
//!
//! All functions take promises and outcomes side by side: `promises[t]` was made before `outcomes[t]` was
//! known, and is kept when the outcome reaches it. Rates are in one unit, whichever.
//!
//! | figure | function |
//! |---|---|
//! | kept share, worst block, repeats, useful rate, pinball loss | [`Score::of`] |
//! | the best quantile of a window in hindsight, at the same kept share | [`Hindsight`] |
//! | what a promise must stand against, as a whole | [`held`] |
//! | the same sample by sample | [`renewed`], [`rolling`] |

mod hindsight;
mod term;
#[cfg(test)]
mod tests;

pub use hindsight::Hindsight;
pub use term::{renewed, rolling};

/// Samples in a block for [`Score::block_kept_least`].
pub const BLOCK: usize = 500;

/// Figures of one series of promises at one probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Promises judged.
    pub count: usize,
    /// Promises broken.
    pub broken: usize,
    /// Promises broken right after a broken one.
    pub repeated: usize,
    /// Broken promises that have a successor.
    pub followed: usize,
    /// The smallest kept share of any [`BLOCK`] promises in a row (of all when they are fewer).
    pub block_kept_least: f64,
    /// The mean of the promises that were kept; 0 when none was.
    pub useful: f64,
    /// Mean pinball loss at the level 1 − P.
    pub pinball: f64,
}

impl Score {
    /// The figures of `promises` made with probability `kept`; `None` when there are none, or not as many
    /// outcomes.
    pub fn of(promises: &[f64], outcomes: &[f64], kept: f64) -> Option<Self> {
        if promises.is_empty() || promises.len() != outcomes.len() {
            return None;
        }
        let count = promises.len();
        let is_broken = |t: usize| outcomes[t] < promises[t];
        let block = BLOCK.min(count);
        let (mut broken, mut repeated, mut in_block, mut in_block_most) = (0, 0, 0usize, 0);
        let (mut useful, mut loss) = (0.0, 0.0);
        for t in 0..count {
            loss += pinball(promises[t], outcomes[t], 1.0 - kept);
            if is_broken(t) {
                broken += 1;
                in_block += 1;
                repeated += usize::from(t > 0 && is_broken(t - 1));
            } else {
                useful += promises[t];
            }
            if t >= block && is_broken(t - block) {
                in_block -= 1;
            }
            in_block_most = in_block_most.max(in_block);
        }
        Some(Self {
            count,
            broken,
            repeated,
            followed: broken - usize::from(is_broken(count - 1)),
            block_kept_least: 1.0 - in_block_most as f64 / block as f64,
            useful: if broken < count {
                useful / (count - broken) as f64
            } else {
                0.0
            },
            pinball: loss / count as f64,
        })
    }

    /// The share of promises kept.
    pub fn kept(&self) -> f64 {
        1.0 - self.broken as f64 / self.count as f64
    }

    /// The share of broken promises after which the next broke, too; `None` when none is followed.
    pub fn repeat(&self) -> Option<f64> {
        (self.followed > 0).then(|| self.repeated as f64 / self.followed as f64)
    }
}

/// The loss of calling `promise` the quantile at `level` when `outcome` came (Koenker and Bassett,
/// *Econometrica* 46, 1978); least on average when it is that quantile.
pub fn pinball(promise: f64, outcome: f64, level: f64) -> f64 {
    let over = promise - outcome;
    if over > 0.0 {
        over * (1.0 - level)
    } else {
        -over * level
    }
}

/// Outcome by which a promise for `hold` samples is judged: at each t the least of
/// `samples[t..t + hold]`. `hold − 1` shorter than the samples; empty when there are too few or `hold`
/// is 0.
pub fn held(samples: &[f64], hold: usize) -> Vec<f64> {
    if hold == 0 {
        return Vec::new();
    }
    samples
        .windows(hold)
        .map(|window| window.iter().copied().fold(f64::INFINITY, f64::min))
        .collect()
}
