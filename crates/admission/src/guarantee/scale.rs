//! Packets in a window, as a rate and back.

use std::time::Duration;

/// The size of a packet and the length of a window, which turn x packets into a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// s, above 0.
    pub packet_bytes: u32,
    /// t_w, above 0.
    pub window: Duration,
}

impl Scale {
    /// b₀ = x·s/t_w in bits per second: the rate that serves `packets` in a window.
    pub fn rate_bps(self, packets: f64) -> f64 {
        packets * self.packet_bits() / self.window.as_secs_f64()
    }

    /// The packets that `rate_bps` serves in a window.
    pub fn packets(self, rate_bps: f64) -> f64 {
        rate_bps * self.window.as_secs_f64() / self.packet_bits()
    }

    fn packet_bits(self) -> f64 {
        f64::from(self.packet_bytes) * 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_rate() {
        let scale = Scale {
            packet_bytes: 1250,
            window: Duration::from_millis(500),
        };
        assert_eq!(scale.rate_bps(100.0), 2e6);
        assert_eq!(scale.packets(2e6), 100.0);
    }
}
