//! Transmitter: the time at which a packet's last bit leaves, by integration of the rate source from the transmitter's
//! position.
//!
//! Work is counted in bit·nanoseconds per second ("work": a bit is 10⁹ of it, a nanosecond at r bit/s does r of it), so
//! no rounding error accumulates: a packet departs at the first whole nanosecond by which its work is done, and the
//! excess work of that nanosecond goes to the next packet.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};

use crate::{
    RateSource,
    source::{Playback, Walk},
    trace::Shape,
};

/// The work of one bit.
const BIT: u128 = 1_000_000_000;

/// A rate source in use. Each packet costs O(1), amortised over the trace's steps.
#[derive(Debug, Clone)]
pub(crate) struct Transmitter {
    kind: Kind,
    /// Time at which the source's own time was zero.
    origin: Instant,
    /// Time at which everything accepted so far has left.
    free_at: Instant,
    /// Work already done for the next packet, if it was waiting at `free_at`.
    credit: u128,
}

#[derive(Debug, Clone)]
enum Kind {
    Unlimited,
    Constant(Rate),
    Walk {
        walk: Walk,
        seed: Seed,
    },
    Steps {
        playback: Playback,
        period_ns: u64,
        period_work: u128,
        /// The step used last, where the search begins.
        index: usize,
    },
    Opportunities {
        playback: Playback,
        period_ns: u64,
        /// The opportunity used last, counted through all laps of the trace, and the bytes that it can still carry.
        used: Option<(u64, u64)>,
    },
}

impl Transmitter {
    /// An idle transmitter; the source's time begins at `origin`.
    ///
    /// The source has been validated: some rate of it is above zero.
    pub(crate) fn new(source: &RateSource, origin: Instant, seed: Seed) -> Self {
        let kind = match source {
            RateSource::Unlimited => Kind::Unlimited,
            RateSource::Constant(rate) => Kind::Constant(*rate),
            RateSource::Walk(walk) => Kind::Walk { walk: *walk, seed },
            RateSource::Trace(playback) => {
                let playback = playback.clone();
                let period_ns = nanos(playback.trace.duration());
                match playback.trace.shape() {
                    Shape::Steps(_) => Kind::Steps {
                        period_work: period_work(&playback),
                        playback,
                        period_ns,
                        index: 0,
                    },
                    Shape::Opportunities(_) => Kind::Opportunities {
                        playback,
                        period_ns,
                        used: None,
                    },
                }
            }
        };
        Self {
            kind,
            origin,
            free_at: origin,
            credit: 0,
        }
    }

    /// Time at which everything accepted so far has left.
    pub(crate) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Sends a packet offered at `now` after everything accepted before it; returns the time at which its last bit
    /// leaves ([`Instant::FAR_FUTURE`] if that is beyond all time).
    pub(crate) fn send(&mut self, now: Instant, bytes: u64) -> Instant {
        if now >= self.free_at {
            self.free_at = now;
            self.credit = 0;
        }
        self.free_at = match &mut self.kind {
            Kind::Unlimited => self.free_at,
            Kind::Opportunities { .. } => self.send_by_opportunity(bytes),
            Kind::Constant(_) | Kind::Walk { .. } | Kind::Steps { .. } => self.send_by_rate(bytes),
        };
        self.free_at
    }

    /// Discards the packets that were accepted and have not left at `now`.
    pub(crate) fn cut(&mut self, now: Instant) {
        if self.free_at > now {
            self.rest(now);
        }
    }

    /// Replaces the source from `now` on; accepted packets leave as predicted.
    pub(crate) fn exchange(&mut self, source: &RateSource, now: Instant, seed: Seed) {
        let busy_until = self.free_at;
        *self = Self::new(source, now, seed);
        if busy_until > now {
            self.rest(busy_until);
        }
    }

    /// The rate at `now`; `None` when unlimited.
    pub(crate) fn rate_at(&self, now: Instant) -> Option<Rate> {
        match &self.kind {
            Kind::Unlimited => None,
            Kind::Opportunities { playback, .. } => {
                let position = now.since(self.origin) + playback.start;
                Some(playback.trace.rate_at(position) * playback.scale)
            }
            Kind::Constant(_) | Kind::Walk { .. } | Kind::Steps { .. } => {
                let (rate_bps, _) = self.clone().segment(now);
                Some(Rate::from_bps(rate_bps))
            }
        }
    }

    /// Becomes idle at `now`.
    fn rest(&mut self, now: Instant) {
        self.free_at = now;
        self.credit = 0;
        if let Kind::Opportunities { used, .. } = &mut self.kind {
            // The next packet uses the first opportunity from `now` on.
            *used = None;
        }
    }

    fn send_by_rate(&mut self, bytes: u64) -> Instant {
        let mut work = u128::from(bytes) * 8 * BIT;
        let done = work.min(self.credit);
        work -= done;
        self.credit -= done;
        if work == 0 {
            return self.free_at;
        }
        let mut at = self.free_at;
        if let Kind::Steps {
            period_ns,
            period_work,
            ..
        } = &self.kind
        {
            // Whole laps of the trace do the same work from any position.
            let laps = (work - 1) / period_work;
            work -= laps * period_work;
            at += Duration::from_nanos(
                u64::try_from(laps * u128::from(*period_ns)).unwrap_or(u64::MAX),
            );
        }
        while at < Instant::FAR_FUTURE {
            let (rate_bps, until) = self.segment(at);
            let rate = u128::from(rate_bps);
            let possible = rate * until.since(at).as_nanos();
            if work <= possible {
                // `possible` is above zero, so the rate is.
                let nanos = work.div_ceil(rate);
                self.credit = nanos * rate - work;
                return at + Duration::from_nanos(nanos as u64);
            }
            work -= possible;
            at = until;
        }
        Instant::FAR_FUTURE
    }

    /// The rate at `at` in bits per second and the first time at which it may differ.
    fn segment(&mut self, at: Instant) -> (u64, Instant) {
        let since_ns = nanos(at.since(self.origin));
        match &mut self.kind {
            Kind::Unlimited | Kind::Opportunities { .. } => unreachable!("has no segments"),
            Kind::Constant(rate) => (rate.as_bps(), Instant::FAR_FUTURE),
            Kind::Walk { walk, seed } => {
                let every_ns = nanos(walk.every);
                let step = since_ns / every_ns;
                let left = Duration::from_nanos(every_ns - since_ns % every_ns);
                (drawn_bps(walk, *seed, step), at + left)
            }
            Kind::Steps {
                playback,
                period_ns,
                index,
                ..
            } => {
                let Shape::Steps(steps) = playback.trace.shape() else {
                    unreachable!("the kind follows the shape");
                };
                let position =
                    (u128::from(since_ns) + playback.start.as_nanos()) % u128::from(*period_ns);
                let position = Duration::from_nanos(position as u64);
                let end_of = |index: usize| {
                    steps
                        .get(index + 1)
                        .map_or(playback.trace.duration(), |next| next.at)
                };
                let holds = |index: usize| {
                    index < steps.len() && steps[index].at <= position && position < end_of(index)
                };
                if !holds(*index) {
                    let next = (*index + 1) % steps.len();
                    *index = if holds(next) {
                        next
                    } else {
                        steps.partition_point(|step| step.at <= position) - 1
                    };
                }
                let rate_bps = playback.scaled_bps(steps[*index].rate);
                (rate_bps, at + (end_of(*index) - position))
            }
        }
    }

    fn send_by_opportunity(&mut self, bytes: u64) -> Instant {
        let Kind::Opportunities {
            playback,
            period_ns,
            used,
        } = &mut self.kind
        else {
            unreachable!("called for opportunities only");
        };
        let Shape::Opportunities(times) = playback.trace.shape() else {
            unreachable!("the kind follows the shape");
        };
        let period = u128::from(*period_ns);
        let start = playback.start.as_nanos() % period;
        let size = playback.opportunity_bytes();
        let count = times.len() as u64;
        let time_of = |number: u64| {
            let lap = u128::from(number / count);
            lap * period + times[(number % count) as usize].as_nanos()
        };

        let ready = self.free_at.since(self.origin).as_nanos() + start;
        let first = first_from(times, period, ready);
        let (current, left_bytes) = match *used {
            Some((number, left_bytes)) if number >= first => (number, left_bytes),
            _ => (first, size),
        };
        let more = bytes.saturating_sub(left_bytes).div_ceil(size);
        *used = Some((current + more, left_bytes + more * size - bytes));
        let nanos = time_of(current + more) - start;
        self.origin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The number, counted through all laps, of the first opportunity at or after `position`.
///
/// The last opportunity of a lap falls on the lap's end, so a position on a border belongs to the lap
/// before.
fn first_from(times: &[Duration], period: u128, position: u128) -> u64 {
    let (lap, within) = match (position / period, position % period) {
        (lap, 0) if lap > 0 => (lap - 1, period),
        (lap, within) => (lap, within),
    };
    let index = times.partition_point(|time| time.as_nanos() < within);
    (lap * times.len() as u128 + index as u128) as u64
}

/// The rate of a walk's step. Drawn by the step's number, so that traffic does not change it.
fn drawn_bps(walk: &Walk, seed: Seed, step: u64) -> u64 {
    let spread_seed = seed.0 ^ step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let deviation = Seed(spread_seed).stream("walk").uniform(-1.0, 1.0);
    (walk.base.as_bps() as f64 * (1.0 + walk.spread * deviation)).round() as u64
}

/// The work one lap of the trace does.
fn period_work(playback: &Playback) -> u128 {
    let trace = &playback.trace;
    let Shape::Steps(steps) = trace.shape() else {
        return 0;
    };
    let ends = steps.iter().skip(1).map(|step| step.at);
    steps
        .iter()
        .zip(ends.chain([trace.duration()]))
        .map(|(step, end)| u128::from(playback.scaled_bps(step.rate)) * (end - step.at).as_nanos())
        .sum()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
