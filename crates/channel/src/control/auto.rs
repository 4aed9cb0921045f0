//! The default controller: a model of the path (rate, shortest round trip) decides the window.
//!
//! The data in flight is held at `rate × (rtt_min + queue)`, where `queue` is a goal that the session sets: short if
//! latency-sensitive data shares the channel, longer if only throughput counts. Three parts:
//!
//! - **Start**: the window grows up to fourfold every round trip, as far as the previous flight came through
//!   (`train.rs`). When a flight arrives more slowly than it left, the rate of the path is known and the window is set
//!   to the model's. The start also ends when round trips show a queue (as HyStart++, RFC 9406, detects it), the rate
//!   stops growing, or many packets are lost.
//! - **Steady**: the window follows the model. The rate is the largest of the last [`RATE_LIFE_S`], the shortest round
//!   trip that of the last [`RTT_MIN_LIFE`], refreshed by draining for one round, below the model's product, because
//!   the rate may be less by then. The window also holds what packets usually take longer without a queue
//!   (`usual_rtt.rs`), and what acknowledgements wait on their way back (`returning.rs`).
//! - **Loss**: losses below [`LOSS_TOLERATED`](super::losses), judged over a sample of packets, are taken for noise of
//!   the path (radio), as BBR does with its 2 %; above it, or on an ECN mark, the window is reduced by [`BACKOFF`] and
//!   the queue goal shrinks, because the queue is evidently shorter than assumed.
//!
//! It yields to flows that fill the queue (CUBIC takes the larger share beside it); choose `cubic` where that matters.

use std::time::{Duration, Instant};

use super::{
    Ack, Congestion, Control, Lost, QueueGoal, filter::MaxFilter, losses::Losses,
    returning::Returning, train::Train,
};
use crate::config::Config;

/// Time over which the rate is the largest sample, in seconds: a rate that fell may return, and a window that followed
/// it down at once would leave the path idle then. A permanent drop shows in losses, which shorten the memory.
const RATE_LIFE_S: f64 = 3.0;
/// Fewest and most rounds of that memory.
const RATE_ROUNDS: (f64, f64) = (5.0, 20.0);
/// Queue goal of [`QueueGoal::Steady`] in seconds, beyond what late timers and batches of acknowledgements leave of a
/// short one.
const STEADY_QUEUE_S: f64 = 0.004;
/// The same in packets; and that of [`QueueGoal::Short`] on a path on which one packet takes far longer than the goal.
const QUEUE_PACKETS: f64 = 6.0;
/// Queue that [`QueueGoal::Within`] permits when the rate has fallen, as a fraction of what the path leaves of the
/// lifetime: if the rate falls to less than half once more, what is in the queue still arrives in time.
const WITHIN_FRACTION: f64 = 0.4;
/// Lifetime of a shortest-round-trip sample.
const RTT_MIN_LIFE: Duration = Duration::from_secs(10);
/// Window of the round in which the path drains, as a share of the product of rate and shortest round trip: the rate is
/// the largest recent sample, and may exceed the path's rate now. If the goal is a short queue, the product itself: the
/// window is hardly larger at any time, and a path that idles is measured to be slower.
const DRAIN: f64 = 0.75;
/// Window during the start, in products of rate and shortest round trip; about the 2 that a queue of one such product
/// would hold.
const START_GAIN: f64 = 2.3;
/// Pacing during the start, in windows per round trip: a fresh window leaves within a quarter of one.
const START_PACING_GAIN: f64 = 6.0;
/// Growth of the window for each byte acknowledged during the start: fourfold in a round.
const START_GROWTH_MAX: f64 = 3.0;
/// Lost packets of one round that end the start, whatever their share.
const START_LOST_MAX: f64 = 16.0;
/// Round trips sampled before a round's smallest is used (RFC 9406 §4.3).
const ROUND_SAMPLES: u32 = 8;
/// Factor on the window after losses that are not noise.
const BACKOFF: f64 = 0.9;
/// Queue goal of [`QueueGoal::Full`] as a fraction of the shortest round trip.
const FULL_QUEUE_FRACTION: f64 = 0.5;
/// Growth of the rate over three rounds below which the start is over.
const START_GROWTH: f64 = 1.25;

#[derive(Debug)]
pub(super) struct Auto {
    mtu: f64,
    window: f64,
    start: Start,
    goal: QueueGoal,
    /// Share of what one flow would take, and of its queue.
    share: f64,
    /// Queue goal of [`QueueGoal::Short`] in seconds.
    target_short_s: f64,
    batches: Batches,

    rate: MaxFilter,
    rtt_min_s: f64,
    rtt_min_at: Option<Instant>,
    /// Excess of the usual round trip over the shortest one.
    rtt_excess_s: f64,
    returning: Returning,
    round: Round,
    /// Rounds that were not held back by the application: the age of rates. The path's rate is not forgotten while
    /// little is sent over it.
    full_rounds: u64,
    draining: bool,

    losses: Losses,
    /// Scales the queue goal down while the queue proves shorter than assumed.
    goal_scale: f64,
    recovery_since: Option<Instant>,
}

/// Batches in which the receiver acknowledges, at most: the window has an allowance for them.
#[derive(Clone, Copy, Debug)]
struct Batches {
    packets: f64,
    delay_s: f64,
}

/// The start: growth until the rate of the path is known.
#[derive(Debug)]
struct Start {
    is_running: bool,
    /// Rate at the last check for growth, and rounds without growth since.
    rate: f64,
    stalled: u32,
    /// The running flight, for the rate of the path during the start.
    train: Train,
    /// The start has measured the rate of the path; the window has not reached the model's yet.
    is_filling: bool,
}

/// The running round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Smallest round trip of the running round, and of the last one.
    rtt_s: f64,
    samples: u32,
    last_rtt_s: f64,
    /// The `delivered` mark that ends the running round.
    ends_at: u64,
    /// Data of the running round was sent while there was more to send.
    is_loaded: bool,
    /// Packets lost in it.
    lost: f64,
}

impl Auto {
    pub(super) fn new(config: &Config, window: u64, mtu: u16) -> Self {
        Self {
            mtu: f64::from(mtu),
            window: window as f64,
            start: Start {
                is_running: true,
                rate: 0.0,
                stalled: 0,
                train: Train::default(),
                is_filling: false,
            },
            goal: QueueGoal::default(),
            share: 1.0,
            target_short_s: config.queue_target.as_secs_f64(),
            batches: Batches {
                packets: f64::from(config.ack_every_packets),
                delay_s: config.ack_delay_max.as_secs_f64(),
            },
            rate: MaxFilter::default(),
            rtt_min_s: f64::INFINITY,
            rtt_min_at: None,
            rtt_excess_s: 0.0,
            returning: Returning::new(),
            round: Round {
                rtt_s: f64::INFINITY,
                samples: 0,
                last_rtt_s: f64::INFINITY,
                ends_at: 0,
                is_loaded: false,
                lost: 0.0,
            },
            full_rounds: 0,
            draining: false,
            losses: Losses::default(),
            goal_scale: 1.0,
            recovery_since: None,
        }
    }

    /// True if the goal is a queue so short that jitter would empty it.
    fn is_queue_short(&self) -> bool {
        matches!(self.goal, QueueGoal::Short | QueueGoal::Steady)
    }

    fn queue_goal_s(&self) -> f64 {
        match self.goal {
            QueueGoal::Short => self.short_s(),
            QueueGoal::Steady => (self.packets_s())
                .max(STEADY_QUEUE_S)
                .max(self.target_short_s),
            QueueGoal::Full | QueueGoal::Within(_) => {
                (self.rtt_min_s * FULL_QUEUE_FRACTION * self.goal_scale).max(self.target_short_s)
            }
        }
    }

    /// Time that the fewest packets of a queue goal take, in seconds. A slow path whose queue holds less than one becomes idle, is
    /// measured to be slower, and gets even less.
    fn packets_s(&self) -> f64 {
        match self.rate.get() {
            rate if rate > 0.0 => QUEUE_PACKETS * self.mtu / rate,
            _ => 0.0,
        }
    }

    /// Queue goal of [`QueueGoal::Short`] in seconds: the configured one, and more on paths so slow that it is less than one packet, in
    /// steps without a jump from there.
    fn short_s(&self) -> f64 {
        let from_one_packet_s = (QUEUE_PACKETS - 1.0) * self.target_short_s;
        (self.packets_s() - from_one_packet_s).max(self.target_short_s)
    }

    /// `rate × (rtt_min + queue)` in bytes, plus the data that waits to be acknowledged, at the receiver and on the way back, or
    /// what the path carries in `jitter_s` seconds, by which packets usually take longer, if that is more.
    fn model_window_with(&self, jitter_s: f64) -> f64 {
        let rate = self.rate.get();
        let rtt_s = self.rtt_min_s + self.returning.get_s();
        if self.draining && self.goal != QueueGoal::Short {
            return (DRAIN * rate * rtt_s).max(4.0 * self.mtu);
        }
        let queue = if self.draining {
            0.0
        } else {
            self.share * self.queue_goal_s()
        };
        let batch = (self.batches.packets * self.mtu).min(rate * self.batches.delay_s);
        let excess = batch.max(rate * jitter_s);
        (rate * (rtt_s + queue) + excess).max(4.0 * self.mtu)
    }

    fn model_window(&self) -> f64 {
        // The longer queue of the other goals covers jitter.
        if self.is_queue_short() {
            self.model_window_with(self.rtt_excess_s)
        } else {
            self.model_window_with(0.0)
        }
    }

    /// Window for data that only has to be in time: the model's, as far as what is in flight still arrives in time at the
    /// rate of the last round trip. It shrinks only when a packet met more than the model's queue (`rtt_s`, its round trip in
    /// seconds), and grows while packets meet less.
    fn follow_rate(&mut self, ack: &Ack<'_>, rtt_s: f64, lifetime: Duration) {
        let Some(rate) = ack.rate_sample else {
            return;
        };
        let short_s = self.short_s();
        let queue_s = self.share * (FULL_QUEUE_FRACTION * self.rtt_min_s).max(short_s);
        let left_s = lifetime.as_secs_f64() - self.rtt_min_s / 2.0;
        let in_time_s = self.share * (WITHIN_FRACTION * left_s).max(short_s);
        let target = (self.rate.get() * (self.rtt_min_s + queue_s))
            .min(rate * (self.rtt_min_s + in_time_s))
            .max(4.0 * self.mtu);
        if rtt_s > self.rtt_min_s + queue_s {
            self.window = self.window.min(target);
        } else if !ack.app_limited && self.window < target {
            self.window += ack.bytes as f64;
        }
    }

    fn end_round(&mut self, now: Instant) {
        self.round.last_rtt_s = self.round.rtt_s;
        self.round.rtt_s = f64::INFINITY;
        self.round.samples = 0;
        self.round.lost = 0.0;
        self.start.train.restart();
        let was_loaded = std::mem::take(&mut self.round.is_loaded);
        self.full_rounds += u64::from(was_loaded);
        if self.start.is_running {
            // Rounds in which only control frames were sent give no information about the path: a channel that idles
            // after its handshake would end its start at the rate of these.
            if was_loaded {
                self.check_start_is_over();
            }
        } else {
            // A queue goal that shrank after losses grows back slowly.
            self.goal_scale = (self.goal_scale * 1.01).min(1.0);
            let stale = self
                .rtt_min_at
                .is_some_and(|at| now.saturating_duration_since(at) > RTT_MIN_LIFE);
            if self.draining {
                self.draining = false;
                self.rtt_min_s = self.round.last_rtt_s.min(self.rtt_min_s * 1.25);
                self.rtt_min_at = Some(now);
            } else if stale {
                self.draining = true;
            }
        }
    }

    /// Rounds for which the largest rate is remembered.
    fn rate_rounds(&self) -> u64 {
        let rtt_s = if self.round.last_rtt_s.is_finite() {
            self.round.last_rtt_s
        } else {
            self.rtt_min_s
        };
        let (least, most) = RATE_ROUNDS;
        if self.goal == QueueGoal::Steady {
            // A rate that the path no longer has builds a queue.
            return least as u64;
        }
        (RATE_LIFE_S / rtt_s).clamp(least, most) as u64
    }

    /// Ends the start if a flight came through more slowly than it left: its rate is that of the path.
    fn look_at_train(&mut self, ack: &Ack<'_>) {
        let Some(passage) = self.start.train.on_ack(ack, self.mtu, self.batches.delay_s) else {
            return;
        };
        self.rate
            .update(passage.rate, self.full_rounds, self.rate_rounds());
        if passage.is_stretched {
            self.start.is_running = false;
            self.start.is_filling = true;
        }
    }

    /// True if the smallest round trip of the running round shows a queue (RFC 9406 §4.2).
    fn queue_shows(&self) -> bool {
        let threshold_s = (self.rtt_min_s / 8.0).clamp(0.004, 0.016);
        self.round.samples >= ROUND_SAMPLES && self.round.rtt_s > self.rtt_min_s + threshold_s
    }

    fn check_start_is_over(&mut self) {
        let rate = self.rate.get();
        if rate > self.start.rate * START_GROWTH {
            self.start.rate = rate;
            self.start.stalled = 0;
        } else {
            self.start.stalled += 1;
        }
        if self.start.stalled >= 3 {
            self.start.is_running = false;
        }
    }
}

impl Control for Auto {
    fn on_sent(&mut self, _now: Instant, _bytes: u16, _packet: u64) {}

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let rtt_s = ack.now.saturating_duration_since(ack.sent).as_secs_f64();
        self.round.rtt_s = self.round.rtt_s.min(rtt_s);
        self.round.samples += 1;
        self.rtt_excess_s = ack.rtt_excess_s;
        self.returning.on_ack(rtt_s);
        if rtt_s <= self.rtt_min_s {
            self.rtt_min_s = rtt_s;
            self.rtt_min_at = Some(ack.now);
        }
        self.round.is_loaded |= !ack.app_limited;
        self.losses.note(false);
        if let Some(rate) = ack.rate_sample
            && (!ack.app_limited || rate > self.rate.get())
        {
            self.rate.update(rate, self.full_rounds, self.rate_rounds());
        }
        if self.start.is_running {
            self.look_at_train(ack);
        }
        if ack.delivered_at_sent >= self.round.ends_at {
            self.round.ends_at = ack.delivered;
            self.end_round(ack.now);
        }
        if self.start.is_running && self.queue_shows() {
            self.start.is_running = false;
        }
        if self.start.is_running {
            if !ack.app_limited {
                // Enough for the last flight and a queue of one product, but not more: beyond the path's capacity the
                // window stops growing by itself.
                let limit = START_GAIN * self.rate.get() * self.rtt_min_s;
                let grown = self.window + START_GROWTH_MAX * ack.bytes as f64;
                self.window = grown.min(limit).max(self.window);
            }
        } else if let QueueGoal::Within(lifetime) = self.goal
            && !self.draining
        {
            self.follow_rate(ack, rtt_s, lifetime);
        } else {
            let model = self.model_window();
            let recovering = self.recovery_since.is_some_and(|since| ack.sent <= since);
            if model <= self.window {
                self.window = model;
                self.start.is_filling = false;
            } else if !recovering && !ack.app_limited {
                // At most one doubling per round trip towards the model; more at the end of the start.
                let growth = if self.start.is_filling {
                    START_GROWTH_MAX
                } else {
                    1.0
                };
                self.window = (self.window + growth * ack.bytes as f64).min(model);
            }
        }
    }

    fn on_lost(&mut self, lost: &Lost) {
        if lost.is_forgiven {
            return;
        }
        self.losses.note(true);
        self.round.lost += 1.0;
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if self.recovery_since.is_some_and(|since| event.sent <= since) {
            return;
        }
        let ends_start = self.start.is_running && self.round.lost > START_LOST_MAX;
        if !(event.is_ecn || event.is_persistent || self.losses.are_many() || ends_start) {
            return;
        }
        self.losses.forgive();
        self.recovery_since = Some(event.now);
        self.start.is_filling = false;
        self.goal_scale = (self.goal_scale * 0.7).max(0.1);
        if self.start.is_running {
            self.start.is_running = false;
        }
        // The rate is what the path delivers now, not what it delivered rounds ago.
        let rate = self.rate.get() * BACKOFF;
        self.rate.reset(rate, self.full_rounds);
        self.window = self
            .model_window()
            .min(self.window * BACKOFF)
            .max(4.0 * self.mtu);
        if event.is_persistent {
            self.window = 4.0 * self.mtu;
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = f64::from(mtu);
    }

    fn set_queue_goal(&mut self, goal: QueueGoal) {
        self.goal = goal;
    }

    fn note_queue(&mut self, queue: Duration) {
        self.returning.on_report(queue, self.rtt_min_s);
    }

    fn set_share(&mut self, share: f64) {
        self.share = share.clamp(0.01, 1.0);
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn window_unjittered(&self) -> u64 {
        if self.start.is_running || !self.is_queue_short() {
            return self.window();
        }
        self.model_window_with(0.0).min(self.window) as u64
    }

    fn pacing_rate(&self, rtt_smoothed_s: f64) -> f64 {
        let from_window = self.window / rtt_smoothed_s.max(1e-4);
        if self.start.is_running {
            return START_PACING_GAIN * from_window;
        }
        // Slightly above the path's rate: the window, not the pacer, bounds the queue.
        (1.05 * self.rate.get()).max(from_window)
    }

    fn is_starting(&self) -> bool {
        self.start.is_running
    }
}
