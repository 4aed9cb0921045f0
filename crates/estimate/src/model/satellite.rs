//! Satellite channels: between two handovers a channel is one, after the next it is another.

use std::time::Duration;

use anabranch_base::Instant;

use super::{
    ChannelModel, Expectation, Packet, Technology, average::Average, base::Base, given::Given,
    periodicity::Periodicity, spread::Guess,
};
use crate::order::{Outcome, Settled};

/// Samples before an average is a guess.
const LONG_MIN: u32 = 16;
const LEVEL_MIN: u32 = 4;

/// Three more guesses of a round trip than [`Generic`](super::Generic), the best of late being asked: a long average,
/// the average since the last handover, and what followed the last round trip before (p_k(x|z), as
/// [`Cellular`](super::Cellular)). Handovers are found by the period with which round trips jump and packets
/// are lost (15 s on Starlink; any period from 8 to 60 s). Around them, losses and distributions are those that
/// were measured there. About 640 kB.
#[derive(Clone, Debug)]
pub struct Satellite {
    base: Base<4, 2>,
    given: Given,
    periodicity: Periodicity,
    long: Average,
    level: Average,
    /// True if the last packet that arrived was sent near a handover.
    was_near: bool,
}

impl Satellite {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self {
            base: Base::new(),
            given: Given::new(),
            periodicity: Periodicity::new(),
            long: Average::default(),
            level: Average::default(),
            was_near: false,
        }
    }

    /// The time between handovers, once found.
    pub fn period(&self) -> Option<Duration> {
        self.periodicity.period()
    }

    /// True if a packet sent then falls into a part of the period that handovers affect.
    pub fn is_near_handover(&self, at: Instant) -> bool {
        self.periodicity.is_near(at)
    }

    fn guesses(&mut self, index: u64) -> [Guess; 4] {
        [
            self.base.smoothed(),
            self.long.guess(LONG_MIN),
            self.level.guess(LEVEL_MIN),
            self.given.guess(index),
        ]
    }

    fn zone(&self, at: Instant) -> usize {
        usize::from(self.periodicity.is_near(at))
    }

    fn settle(&mut self, settled: &Settled) {
        self.base.settle(settled);
        self.periodicity.observe(settled.at, settled.rtt_ms());
        let Some(rtt_ms) = settled.rtt_ms() else {
            return;
        };
        let is_near = self.periodicity.is_near(settled.at);
        if self.was_near && !is_near {
            self.level.restart();
        }
        self.was_near = is_near;
        self.level.observe(rtt_ms);
        self.long.observe(rtt_ms);
    }
}

impl Default for Satellite {
    fn default() -> Self {
        Self::new()
    }
}

impl ChannelModel for Satellite {
    fn technology(&self) -> Technology {
        Technology::Satellite
    }

    fn sent(&mut self, packet: Packet) {
        let zone = self.zone(packet.at);
        let guesses = self.guesses(self.base.index(0));
        self.base.sent(packet, guesses, zone);
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        if let Some(acked) = self.base.score(outcome) {
            self.given.observe(acked);
        }
        outcome
            .settled
            .iter()
            .for_each(|settled| self.settle(settled));
    }

    fn expect(&mut self, ahead: u32, at: Instant) -> Expectation {
        let index = self.base.index(ahead);
        let usual = self.base.losses.of(self.base.loss_state(), ahead);
        // Bursts and handovers: the worse of the two.
        let loss = self.periodicity.loss(at).map_or(usual, |here| {
            if self.periodicity.is_near(at) {
                here.max(usual)
            } else {
                usual
            }
        });
        let (guesses, zone) = (self.guesses(index), self.zone(at));
        self.base.expectation(&guesses, zone, loss)
    }

    fn lost_together(&self, apart: u64) -> f64 {
        self.base.losses.together(apart)
    }
}
