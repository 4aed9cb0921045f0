//! Base of all models: packets and their outcomes, losses, the smoothed round trip, rival guesses.

use anabranch_base::Instant;
use anabranch_stats::rtt::SmoothedRtt;

use super::{
    Expectation, Packet,
    guesses::Guesses,
    losses::{LossState, Losses},
    rivals::Rivals,
    spread::Guess,
};
use crate::order::{Outcome, Settled, in_ms};

/// Guesses about a packet when it was sent, and its situation.
#[derive(Clone, Copy, Debug)]
struct Guessed<const N: usize> {
    guesses: [Guess; N],
    zone: usize,
    loss_state: LossState,
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub index: u64,
    pub rtt_ms: f64,
}

/// See the module; `N` guesses in `Z` situations.
#[derive(Clone, Debug)]
pub(super) struct Base<const N: usize, const Z: usize> {
    guesses: Guesses<Guessed<N>>,
    rivals: Rivals<N, Z>,
    pub losses: Losses,
    smoothed: SmoothedRtt,
    now: Instant,
}

impl<const N: usize, const Z: usize> Base<N, Z> {
    pub(super) fn new() -> Self {
        Self {
            guesses: Guesses::new(),
            rivals: Rivals::new(),
            losses: Losses::new(),
            smoothed: SmoothedRtt::new(),
            now: Instant::EPOCH,
        }
    }

    /// The index of the packet that is sent after `ahead` others.
    pub(super) fn index(&self, ahead: u32) -> u64 {
        self.guesses.next_index() + u64::from(ahead)
    }

    /// The smoothed round trip and its variation [RFC 6298 §2].
    pub(super) fn smoothed(&self) -> Guess {
        match (self.smoothed.smoothed(), self.smoothed.variation()) {
            (Some(mean), Some(variation)) => {
                Guess::new(mean.as_secs_f64() * 1e3, variation.as_secs_f64() * 1e3)
            }
            _ => Guess::NONE,
        }
    }

    pub(super) fn sent(&mut self, packet: Packet, guesses: [Guess; N], zone: usize) {
        self.now = self.now.max(packet.at);
        let loss_state = self.loss_state();
        let guessed = Guessed {
            guesses,
            zone,
            loss_state,
        };
        self.guesses.sent(packet.index, packet.at, guessed);
    }

    /// The present loss state.
    pub(super) fn loss_state(&self) -> LossState {
        // As long as a retransmission time-out without its minimum [RFC 6298 §2].
        let smoothed = self.smoothed();
        let is_overdue = self.guesses.oldest().is_some_and(|oldest| {
            let open_ms = self.now.since(oldest).as_secs_f64() * 1e3;
            open_ms > smoothed.centre_ms + 4.0 * smoothed.scale_ms
        });
        self.losses.loss_state(is_overdue)
    }

    /// Compares the outcome of a packet with what was guessed of it.
    pub(super) fn score(&mut self, outcome: &Outcome<'_>) -> Option<Acked> {
        self.now = self.now.max(outcome.at);
        let guessed = self.guesses.of(outcome.index)?;
        self.losses.score(guessed.loss_state, outcome.rtt.is_none());
        let rtt = outcome.rtt?;
        let rtt_ms = in_ms(rtt);
        self.rivals.score(&guessed.guesses, guessed.zone, rtt_ms);
        self.smoothed.observe(rtt);
        let index = outcome.index;
        Some(Acked { index, rtt_ms })
    }

    /// Takes a packet in the order of sending into the loss statistics.
    pub(super) fn settle(&mut self, settled: &Settled) {
        self.guesses.settle(settled.index);
        self.losses.observe(settled.is_lost());
    }

    pub(super) fn expectation(
        &mut self,
        guesses: &[Guess; N],
        zone: usize,
        loss: f64,
    ) -> Expectation {
        Expectation {
            loss: loss.clamp(0.0, 1.0),
            round_trip: self.rivals.ask(guesses, zone),
        }
    }
}
