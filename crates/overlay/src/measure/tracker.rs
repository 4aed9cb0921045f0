//! Estimator of one link of this node.
//!
//! A test message's delay, from the start of sending to the acknowledgement of all of it, is r/EBW + d + d', where d'
//! is the return path of the acknowledgement; the clocks of the two ends differ, so that d and d' cannot be
//! distinguished, and d_min is half of the least round trip [Daemons §3 measures at one end too]. The line is fitted to
//! large messages only (see `plan`). Real traffic is included: one second at a rate of b with the sender never idle
//! counts as a message of b·1 s.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, Rate};
use anabranch_stats::regression::{LinkEstimator, Scatter};

use super::plan::Growth;
use crate::wire::record::{DELAY_MAX, RATE_MAX};

/// Size up to which messages show the least round trip, but not the rate.
pub(crate) const SMALL_BYTES: u64 = 4_096;
/// Number of recent observations kept for a restart after a change.
const RECENT: usize = 6;
/// A delay more than this many times the expected one, or less than its inverse, is odd …
const ODD: f64 = 1.6;
/// … beyond this much, which a busy host may add …
const ODD_SLACK: Duration = Duration::from_millis(10);
/// … and this many odd ones in a row mean that the link has changed.
const ODD_MOST: usize = 2;
/// Period of the least round trip, which is that of the last one to two periods.
const ROUND_TRIP_MEMORY: Duration = Duration::from_secs(300);
/// Messages in a row without an answer after which a link counts as dead.
const LOST_MOST: u32 = 2;

/// Source of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Test messages of this node.
    Probes,
    /// Real traffic of this node, among others.
    Traffic,
    /// The record of the link's origin.
    Record,
}

/// Quality of a link: delay(r) ≈ r/EBW + d_min [Daemons Eq. (2)], in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkEstimate {
    /// EBW.
    pub bandwidth: Rate,
    /// d_min.
    pub delay_min: Duration,
    /// Standard error of the bandwidth relative to it; `None`: unknown.
    pub deviation: Option<f64>,
}

/// State of the link to one member.
#[derive(Debug, Clone)]
pub(crate) struct Tracker {
    estimator: LinkEstimator,
    memory: usize,
    recent: VecDeque<(u64, Duration)>,
    /// Least round trips of this period and the one before, and the start of this one.
    round_trips: (Option<Duration>, Option<Duration>, Instant),
    /// Odd delays in a row; below 0: too short.
    odd: i32,
    /// Fitted intercept, including the return path, and the estimate.
    fitted: Option<(Duration, LinkEstimate)>,
    measured_at: Option<Instant>,
    source: Source,
    lost: u32,
    /// Messages so far, for the plan.
    pub(crate) messages: u64,
    pub(crate) growth: Growth,
    /// Sizes of the planned large messages.
    pub(crate) agenda: VecDeque<u64>,
    /// The test message that is in progress.
    pub(crate) pending: Option<Pending>,
    pub(crate) next_at: Instant,
}

/// A test message in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) deadline: Instant,
}

impl Tracker {
    /// A tracker whose estimate is based on the last `memory` messages, 5 to 512.
    pub(crate) fn new(memory: usize, now: Instant) -> Self {
        let memory = memory.clamp(5, 512);
        Self {
            estimator: estimator(memory),
            memory,
            recent: VecDeque::with_capacity(RECENT),
            round_trips: (None, None, now),
            odd: 0,
            fitted: None,
            measured_at: None,
            source: Source::Probes,
            lost: 0,
            messages: 0,
            growth: Growth::default(),
            agenda: VecDeque::new(),
            pending: None,
            next_at: now,
        }
    }

    /// Handles that a message of `bytes` was acknowledged whole `took` after its sending began. Returns true if the
    /// link has changed markedly.
    pub(crate) fn observe(
        &mut self,
        bytes: u64,
        took: Duration,
        bytes_max: u64,
        now: Instant,
    ) -> bool {
        self.messages += 1;
        self.lost = 0;
        if bytes <= SMALL_BYTES {
            self.note_round_trip(took, now);
            if self.fitted.is_some() {
                self.measured_at = Some(now);
                self.fit();
            }
            return false;
        }
        let was_growing = !self.growth.is_done();
        let round_trip = self.round_trip_min().unwrap_or(took);
        self.growth.observe(bytes, took, round_trip, bytes_max);
        if was_growing && !self.growth.is_done() {
            return false;
        }
        self.take(bytes, took, now)
    }

    /// Handles that real traffic moved `rate` for `window`; `is_limited`: limited by the link, not by the sender.
    /// Otherwise the rate is a lower bound, and counts only when it is above the estimate.
    pub(crate) fn sample(
        &mut self,
        rate: Rate,
        window: Duration,
        is_limited: bool,
        now: Instant,
    ) -> bool {
        let Some(round_trip) = self.round_trip_min() else {
            return false;
        };
        let is_informative = is_limited
            || self
                .fitted
                .is_some_and(|(_, known)| rate > known.bandwidth * 1.1);
        let bytes = rate.bytes_in(window);
        if !is_informative || bytes == 0 {
            return false;
        }
        self.source = Source::Traffic;
        let intercept = self.fitted.map_or(round_trip, |(intercept, _)| intercept);
        self.take(bytes, window.saturating_add(intercept), now)
    }

    /// Handles a round trip measured by a small message or by real traffic.
    pub(crate) fn note_round_trip(&mut self, round_trip: Duration, now: Instant) {
        let (current, before, since) = &mut self.round_trips;
        if now.since(*since) >= ROUND_TRIP_MEMORY {
            (*before, *current, *since) = (current.take(), None, now);
        }
        *current = Some(current.map_or(round_trip, |least| least.min(round_trip)));
    }

    /// Handles that a test message was lost or not answered.
    pub(crate) fn lose(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// True if the last messages had no answer.
    pub(crate) fn is_dead(&self) -> bool {
        self.lost >= LOST_MOST
    }

    fn take(&mut self, bytes: u64, took: Duration, now: Instant) -> bool {
        self.lost = 0;
        self.measured_at = Some(now);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((bytes, took));
        // Sizes and delays are finite, so no fit rejects them.
        let _ = self.estimator.observe(bytes, took);
        let has_changed = self.is_odd(bytes, took);
        if has_changed {
            self.begin_anew();
        }
        self.fit();
        has_changed
    }

    /// True if this message completes a run of messages that took much longer, or much less, than expected.
    fn is_odd(&mut self, bytes: u64, took: Duration) -> bool {
        let Some((intercept, known)) = self.fitted else {
            return false;
        };
        let expected = known
            .bandwidth
            .time_to_send(bytes)
            .saturating_add(intercept);
        // In seconds, because the time of a fast link's message over a slow link can exceed a `Duration`.
        let longest_s = |time: Duration| time.as_secs_f64() * ODD + ODD_SLACK.as_secs_f64();
        self.odd = if took.as_secs_f64() > longest_s(expected) {
            self.odd.max(0) + 1
        } else if longest_s(took) < expected.as_secs_f64() {
            self.odd.min(0) - 1
        } else {
            0
        };
        self.odd.unsigned_abs() as usize >= ODD_MOST
    }

    /// Forgets everything before the last odd messages, except for the delay of small ones, unless that has changed.
    fn begin_anew(&mut self) {
        let odd = self.odd.unsigned_abs() as usize;
        self.odd = 0;
        self.estimator = estimator(self.memory);
        let from = self.recent.len().saturating_sub(odd);
        self.recent.drain(..from);
        let smallest = self
            .recent
            .iter()
            .map(|&(bytes, _)| bytes)
            .min()
            .unwrap_or(0);
        if let Some((intercept, _)) = self.fitted.filter(|_| smallest > 8_192) {
            for _ in 0..2 {
                let _ = self.estimator.observe(64, intercept);
            }
        }
        for &(bytes, took) in &self.recent {
            let _ = self.estimator.observe(bytes, took);
        }
    }

    fn fit(&mut self) {
        let squares = self.estimator.least_squares().ok();
        let robust = self.estimator.robust().ok();
        let Some(fit) = robust.or(squares) else {
            self.fit_through_round_trip();
            return;
        };
        let deviation = squares.and_then(|fit| Some(fit.line.slope_error? / fit.line.slope));
        let path = self.round_trip_min().unwrap_or(fit.delay_min) / 2;
        let estimate = LinkEstimate {
            bandwidth: fit.bandwidth.min(RATE_MAX).max(Rate::from_bps(1)),
            delay_min: path.min(DELAY_MAX),
            deviation: deviation.filter(|deviation| deviation.is_finite()),
        };
        self.fitted = Some((fit.delay_min, estimate));
    }

    /// Fits a line through the least round trip. If sizes make less difference than noise, the fit of a line fails, and
    /// a fast link at a busy node would never get an estimate. Small messages give the intercept of the line.
    fn fit_through_round_trip(&mut self) {
        let Some(round_trip) = self.round_trip_min() else {
            return;
        };
        if self.recent.len() < RECENT || self.fitted.is_some() {
            return;
        }
        let bytes = self.recent.iter().map(|&(bytes, _)| bytes).sum();
        let over = |&(_, took): &(u64, Duration)| took.saturating_sub(round_trip);
        let sending: Duration = self.recent.iter().map(over).sum();
        let bandwidth = Rate::from_bytes_per(bytes, sending.max(Duration::from_micros(1)));
        let estimate = LinkEstimate {
            bandwidth: bandwidth.min(RATE_MAX).max(Rate::from_bps(1)),
            delay_min: (round_trip / 2).min(DELAY_MAX),
            deviation: None,
        };
        self.fitted = Some((round_trip, estimate));
    }

    pub(crate) fn round_trip_min(&self) -> Option<Duration> {
        let (current, before, _) = self.round_trips;
        current.into_iter().chain(before).min()
    }

    /// Scatter of the estimate, for the plan.
    pub(crate) fn scatter(&self) -> Option<Scatter> {
        self.estimator.scatter().ok()
    }

    /// The estimate; `None` while too little is known.
    pub(crate) fn estimate(&self) -> Option<LinkEstimate> {
        self.fitted.map(|(_, estimate)| estimate)
    }

    /// Time since the last measurement.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.measured_at.map(|at| now.since(at))
    }

    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Time that a message of `bytes` and its acknowledgement should take.
    pub(crate) fn expected(&self, bytes: u64) -> Option<Duration> {
        let (intercept, known) = self.fitted?;
        Some(
            known
                .bandwidth
                .time_to_send(bytes)
                .saturating_add(intercept),
        )
    }
}

fn estimator(memory: usize) -> LinkEstimator {
    LinkEstimator::new(memory).expect("5 to 512 messages are enough and not too many")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    fn at(seconds: f64) -> Instant {
        Instant::EPOCH + Duration::from_secs_f64(seconds)
    }

    /// Delay of a message over a link of `mbps` Mbit/s with a round trip of 40 ms, with noise.
    fn took(bytes: u64, mbps: f64, noise: f64) -> Duration {
        Duration::from_secs_f64((0.04 + bytes as f64 * 8e-6 / mbps) * (1.0 + noise))
    }

    fn probed(mbps: f64, noise: f64) -> Tracker {
        let mut random = Seed(1).stream("probes");
        let mut link = Tracker::new(48, at(0.0));
        for step in 0..40u32 {
            let bytes = [1_000, 400_000, 1_000_000][step as usize % 3];
            let noise = random.uniform(-noise, noise);
            link.observe(
                bytes,
                took(bytes, mbps, noise),
                1_000_000,
                at(f64::from(step)),
            );
        }
        link
    }

    #[test]
    fn finds_bandwidth_and_one_way_delay() {
        let known = probed(20.0, 0.05).estimate().unwrap();
        let mbps = known.bandwidth.as_bps() as f64 / 1e6;
        assert!((mbps / 20.0 - 1.0).abs() < 0.06, "{known:?}");
        let delay_ms = known.delay_min.as_secs_f64() * 1e3;
        assert!((delay_ms - 20.0).abs() < 3.0, "{known:?}");
        assert!(known.deviation.unwrap() < 0.1);
    }

    #[test]
    fn noise_of_a_fifth_is_no_change() {
        let mut random = Seed(2).stream("noise");
        let mut link = probed(20.0, 0.2);
        let changes = (0..5_000u32)
            .filter(|&step| {
                let bytes = [1_000, 400_000, 1_000_000][step as usize % 3];
                let noise = random.uniform(-0.2, 0.2);
                let now = at(40.0 + f64::from(step));
                link.observe(bytes, took(bytes, 20.0, noise), 1_000_000, now)
            })
            .count();
        assert_eq!(changes, 0);
    }

    #[test]
    fn a_third_of_the_rate_is_seen_in_two_samples() {
        let mut link = probed(30.0, 0.1);
        let second = Duration::from_secs(1);
        assert!(!link.sample(Rate::from_mbps(10), second, true, at(41.0)));
        assert!(link.sample(Rate::from_mbps(10), second, true, at(42.0)));
        let mbps = link.estimate().unwrap().bandwidth.as_bps() as f64 / 1e6;
        assert!((mbps - 10.0).abs() < 1.0, "{mbps}");
        assert_eq!(link.source(), Source::Traffic);
    }

    /// The expected time exceeds the largest `Duration` by half.
    #[test]
    fn an_implausible_rate_is_odd() {
        let mut link = Tracker::new(48, at(0.0));
        for step in 0..40u32 {
            let bytes = [1_000, 2_000][step as usize % 2];
            let took = Duration::from_secs(bytes);
            link.observe(bytes, took, 2_000, at(f64::from(step)));
        }
        let second = Duration::from_secs(1);
        link.sample(Rate::from_bps(1 << 62), second, true, at(41.0));
        link.sample(Rate::from_bps(1 << 62), second, true, at(42.0));
    }

    #[test]
    fn a_sample_not_limited_by_the_link_does_not_lower_the_estimate() {
        let mut link = probed(30.0, 0.1);
        let before = link.estimate();
        for step in 0..100u32 {
            link.sample(
                Rate::from_mbps(2),
                Duration::from_secs(1),
                false,
                at(41.0 + f64::from(step)),
            );
        }
        assert_eq!(link.estimate(), before);
        for step in 0..4u32 {
            link.sample(
                Rate::from_mbps(60),
                Duration::from_secs(1),
                false,
                at(200.0 + f64::from(step)),
            );
        }
        assert!(link.estimate().unwrap().bandwidth > Rate::from_mbps(50));
    }

    #[test]
    fn a_silent_link_is_dead_until_it_answers() {
        let mut link = probed(30.0, 0.1);
        link.lose();
        assert!(!link.is_dead());
        link.lose();
        assert!(link.is_dead());
        link.observe(1_000, took(1_000, 30.0, 0.0), 1_000_000, at(50.0));
        assert!(!link.is_dead());
    }

    /// Models a busy node, at which the larger messages happen to be the quicker ones.
    #[test]
    fn a_link_without_a_slope_is_known_by_its_round_trip() {
        let mut tracker = Tracker::new(64, Instant::EPOCH);
        tracker.observe(
            64,
            Duration::from_millis(2),
            1_000_000,
            Instant::from_secs(1),
        );
        for second in 2..30 {
            let (bytes, took_ms) = if second % 2 == 0 {
                (1_000_000, 30)
            } else {
                (500_000, 60)
            };
            tracker.observe(
                bytes,
                Duration::from_millis(took_ms),
                1_000_000,
                Instant::from_secs(second),
            );
        }
        let known = tracker.estimate().unwrap();
        assert_eq!(known.delay_min, Duration::from_millis(1));
        assert!(
            (50..400).contains(&(known.bandwidth.as_bps() / 1_000_000)),
            "{known:?}"
        );
    }
}
