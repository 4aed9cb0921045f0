//! Prefix: the part of the essential flow that the proxy must hold before the film begins [Two-flow §5.2, Figure 10].

use std::time::Duration;

use anabranch_base::Rate;

/// Round trips from the request to the first byte.
const STARTS_AFTER: f64 = 1.5;
/// Round trips until the loss of a packet has been detected and repaired.
const REPAIR: f64 = 1.25;
/// Share of packets for which the repair may itself be lost too often.
const UNREPAIRED: f64 = 1e-4;

/// Rate, delay and loss of the essential flow on the pipe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// Its rate, including the application bytes that are sent again.
    pub rate: Rate,
    /// The path's round trip.
    pub rtt: Duration,
    /// Share of packets that are lost, 0 to 1.
    pub loss: f64,
}

impl Supply {
    /// Delay until the bytes of a moment are there in order: the request, and repairs of repairs.
    fn delay(&self) -> Duration {
        let loss = self.loss.clamp(0.0, 0.9);
        let repairs = if loss > UNREPAIRED {
            (UNREPAIRED.ln() / loss.ln()).ceil() - 1.0
        } else {
            0.0
        };
        self.rtt.mul_f64(STARTS_AFTER + REPAIR * repairs.max(0.0))
    }

    /// Bytes that are there, in order, at `time` after the request.
    fn delivered(&self, time: Duration) -> f64 {
        let seconds = time.saturating_sub(self.delay()).as_secs_f64();
        self.rate.as_bytes_per_s() * (1.0 - self.loss.clamp(0.0, 1.0)) * seconds
    }
}

/// Size of the prefix, in bytes, with which everything is in time. `wanted` are the bytes of the essential frames with
/// the time from the beginning at which each is needed, in order of time. The flow is requested at the beginning and
/// carries what follows the prefix. O(n).
pub fn needed(wanted: impl IntoIterator<Item = (Duration, u64)>, supply: &Supply) -> u64 {
    let (mut sum, mut prefix) = (0_u64, 0.0_f64);
    for (at, bytes) in wanted {
        sum += bytes;
        prefix = prefix.max(sum as f64 - supply.delivered(at));
    }
    // The flow never carries more than exists.
    (prefix.ceil() as u64).min(sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn supply(kbps: u64, loss: f64) -> Supply {
        Supply {
            rate: Rate::from_kbps(kbps),
            rtt: Duration::from_millis(80),
            loss,
        }
    }

    /// A frame of 5000 bytes each half second, 80 kbit/s.
    fn film() -> impl Iterator<Item = (Duration, u64)> {
        (0..100).map(|k| (Duration::from_millis(500 * k), 5_000))
    }

    #[test]
    fn the_prefix_covers_the_start_and_what_the_rate_lacks() {
        // At its own rate: the first frame, and what is needed before the first bytes arrive.
        assert!((6_200..6_202).contains(&needed(film(), &supply(80, 0.0))));
        assert_eq!(needed(film(), &supply(8_000, 0.0)), 5_000);
        // At half of it, nearly half of the film.
        let half = needed(film(), &supply(40, 0.0));
        assert!((250_000..256_000).contains(&half), "{half}");
        assert_eq!(needed(film(), &supply(0, 0.0)), 500_000);
    }

    proptest! {
        /// The faster, nearer and less lossy the flow, the smaller the prefix; and the prefix suffices.
        #[test]
        fn more_supply_needs_less(kbps in 1u64..500, loss in 0.0..0.3f64, rtt_ms in 1u64..500) {
            let supply = Supply { rtt: Duration::from_millis(rtt_ms), ..supply(kbps, loss) };
            let prefix = needed(film(), &supply);
            let faster = Supply { rate: Rate::from_kbps(kbps + 10), ..supply };
            let cleaner = Supply { loss: loss / 2.0, ..supply };
            let nearer = Supply { rtt: supply.rtt / 2, ..supply };
            for better in [faster, cleaner, nearer] {
                prop_assert!(needed(film(), &better) <= prefix);
            }
            let mut sum = 0;
            for (at, bytes) in film() {
                sum += bytes;
                prop_assert!(prefix as f64 + supply.delivered(at) + 1.0 >= sum as f64);
            }
        }
    }
}
