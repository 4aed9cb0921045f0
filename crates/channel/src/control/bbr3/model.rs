//! The model of the path, and its bounds from losses.
//!
//! [draft-ietf-ccwg-bbr, Updating Network Path Model Parameters]

use std::time::Instant;

use super::{Bbr3, Sample, loss};
use crate::control::filter::MaxFilter;

/// Factor on a bound for each round of too many losses [BBR.Beta].
pub(super) const BETA: f64 = 0.7;
/// Share of the long-term bound left free while cruising [BBR.Headroom].
const HEADROOM: f64 = 0.15;
/// Rounds over which aggregation is the largest seen [BBR.ExtraAckedFilterLen].
const AGGREGATION_ROUNDS: u64 = 10;

/// Estimates of the path. Bounds are infinite if there is none.
#[derive(Debug)]
pub(super) struct Model {
    /// Largest delivery rate of the running cycle and of the one before, in bytes per second.
    bandwidth_max: [f64; 2],
    /// Bounds since the last probe, from losses outside of probes.
    pub(super) bandwidth_short: f64,
    pub(super) inflight_short: f64,
    /// Largest amount in flight that the path held in a probe.
    pub(super) inflight_long: f64,

    /// The largest of the running round, for the short-term bounds.
    bandwidth_latest: f64,
    inflight_latest: f64,
    /// Amount delivered that ends a loss round: it ends when a packet sent after that is delivered.
    loss_round_ends_at: u64,
    loss_round_started: bool,
    /// Bytes acknowledged and lost in the running round, and ranges of packets lost.
    pub(super) round_acked: f64,
    round_lost: f64,
    round_ranges: u32,
    last_lost: Option<u64>,
    /// The round had a loss, or an ECN mark.
    is_loss_in_round: bool,
    pub(super) marked: bool,
    /// Consecutive rounds with losses.
    loss_rounds: u32,

    aggregation: MaxFilter,
    aggregation_since: Instant,
    aggregation_acked: f64,
}

/// Verdict on the losses of a finished round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    /// More than chance explains.
    pub(super) too_much: bool,
    /// Separate ranges of lost packets.
    pub(super) ranges: u32,
    /// Consecutive rounds with losses, this one included.
    pub(super) rounds: u32,
}

impl Model {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            bandwidth_max: [0.0; 2],
            bandwidth_short: f64::INFINITY,
            inflight_short: f64::INFINITY,
            inflight_long: f64::INFINITY,
            bandwidth_latest: 0.0,
            inflight_latest: 0.0,
            loss_round_ends_at: 0,
            loss_round_started: false,
            round_acked: 0.0,
            round_lost: 0.0,
            round_ranges: 0,
            last_lost: None,
            is_loss_in_round: false,
            marked: false,
            loss_rounds: 0,
            aggregation: MaxFilter::default(),
            aggregation_since: now,
            aggregation_acked: 0.0,
        }
    }

    /// Largest delivery rate of this cycle and the last, in bytes per second; 0 before a sample.
    pub(super) fn bandwidth_max(&self) -> f64 {
        self.bandwidth_max[0].max(self.bandwidth_max[1])
    }

    /// The same, limited by the short-term bound.
    pub(super) fn bandwidth(&self) -> f64 {
        self.bandwidth_max().min(self.bandwidth_short)
    }

    /// The long-term bound less some headroom for others.
    pub(super) fn inflight_with_headroom(&self, packet: f64) -> f64 {
        if self.inflight_long.is_infinite() {
            return f64::INFINITY;
        }
        self.inflight_long - (HEADROOM * self.inflight_long).max(packet)
    }

    /// Volume that acknowledgements bring at once beyond what the rate explains.
    pub(super) fn aggregation(&self) -> f64 {
        self.aggregation.get()
    }

    pub(super) fn update_latest(&mut self, sample: &Sample, delivered: u64) {
        self.bandwidth_latest = self.bandwidth_latest.max(sample.rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.loss_round_started = sample.prior_delivered >= self.loss_round_ends_at;
        if self.loss_round_started {
            self.loss_round_ends_at = delivered;
        }
    }

    pub(super) fn advance_latest(&mut self, sample: &Sample) {
        if self.loss_round_started {
            self.bandwidth_latest = sample.rate;
            self.inflight_latest = sample.delivered;
        }
    }

    pub(super) fn update_bandwidth(&mut self, sample: &Sample) {
        if sample.rate > 0.0 && (sample.rate >= self.bandwidth_max() || !sample.app_limited) {
            self.bandwidth_max[0] = self.bandwidth_max[0].max(sample.rate);
        }
    }

    /// Ends a cycle: samples of the one before it are forgotten, unless this one had none.
    pub(super) fn advance_bandwidth(&mut self) {
        if self.bandwidth_max[0] > 0.0 {
            self.bandwidth_max = [0.0, self.bandwidth_max[0]];
        }
    }

    /// [UpdateACKAggregation]
    pub(super) fn update_aggregation(
        &mut self,
        now: Instant,
        newly_acked: f64,
        window: f64,
        round: u64,
        is_steady: bool,
    ) {
        let interval = now.saturating_duration_since(self.aggregation_since);
        let mut expected = self.bandwidth() * interval.as_secs_f64();
        if self.aggregation_acked <= expected {
            self.restart_aggregation(now);
            expected = 0.0;
        }
        self.aggregation_acked += newly_acked;
        let extra = (self.aggregation_acked - expected).min(window);
        let rounds = if is_steady { AGGREGATION_ROUNDS } else { 1 };
        self.aggregation.update(extra, round, rounds);
    }

    pub(super) fn restart_aggregation(&mut self, now: Instant) {
        self.aggregation_acked = 0.0;
        self.aggregation_since = now;
    }

    /// Records a loss or a mark; true if it is the first of its round.
    pub(super) fn note_loss(&mut self, delivered: u64) -> bool {
        if self.is_loss_in_round {
            return false;
        }
        self.is_loss_in_round = true;
        self.loss_round_ends_at = delivered;
        true
    }

    pub(super) fn count_loss(&mut self, bytes: f64, packet: u64) {
        self.round_lost += bytes;
        if self.last_lost.is_none_or(|last| packet != last + 1) {
            self.round_ranges += 1;
        }
        self.last_lost = Some(packet);
    }

    /// Verdict on the losses of the round that has just ended; `None` within a round.
    fn judge_round(&mut self, packet: f64) -> Option<Verdict> {
        if !self.loss_round_started {
            return None;
        }
        self.loss_rounds = if self.is_loss_in_round {
            self.loss_rounds + 1
        } else {
            0
        };
        let flight = self.round_acked + self.round_lost;
        let verdict = Verdict {
            too_much: self.marked
                || self.is_loss_in_round && loss::is_too_much(self.round_lost, flight, packet),
            ranges: self.round_ranges,
            rounds: self.loss_rounds,
        };
        self.is_loss_in_round = false;
        self.marked = false;
        self.round_acked = 0.0;
        self.round_lost = 0.0;
        self.round_ranges = 0;
        Some(verdict)
    }

    /// Clears the losses of this round, which were spurious.
    pub(super) fn forget_loss(&mut self) {
        self.is_loss_in_round = false;
        self.round_lost = 0.0;
        self.round_ranges = 0;
    }

    /// [ResetCongestionSignals]
    pub(super) fn reset_signals(&mut self) {
        self.is_loss_in_round = false;
        self.marked = false;
        self.round_acked = 0.0;
        self.round_lost = 0.0;
        self.round_ranges = 0;
        self.bandwidth_latest = 0.0;
        self.inflight_latest = 0.0;
    }

    pub(super) fn reset_short_term(&mut self) {
        self.bandwidth_short = f64::INFINITY;
        self.inflight_short = f64::INFINITY;
    }

    /// Lowers the short-term bounds after a round of too many losses outside of a probe [LossLowerBounds].
    fn lower_short_term(&mut self, window: f64) {
        if self.bandwidth_short.is_infinite() {
            self.bandwidth_short = self.bandwidth_max();
        }
        if self.inflight_short.is_infinite() {
            self.inflight_short = window;
        }
        self.bandwidth_short = self.bandwidth_latest.max(BETA * self.bandwidth_short);
        self.inflight_short = self.inflight_latest.max(BETA * self.inflight_short);
    }

    /// Largest amount delivered in the last round.
    pub(super) fn inflight_latest(&self) -> f64 {
        self.inflight_latest
    }
}

impl Bbr3 {
    /// Once per round: lowers the short-term bounds, or ends Startup, if losses were too many.
    pub(super) fn adapt_short_term(&mut self) {
        let Some(verdict) = self.model.judge_round(self.packet) else {
            return;
        };
        if !verdict.too_much {
            return;
        }
        if self.state == super::State::Startup {
            self.check_startup_loss(verdict);
        } else if !self.state.is_probing_bandwidth() {
            self.model.lower_short_term(self.window);
        }
    }
}
