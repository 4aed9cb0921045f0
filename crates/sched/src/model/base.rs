//! Base of all models: packets and their outcomes, losses, the smoothed round trip, rival guesses.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_stats::rtt::SmoothedRtt;

use super::{
    Expectation,
    losses::{LossState, Losses},
    outcomes::{Outcomes, Settled},
    rivals::Rivals,
    spread::Guess,
};

/// What was guessed of a packet when it was sent, in which situation.
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

/// See the module; `N` ways of guessing in `Z` situations.
#[derive(Clone, Debug)]
pub(super) struct Base<const N: usize, const Z: usize> {
    outcomes: Outcomes<Guessed<N>>,
    rivals: Rivals<N, Z>,
    pub losses: Losses,
    smoothed: SmoothedRtt,
    now: Instant,
}

impl<const N: usize, const Z: usize> Base<N, Z> {
    pub(super) fn new() -> Self {
        Self {
            outcomes: Outcomes::new(),
            rivals: Rivals::new(),
            losses: Losses::new(),
            smoothed: SmoothedRtt::new(),
            now: Instant::EPOCH,
        }
    }

    /// The index of the packet that is sent after `ahead` others.
    pub(super) fn index(&self, ahead: u32) -> u64 {
        self.outcomes.next_index() + u64::from(ahead)
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

    pub(super) fn sent(&mut self, number: u64, at: Instant, guesses: [Guess; N], zone: usize) {
        self.now = self.now.max(at);
        let loss_state = self.loss_state();
        let guessed = Guessed {
            guesses,
            zone,
            loss_state,
        };
        self.outcomes.sent(number, at, guessed);
    }

    /// What to expect of losses now.
    pub(super) fn loss_state(&self) -> LossState {
        // As long as a retransmission time-out without its minimum [RFC 6298 §2].
        let smoothed = self.smoothed();
        let is_overdue = self.outcomes.oldest().is_some_and(|oldest| {
            let open_ms = self.now.since(oldest).as_secs_f64() * 1e3;
            open_ms > smoothed.centre_ms + 4.0 * smoothed.scale_ms
        });
        self.losses.loss_state(is_overdue)
    }

    pub(super) fn acked(&mut self, number: u64, at: Instant, rtt: Duration) -> Option<Acked> {
        self.now = self.now.max(at);
        let rtt_ms = rtt.as_secs_f64() * 1e3;
        let (index, _, guessed) = self.outcomes.settle(number, Some(rtt_ms))?;
        self.rivals.score(&guessed.guesses, guessed.zone, rtt_ms);
        self.losses.score(guessed.loss_state, false);
        self.smoothed.observe(rtt);
        Some(Acked { index, rtt_ms })
    }

    pub(super) fn lost(&mut self, number: u64, at: Instant) {
        self.now = self.now.max(at);
        if let Some((_, _, guessed)) = self.outcomes.settle(number, None) {
            self.losses.score(guessed.loss_state, true);
        }
    }

    /// The next packet in the order of sending whose fate is known; loss statistics have it.
    pub(super) fn next_settled(&mut self) -> Option<Settled> {
        let settled = self.outcomes.next_settled()?;
        self.losses.observe(settled.rtt_ms.is_none());
        Some(settled)
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
