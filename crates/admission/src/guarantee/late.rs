//! Lemma 2: how many packets of a window are late on average [IQ-Paths §V-B.1b].

use super::{Distribution, Scale};

/// E\[Z\] = x·F(b₀) − (t_w/s)·M\[b₀\] with b₀ = x·s/t_w (7): of `packets` in a window, the mean number that
/// the path does not serve in it. `None` while nothing is known of the path.
///
/// M is the partial mean (`deviation: lemma-2-partial-mean`). It is an equality for a fluid, and for whole
/// packets a lower bound that is off by less than one packet in each window that falls short.
pub fn late_packets(
    path: &(impl Distribution + ?Sized),
    packets: f64,
    scale: Scale,
) -> Option<f64> {
    let need_bps = scale.rate_bps(packets);
    let late = packets * path.cdf(need_bps)? - scale.packets(path.partial_mean(need_bps)?);
    // Both terms are equal when the path never falls short, but for rounding.
    Some(late.max(0.0))
}

/// The largest rate, in bits per second, of which at most `late` packets a window are late on average (8);
/// `None` while nothing is known of the path, and for a bound that is negative or not finite.
///
/// E\[(b − B)⁺\] is convex in b and made of straight pieces between samples, so Newton's method from above
/// ends at the root itself, after a few steps; each costs one F and one M.
pub fn rate_for_late(path: &(impl Distribution + ?Sized), late: f64, scale: Scale) -> Option<f64> {
    if !(late >= 0.0 && late.is_finite()) {
        return None;
    }
    let allowed_bps = scale.rate_bps(late);
    let mut rate = 1.0;
    while rate * path.cdf(rate)? - path.partial_mean(rate)? <= allowed_bps {
        rate *= 2.0;
        if rate > 1e18 {
            return None;
        }
    }
    loop {
        let next = (allowed_bps + path.partial_mean(rate)?) / path.cdf(rate)?;
        // The pieces are finitely many, and every step but the last leaves one for good.
        if next >= rate * (1.0 - 1e-15) {
            return Some(rate.min(next));
        }
        rate = next;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{Residual, distribution::tests::window},
        *,
    };
    use proptest::prelude::*;

    const SCALE: Scale = Scale {
        packet_bytes: 1250,
        window: Duration::from_secs(1),
    };

    /// Windows of 1, 2, 3 and 4 Mbit/s, 300 packets (3 Mbit/s): 200, 100, 0 and 0 are late, 75 on average.
    /// F(b₀) = 3/4, M[b₀] = 6/4 Mbit/s: 300·0.75 − 100·1.5 = 75. With the conditional mean, 2 Mbit/s, the
    /// formula would give 25; and for 100 packets 100·0.25 − 100·1 = −75.
    #[test]
    fn lemma_2_by_hand() {
        let path = window(&[1e6, 2e6, 3e6, 4e6]);
        let late = |packets| late_packets(&path, packets, SCALE).unwrap();
        assert!((late(300.0) - 75.0).abs() < 1e-9);
        assert!((late(100.0)).abs() < 1e-9);
        assert!((late(500.0) - 250.0).abs() < 1e-9);
        let most = rate_for_late(&path, 75.0, SCALE).unwrap();
        assert!((most - 3e6).abs() < 1e-3, "{most}");
        // Above all samples, every further packet is late.
        let most = rate_for_late(&path, 250.0, SCALE).unwrap();
        assert!((most - 5e6).abs() < 1e-3, "{most}");
        // None late: the smallest sample.
        assert!((rate_for_late(&path, 0.0, SCALE).unwrap() - 1e6).abs() < 1e-6);
        assert_eq!(rate_for_late(&path, -1.0, SCALE), None);
        assert_eq!(late_packets(&window(&[]), 1.0, SCALE), None);
    }

    /// The example of the conditional mean, as published: the bound is negative.
    #[test]
    fn the_conditional_mean_gives_a_negative_bound() {
        let path = window(&[1e6, 2e6, 3e6, 4e6]);
        let (packets, need) = (100.0, 1e6);
        let share = Distribution::cdf(&path, need).unwrap();
        let conditional = Distribution::partial_mean(&path, need).unwrap() / share;
        assert_eq!(packets * share - SCALE.packets(conditional), -75.0);
    }

    proptest! {
        #[test]
        fn agrees_with_the_sum(
            rates_kbps in prop::collection::vec(0u32..5000, 1..100),
            taken_kbps in 0u32..3000,
            packets in 0u32..600, packet_bytes in 1u32..3000, window_ms in 100u64..5000,
        ) {
            let scale = Scale { packet_bytes, window: Duration::from_millis(window_ms) };
            let path = window(&rates_kbps.iter().map(|&kbps| f64::from(kbps) * 1e3).collect::<Vec<_>>());
            let path = Residual { path: &path, taken_bps: f64::from(taken_kbps) * 1e3 };
            let packet_bits = f64::from(packet_bytes) * 8.0;
            let mean_late = |packets: f64| {
                let late = |&kbps: &u32| {
                    let bits = f64::from(kbps.saturating_sub(taken_kbps)) * window_ms as f64;
                    (packets - bits / packet_bits).max(0.0)
                };
                rates_kbps.iter().map(late).sum::<f64>() / rates_kbps.len() as f64
            };
            let packets = f64::from(packets);
            let answer = late_packets(&path, packets, scale).unwrap();
            let sum = mean_late(packets);
            let tolerance = 1e-9 * (1.0 + packets + scale.packets(5e6));
            prop_assert!((answer - sum).abs() <= tolerance, "{} {}", answer, sum);
        }

        #[test]
        fn the_inverse_is_the_largest(
            rates_kbps in prop::collection::vec(0u32..5000, 1..100), late in 0.0..50.0f64,
        ) {
            let path = window(&rates_kbps.iter().map(|&kbps| f64::from(kbps) * 1e3).collect::<Vec<_>>());
            let rate = rate_for_late(&path, late, SCALE).unwrap();
            let at = |rate: f64| late_packets(&path, SCALE.packets(rate), SCALE).unwrap();
            prop_assert!(at(rate) <= late + 1e-6, "{}", at(rate));
            prop_assert!(at(rate + 100.0) > late, "{} is not the largest", rate);
        }
    }
}
