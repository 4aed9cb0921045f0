//! Available bandwidth of a channel, measured window by window.
//!
//! A [`Sampler`] turns deliveries into one [`Sample`] for each window of 0.1 to 1 s. A sample taken while
//! the sender had no more to send means only that the path carries *at least* so much: it is censored on
//! the right, and [`Survival`] (Kaplan and Meier) uses it as that.

mod sampler;
mod survival;
#[cfg(test)]
mod tests;

use anabranch_base::Rate;

pub use sampler::{BadWindow, Sampler};
pub use survival::Survival;

/// Relation of a rate to the capacity of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The path was kept busy: it carried this much and no more.
    Exact,
    /// The sender had no more to send: the path carries at least this much.
    AtLeast,
}

/// The rate of one window of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Bits delivered in the window, over its length.
    pub rate: Rate,
    /// True if the path could have carried more.
    pub bound: Bound,
}

impl Sample {
    /// A window in which the path was kept busy.
    pub const fn exact(rate: Rate) -> Self {
        Self {
            rate,
            bound: Bound::Exact,
        }
    }

    /// A window in which the sender had no more to send.
    pub const fn at_least(rate: Rate) -> Self {
        Self {
            rate,
            bound: Bound::AtLeast,
        }
    }

    /// Bits per second as a number.
    pub fn bps(&self) -> f64 {
        self.rate.as_bps() as f64
    }

    /// True if the path could have carried more.
    pub fn is_censored(&self) -> bool {
        self.bound == Bound::AtLeast
    }
}
