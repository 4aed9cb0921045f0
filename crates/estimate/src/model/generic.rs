//! Any channel: the smoothed round trip, the fraction lost.

use anabranch_base::Instant;

use super::{ChannelModel, Expectation, Packet, Technology, base::Base};
use crate::order::Outcome;

/// The published simple model [Horde §4.1, §7.2.1]: an exponentially weighted average of round trips and a simple
/// average of losses. Ours is the distribution around the average: of how far round trips lay from it, in units
/// of its variation, measured when packets were sent.
#[derive(Clone, Debug)]
pub struct Generic {
    base: Base<1, 1>,
}

impl Generic {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self { base: Base::new() }
    }
}

impl Default for Generic {
    fn default() -> Self {
        Self::new()
    }
}

impl ChannelModel for Generic {
    fn technology(&self) -> Technology {
        Technology::Generic
    }

    fn sent(&mut self, packet: Packet) {
        let guess = self.base.smoothed();
        self.base.sent(packet, [guess], 0);
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.base.score(outcome);
        for settled in outcome.settled {
            self.base.settle(settled);
        }
    }

    fn expect(&mut self, _: u32, _: Instant) -> Expectation {
        let guess = self.base.smoothed();
        let loss = self.base.losses.average();
        self.base.expectation(&[guess], 0, loss)
    }

    fn lost_together(&self, apart: u64) -> f64 {
        self.base.losses.together(apart)
    }
}
