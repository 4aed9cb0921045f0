//! State transitions.
//!
//! ```text
//!  Startup ─► Drain ─► Down ─► Cruise ─► Refill ─► Up ─┐      any ─► ProbeRtt ─► Cruise
//!                       ▲                              │                      (or Startup)
//!                       └──────────────────────────────┘
//! ```
//! [draft-ietf-ccwg-bbr, State Machine Operation]

use std::time::{Duration, Instant};

use super::{AckPhase, Bbr3, STARTUP_LOSS_RANGES, Sample, State, loss, model::Verdict};

/// Rounds after which Drain gives up.
const DRAIN_ROUNDS: u64 = 3;
/// Maximum number of rounds between two probes: as many as Reno needs to grow by as many packets.
const PROBE_ROUNDS_MAX: f64 = 63.0;
/// Shortest and longest time between two probes, in seconds.
const PROBE_WAIT_S: (f64, f64) = (2.0, 3.0);
/// Time with little in flight to measure the shortest round trip.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

impl Bbr3 {
    // ── Startup and Drain ───────────────────────────────────────────────────────────────────────

    /// [Exiting Startup Based on Packet Loss]
    pub(super) fn check_startup_loss(&mut self, verdict: Verdict) {
        if verdict.rounds < 2 || verdict.ranges < STARTUP_LOSS_RANGES {
            return;
        }
        if let Some(undo) = &mut self.undo {
            undo.state = Some(State::Startup);
        }
        self.full_pipe.reached = true;
        self.model.inflight_long = self.inflight(1.0).max(self.model.inflight_latest());
    }

    pub(super) fn check_startup_done(&mut self) {
        if self.state == State::Startup && self.full_pipe.reached {
            self.state = State::Drain;
            self.drain_start_round = self.round;
        }
    }

    pub(super) fn check_drain_done(&mut self, now: Instant) {
        let is_done = self.in_flight <= self.inflight(1.0)
            || self.round > self.drain_start_round + DRAIN_ROUNDS;
        if self.state == State::Drain && is_done {
            self.start_down(now);
        }
    }

    // ── the steady cycle ────────────────────────────────────────────────────────────────────────

    pub(super) fn start_down(&mut self, now: Instant) {
        self.model.reset_signals();
        self.up_acked_per_packet = f64::INFINITY;
        self.rounds_since_up = self.random.below(2);
        let (shortest, longest) = PROBE_WAIT_S;
        self.probe_wait = Duration::from_secs_f64(self.random.uniform(shortest, longest));
        self.cycle_at = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::Down;
    }

    fn start_refill(&mut self) {
        self.model.reset_short_term();
        self.up_rounds = 0;
        self.up_acked = 0.0;
        self.last_probe_cautious = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.full_pipe.reset(sample.rate);
        self.state = State::Up;
        self.raise_long_term_slope();
    }

    pub(super) fn update_cycle(&mut self, now: Instant, sample: &Sample) {
        if !self.full_pipe.reached || self.adapt_long_term(sample) {
            return;
        }
        let state = self.state;
        match state {
            State::Down => {
                if self.is_time_to_probe(now) {
                    self.start_refill();
                } else if self.is_time_to_cruise() {
                    self.state = State::Cruise;
                }
            }
            State::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            State::Refill if self.round_started => {
                // The pipe is full without a queue: packets sent from here on are probes.
                self.is_probe_sample = true;
                self.start_up(sample);
            }
            State::Up if self.is_time_to_go_down(sample) => {
                self.last_probe_too_high = false;
                self.start_down(now);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        let reno_rounds = (self.target_inflight() / self.packet).min(PROBE_ROUNDS_MAX);
        now.saturating_duration_since(self.cycle_at) > self.probe_wait
            || self.rounds_since_up as f64 >= reno_rounds
    }

    fn is_time_to_cruise(&self) -> bool {
        let limit = self
            .model
            .inflight_with_headroom(self.packet)
            .max(super::WINDOW_MIN_PACKETS * self.packet);
        self.in_flight <= limit && self.in_flight <= self.inflight(1.0)
    }

    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        if self.last_probe_too_high && self.in_flight >= self.model.inflight_long {
            // The last probe lost packets from this amount on; check before going further.
            self.last_probe_cautious = true;
            return true;
        }
        if self.is_window_limited() && self.window >= self.model.inflight_long {
            // The bound, not the path, limits the rate.
            self.full_pipe.reset(sample.rate);
            return false;
        }
        self.full_pipe.now
    }

    /// Tracks the samples that a probe caused, and raises the long-term bound while few packets are lost; true if that
    /// decided the next state [AdaptLongTermModel].
    fn adapt_long_term(&mut self, sample: &Sample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_started {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_started {
            self.is_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() {
                if !sample.app_limited {
                    self.model.advance_bandwidth();
                }
                if self.last_probe_cautious && !self.last_probe_too_high {
                    self.start_refill();
                    return true;
                }
            }
        }
        let too_much = loss::is_too_much(sample.lost, sample.in_flight, self.packet);
        if too_much || self.model.inflight_long.is_infinite() {
            return false;
        }
        self.model.inflight_long = self.model.inflight_long.max(sample.in_flight);
        if self.state == State::Up {
            self.probe_long_term_upward(sample);
        }
        false
    }

    /// The bound grows by one packet in the first round of Up, by two in the next, then four.
    fn raise_long_term_slope(&mut self) {
        let growth = f64::from(1_u32 << self.up_rounds);
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_acked_per_packet = (self.window / growth).max(self.packet);
    }

    fn probe_long_term_upward(&mut self, sample: &Sample) {
        if !self.is_window_limited() || self.window < self.model.inflight_long {
            return;
        }
        self.up_acked += sample.newly_acked;
        if self.up_acked >= self.up_acked_per_packet {
            let packets = (self.up_acked / self.up_acked_per_packet).floor();
            self.up_acked -= packets * self.up_acked_per_packet;
            self.model.inflight_long += packets * self.packet;
        }
        if self.round_started {
            self.raise_long_term_slope();
        }
    }

    // ── ProbeRTT, idleness, mistakes ────────────────────────────────────────────────────────────

    pub(super) fn check_probe_rtt(&mut self, now: Instant) {
        if self.state != State::ProbeRtt && self.rtt.expired && !self.idle_restart {
            self.save_window();
            self.state = State::ProbeRtt;
            self.probe_rtt_until = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state != State::ProbeRtt {
            return;
        }
        self.hold_back(now);
        match self.probe_rtt_until {
            None if self.in_flight <= self.probe_rtt_window() => {
                self.probe_rtt_until = Some(now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.start_round();
            }
            None => {}
            Some(_) => {
                self.probe_rtt_round_done |= self.round_started;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(now);
                }
            }
        }
    }

    fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.rtt.probed(now);
        self.restore_window();
        self.model.reset_short_term();
        if self.full_pipe.reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// Handles the end of a pause of the application, in which nothing was in flight [HandleRestartFromIdle].
    pub(super) fn restart_from_idle(&mut self, now: Instant) {
        self.idle_restart = true;
        self.model.restart_aggregation(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate_with(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    /// Handles losses that turned out to be late packets [HandleSpuriousLossDetection].
    pub(super) fn undo_loss(&mut self) {
        let Some(undo) = self.undo.take() else {
            return;
        };
        self.restore_window();
        self.full_pipe.reset(0.0);
        let model = &mut self.model;
        model.forget_loss();
        model.bandwidth_short = model.bandwidth_short.max(undo.bandwidth_short);
        model.inflight_short = model.inflight_short.max(undo.inflight_short);
        model.inflight_long = model.inflight_long.max(undo.inflight_long);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
    }
}
