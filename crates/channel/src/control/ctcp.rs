//! A window with a ceiling that follows from a target rate [Two-flow §4.1, Figure 3].
//!
//! A segment of a stored video needs to arrive by its deadline and gains nothing by arriving earlier; so its flow takes
//! the rate that this needs and leaves the rest of the capacity alone. W = min(W_inner, W_target), where W_inner is
//! that of a controller that responds to congestion, and W_target is computed every adjustment interval from the target
//! rate T, the round trip and whether packets were lost: T·RTT without losses, T·RTT/0.75 with some, as a window that
//! is halved now and then is three quarters of its peak on average.
//!
//! Three things are additions of this project (`spec/deviations.toml`, `ctcp-…`):
//! - **The pacer holds the target**, packet by packet, and W_target is only a ceiling. A window alone sends a round
//!   trip's packets as a burst whenever acknowledgements arrive in batches, and bursts of several flows together
//!   overflow the queue of a bottleneck that all of them just fill. It also makes the target the initial rate: there is
//!   no slow start to skip.
//! - **The ceiling is computed from the shortest round trip**, not from one that our own queue has made longer;
//!   otherwise a target beyond the path's capacity would feed a standing queue.
//! - **What the inner window held back is made up for**, over [`REPAY_S`] and at [`REPAY_MAX`] times the target at
//!   most, so that the mean over an interval is the target as long as the path has capacity.

use std::time::{Duration, Instant};

use anabranch_base::Rate;

use super::{Ack, Congestion, Control, Lost, QueueGoal, build};
use crate::config::{self, Config, Controller, Inner};

/// Mean of a window that is halved on loss, as a part of its peak [Two-flow §4.1].
const MEAN_OF_SAWTOOTH: f64 = 0.75;
/// Queue, in seconds, that may build up within an interval without holding the rate back: bursts of other flows are not
/// ours.
const QUEUE_S: f64 = 0.05;
/// Round trip that the ceiling allows beyond the shortest, in shortest round trips and in seconds, whichever is more.
const MARGIN: (f64, f64) = (1.0, 0.1);
/// Packets that the ceiling allows beyond the product, because windows are whole packets.
const MARGIN_PACKETS: f64 = 2.0;
/// Intervals for which the shortest round trip is remembered.
const BASE_INTERVALS: usize = 8;
/// Seconds over which a deficit is made up for.
const REPAY_S: f64 = 2.0;
/// Highest rate while making up for a deficit, in target rates. A path that all targets together just fill has no more,
/// and whatever is sent faster there is lost again, and added to the deficit again.
const REPAY_MAX: f64 = 1.05;
/// Deficit or surplus, in packets, up to which it is the pacer's rounding.
const ROUNDING_PACKETS: f64 = 2.0;
/// Smallest queue that the inner window allows for. The pacer keeps the queue short if the target fits; and a window
/// for a short queue over a short round trip is used up while wake-ups of either host are late by a few milliseconds:
/// the inner controller would take that for the rate of the path.
const INNER_QUEUE: Duration = Duration::from_millis(10);
/// Size that the inner window may reach, in ceilings: one halving does not cost the target.
const RESERVE: f64 = 2.0;

#[derive(Debug)]
pub(super) struct Ctcp {
    inner: Box<dyn Control>,
    target: f64,
    interval: Duration,
    mtu: f64,
    /// Largest amount at the receiver waiting to be acknowledged: packets, and seconds.
    ack_packets: f64,
    ack_delay_s: f64,
    /// W_target in bytes; `None` before the first round trip is known.
    ceiling: Option<f64>,
    interval_ends: Option<Instant>,
    /// True if there were losses in the running interval, and in the last.
    is_lossy: bool,
    was_lossy: bool,
    rtt: Rtt,
    /// Bytes by which sending is behind the target; slightly negative after a packet that left early.
    owed: f64,
    last_sent: Option<Instant>,
    is_backlogged: bool,
    /// There has been data to send ever since the last packet left.
    gap_counts: bool,
}

/// Round trips as the ceiling needs them, in seconds.
#[derive(Debug, Default)]
struct Rtt {
    smoothed: Option<f64>,
    variation: f64,
    /// Shortest of each of the last intervals, the running one last.
    shortest: [f64; BASE_INTERVALS],
    intervals: usize,
}

impl Rtt {
    fn observe(&mut self, sample: f64) {
        match &mut self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2.0;
                self.shortest = [f64::INFINITY; BASE_INTERVALS];
            }
            Some(smoothed) => {
                self.variation += ((sample - *smoothed).abs() - self.variation) / 4.0;
                *smoothed += (sample - *smoothed) / 8.0;
            }
        }
        let current = &mut self.shortest[self.intervals % BASE_INTERVALS];
        *current = current.min(sample);
    }

    fn base(&self) -> f64 {
        self.shortest.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Forgets the oldest interval. Not called while the window was the limit: then the queue may be our own, and the
    /// path's own round trip cannot be seen.
    fn end_interval(&mut self) {
        if self.shortest[self.intervals % BASE_INTERVALS].is_finite() {
            self.intervals += 1;
            self.shortest[self.intervals % BASE_INTERVALS] = f64::INFINITY;
        }
    }

    /// Upper bound on nearly all round trips, if only other flows make them longer.
    fn allowed(&self) -> Option<f64> {
        let smoothed = self.smoothed?;
        let (times, seconds) = MARGIN;
        let base = self.base();
        let most = base + (times * base).max(seconds);
        Some((smoothed + (4.0 * self.variation).max(QUEUE_S)).min(most))
    }
}

impl Ctcp {
    pub(super) fn new(
        ctcp: config::Ctcp,
        config: &Config,
        (seed, now, mtu): (anabranch_base::Seed, Instant, u16),
    ) -> Self {
        let controller = match ctcp.inner {
            Inner::Auto => Controller::Auto,
            Inner::NewReno => Controller::NewReno,
        };
        let config = Config {
            controller,
            queue_target: config.queue_target.max(INNER_QUEUE),
            ..config.clone()
        };
        Self {
            inner: build(&config, seed, now, mtu),
            target: ctcp.target.as_bytes_per_s(),
            interval: ctcp.interval,
            mtu: f64::from(mtu),
            ack_packets: f64::from(config.ack_every_packets),
            ack_delay_s: config.ack_delay_max.as_secs_f64(),
            ceiling: None,
            interval_ends: None,
            is_lossy: false,
            was_lossy: false,
            rtt: Rtt::default(),
            owed: 0.0,
            last_sent: None,
            is_backlogged: false,
            gap_counts: false,
        }
    }

    /// Computes W_target from the current measurements.
    fn adjust(&mut self) {
        let Some(rtt_s) = self.rtt.allowed() else {
            return;
        };
        let part = if self.was_lossy {
            MEAN_OF_SAWTOOTH
        } else {
            1.0
        };
        let acks = (self.ack_packets * self.mtu).min(self.target * self.ack_delay_s);
        let product = self.target * rtt_s / part + acks;
        self.ceiling = Some(((product / self.mtu).ceil() + MARGIN_PACKETS) * self.mtu);
    }

    fn look_at_interval(&mut self, now: Instant) {
        let ends = *self.interval_ends.get_or_insert(now + self.interval);
        if now < ends {
            return;
        }
        self.interval_ends = Some(now + self.interval);
        self.was_lossy = std::mem::take(&mut self.is_lossy);
        if self.inner.window() as f64 > self.ceiling.unwrap_or(f64::INFINITY)
            && self.owed <= ROUNDING_PACKETS * self.mtu
        {
            self.rtt.end_interval();
        }
        self.adjust();
    }

    /// True if the target limits this flow, not the network: the inner controller must not take it for free capacity.
    fn is_held(&self) -> bool {
        let ceiling = self.ceiling.unwrap_or(0.0);
        self.inner.window() as f64 >= RESERVE * ceiling
    }

    /// The rate that makes up for the deficit.
    fn wanted(&self) -> f64 {
        let owed = (self.owed - ROUNDING_PACKETS * self.mtu).max(0.0);
        (self.target + owed / REPAY_S).min(REPAY_MAX * self.target)
    }
}

impl Control for Ctcp {
    fn on_sent(&mut self, now: Instant, bytes: u16, packet: u64) {
        if let Some(last) = self.last_sent.filter(|_| self.gap_counts) {
            let due = self.target * now.saturating_duration_since(last).as_secs_f64();
            let most = self.target * self.interval.as_secs_f64();
            let owed = self.owed + due - f64::from(bytes);
            self.owed = owed.clamp(-ROUNDING_PACKETS * self.mtu, most);
        }
        self.last_sent = Some(now);
        self.gap_counts = self.is_backlogged;
        self.inner.on_sent(now, bytes, packet);
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let sample = ack.now.saturating_duration_since(ack.sent).as_secs_f64();
        self.rtt.observe(sample);
        let app_limited = ack.app_limited || self.is_held();
        self.inner.on_ack(&Ack {
            app_limited,
            ..*ack
        });
        if self.ceiling.is_none() {
            self.adjust();
        }
        self.look_at_interval(ack.now);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, max: Option<u64>) {
        let app_limited = app_limited || self.is_held();
        self.inner.on_end_acks(now, in_flight, app_limited, max);
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.is_lossy |= !lost.is_forgiven;
        self.inner.on_lost(lost);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.inner.on_congestion(event);
    }

    fn on_partner_congestion(&mut self, event: &Congestion) {
        self.inner.on_partner_congestion(event);
    }

    fn on_spurious(&mut self) {
        self.inner.on_spurious();
    }

    fn on_window_limited(&mut self) {
        if !self.is_held() {
            self.inner.on_window_limited();
        }
    }

    fn on_backlog(&mut self, is_backlogged: bool) {
        self.is_backlogged = is_backlogged;
        self.gap_counts &= is_backlogged;
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = f64::from(mtu.max(1));
        self.inner.on_mtu(mtu);
        self.adjust();
    }

    fn seed_rtt(&mut self, rtt: Duration) {
        if self.rtt.smoothed.is_none() {
            self.rtt.observe(rtt.as_secs_f64());
            self.rtt.variation = 0.0;
            self.adjust();
        }
    }

    fn set_queue_goal(&mut self, goal: QueueGoal) {
        self.inner.set_queue_goal(goal);
    }

    fn note_queue(&mut self, queue: Duration) {
        self.inner.note_queue(queue);
    }

    fn set_share(&mut self, share: f64) {
        self.inner.set_share(share);
    }

    fn set_rate(&mut self, rate: Rate) -> bool {
        self.target = rate.as_bytes_per_s().max(1.0);
        // A deficit against a faster or slower target does not count against this one.
        self.owed = 0.0;
        self.adjust();
        true
    }

    fn window(&self) -> u64 {
        let inner = self.inner.window();
        self.ceiling
            .map_or(inner, |ceiling| inner.min(ceiling as u64))
    }

    fn pacing_rate(&self, rtt_smoothed_s: f64) -> f64 {
        self.wanted().min(self.inner.pacing_rate(rtt_smoothed_s))
    }

    fn is_even(&self) -> bool {
        true
    }

    fn is_starting(&self) -> bool {
        self.inner.is_starting() && !self.is_held()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::{super::test_epoch, *};

    const RTT: Duration = Duration::from_millis(80);

    fn new(target: Rate) -> (Ctcp, Instant) {
        let now = test_epoch();
        let ctcp = config::Ctcp::at(target);
        let config = Config::default();
        (Ctcp::new(ctcp, &config, (Seed(1), now, 1_460)), now)
    }

    fn acknowledge(ctcp: &mut Ctcp, now: Instant, rtt: Duration) {
        ctcp.on_ack(&Ack {
            now,
            sent: now - rtt,
            bytes: 1_460,
            packet: 0,
            app_limited: false,
            is_capped: false,
            rate_sample: None,
            delivered_at_sent: 0,
            delivered: 0,
            in_flight_at_sent: 1_460,
            lost_since_sent: 0,
            rtt_excess_s: 0.0,
            rtt: None,
        });
    }

    /// An interval of acknowledgements, with a loss or without.
    fn interval(ctcp: &mut Ctcp, from: Instant, rtt: Duration, has_loss: bool) -> Instant {
        let mut now = from;
        while now < from + config::Ctcp::INTERVAL {
            now += Duration::from_millis(100);
            acknowledge(ctcp, now, rtt);
        }
        if has_loss {
            ctcp.on_lost(&Lost {
                now,
                bytes: 1_460,
                packet: 1,
                app_limited: false,
                in_flight_at_sent: 1_460,
                lost_since_sent: 1_460,
                is_forgiven: false,
            });
        }
        now
    }

    /// Both forms of the throughput model: 5 Mbit/s over 80 ms, and 50 ms for other flows' queues, are 81250 bytes;
    /// three quarters of a window that is larger by a third.
    #[test]
    fn the_target_window_has_both_forms_of_the_model() {
        let (mut ctcp, now) = new(Rate::from_mbps(5));
        ctcp.seed_rtt(RTT);
        let bytes = |product: f64| ((product / 1_460.0).ceil() + MARGIN_PACKETS) * 1_460.0;
        let acks = 5e6 / 8.0 * ctcp.ack_delay_s;
        assert_eq!(ctcp.ceiling, Some(bytes(81_250.0 + acks)));
        let now = interval(&mut ctcp, now, RTT, false);
        assert_eq!(ctcp.ceiling, Some(bytes(81_250.0 + acks)));
        let now = interval(&mut ctcp, now, RTT, true);
        let now = interval(&mut ctcp, now, RTT, false);
        assert_eq!(ctcp.ceiling, Some(bytes(81_250.0 / 0.75 + acks)));
        interval(&mut ctcp, now, RTT, false);
        assert_eq!(ctcp.ceiling, Some(bytes(81_250.0 + acks)));
    }

    /// Round trips that grow with the queue raise the ceiling up to a limit and no further.
    #[test]
    fn the_ceiling_stands_above_the_shortest_round_trip() {
        let (mut ctcp, mut now) = new(Rate::from_mbps(5));
        ctcp.seed_rtt(RTT);
        for queue_ms in [20, 100, 300, 1_000, 3_000] {
            now = interval(&mut ctcp, now, RTT + Duration::from_millis(queue_ms), false);
        }
        let most = 5e6 / 8.0 * (0.08 + 0.1 + ctcp.ack_delay_s) + 3.0 * 1_460.0;
        assert!(ctcp.ceiling.is_some_and(|ceiling| ceiling <= most));
    }

    /// Paced at the target from the first packet on, whatever the inner window would allow.
    #[test]
    fn there_is_no_slow_start_below_the_target() {
        let (mut ctcp, _) = new(Rate::from_kbps(500));
        assert_eq!(ctcp.pacing_rate(0.08), 62_500.0);
        assert!(ctcp.window() > 48 * 1_400);
        ctcp.seed_rtt(RTT);
        assert!(ctcp.window() < 10 * 1_460);
        assert!(ctcp.is_even() && !ctcp.is_starting());
    }
}
