//! How fast the enhanced flow may be while the pipe is narrower than both flows [Two-flow §6, Figure 14].
//!
//! When the pipe shrinks the enhanced flow yields first: it gets what is left beside the essential flow's target, judged by what
//! arrives of both. When the signs are gone it feels its way back, in steps that grow rarer as they fail.

use anabranch_base::Rate;

/// Share of enhanced packets lost that is taken for a pipe that is too narrow.
const LOSS_MAX: f64 = 0.02;
/// Essential rate over its target below which the pipe is too narrow.
const NEAR: f64 = 0.95;
/// Weight of an interval in both: a packet that is lost by chance, or counted an interval later, is no sign.
const WEIGHT: f64 = 0.3;
/// Of the rate, what one sign leaves at least: what arrives says how much the pipe carries only while it is full.
const KEPT: f64 = 0.7;
/// What is taken of what arrives: the rest empties the queue.
const TAKEN: f64 = 0.97;
/// A step upwards, as a share of the full rate.
const STEP: f64 = 0.04;
/// Steps in a row that must hold before patience shrinks: one may be lost in what is taken for noise.
const HELD: u32 = 3;
/// Intervals without a sign before the first step upwards, and most of them.
const PATIENCE: [u32; 2] = [2, 64];

/// What was seen of both flows in an interval of about a second or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// What the essential flow is to have; zero while it has nothing to send.
    pub essential_target: Rate,
    /// What of it arrived.
    pub essential: Rate,
    /// What of the enhanced flow arrived.
    pub enhanced: Rate,
    /// Share of the enhanced packets that were lost.
    pub enhanced_loss: f64,
}

/// The rate of one enhanced flow, or of all those of a pipe together.
#[derive(Clone, Debug)]
pub struct Yielding {
    full: f64,
    rate: f64,
    /// Smoothed: share of enhanced packets lost, and of the essential target that does not arrive.
    loss: f64,
    lack: f64,
    /// Intervals without a sign.
    calm: u32,
    /// How many of them the next step takes.
    patience: u32,
    /// Steps since that held.
    held: u32,
    /// The last change was a step upwards.
    is_trying: bool,
}

impl Yielding {
    /// At its full rate.
    pub fn new(full: Rate) -> Self {
        let full = full.as_bps() as f64;
        Self {
            full,
            rate: full,
            loss: 0.0,
            lack: 0.0,
            calm: 0,
            patience: PATIENCE[0],
            held: 0,
            is_trying: false,
        }
    }

    /// Another full rate, of another segment; the share that it has of it stays.
    pub fn set_full(&mut self, full: Rate) {
        let part = self.part();
        self.full = full.as_bps() as f64;
        self.rate = self.full * part;
    }

    /// An interval is over; the rate from now on. O(1).
    pub fn observe(&mut self, seen: Seen) -> Rate {
        let target = seen.essential_target.as_bps() as f64;
        let essential = seen.essential.as_bps() as f64;
        let lack = if target > 0.0 {
            (1.0 - essential / target).max(0.0)
        } else {
            0.0
        };
        self.loss += WEIGHT * (seen.enhanced_loss - self.loss);
        self.lack += WEIGHT * (lack - self.lack);
        if self.loss > LOSS_MAX || self.lack > 1.0 - NEAR {
            let carried = essential + seen.enhanced.as_bps() as f64;
            let left = (TAKEN * carried - target).max(KEPT * self.rate);
            self.rate = self.rate.min(left);
            (self.loss, self.lack) = (0.0, 0.0);
            if self.is_trying {
                self.patience = (self.patience * 2).min(PATIENCE[1]);
            }
            self.calm = 0;
            self.held = 0;
            self.is_trying = false;
        } else if self.rate < self.full {
            self.calm += 1;
            if self.calm >= self.patience {
                self.held += u32::from(self.is_trying);
                if self.held >= HELD {
                    self.patience = (self.patience / 2).max(PATIENCE[0]);
                }
                self.rate = (self.rate + STEP * self.full).min(self.full);
                self.calm = 0;
                self.is_trying = true;
            }
        }
        self.rate()
    }

    /// The rate now.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.rate as u64)
    }

    /// Of the full rate, 0 to 1.
    pub fn part(&self) -> f64 {
        if self.full > 0.0 {
            (self.rate / self.full).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A pipe that gives the essential flow what it asks for, and drops what is too much.
    fn pipe(capacity: f64, target: f64, enhanced: f64) -> Seen {
        let essential = target.min(capacity);
        let arrived = enhanced.min(capacity - essential);
        Seen {
            essential_target: Rate::from_bps(target as u64),
            essential: Rate::from_bps(essential as u64),
            enhanced: Rate::from_bps(arrived as u64),
            enhanced_loss: if enhanced > 0.0 {
                1.0 - arrived / enhanced
            } else {
                0.0
            },
        }
    }

    /// The paper's example: 0.134 and 0.361 Mbit/s over 0.4.
    #[test]
    fn it_yields_what_the_essential_flow_needs() {
        let mut yielding = Yielding::new(Rate::from_kbps(361));
        let (mut lost, mut sent) = (0.0, 0.0);
        for _ in 0..300 {
            let rate = yielding.rate().as_bps() as f64;
            let seen = pipe(400e3, 134e3, rate);
            lost += seen.enhanced_loss * rate;
            sent += rate;
            yielding.observe(seen);
        }
        assert!(
            (230e3..=272e3).contains(&(yielding.rate().as_bps() as f64)),
            "{}",
            yielding.rate()
        );
        assert!(lost < 0.01 * sent, "{}", lost / sent);
    }

    #[test]
    fn it_returns_when_the_pipe_is_wide_again() {
        let mut yielding = Yielding::new(Rate::from_kbps(361));
        for _ in 0..20 {
            let rate = yielding.rate().as_bps() as f64;
            yielding.observe(pipe(300e3, 134e3, rate));
        }
        assert!(yielding.part() < 0.6);
        for _ in 0..200 {
            let rate = yielding.rate().as_bps() as f64;
            yielding.observe(pipe(600e3, 134e3, rate));
        }
        assert_eq!(yielding.part(), 1.0);
        yielding.set_full(Rate::from_kbps(100));
        assert_eq!(yielding.rate(), Rate::from_kbps(100));
    }

    proptest! {
        /// On any pipe: never above the full rate, and in the end both flows fit.
        #[test]
        fn both_flows_fit_in_the_end(capacity in 150e3..900e3f64, target in 0.0..150e3f64) {
            let mut yielding = Yielding::new(Rate::from_kbps(500));
            let (mut sent, mut lost) = (0.0, 0.0);
            for interval in 0..400 {
                let rate = yielding.rate().as_bps() as f64;
                prop_assert!(rate <= 500e3);
                let seen = pipe(capacity, target, rate);
                if interval >= 100 {
                    sent += rate;
                    lost += seen.enhanced_loss * rate;
                }
                yielding.observe(seen);
            }
            prop_assert!(lost <= LOSS_MAX * sent + 1.0, "{}", lost / sent);
            let rate = yielding.rate().as_bps() as f64;
            prop_assert!(rate >= (TAKEN * capacity - target).min(500e3) * 0.8, "{rate}");
        }
    }
}
