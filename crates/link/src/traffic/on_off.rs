//! Pareto on–off sources, whose sum is self-similar.
//!
//! Willinger, Taqqu, Sherman, Wilson, "Self-similarity through high-variability" (1997): the sum of many
//! sources whose busy or silent times have a Pareto tail of shape α between 1 and 2 looks alike on all
//! time scales, with Hurst parameter H = (3 − α)/2. Sums of independent packets have H = ½.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use anabranch_base::{Instant, Random, Rate, Seed};

use super::{Arrival, Sizes};
pub use crate::limits::{ON_OFF_MAX, SHAPE_MAX};
use crate::{
    limits::{self, ConfigError},
    source,
};

/// The shortest mean period; it bounds the work for one packet.
pub const PERIOD_MIN: Duration = Duration::from_millis(1);

/// An aggregate of independent sources. Each sends evenly at its peak rate for a Pareto-distributed time and is silent
/// for another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParetoOnOff {
    /// Number of sources, 1 to [`ON_OFF_MAX`].
    pub sources: u32,
    /// The rate of one while it is on.
    pub peak: Rate,
    /// The mean time it is on, at least [`PERIOD_MIN`].
    pub on_mean: Duration,
    /// The mean time it is off, at least [`PERIOD_MIN`].
    pub off_mean: Duration,
    /// α of both times: above 1 (the mean exists), at most [`SHAPE_MAX`]. Measured traffic has 1.2 to 1.7.
    pub shape: f64,
    /// Distribution of packet sizes.
    pub sizes: Sizes,
}

impl ParetoOnOff {
    /// The rate of the aggregate over a long time: sources × peak × on / (on + off). With a heavy tail "long" is very
    /// long: the mean of n periods converges as n^(1/α − 1).
    pub fn mean(&self) -> Rate {
        self.peak * (f64::from(self.sources) * self.share_on())
    }

    /// The Hurst parameter of the aggregate, (3 − α)/2, and ½ from α = 2 on.
    pub fn hurst(&self) -> f64 {
        ((3.0 - self.shape) / 2.0).max(0.5)
    }

    /// The share of time for which a source is on.
    fn share_on(&self) -> f64 {
        let (on, off) = (self.on_mean.as_secs_f64(), self.off_mean.as_secs_f64());
        on / (on + off)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=ON_OFF_MAX).contains(&self.sources) {
            return Err(ConfigError::Sources {
                value: self.sources,
            });
        }
        if self.peak < source::RATE_MIN {
            return Err(ConfigError::RateTooLow {
                rate_bps: self.peak.as_bps(),
                lowest_bps: source::RATE_MIN.as_bps(),
            });
        }
        for (field, value) in [("on time", self.on_mean), ("off time", self.off_mean)] {
            limits::at_most(field, value, limits::DURATION_MAX)?;
            if value < PERIOD_MIN {
                return Err(ConfigError::Period {
                    field,
                    value,
                    least: PERIOD_MIN,
                });
            }
        }
        // Written so that NaN is rejected, too.
        if !(self.shape > 1.0 && self.shape <= SHAPE_MAX) {
            return Err(ConfigError::Shape { value: self.shape });
        }
        self.sizes.validate()
    }

    /// A whole period, in nanoseconds: Pareto with this mean, by inversion.
    fn period_ns(&self, mean: Duration, random: &mut Random) -> u64 {
        let least_ns = mean.as_nanos() as f64 * (self.shape - 1.0) / self.shape;
        let tail = 1.0 - random.unit();
        (least_ns * tail.powf(-1.0 / self.shape)) as u64
    }

    /// Remaining time of a period as seen by an outside observer, in nanoseconds.
    ///
    /// Its density is (1 − F(x))/mean: flat up to the shortest period x_m, which has the share (α − 1)/α,
    /// and a Pareto tail of shape α − 1 beyond.
    fn rest_ns(&self, mean: Duration, random: &mut Random) -> u64 {
        let mean_ns = mean.as_nanos() as f64;
        let least_ns = mean_ns * (self.shape - 1.0) / self.shape;
        let unit = random.unit();
        if unit < (self.shape - 1.0) / self.shape {
            return (unit * mean_ns) as u64;
        }
        let tail = self.shape * (1.0 - unit);
        (least_ns * tail.powf(-1.0 / (self.shape - 1.0))) as u64
    }
}

/// State of the sources, the one with the next packet first.
#[derive(Debug, Clone)]
pub(super) struct Process {
    model: ParetoOnOff,
    sources: Vec<OnOff>,
    /// The time of the next packet and the index of its source.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

/// One source.
#[derive(Debug, Clone)]
struct OnOff {
    random: Random,
    /// Time at which its last packet was sent, or its on time began.
    at_ns: u64,
    /// Time at which its on time ends.
    on_until_ns: u64,
    /// The packet that it sends next.
    bytes: usize,
}

impl Process {
    /// Begins in the steady state: each source is on with its long-run share, with the remaining period that it has on
    /// average then, so there is no initial transient.
    pub(super) fn new(model: ParetoOnOff, begin: Instant, seed: Seed) -> Self {
        let mut process = Self {
            model,
            sources: Vec::with_capacity(model.sources as usize),
            next: BinaryHeap::with_capacity(model.sources as usize),
        };
        for index in 0..model.sources as usize {
            let mut source = OnOff::new(&model, begin, seed.stream(&format!("on-off {index}")));
            // The first packet has also been in transmission for a while.
            let share = source.random.unit();
            process
                .next
                .push(Reverse((source.advance(&model, share), index)));
            process.sources.push(source);
        }
        process
    }

    pub(super) fn next(&mut self) -> Arrival {
        let mut top = self.next.peek_mut().expect("there is at least one source");
        let Reverse((at_ns, index)) = *top;
        let source = &mut self.sources[index];
        let bytes = source.bytes;
        *top = Reverse((source.advance(&self.model, 1.0), index));
        Arrival {
            at: Instant::from_nanos(at_ns),
            bytes,
        }
    }
}

impl OnOff {
    fn new(model: &ParetoOnOff, begin: Instant, mut random: Random) -> Self {
        let begin_ns = begin.as_nanos();
        let (at_ns, on_until_ns) = if random.chance(model.share_on()) {
            let rest = model.rest_ns(model.on_mean, &mut random);
            (begin_ns, begin_ns.saturating_add(rest))
        } else {
            let at = begin_ns.saturating_add(model.rest_ns(model.off_mean, &mut random));
            let on = model.period_ns(model.on_mean, &mut random);
            (at, at.saturating_add(on))
        };
        Self {
            random,
            at_ns,
            on_until_ns,
            bytes: 0,
        }
    }

    /// Draws the next packet and returns the time at which it is sent. A packet needs its transmission time at the peak
    /// rate; a packet that does not fit an on time is continued in the next, so the long-run rate is exact. `share` of
    /// the packet is still to be sent.
    fn advance(&mut self, model: &ParetoOnOff, share: f64) -> u64 {
        self.bytes = model.sizes.draw(&mut self.random);
        let time = model.peak.time_to_send(self.bytes as u64);
        let mut need_ns = (time.as_nanos() as f64 * share) as u64;
        while self.on_until_ns < u64::MAX {
            let left_ns = self.on_until_ns - self.at_ns;
            if need_ns <= left_ns {
                self.at_ns += need_ns;
                return self.at_ns;
            }
            need_ns -= left_ns;
            let off_ns = model.period_ns(model.off_mean, &mut self.random);
            let on_ns = model.period_ns(model.on_mean, &mut self.random);
            self.at_ns = self.on_until_ns.saturating_add(off_ns);
            self.on_until_ns = self.at_ns.saturating_add(on_ns);
        }
        u64::MAX
    }
}
