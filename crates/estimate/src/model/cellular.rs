//! Cellular channels: the next round trip depends on the last, queues drain periodically, losses come in bursts.

use anabranch_base::Instant;

use super::{
    ChannelModel, Expectation, Packet, Technology, average::Average, base::Base, drain::Drain,
    given::Given, spread::Guess,
};
use crate::order::{Outcome, Settled};

/// Samples before the long average is a guess.
const SAMPLES_MIN: u32 = 16;

/// Three more guesses of a round trip than [`Generic`](super::Generic), the best of late being asked:
///
/// - p_k(x|z), the distribution of the round trip k packets after one of z [Horde §7.4.2], k being the distance to the
///   last packet whose round trip is known;
/// - the mean of round trips a whole number of periods before, if a queue drains periodically [Horde Figure 7-25];
/// - a long average.
///
/// A loss is the likelier when a packet was lost or is overdue, the more so the sooner (Gilbert–Elliott). About 570 kB.
#[derive(Clone, Debug)]
pub struct Cellular {
    base: Base<4, 1>,
    given: Given,
    drain: Drain,
    average: Average,
    /// Distance of the periodic guess from truths, its scale.
    drain_off_ms: f64,
}

impl Cellular {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self {
            base: Base::new(),
            given: Given::new(),
            drain: Drain::new(),
            average: Average::default(),
            drain_off_ms: 0.0,
        }
    }

    /// The period in packets in which a queue drains, if it does.
    pub fn period_packets(&self) -> Option<usize> {
        self.drain.period()
    }

    fn guesses(&mut self, index: u64) -> [Guess; 4] {
        let smoothed = self.base.smoothed();
        let periodic =
            (self.drain.guess(index)).map_or(Guess::NONE, |ms| Guess::new(ms, self.drain_off_ms));
        [
            smoothed,
            self.given.guess(index),
            periodic,
            self.average.guess(SAMPLES_MIN),
        ]
    }

    fn settle(&mut self, settled: &Settled) {
        self.base.settle(settled);
        if let (Some(rtt_ms), Some(guess)) = (settled.rtt_ms(), self.drain.guess(settled.index)) {
            self.drain_off_ms += 0.02 * ((rtt_ms - guess).abs() - self.drain_off_ms);
        }
        self.drain.observe(settled.index, settled.rtt_ms());
    }
}

impl Default for Cellular {
    fn default() -> Self {
        Self::new()
    }
}

impl ChannelModel for Cellular {
    fn technology(&self) -> Technology {
        Technology::Cellular
    }

    fn sent(&mut self, packet: Packet) {
        let guesses = self.guesses(self.base.index(0));
        self.base.sent(packet, guesses, 0);
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        if let Some(acked) = self.base.score(outcome) {
            self.given.observe(acked);
            self.average.observe(acked.rtt_ms);
        }
        outcome
            .settled
            .iter()
            .for_each(|settled| self.settle(settled));
    }

    fn expect(&mut self, ahead: u32, _: Instant) -> Expectation {
        let index = self.base.index(ahead);
        let loss = self.base.losses.of(self.base.loss_state(), ahead);
        let guesses = self.guesses(index);
        self.base.expectation(&guesses, 0, loss)
    }

    fn lost_together(&self, apart: u64) -> f64 {
        self.base.losses.together(apart)
    }
}
