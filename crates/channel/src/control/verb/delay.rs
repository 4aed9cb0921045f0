//! Detection of growing round trips, judged once per round.
//!
//! Single round trips of a radio channel vary by more than a queue adds [Horde Figure 7-25], so the mean of a round is
//! compared with the smallest recent mean.

use std::time::{Duration, Instant};

use super::super::filter::MaxFilter;

/// Lifetime of the smallest mean.
const LEAST_LIFE: Duration = Duration::from_secs(30);
/// Half of it: time without a mean near the smallest after which the queue has to be drained to see it again.
const STALE: Duration = Duration::from_secs(15);
/// Distance that counts as near the smallest mean, as a part of the tolerated growth.
const NEAR: f64 = 0.25;
/// Fewest round trips in a mean.
const SAMPLES_MIN: u32 = 4;
/// A mean this much below the one before shows a queue that drains.
const FALLING: f64 = 0.95;

/// Round trips of the rounds. O(1) per acknowledgement, no allocation.
#[derive(Debug)]
pub(super) struct Delay {
    /// Shortest duration of a round: means over less time follow the technology's own variation.
    span: Duration,
    origin: Option<Instant>,
    /// The running round: only packets sent from its beginning on count, and the acknowledgement of one of them
    /// is the first that may end it.
    since: Option<Instant>,
    sum_s: f64,
    samples: u32,
    bytes: u64,
    first_at: Option<Instant>,
    /// Negated means.
    least: MaxFilter,
    /// Time at which a mean was last near the smallest.
    near_at: Option<Instant>,
    mean_s: Option<f64>,
    mean_before_s: Option<f64>,
}

/// A completed round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Round {
    /// Bytes per second acknowledged in it.
    pub(super) delivered: f64,
    /// Its mean is below that of the round before.
    pub(super) is_falling: bool,
}

impl Delay {
    pub(super) fn new(span: Duration) -> Self {
        Self {
            span,
            origin: None,
            since: None,
            sum_s: 0.0,
            samples: 0,
            bytes: 0,
            first_at: None,
            least: MaxFilter::default(),
            near_at: None,
            mean_s: None,
            mean_before_s: None,
        }
    }

    /// The mean of the last round, in seconds.
    pub(super) fn mean_s(&self) -> Option<f64> {
        self.mean_s
    }

    /// The smallest recent mean, in seconds.
    pub(super) fn least_s(&self) -> Option<f64> {
        self.mean_s.map(|_| -self.least.get())
    }

    /// True if the last round took this many seconds longer than the shortest recent one.
    pub(super) fn is_above(&self, rise_s: f64) -> bool {
        self.mean_s
            .is_some_and(|mean| mean + self.least.get() > rise_s)
    }

    /// True if the smallest mean will soon be forgotten without having been seen again; true only once.
    pub(super) fn is_stale(&mut self, now: Instant) -> bool {
        let stale = self
            .near_at
            .is_some_and(|at| now.saturating_duration_since(at) > STALE);
        if stale {
            self.near_at = Some(now);
        }
        stale
    }

    /// Discards the smallest mean: the path has changed, or others fill its queue.
    pub(super) fn forget(&mut self, now: Instant) {
        if let Some(mean) = self.mean_s {
            self.least.reset(-mean, self.position(now));
        }
    }

    /// Begins a round anew: packets sent before `now` do not predict those sent from now on.
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = Some(now);
        self.sum_s = 0.0;
        self.samples = 0;
        self.bytes = 0;
        self.first_at = None;
    }

    /// Processes an acknowledgement; `Some` if it ended a round. Means that grow by `rise_s` seconds are too long.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        rise_s: f64,
    ) -> Option<Round> {
        self.origin.get_or_insert(now);
        let since = *self.since.get_or_insert(sent);
        if sent < since {
            return None;
        }
        self.sum_s += now.saturating_duration_since(sent).as_secs_f64();
        self.samples += 1;
        let Some(first_at) = self.first_at else {
            self.first_at = Some(now);
            return None;
        };
        self.bytes += bytes;
        let taken = now.saturating_duration_since(first_at);
        if self.samples < SAMPLES_MIN || taken < self.span || sent < first_at {
            return None;
        }
        let mean_s = self.sum_s / f64::from(self.samples);
        self.mean_before_s = self.mean_s.replace(mean_s);
        let life = LEAST_LIFE.as_millis() as u64;
        self.least.update(-mean_s, self.position(now), life);
        if mean_s + self.least.get() <= NEAR * rise_s {
            self.near_at = Some(now);
        }
        let round = Round {
            delivered: self.bytes as f64 / taken.as_secs_f64().max(1e-6),
            is_falling: self
                .mean_before_s
                .is_some_and(|before| mean_s < FALLING * before),
        };
        self.restart(first_at);
        Some(round)
    }

    fn position(&self, now: Instant) -> u64 {
        self.origin.map_or(0, |origin| {
            now.saturating_duration_since(origin).as_millis() as u64
        })
    }
}
