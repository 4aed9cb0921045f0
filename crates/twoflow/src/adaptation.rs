//! Adaptation: the rate of the enhanced flow while the pipe is narrower than both flows [Two-flow §6, Figure 14].
//!
//! If the pipe shrinks, the enhanced flow yields first. It gives up as much as did not fit: the share of it that was
//! lost, and what the essential flow lacked. Then it probes upwards: a step that costs packets is taken back at once,
//! and the next is tried later. Loss that continues however far the flow yields is the path's own and no reason to
//! yield.

use anabranch_base::Rate;

/// Smoothed share of enhanced packets lost, beyond the path's own loss, above which the pipe is taken to be too narrow.
const LOSS_MAX: f64 = 0.02;
/// The same for the mean over [`LONG`] intervals at one rate, which varies less by chance.
const LOSS_LONG: f64 = 0.003;
const LONG: u32 = 8;
/// Share of its target rate below which, in two consecutive intervals, the essential flow shows that the pipe is too
/// narrow. A flow that has just begun or ended falls short in one.
const NEAR: f64 = 0.95;
/// Weight of an interval in the smoothed loss: a packet lost by chance, or counted an interval later, is no sign.
const WEIGHT: f64 = 0.3;
/// Share of the rate at the last sign of congestion that counts as near to it. Below this, steps are not delayed.
const WALL: f64 = 0.95;
/// Loss that shows that a step was one too many: share of packets, in the first interval and as the mean of the first
/// two after the step.
const TRIAL: [f64; 2] = [0.03, 0.015];
/// Least share of the rate that one sign leaves.
const KEPT: f64 = 0.3;
/// Share of the rate given up beyond what did not fit: it empties the queue.
const MARGIN: f64 = 0.01;
/// Size of a step, as a share of the rate: the first ones upwards, and the largest after several that held. A rate
/// below this share of the full one counts as that share.
const STEP: [f64; 2] = [0.02, 0.08];
const LOW: f64 = 0.1;
/// Number of consecutive steps that must hold before steps grow and come sooner.
const HELD: u32 = 3;
/// Intervals without a sign before a step upwards: initially, and at most, as steps fail.
const BACKOFF: [u32; 2] = [2, 64];
/// Upper limit of the loss that is attributed to the path itself; beyond it nothing is known.
const OWN_MAX: f64 = 0.1;
/// Weights of [`LONG`] intervals in the estimate of the path's own loss: where they lost less than the estimate, and
/// more.
const OWN_WEIGHT: [f64; 2] = [0.25, 0.1];
/// Criterion for yielding in vain: the share that was cut, beyond twice the loss, and the share of the loss that
/// remains.
const IN_VAIN: (f64, f64) = (0.05, 0.5);
/// Intervals for which the rate of an essential flow with nothing to send stays reserved: segments end a little early.
const RESERVED: u32 = 16;

/// Measurements of both flows over an interval of about a second or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Target rate of the essential flow; zero while it has nothing to send.
    pub essential_target: Rate,
    /// Rate at which it arrived.
    pub essential: Rate,
    /// Rate at which the enhanced flow arrived.
    pub enhanced: Rate,
    /// Share of the enhanced packets that were lost, 0 to 1.
    pub enhanced_loss: f64,
}

/// Rate control of one enhanced flow, or of all those of a pipe together.
#[derive(Clone, Debug)]
pub struct Yielding {
    full: f64,
    /// Rate that the pipe leaves to the enhanced flow; infinite until a measurement limits it.
    allowed: f64,
    /// Essential target that `allowed` was measured beside, and number of intervals without one.
    reserve: f64,
    idle: u32,
    /// Smoothed share of enhanced packets lost.
    loss: f64,
    /// Shortfall of the essential flow in the last interval, in bits per second.
    lacked: f64,
    /// Estimate of the path's own loss.
    own: f64,
    /// Rate allowed at the last sign of congestion; infinite before the first.
    wall: f64,
    level: Level,
    /// Current series of cuts: the rate before it and the loss that began it.
    cuts: Option<(f64, f64)>,
    /// Rate allowed before the step that is being tried.
    tried: Option<f64>,
    /// Number of intervals without a sign before the next step.
    backoff: u32,
    step: f64,
    held: u32,
}

/// Intervals at one rate, and the sum of their losses.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    intervals: u32,
    losses: f64,
}

impl Level {
    fn mean(self) -> f64 {
        self.losses / f64::from(self.intervals.max(1))
    }
}

impl Yielding {
    /// Starts at the full rate.
    pub fn new(full: Rate) -> Self {
        Self {
            full: full.as_bps() as f64,
            allowed: f64::INFINITY,
            reserve: 0.0,
            idle: 0,
            loss: 0.0,
            lacked: 0.0,
            wall: f64::INFINITY,
            own: 0.0,
            level: Level::default(),
            cuts: None,
            tried: None,
            backoff: BACKOFF[0],
            step: STEP[0],
            held: 0,
        }
    }

    /// Sets another full rate, that of another segment. What the pipe leaves does not change with it.
    pub fn set_full(&mut self, full: Rate) {
        self.full = full.as_bps() as f64;
    }

    /// Processes the measurements of an interval that is over; returns the rate from now on. O(1).
    pub fn observe(&mut self, seen: Seen) -> Rate {
        let target = seen.essential_target.as_bps() as f64;
        if self.make_space(target) {
            // The loss was relative to the rate that is known now.
            self.set(self.allowed);
            return self.rate();
        }
        let lacked = (target - seen.essential.as_bps() as f64).max(0.0);
        let before = std::mem::replace(&mut self.lacked, lacked);
        let lacked = lacked.min(before);
        let is_lacking = lacked > (1.0 - NEAR) * target;
        self.loss += WEIGHT * (seen.enhanced_loss - self.loss);
        self.level.intervals += 1;
        self.level.losses += seen.enhanced_loss;
        let mean = self.level.mean();
        if let Some(before) = self.tried {
            let most = TRIAL[(self.level.intervals as usize - 1).min(TRIAL.len() - 1)];
            if mean - self.own > most + self.own / 2.0 || is_lacking {
                self.take_back(before);
            } else if self.level.intervals as usize >= TRIAL.len() {
                self.keep();
            }
            return self.rate();
        }
        let is_long = self.level.intervals >= LONG;
        if is_lacking {
            self.cut(seen.enhanced_loss, lacked);
        } else if self.loss - self.own > LOSS_MAX {
            self.yield_to(seen.enhanced_loss.max(self.loss));
        } else if is_long && mean - self.own > LOSS_LONG + self.own / 4.0 {
            self.yield_to(mean);
        } else if is_long && self.level.intervals.is_multiple_of(LONG) {
            // Upwards slowly, and only where yielding was in vain: otherwise the estimate would grow with the loss that
            // the flow itself causes.
            let is_known = self.own > LOSS_LONG;
            let weight = OWN_WEIGHT[usize::from(mean > self.own)];
            if is_known || mean < self.own {
                self.own += weight * (mean - self.own);
            }
            self.cuts = None;
        }
        let backoff = if self.allowed < WALL * self.wall {
            BACKOFF[0]
        } else {
            self.backoff
        };
        let is_calm = self.level.intervals >= backoff && target >= self.reserve;
        if is_calm && self.allowed < self.full {
            self.tried = Some(self.allowed);
            self.allowed += self.step * self.unit();
            self.level = Level::default();
        }
        self.rate()
    }

    /// Keeps the sum that the pipe carries of both flows as the essential flow's target changes; true if that lowered
    /// the rate.
    fn make_space(&mut self, target: f64) -> bool {
        self.idle = if target > 0.0 { 0 } else { self.idle + 1 };
        if target == 0.0 && self.idle <= RESERVED {
            return false;
        }
        let before = self.now();
        self.allowed = (self.allowed + self.reserve - target).max(0.0);
        self.wall = (self.wall + self.reserve - target).max(0.0);
        self.reserve = target;
        self.now() < before - STEP[0] * self.unit()
    }

    /// Takes losses as a sign, unless they occurred whatever the flow did.
    fn yield_to(&mut self, loss: f64) {
        if let Some((rate, first)) = self.cuts {
            let (beyond, left) = IN_VAIN;
            let is_far = self.now() < rate * (1.0 - beyond - 2.0 * first);
            if self.level.mean() < self.own + left * first {
                // It was not: loss from now on is another matter.
                self.cuts = None;
            } else if is_far && first < OWN_MAX && self.level.intervals >= LONG / 2 {
                self.own = self.level.mean().min(OWN_MAX);
                self.set(rate);
                self.cuts = None;
                return;
            }
        }
        self.cut(loss, 0.0);
    }

    /// Gives up what did not fit.
    fn cut(&mut self, loss: f64, lacked: f64) {
        let rate = self.now();
        self.cuts
            .get_or_insert((rate, (self.loss - self.own).max(0.0)));
        let least = (STEP[0] * self.unit()).min(rate);
        let over = (rate * ((loss - self.own).max(0.0) + MARGIN) + lacked).max(least);
        self.wall = rate;
        self.set((rate - over).max(KEPT * rate));
        if self.held > 0 {
            self.backoff = (self.backoff * 2).min(BACKOFF[1]);
        }
        self.held = 0;
        self.step = STEP[0];
    }

    /// Takes back a step that was one too many.
    fn take_back(&mut self, before: f64) {
        self.wall = self.allowed;
        self.set(before);
        self.backoff = (self.backoff * 2).min(BACKOFF[1]);
        self.held = 0;
        self.step = STEP[0];
    }

    /// Keeps a step that held.
    fn keep(&mut self) {
        self.tried = None;
        self.held += 1;
        if self.held >= HELD {
            self.backoff = (self.backoff / 2).max(BACKOFF[0]);
            self.step = (self.step * 2.0).min(STEP[1]);
        }
    }

    fn set(&mut self, allowed: f64) {
        self.allowed = allowed;
        self.tried = None;
        self.level = Level::default();
        (self.loss, self.lacked) = (self.own, 0.0);
    }

    /// Rate that steps are shares of.
    fn unit(&self) -> f64 {
        self.now().max(LOW * self.full)
    }

    fn now(&self) -> f64 {
        self.allowed.min(self.full)
    }

    /// Current rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.now() as u64)
    }

    /// Current rate as a share of the full rate, 0 to 1.
    pub fn part(&self) -> f64 {
        if self.full > 0.0 {
            (self.now() / self.full).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::{Random, Seed};
    use proptest::prelude::*;

    use super::*;

    /// A pipe that gives the essential flow what it asks for and drops the excess.
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

    /// The same with some 100 packets an interval, each of which is also lost by chance with probability `own`.
    fn noisy(capacity: f64, target: f64, enhanced: f64, (own, random): (f64, &mut Random)) -> Seen {
        let seen = pipe(capacity, target, enhanced);
        let lost = (0..100)
            .filter(|_| random.unit() < own + (1.0 - own) * seen.enhanced_loss)
            .count();
        let loss = lost as f64 / 100.0;
        Seen {
            enhanced: Rate::from_bps((enhanced * (1.0 - loss)) as u64),
            enhanced_loss: loss,
            ..seen
        }
    }

    /// The paper's example: 0.134 and 0.361 Mbit/s over 0.4.
    #[test]
    fn it_yields_what_the_essential_flow_needs_and_little_more() {
        let mut yielding = Yielding::new(Rate::from_kbps(361));
        let (mut lost, mut sent, mut least) = (0.0, 0.0, f64::INFINITY);
        for interval in 0..300 {
            let rate = yielding.rate().as_bps() as f64;
            if interval > 3 {
                least = rate.min(least);
            }
            let seen = pipe(400e3, 134e3, rate);
            lost += seen.enhanced_loss * rate;
            sent += rate;
            yielding.observe(seen);
        }
        assert!(least > 0.95 * 266e3, "{least}");
        assert!(sent < 300.0 * 267e3, "{sent}");
        assert!(lost < 0.005 * sent, "{}", lost / sent);
    }

    /// The sum of both flows stays while the targets of segments differ.
    #[test]
    fn what_the_essential_flow_takes_more_the_enhanced_one_takes_less() {
        let mut yielding = Yielding::new(Rate::from_kbps(400));
        let mut run = |intervals, target: f64| {
            let mut worst: f64 = 0.0;
            for _ in 0..intervals {
                let seen = pipe(400e3, target, yielding.rate().as_bps() as f64);
                worst = worst.max(seen.enhanced_loss);
                yielding.observe(seen);
            }
            (worst, yielding.rate().as_bps() as f64)
        };
        run(20, 100e3);
        // One interval suffices to find the new target.
        let (_, rate) = run(1, 150e3);
        assert!((225e3..256e3).contains(&rate), "{rate}");
        let (worst, _) = run(40, 150e3);
        assert!(worst < 0.06, "{worst}");
        // A segment has arrived early: its rate stays reserved for the next.
        let (_, rate) = run(RESERVED, 0.0);
        assert!(rate < 256e3, "{rate}");
        // There is no next.
        let (_, rate) = run(20, 0.0);
        assert!(rate > 375e3, "{rate}");
    }

    #[test]
    fn it_returns_when_the_pipe_is_wide_again() {
        let mut yielding = Yielding::new(Rate::from_kbps(361));
        for _ in 0..20 {
            let rate = yielding.rate().as_bps() as f64;
            yielding.observe(pipe(300e3, 134e3, rate));
        }
        assert!(yielding.part() < 0.5);
        let mut intervals = 0;
        while yielding.part() < 1.0 {
            let rate = yielding.rate().as_bps() as f64;
            yielding.observe(pipe(600e3, 134e3, rate));
            intervals += 1;
            assert!(intervals < 60);
        }
        yielding.set_full(Rate::from_kbps(100));
        assert_eq!(yielding.rate(), Rate::from_kbps(100));
    }

    /// On a wide pipe that loses 3 % whatever is sent, yielding would be in vain; a real lack of capacity is still
    /// detected there.
    #[test]
    fn losses_of_the_path_itself_are_tolerated() {
        for seed in 0..20 {
            let mut random = Seed(seed).stream("losses");
            let mut yielding = Yielding::new(Rate::from_kbps(361));
            let mut run = |intervals, capacity, own| {
                let mut sum = 0.0;
                for _ in 0..intervals {
                    let rate = yielding.rate().as_bps() as f64;
                    sum += rate / 361e3 / f64::from(intervals);
                    yielding.observe(noisy(capacity, 134e3, rate, (own, &mut random)));
                }
                sum
            };
            run(100, 600e3, 0.03);
            let wide = run(400, 600e3, 0.03);
            assert!(wide > 0.8, "seed {seed}: {wide}");
            run(50, 400e3, 0.03);
            let narrow = run(200, 400e3, 0.03);
            assert!((0.6..0.78).contains(&narrow), "seed {seed}: {narrow}");
        }
    }

    proptest! {
        /// On any pipe, the rate never exceeds the full rate, and in the end both flows fit.
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
            // Where next to nothing fits, the smallest step is much of it.
            let least = STEP[0] * LOW * 500e3;
            let lost_share = lost / sent;
            prop_assert!(lost <= (0.005 * sent).max(300.0 * least), "{lost_share}");
            let fits = (capacity - target).min(500e3);
            prop_assert!(sent / 300.0 >= 0.9 * fits - least, "{sent} {fits}");
        }
    }
}
