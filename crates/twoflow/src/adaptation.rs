//! Adaptation: the rate of the enhanced flow while the pipe is narrower than both flows [Two-flow §6, Figure 14].
//!
//! When the pipe shrinks the enhanced flow yields first. It gives up as much as did not fit: the share of it that was lost, and what
//! the essential flow lacked. Then it feels its way back: a step upwards that costs packets is taken back at once, and the next is
//! tried later. Loss that goes on however far the flow yields is the path's own, and is no reason to yield.

use anabranch_base::Rate;

/// Smoothed share of enhanced packets lost, beyond the path's own, that is taken for a pipe that is too narrow.
const LOSS_MAX: f64 = 0.02;
/// The same for the mean over [`LONG`] intervals at one rate, which chance moves less.
const LOSS_LONG: f64 = 0.003;
const LONG: u32 = 8;
/// Essential rate over its target below which, in two intervals on end, the pipe is too narrow: a flow that has just begun or ended
/// had less in one.
const NEAR: f64 = 0.95;
/// Weight of an interval in losses: a packet that is lost by chance, or counted an interval later, is no sign.
const WEIGHT: f64 = 0.3;
/// Of the rate at which there was a sign last, what is near to it. Below, steps need no patience.
const WALL: f64 = 0.95;
/// Share of packets, mean of the first interval and of the first two after a step, that tells that it was one too many.
const TRIAL: [f64; 2] = [0.03, 0.015];
/// Of the rate, what one sign leaves at least.
const KEPT: f64 = 0.3;
/// Given up beyond what did not fit, as a share of the rate: the rest empties the queue.
const MARGIN: f64 = 0.01;
/// A step, as a share of the rate: the first ones upwards, and the largest after several that held. A rate below this share of
/// the full one counts as that.
const STEP: [f64; 2] = [0.02, 0.08];
const LOW: f64 = 0.1;
/// Steps in a row that must hold before they grow, and come sooner.
const HELD: u32 = 3;
/// Intervals without a sign before a step upwards: at first, and at most, as steps fail.
const BACKOFF: [u32; 2] = [2, 64];
/// Loss may be called the path's own up to here; beyond, nothing is known.
const OWN_MAX: f64 = 0.1;
/// Weight of [`LONG`] intervals in it, that lost less, and more.
const OWN_WEIGHT: [f64; 2] = [0.25, 0.1];
/// Yielding has changed nothing: what it has cut, as a share, beyond twice the loss, and how much of the loss is still there.
const IN_VAIN: (f64, f64) = (0.05, 0.5);
/// Intervals for which the room of an essential flow that has nothing to send is kept: segments end a little early.
const RESERVED: u32 = 16;

/// What was seen of both flows in an interval of about a second or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// What the essential flow is to have; zero while it has nothing to send.
    pub essential_target: Rate,
    /// What of it arrived.
    pub essential: Rate,
    /// What of the enhanced flow arrived.
    pub enhanced: Rate,
    /// Share of the enhanced packets that were lost, 0 to 1.
    pub enhanced_loss: f64,
}

/// The rate of one enhanced flow, or of all those of a pipe together.
#[derive(Clone, Debug)]
pub struct Yielding {
    full: f64,
    /// What the pipe leaves to the enhanced flow; infinite before anything tells otherwise.
    allowed: f64,
    /// Essential target beside which that is, and intervals for which there was none.
    reserve: f64,
    idle: u32,
    /// Smoothed share of enhanced packets lost.
    loss: f64,
    /// What the essential flow lacked in the last interval, in bits per second.
    lacked: f64,
    /// The path's own loss.
    own: f64,
    /// What was allowed when there was a sign last; infinite before.
    wall: f64,
    level: Level,
    /// The running series of cuts: the rate before it and the loss that began it.
    cuts: Option<(f64, f64)>,
    /// What was allowed before the step that is being tried.
    tried: Option<f64>,
    /// Number of intervals without a sign that the next step takes.
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
    /// At its full rate.
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

    /// Another full rate, of another segment. What the pipe leaves does not change with it.
    pub fn set_full(&mut self, full: Rate) {
        self.full = full.as_bps() as f64;
    }

    /// An interval is over; the rate from now on. O(1).
    pub fn observe(&mut self, seen: Seen) -> Rate {
        let target = seen.essential_target.as_bps() as f64;
        if self.make_room(target) {
            // What was lost, was lost to what is known now.
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
            // Upwards slowly, and only where yielding was in vain: else it would grow with what the flow itself loses.
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

    /// Keeps what the pipe carries of both flows together as the essential flow's target changes; true if the rate fell by it.
    fn make_room(&mut self, target: f64) -> bool {
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

    /// Losses are a sign, unless they were there whatever the flow did.
    fn yield_to(&mut self, loss: f64) {
        if let Some((rate, first)) = self.cuts {
            let (beyond, left) = IN_VAIN;
            let is_far = self.now() < rate * (1.0 - beyond - 2.0 * first);
            if self.level.mean() < self.own + left * first {
                // It was not: what is lost now is another matter.
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

    /// The step was one too many.
    fn take_back(&mut self, before: f64) {
        self.wall = self.allowed;
        self.set(before);
        self.backoff = (self.backoff * 2).min(BACKOFF[1]);
        self.held = 0;
        self.step = STEP[0];
    }

    /// The step held.
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

    /// What steps are shares of.
    fn unit(&self) -> f64 {
        self.now().max(LOW * self.full)
    }

    fn now(&self) -> f64 {
        self.allowed.min(self.full)
    }

    /// The rate now.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.now() as u64)
    }

    /// Of the full rate, 0 to 1.
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

    /// The same with some 100 packets an interval, each of which is lost by chance with the share `own`, too.
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

    /// Targets of segments differ: what both flows have together stays.
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
        // One interval finds the new target, no more.
        let (_, rate) = run(1, 150e3);
        assert!((225e3..256e3).contains(&rate), "{rate}");
        let (worst, _) = run(40, 150e3);
        assert!(worst < 0.06, "{worst}");
        // A segment has arrived early: its room is kept for the next.
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

    /// On a wide pipe that loses 3 % whatever is sent, yielding would be in vain; and what such a pipe really lacks is still seen.
    #[test]
    fn losses_of_the_path_itself_are_borne() {
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
            // Where next to nothing fits, the smallest step is much of it.
            let least = STEP[0] * LOW * 500e3;
            let lost_share = lost / sent;
            prop_assert!(lost <= (0.005 * sent).max(300.0 * least), "{lost_share}");
            let fits = (capacity - target).min(500e3);
            prop_assert!(sent / 300.0 >= 0.9 * fits - least, "{sent} {fits}");
        }
    }
}
