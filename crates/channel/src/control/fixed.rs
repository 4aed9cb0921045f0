//! A constant rate, whatever the network state [Two-flow §4.2].

use std::time::Instant;

use anabranch_base::Rate;

use super::{Ack, Congestion, Control};

/// Longest round trip for which the window lets the full rate through, in seconds.
const RTT_MAX_S: f64 = 2.0;

/// A leaky bucket without congestion response. The window only bounds memory.
#[derive(Debug)]
pub(super) struct Fixed {
    bytes_per_s: f64,
}

impl Fixed {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            bytes_per_s: rate.as_bytes_per_s(),
        }
    }
}

impl Control for Fixed {
    fn on_sent(&mut self, _now: Instant, _bytes: u16, _packet: u64) {}

    fn on_ack(&mut self, _ack: &Ack<'_>) {}

    fn on_congestion(&mut self, _event: &Congestion) {}

    fn on_mtu(&mut self, _mtu: u16) {}

    fn set_rate(&mut self, rate: Rate) -> bool {
        self.bytes_per_s = rate.as_bytes_per_s().max(1.0);
        true
    }

    fn is_even(&self) -> bool {
        true
    }

    fn window(&self) -> u64 {
        (self.bytes_per_s * RTT_MAX_S) as u64 + 65_536
    }

    fn pacing_rate(&self, _rtt_smoothed_s: f64) -> f64 {
        self.bytes_per_s
    }

    fn is_starting(&self) -> bool {
        false
    }
}
