//! Lemma 1: how likely a window serves what it must [IQ-Paths §V-B.1a].

use super::{Distribution, Scale};

/// P(b ≥ `rate_bps`): the probability that a window of the path carries this rate (5). `None` while
/// nothing is known of the path.
///
/// The lemma states 1 − F(b₀) with F(b) = P(B < b): a window whose bandwidth equals the need serves it.
/// The appendix writes P(r ≤ …), which would count that window as a failure (`spec/guarantees.md` §2).
pub fn probability_kept(path: &(impl Distribution + ?Sized), rate_bps: f64) -> Option<f64> {
    Some(1.0 - path.below(rate_bps)?)
}

/// P(at least `packets` are served in a window): Lemma 1 (5).
pub fn probability_served(
    path: &(impl Distribution + ?Sized),
    packets: f64,
    scale: Scale,
) -> Option<f64> {
    // The rate of x packets may come out a rounding error above that of a window which serves them exactly.
    probability_kept(path, scale.rate_bps(packets) * (1.0 - 1e-12))
}

/// The largest number of packets that a window serves with `probability`, in (0, 1] (6); `None` outside of
/// that, and while nothing is known.
pub fn packets_served(
    path: &(impl Distribution + ?Sized),
    probability: f64,
    scale: Scale,
) -> Option<u64> {
    // A rate that is x packets may come out a rounding error below x.
    Some((scale.packets(path.kept(probability)?) * (1.0 + 1e-12)) as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::distribution::tests::window, *};
    use proptest::prelude::*;

    /// Packets of 1250 bytes in windows of 1 s: 1 packet is 10 kbit/s.
    const SCALE: Scale = Scale {
        packet_bytes: 1250,
        window: Duration::from_secs(1),
    };

    /// Ten windows: 1, 2, … 10 Mbit/s. 300 packets a second are 3 Mbit/s, which eight of them carry, the
    /// one of exactly 3 Mbit/s among them.
    #[test]
    fn lemma_1_by_hand() {
        let path = window(
            &(1..=10)
                .map(|mbps| f64::from(mbps) * 1e6)
                .collect::<Vec<_>>(),
        );
        let served = |packets| probability_served(&path, packets, SCALE).unwrap();
        assert!((served(300.0) - 0.8).abs() < 1e-12);
        assert!((served(301.0) - 0.7).abs() < 1e-12);
        assert_eq!(served(0.0), 1.0);
        assert_eq!(served(1001.0), 0.0);
        assert_eq!(packets_served(&path, 0.8, SCALE), Some(300));
        assert_eq!(packets_served(&path, 0.81, SCALE), Some(200));
        assert_eq!(packets_served(&path, 1.0, SCALE), Some(100));
        assert_eq!(packets_served(&path, 0.0, SCALE), None);
        assert_eq!(probability_served(&window(&[]), 1.0, SCALE), None);
    }

    #[test]
    fn a_window_that_serves_exactly_as_many_packets_counts() {
        let scale = Scale {
            packet_bytes: 91,
            window: Duration::from_millis(1352),
        };
        // 98 kbit/s are 132,496 bits in it, as are 182 packets of 91 bytes.
        let path = window(&[98e3]);
        assert_eq!(probability_served(&path, 182.0, scale), Some(1.0));
        assert_eq!(probability_served(&path, 182.01, scale), Some(0.0));
    }

    proptest! {
        #[test]
        fn agrees_with_counting(
            rates_kbps in prop::collection::vec(0u32..5000, 1..100),
            packets in 0u32..600, packet_bytes in 1u32..3000, window_ms in 100u64..5000, p in 0.01..1.0f64,
        ) {
            let scale = Scale { packet_bytes, window: Duration::from_millis(window_ms) };
            let path = window(&rates_kbps.iter().map(|&kbps| f64::from(kbps) * 1e3).collect::<Vec<_>>());
            // In whole bits: kbit/s times milliseconds, against packets times bytes times 8.
            let serves = |kbps: u32, packets: u64| {
                u64::from(kbps) * window_ms >= packets * u64::from(packet_bytes) * 8
            };
            let share = |packets: u64| {
                let kept = rates_kbps.iter().filter(|&&kbps| serves(kbps, packets)).count();
                kept as f64 / rates_kbps.len() as f64
            };
            let answer = probability_served(&path, f64::from(packets), scale).unwrap();
            prop_assert!((answer - share(u64::from(packets))).abs() < 1e-12);
            let most = packets_served(&path, p, scale).unwrap();
            prop_assert!(share(most) >= p - 1e-9, "{most} are too many");
            prop_assert!(share(most + 1) < p, "{most} are not the most");
        }
    }
}
