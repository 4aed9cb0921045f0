//! `verb`: a rate on plateaus, for channels whose rate is steady and known by their technology, and whose round trips
//! show a queue long before a deep buffer overflows [Horde §7.4.1].
//!
//! | the thesis | here |
//! |---|---|
//! | a coarse timer resets the rate to the goodput of the period before | `period.rs`, `end_period` |
//! | growing round trips make it back off before anything is lost | `delay.rs`, `end_round` |
//! | within a plateau it increases slowly, by AIMD that is not aggressive | `edge`, `on_congestion` |
//! | once stable, it tries the next plateau | `climb` |
//! | at the top plateau it does not probe | `climb`: there is none above |
//!
//! The thesis gives no constants but the plateaus; the values that had to be chosen are listed in
//! `spec/deviations.toml` (`verb-…`).

mod delay;
mod period;

use std::time::{Duration, Instant};

use self::{
    delay::Delay,
    period::{Period, Verdict},
};
use super::{Ack, Congestion, Control, Lost, QueueGoal};
use crate::config;

/// Factor on the measured goodput when round trips have grown: the rest drains the queue.
const BACKOFF: f64 = 0.85;
/// Lowest factor on the rate in one back-off.
const BACKOFF_MIN: f64 = 0.5;
/// Consecutive back-offs after which a longer round trip is not caused by our queue.
const BACKOFFS_MAX: u32 = 6;
/// Fraction of the distance to the next plateau gained by edging in each round trip.
const EDGE: f64 = 1.0 / 16.0;
/// Most plateaus climbed at once.
const STRIDE_MAX: u32 = 4;
/// Maximum number of stable periods before the next plateau is tried again.
const WAIT_MAX: u32 = 8;
/// Fewest packets that may be in flight.
const WINDOW_MIN_PACKETS: f64 = 4.0;
/// Silence that is longer than that of a slow path: seconds, round trips, packets.
const SILENCE: (f64, f64, f64) = (0.4, 3.0, 4.0);
/// Assumed round trip before the first is known, in seconds.
const RTT_INITIAL_S: f64 = 0.3;

#[derive(Debug)]
pub(super) struct Verb {
    parameters: config::Verb,
    mtu: f64,
    /// Bytes per second.
    rate: f64,
    /// Bytes that may be in flight before the first round trip is known.
    window_initial: f64,
    /// The rate doubles each round trip.
    starting: bool,
    goal: QueueGoal,
    share: f64,
    delay: Delay,
    period: Option<Period>,
    /// Time before which packets sent are ignored, because the path was silent.
    deaf_until: Option<Instant>,
    acked_at: Option<Instant>,
    /// Stable periods at this plateau, and the number required before a climb.
    stable: u32,
    wait: u32,
    /// Plateaus of the next climb.
    stride: u32,
    /// The last period began with a climb.
    is_trying: bool,
    backoffs: u32,
    /// Goodput of the last period, and the rate to return to when the queue has drained.
    goodput: f64,
    carried: Option<f64>,
}

impl Verb {
    pub(super) fn new(parameters: config::Verb, window: u64, mtu: u16) -> Self {
        let span = parameters.period / 4;
        Self {
            mtu: f64::from(mtu.max(1)),
            rate: parameters.start.as_bytes_per_s(),
            window_initial: window as f64,
            starting: true,
            goal: QueueGoal::default(),
            share: 1.0,
            delay: Delay::new(span),
            period: None,
            deaf_until: None,
            acked_at: None,
            stable: 0,
            wait: 1,
            stride: 1,
            is_trying: false,
            backoffs: 0,
            goodput: 0.0,
            carried: None,
            parameters,
        }
    }

    /// Growth of the round trip that is tolerated, in seconds.
    fn rise_s(&self) -> f64 {
        let part = match self.goal {
            QueueGoal::Full | QueueGoal::Within(_) => 1.0,
            QueueGoal::Steady => 0.7,
            QueueGoal::Short => 0.5,
        };
        self.parameters.rise.as_secs_f64() * part * self.share
    }

    fn rtt_s(&self) -> f64 {
        self.delay.mean_s().unwrap_or(RTT_INITIAL_S)
    }

    /// Time over which goodput is measured: the coarse timer, but one round trip during the start, or as long as a
    /// round takes.
    fn period_length(&self) -> Duration {
        let rtt = Duration::from_secs_f64(self.rtt_s().min(10.0));
        if self.starting {
            rtt.max(self.parameters.period / 4)
        } else {
            self.parameters.period.max(rtt * 2)
        }
    }

    /// True if round trips have grown by half of what is tolerated.
    fn has_queue(&self) -> bool {
        self.delay.is_above(self.rise_s() / 2.0)
    }

    /// True if so many packets were lost that the channel is overfull. While there is a queue, it is the likely cause
    /// of a loss: then a tenth of the usual tolerance is too much.
    fn is_lossy(&self, period: &Period) -> bool {
        let tolerated = self.parameters.loss;
        period.is_lossy(tolerated) || self.has_queue() && period.is_lossy(tolerated / 10.0)
    }

    fn set_rate(&mut self, rate: f64) {
        let plateaus = &self.parameters.plateaus;
        let (first, last) = (
            plateaus.first.as_bytes_per_s(),
            plateaus.last.as_bytes_per_s(),
        );
        self.rate = rate.clamp(first, last);
    }

    /// The plateau above `rate`, both in bytes per second.
    fn above(&self, rate: f64) -> f64 {
        self.parameters.plateaus.above(rate * 8.0) / 8.0
    }

    fn end_period(&mut self, now: Instant, period: &Period, verdict: Verdict) {
        let is_calm = !self.is_lossy(period) && !self.delay.is_above(self.rise_s());
        let was_trying = std::mem::take(&mut self.is_trying);
        self.goodput = verdict.goodput;
        if period.is_limited {
            // Data that the application did not send gives no information about the channel.
        } else if is_calm && verdict.keeps_up {
            self.backoffs = 0;
            match self.carried {
                Some(carried) if !self.has_queue() => {
                    self.carried = None;
                    self.set_rate(self.rate.max(carried));
                }
                Some(_) => {}
                None => self.climb(was_trying),
            }
        } else if self.starting {
            self.starting = false;
            let start = self.parameters.start.as_bytes_per_s();
            self.set_rate(verdict.goodput.max(start));
        } else if !is_calm || self.has_queue() {
            self.give_up(was_trying);
            // The coarse reset: to what the channel evidently carries, or less while it has a queue.
            let part = if self.has_queue() { BACKOFF } else { 1.0 };
            self.carried = None;
            self.set_rate(self.rate.min(part * verdict.goodput));
        }
        self.period = Some(Period::new(now, self.rate));
    }

    /// Tries a higher rate: the channel carries this one.
    fn climb(&mut self, was_trying: bool) {
        if self.starting {
            self.set_rate(self.rate * 2.0);
            self.is_trying = true;
            return;
        }
        if was_trying {
            // The plateau is viable; perhaps the next ones are as well.
            self.wait = 1;
            self.stride = (self.stride * 2).min(STRIDE_MAX);
        }
        self.stable += 1;
        if f64::from(self.stable) * self.share >= f64::from(self.wait) {
            self.stable = 0;
            let mut rate = self.rate;
            for _ in 0..self.stride {
                rate = self.above(rate);
            }
            self.is_trying = rate > self.rate;
            self.set_rate(rate);
        }
    }

    /// Gives up a rate that was too high: waits longer before the next attempt.
    fn give_up(&mut self, was_trying: bool) {
        self.stable = 0;
        self.stride = 1;
        if was_trying {
            self.wait = (self.wait * 2).min(WAIT_MAX);
        }
    }

    /// Backs off to below what the channel delivers, before anything is lost.
    fn back_off(&mut self, now: Instant, delivered: f64) {
        self.starting = false;
        let was_trying = std::mem::take(&mut self.is_trying);
        self.give_up(was_trying);
        self.backoffs += 1;
        if self.backoffs > BACKOFFS_MAX {
            self.backoffs = 0;
            self.delay.forget(now);
            return;
        }
        // The delivery of a round varies with the technology; the period before is more reliable, unless the channel
        // has evidently become slower since.
        let carried = match self.backoffs {
            1 => self.rate.min(delivered.max(self.goodput)),
            _ => self.rate.min(delivered),
        };
        self.carried = Some(carried);
        self.set_rate((BACKOFF * carried).max(BACKOFF_MIN * self.rate));
        self.period = Some(Period::new(now, self.rate));
        self.delay.restart(now);
    }

    /// Sends little for a period, to see the shortest round trip again.
    fn drain(&mut self, now: Instant) {
        self.is_trying = false;
        self.carried
            .get_or_insert(self.rate.min(self.goodput.max(BACKOFF * self.rate)));
        self.set_rate(BACKOFF_MIN * self.rate);
        self.period = Some(Period::new(now, self.rate));
        self.delay.restart(now);
    }

    /// Increases the rate within the plateau.
    fn edge(&mut self, bytes: u64) {
        let Some(period) = &self.period else {
            return;
        };
        let ceiling = self.above(period.rate);
        if self.rate >= ceiling {
            return;
        }
        let rounds = bytes as f64 / (self.rate * self.rtt_s()).max(self.mtu);
        let gained = EDGE * self.share * (ceiling - period.rate) * rounds;
        self.set_rate((self.rate + gained).min(ceiling));
    }

    /// True if the path was silent for longer than a slow one is.
    fn is_after_silence(&self, now: Instant) -> bool {
        let (seconds, round_trips, packets) = SILENCE;
        let timeout = seconds
            .max(round_trips * self.rtt_s())
            .max(packets * self.mtu / self.rate);
        self.acked_at
            .is_some_and(|at| now.saturating_duration_since(at).as_secs_f64() > timeout)
    }

    fn on_round_trip(&mut self, ack: &Ack<'_>) {
        let has_queue = self.has_queue();
        let period = self
            .period
            .get_or_insert_with(|| Period::new(ack.sent, self.rate));
        period.on_ack(ack.now, ack.sent, ack.bytes, ack.app_limited);
        if !self.starting && !has_queue && !ack.app_limited && !ack.is_capped {
            self.edge(ack.bytes);
        }
        let rise_s = self.rise_s();
        if let Some(round) = self.delay.on_ack(ack.now, ack.sent, ack.bytes, rise_s) {
            if self.delay.is_above(rise_s) && !round.is_falling {
                self.back_off(ack.now, round.delivered);
                return;
            }
            if self.delay.is_stale(ack.now) {
                self.drain(ack.now);
                return;
            }
        }
        if let Some(period) = self.period
            && let Some(verdict) = period.end(ack.now, self.period_length(), self.rate, self.mtu)
        {
            self.end_period(ack.now, &period, verdict);
        }
    }
}

impl Control for Verb {
    fn on_sent(&mut self, _now: Instant, _bytes: u16, _packet: u64) {}

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if self.is_after_silence(ack.now) {
            self.deaf_until = Some(ack.now);
            self.delay.restart(ack.now);
            self.period = Some(Period::new(ack.now, self.rate));
        }
        self.acked_at = Some(ack.now);
        if self.deaf_until.is_none_or(|until| ack.sent >= until) {
            self.on_round_trip(ack);
        }
    }

    fn on_lost(&mut self, lost: &Lost) {
        if let Some(period) = self.period.as_mut().filter(|_| !lost.is_forgiven) {
            period.on_lost(lost.bytes);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if self.deaf_until.is_some_and(|until| event.sent < until) {
            return;
        }
        if event.is_persistent {
            // Nothing came through at all; measure the channel's rate anew.
            self.set_rate(BACKOFF_MIN * self.rate);
            self.give_up(false);
            self.starting = true;
            self.period = Some(Period::new(event.now, self.rate));
            self.delay.restart(event.now);
            return;
        }
        let Some(period) = &self.period else {
            return;
        };
        if event.sent < period.since {
            return;
        }
        if event.is_ecn || self.is_lossy(period) {
            let rate = self.rate;
            self.back_off(event.now, rate);
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = f64::from(mtu.max(1));
    }

    fn set_queue_goal(&mut self, goal: QueueGoal) {
        self.goal = goal;
    }

    fn set_share(&mut self, share: f64) {
        self.share = share.clamp(0.01, 1.0);
    }

    /// Capacity of the channel plus twice the queue at which it backs off: it bounds the data sent on a channel that
    /// falls silent.
    fn window(&self) -> u64 {
        let least = WINDOW_MIN_PACKETS * self.mtu;
        let Some(rtt_s) = self.delay.least_s() else {
            return self.window_initial.max(least) as u64;
        };
        (self.rate * (rtt_s + 2.0 * self.rise_s()) + least) as u64
    }

    fn pacing_rate(&self, _rtt_smoothed_s: f64) -> f64 {
        self.rate
    }

    fn is_starting(&self) -> bool {
        self.starting
    }
}
