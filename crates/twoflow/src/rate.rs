//! Target rates [Two-flow §4.1].

use std::time::Duration;

use anabranch_base::Rate;

/// p̂: the share of packets that may have to be sent again [Two-flow §4.1].
pub const RETRANSMITTED: f64 = 0.05;

/// S/(T(1 − p̂)) [Two-flow §4.1]: the rate at which `bytes` arrive within `time` although the share `retransmitted`
/// (below 1) of them is sent twice. Rounded up to a bit per second; zero for no bytes.
pub fn target(bytes: u64, time: Duration, retransmitted: f64) -> Rate {
    let seconds = time.as_secs_f64() * (1.0 - retransmitted.clamp(0.0, 0.99));
    if bytes == 0 {
        return Rate::ZERO;
    }
    Rate::from_bps((bytes as f64 * 8.0 / seconds.max(1e-9)).ceil() as u64)
}

/// Overhead of packet headers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Bytes of a packet as they are counted.
    pub packet_bytes: f64,
    /// Bytes of these that belong to the application; above 0.
    pub payload_bytes: f64,
}

impl Overhead {
    /// Rate of the packets that carry this rate of the application.
    pub fn on_top_of(&self, rate: Rate) -> Rate {
        let factor = (self.packet_bytes / self.payload_bytes).max(1.0);
        Rate::from_bps((rate.as_bps() as f64 * factor).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4.3 MB in 256 s: 134375 bit/s, and 5 % on top of what arrives.
    #[test]
    fn the_target_includes_retransmissions() {
        let time = Duration::from_secs(256);
        assert_eq!(target(4_300_000, time, 0.0), Rate::from_bps(134_375));
        assert_eq!(
            target(4_300_000, time, RETRANSMITTED),
            Rate::from_bps(141_448)
        );
        assert_eq!(target(0, time, RETRANSMITTED), Rate::ZERO);
    }

    #[test]
    fn header_overhead_is_added() {
        let overhead = Overhead {
            packet_bytes: 1_500.0,
            payload_bytes: 1_200.0,
        };
        assert_eq!(
            overhead.on_top_of(Rate::from_kbps(400)),
            Rate::from_kbps(500)
        );
    }
}
