//! BBR version 3, after draft-ietf-ccwg-bbr.
//!
//! A model of the path (largest recent delivery rate, shortest round trip) determines the pacing rate and the bytes in
//! flight. A cycle of states tests the model: faster than it (`Up`), slower (`Down`), and now and then almost nothing
//! (`ProbeRtt`). Losses bound it on two time scales: what a probe showed to be too much (`inflight_long`), and what the
//! path no longer carried since (`bandwidth_short`, `inflight_short`).
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the controller's state, and the steps of each event in their order |
//! | `state.rs` | the states and their gains |
//! | `cycle.rs` | state transitions |
//! | `model.rs` | bandwidth, aggregation, and the two time scales of bounds |
//! | `window.rs` | pacing rate and window from the model |
//! | `full_pipe.rs`, `loss.rs`, `rtt.rs` | one estimator each |
//!
//! The draft uses one rate sample per acknowledgement, that of the newest packet acknowledged; so does this
//! implementation, once for each batch. The draft's names are kept if they are words. Differences
//! (`spec/deviations.toml`, `bbr3-…`):
//!
//! - **Losses count when they are more than chance** (`loss.rs`): a path that loses 1 % at random is
//!   not congested. The draft's short-term bounds react to every round with a single loss, and lose
//!   2 % of the rate each time.
//! - **ProbeRTT only if the empty path was not seen** (`rtt.rs`): a round trip within 2 % of the shortest postpones it,
//!   as a shorter one does in the draft.
//! - **ECN**: the draft leaves the response open. A mark counts as a round of excessive loss.
//! - **Randomness** comes from a random stream of the channel, which makes runs repeatable.

mod cycle;
mod full_pipe;
mod loss;
mod model;
mod rtt;
mod state;
mod window;

use std::time::{Duration, Instant};

use anabranch_base::Random;

use super::{Ack, Congestion, Control, Lost};
use full_pipe::FullPipe;
use model::Model;
use rtt::RttMin;
use state::State;

/// Fewest packets in flight, for pipelining [BBR.MinPipeCwnd].
const WINDOW_MIN_PACKETS: f64 = 4.0;
/// Ranges of lost packets in a round below which Startup goes on [BBRStartupFullLossCnt].
const STARTUP_LOSS_RANGES: u32 = 6;

/// Phase of the rate samples of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Summary of the acknowledgements of one batch: the sample of the newest packet among them.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Bytes per second; 0 when unknown.
    rate: f64,
    app_limited: bool,
    /// Bytes delivered by the time this packet was sent.
    prior_delivered: u64,
    /// Bytes delivered since.
    delivered: f64,
    /// Bytes in flight when it was sent, itself included.
    in_flight: f64,
    /// Bytes lost since it was sent.
    lost: f64,
    /// Bytes acknowledged by this batch.
    newly_acked: f64,
    /// Smallest round trip of the batch.
    rtt_s: f64,
}

/// Values to restore if a loss turns out to be spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    state: Option<State>,
    bandwidth_short: f64,
    inflight_short: f64,
    inflight_long: f64,
}

/// BBR version 3; see the module.
#[derive(Debug)]
pub(super) struct Bbr3 {
    random: Random,
    packet: f64,
    initial_window: f64,
    state: State,
    model: Model,
    rtt: RttMin,
    full_pipe: FullPipe,

    /// Share of what one flow would take.
    share: f64,
    window: f64,
    pacing_rate: f64,
    /// Window before it was reduced for recovery or ProbeRTT.
    prior_window: f64,

    in_flight: f64,
    delivered: u64,
    batch: Option<Sample>,
    /// Packets sent from this moment while no more than so much had been delivered indicate nothing about the path's
    /// rate: the sender held them back itself.
    held_back: Option<(Instant, u64)>,
    /// The window counts as full until so much has been delivered: it was full within the last round.
    window_limited_until: u64,
    idle_restart: bool,

    round_ends_at: u64,
    round: u64,
    round_started: bool,
    drain_start_round: u64,

    ack_phase: AckPhase,
    cycle_at: Instant,
    probe_wait: Duration,
    rounds_since_up: u64,
    up_rounds: u32,
    up_acked: f64,
    up_acked_per_packet: f64,
    /// Current rate samples and losses belong to packets sent to probe.
    is_probe_sample: bool,
    last_probe_too_high: bool,
    last_probe_cautious: bool,

    /// Time at which ProbeRTT may end, once little enough is in flight.
    probe_rtt_until: Option<Instant>,
    probe_rtt_round_done: bool,

    undo: Option<Undo>,
}

impl Bbr3 {
    pub(super) fn new(random: Random, now: Instant, window: u64, mtu: u16) -> Self {
        let window = window as f64;
        Self {
            random,
            packet: f64::from(mtu),
            initial_window: window,
            share: 1.0,
            state: State::Startup,
            model: Model::new(now),
            rtt: RttMin::new(now),
            full_pipe: FullPipe::default(),
            window,
            pacing_rate: 0.0,
            prior_window: 0.0,
            in_flight: 0.0,
            delivered: 0,
            batch: None,
            held_back: None,
            window_limited_until: 0,
            idle_restart: false,
            round_ends_at: 0,
            round: 0,
            round_started: false,
            drain_start_round: 0,
            ack_phase: AckPhase::Init,
            cycle_at: now,
            probe_wait: Duration::ZERO,
            rounds_since_up: 0,
            up_rounds: 0,
            up_acked: 0.0,
            up_acked_per_packet: f64::INFINITY,
            is_probe_sample: false,
            last_probe_too_high: false,
            last_probe_cautious: false,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            undo: None,
        }
    }

    /// Processes an acknowledgement in the draft's order of steps [Per-ACK Steps].
    fn on_sample(&mut self, now: Instant, sample: &Sample) {
        self.model.update_latest(sample, self.delivered);
        self.update_round(sample);
        self.model.update_bandwidth(sample);
        self.adapt_short_term();
        self.model.update_aggregation(
            now,
            sample.newly_acked,
            self.window,
            self.round,
            self.full_pipe.reached,
        );
        if self.round_started && !sample.app_limited {
            self.full_pipe.on_round(sample.rate);
        }
        self.check_startup_done();
        self.check_drain_done(now);
        self.update_cycle(now, sample);
        self.rtt.update(now, sample.rtt_s);
        self.check_probe_rtt(now);
        self.idle_restart = false;
        self.model.advance_latest(sample);
        self.set_pacing_rate();
        self.set_window(sample);
    }

    fn update_round(&mut self, sample: &Sample) {
        self.round_started = sample.prior_delivered >= self.round_ends_at;
        if self.round_started {
            self.start_round();
            self.round += 1;
            self.rounds_since_up += 1;
        }
    }

    fn start_round(&mut self) {
        self.round_ends_at = self.delivered;
    }

    fn is_window_limited(&self) -> bool {
        self.delivered <= self.window_limited_until
    }

    /// Marks samples of packets sent from now on, until everything in flight has been delivered, as not caused by the path.
    fn hold_back(&mut self, now: Instant) {
        let since = match self.held_back {
            Some((since, until)) if self.delivered <= until => since,
            _ => now,
        };
        self.held_back = Some((since, self.delivered + self.in_flight as u64));
    }

    fn is_held_back(&self, sent: Instant, delivered_at_sent: u64) -> bool {
        self.held_back
            .is_some_and(|(since, until)| sent >= since && delivered_at_sent <= until)
    }

    /// Saves the values that a loss is about to change.
    fn note_loss(&mut self) {
        if !self.model.note_loss(self.delivered) {
            return;
        }
        self.save_window();
        self.undo = Some(Undo {
            state: None,
            bandwidth_short: self.model.bandwidth_short,
            inflight_short: self.model.inflight_short,
            inflight_long: self.model.inflight_long,
        });
    }

    /// Handles a probe that put more in flight than the path holds [HandleInflightTooHigh].
    fn on_inflight_too_high(&mut self, now: Instant, in_flight: f64, app_limited: bool) {
        self.last_probe_too_high = true;
        self.is_probe_sample = false;
        if !app_limited {
            self.model.inflight_long = in_flight.max(self.target_inflight() * model::BETA);
        }
        if self.state == State::Up {
            if let Some(undo) = &mut self.undo {
                undo.state = Some(State::Up);
            }
            self.start_down(now);
        }
    }
}

impl Control for Bbr3 {
    fn on_sent(&mut self, now: Instant, bytes: u16, _packet: u64) {
        if self.in_flight <= 0.0 && self.delivered > 0 {
            self.restart_from_idle(now);
        }
        self.in_flight += f64::from(bytes);
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.in_flight = (self.in_flight - ack.bytes as f64).max(0.0);
        self.delivered = ack.delivered;
        self.model.round_acked += ack.bytes as f64;
        let rtt_s = ack.now.saturating_duration_since(ack.sent).as_secs_f64();
        let app_limited = ack.app_limited || self.is_held_back(ack.sent, ack.delivered_at_sent);
        let batch = self.batch.get_or_insert(Sample {
            rtt_s,
            ..Sample::default()
        });
        batch.newly_acked += ack.bytes as f64;
        batch.rtt_s = batch.rtt_s.min(rtt_s);
        if ack.delivered_at_sent >= batch.prior_delivered {
            batch.rate = ack.rate_sample.unwrap_or(0.0);
            batch.app_limited = app_limited;
            batch.prior_delivered = ack.delivered_at_sent;
            batch.in_flight = ack.in_flight_at_sent as f64;
            batch.lost = ack.lost_since_sent as f64;
        }
        batch.delivered = (ack.delivered - batch.prior_delivered) as f64;
    }

    fn on_end_acks(&mut self, now: Instant, _in_flight: u64, _limited: bool, _max: Option<u64>) {
        if let Some(sample) = self.batch.take() {
            self.on_sample(now, &sample);
        }
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.in_flight = (self.in_flight - lost.bytes as f64).max(0.0);
        if lost.is_forgiven {
            return;
        }
        self.note_loss();
        self.model.count_loss(lost.bytes as f64, lost.packet);
        if !self.is_probe_sample {
            return;
        }
        let (gone, flight) = (lost.lost_since_sent as f64, lost.in_flight_at_sent as f64);
        if loss::is_too_much(gone, flight, self.packet) {
            let at = loss::flight_at_excess(gone, flight, lost.bytes as f64, self.packet);
            self.on_inflight_too_high(lost.now, at, lost.app_limited);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if event.is_ecn {
            self.note_loss();
            self.model.marked = true;
            if self.is_probe_sample {
                self.on_inflight_too_high(event.now, self.in_flight, false);
            }
        }
        if event.is_persistent {
            self.save_window();
            self.window = WINDOW_MIN_PACKETS * self.packet;
        }
    }

    fn on_spurious(&mut self) {
        self.undo_loss();
    }

    fn on_window_limited(&mut self) {
        self.window_limited_until = self.delivered + self.in_flight as u64;
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.packet = f64::from(mtu);
    }

    fn set_share(&mut self, share: f64) {
        self.share = share.clamp(0.01, 1.0);
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn pacing_rate(&self, rtt_smoothed_s: f64) -> f64 {
        if self.pacing_rate > 0.0 {
            return self.pacing_rate;
        }
        State::Startup.pacing_gain() * self.initial_window / rtt_smoothed_s.max(1e-3)
    }

    fn is_starting(&self) -> bool {
        self.state == State::Startup
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::control::test_epoch;

    const PACKET: u64 = 1_000;
    const RTT: Duration = Duration::from_millis(50);

    /// A controller and a path of 100 packets a round trip, on which a round is one flight.
    struct Feed {
        bbr: Bbr3,
        now: Instant,
        delivered: u64,
        lost: u64,
        number: u64,
        seen: Vec<State>,
    }

    impl Feed {
        /// A feed past Startup.
        fn steady() -> Self {
            let now = test_epoch();
            let mut feed = Self {
                bbr: Bbr3::new(Seed(1).stream("bbr3"), now, 40 * PACKET, 1_000),
                now,
                delivered: 0,
                lost: 0,
                number: 0,
                seen: Vec::new(),
            };
            while !feed.bbr.full_pipe.reached || feed.bbr.state != State::Cruise {
                feed.round(100, 0);
            }
            feed
        }

        /// Sends a flight; its last `lost` packets are lost, the others acknowledged one by one.
        fn round(&mut self, packets: u64, lost: u64) {
            let (sent, delivered_at_sent, lost_at_sent) = (self.now, self.delivered, self.lost);
            for index in 0..packets {
                self.bbr.on_sent(sent, PACKET as u16, self.number + index);
            }
            for index in 0..packets {
                let packet = self.number + index;
                let now = sent + RTT + Duration::from_micros(index);
                let in_flight_at_sent = (index + 1) * PACKET;
                if index >= packets - lost {
                    self.lost += PACKET;
                    self.bbr.on_lost(&Lost {
                        now,
                        bytes: PACKET,
                        packet,
                        app_limited: false,
                        in_flight_at_sent,
                        lost_since_sent: self.lost - lost_at_sent,
                        is_forgiven: false,
                    });
                    continue;
                }
                self.delivered += PACKET;
                self.bbr.on_ack(&Ack {
                    now,
                    sent,
                    bytes: PACKET,
                    packet,
                    app_limited: false,
                    is_capped: false,
                    rate_sample: Some((packets * PACKET) as f64 / RTT.as_secs_f64()),
                    delivered_at_sent,
                    delivered: self.delivered,
                    in_flight_at_sent,
                    lost_since_sent: self.lost - lost_at_sent,
                    rtt_excess_s: 0.0,
                    rtt: None,
                });
                self.bbr.on_end_acks(now, 0, false, Some(packet));
                if !self.seen.contains(&self.bbr.state) {
                    self.seen.push(self.bbr.state);
                }
            }
            self.number += packets;
            self.now = sent + RTT + Duration::from_millis(1);
        }

        fn congestion(&mut self, is_ecn: bool, is_persistent: bool) {
            self.bbr.on_congestion(&Congestion {
                now: self.now,
                sent: self.now,
                is_persistent,
                is_ecn,
                lost_bytes: 0,
                lost_packet_max: 0,
            });
        }
    }

    #[test]
    fn a_few_losses_outside_of_a_probe_change_nothing_and_many_lower_the_bounds() {
        let mut feed = Feed::steady();
        feed.round(100, 4);
        feed.round(100, 0);
        assert!(feed.bbr.model.bandwidth_short.is_infinite());
        feed.round(100, 20);
        feed.round(80, 0);
        feed.round(80, 0);
        let model = &feed.bbr.model;
        assert!(model.bandwidth_short <= model.bandwidth_max());
        assert!(model.bandwidth_short >= model::BETA * model.bandwidth_max());
        assert!(model.inflight_short.is_finite());
    }

    #[test]
    fn a_mark_counts_as_too_much_loss() {
        let mut feed = Feed::steady();
        feed.congestion(true, false);
        feed.round(100, 0);
        feed.round(100, 0);
        assert!(feed.bbr.model.bandwidth_short.is_finite());
    }

    #[test]
    fn losses_that_were_none_are_undone() {
        let mut feed = Feed::steady();
        let window = feed.bbr.window();
        feed.round(100, 30);
        feed.round(70, 0);
        assert!(feed.bbr.model.inflight_short.is_finite());
        feed.bbr.on_spurious();
        assert!(feed.bbr.model.inflight_short.is_infinite());
        assert!(feed.bbr.window() >= window);
    }

    #[test]
    fn persistent_congestion_takes_the_window_to_four_packets_and_it_returns() {
        let mut feed = Feed::steady();
        let before = feed.bbr.window();
        feed.congestion(false, true);
        assert_eq!(feed.bbr.window(), 4 * PACKET);
        for _ in 0..8 {
            let packets = feed.bbr.window() / PACKET;
            feed.round(packets.min(100), 0);
        }
        assert!(feed.bbr.window() >= before / 2, "{}", feed.bbr.window());
    }

    #[test]
    fn every_state_of_the_cycle_is_visited() {
        let mut feed = Feed::steady();
        feed.seen.clear();
        for _ in 0..200 {
            feed.round(100, 0);
        }
        for state in [State::Down, State::Cruise, State::Refill, State::Up] {
            assert!(
                feed.seen.contains(&state),
                "{state:?} not in {:?}",
                feed.seen
            );
        }
        // Every flight meets an empty queue, so nothing calls for ProbeRTT.
        assert!(!feed.seen.contains(&State::ProbeRtt));
    }
}
