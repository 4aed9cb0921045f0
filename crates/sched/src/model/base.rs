//! What all models keep: packets and their fates, losses, the smoothed round trip, rival guesses.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_stats::rtt::SmoothedRtt;

use super::{
    Expectation,
    fates::{Fates, Settled},
    losses::{Losses, Mood},
    rivals::Rivals,
    spread::Guess,
};

/// What was guessed of a packet when it was sent, in which situation.
#[derive(Clone, Copy, Debug)]
struct Guessed<const N: usize> {
    guesses: [Guess; N],
    zone: usize,
    mood: Mood,
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
    fates: Fates<Guessed<N>>,
    rivals: Rivals<N, Z>,
    pub losses: Losses,
    smoothed: SmoothedRtt,
    now: Instant,
}

impl<const N: usize, const Z: usize> Base<N, Z> {
    pub(super) fn new() -> Self {
        Self {
            fates: Fates::new(),
            rivals: Rivals::new(),
            losses: Losses::new(),
            smoothed: SmoothedRtt::new(),
            now: Instant::EPOCH,
        }
    }

    /// The index of the packet that is sent after `ahead` others.
    pub(super) fn index(&self, ahead: u32) -> u64 {
        self.fates.next_index() + u64::from(ahead)
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
        let mood = self.mood();
        let guessed = Guessed {
            guesses,
            zone,
            mood,
        };
        self.fates.sent(number, at, guessed);
    }

    /// What to expect of losses now.
    pub(super) fn mood(&self) -> Mood {
        // As long as a retransmission time-out without its minimum [RFC 6298 §2].
        let patience = self.smoothed();
        let is_overdue = self.fates.oldest().is_some_and(|oldest| {
            let open_ms = self.now.since(oldest).as_secs_f64() * 1e3;
            open_ms > patience.centre_ms + 4.0 * patience.scale_ms
        });
        self.losses.mood(is_overdue)
    }

    pub(super) fn acked(&mut self, number: u64, at: Instant, rtt: Duration) -> Option<Acked> {
        self.now = self.now.max(at);
        let rtt_ms = rtt.as_secs_f64() * 1e3;
        let (index, _, guessed) = self.fates.settle(number, Some(rtt_ms))?;
        self.rivals.score(&guessed.guesses, guessed.zone, rtt_ms);
        self.losses.score(guessed.mood, false);
        self.smoothed.observe(rtt);
        Some(Acked { index, rtt_ms })
    }

    pub(super) fn lost(&mut self, number: u64, at: Instant) {
        self.now = self.now.max(at);
        if let Some((_, _, guessed)) = self.fates.settle(number, None) {
            self.losses.score(guessed.mood, true);
        }
    }

    /// The next packet in the order of sending whose fate is known; loss statistics have it.
    pub(super) fn next_settled(&mut self) -> Option<Settled> {
        let settled = self.fates.next_settled()?;
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
