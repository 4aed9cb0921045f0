//! Test for losses that are more than chance.

/// Share of lost packets that BBR tolerates [draft-ietf-ccwg-bbr, BBR.LossThresh].
pub(super) const THRESHOLD: f64 = 0.02;
/// Standard deviations above the threshold from which losses are more than chance.
const DEVIATIONS: f64 = 2.0;

/// Packets that a flight of `packets` may lose before its loss exceeds [`THRESHOLD`] by more than chance explains.
///
/// Packets of a flight are lost independently, so a path that loses a share p of them takes about p·n ± √(p·n) out of n
/// (Poisson). Comparing the bare share, as the draft does, declares a path that loses 1 % at random congested in one
/// flight of twenty when a flight is 200 packets.
fn tolerated(packets: f64) -> f64 {
    let expected = THRESHOLD * packets;
    expected + DEVIATIONS * expected.sqrt()
}

/// True if `lost` out of `flight` bytes, in packets of `packet` bytes, are too many.
pub(super) fn is_too_much(lost: f64, flight: f64, packet: f64) -> bool {
    lost > tolerated(flight.max(0.0) / packet) * packet
}

/// Bytes of a flight that were sent when its losses became too many, where `lost` of them, the last
/// `size` among these, were lost out of `flight` [InflightAtLoss, with our tolerance].
pub(super) fn flight_at_excess(lost: f64, flight: f64, size: f64, packet: f64) -> f64 {
    let (flight_before, lost_before) = (flight - size, lost - size);
    let allowed = tolerated(flight_before.max(0.0) / packet) * packet;
    let prefix = ((allowed - lost_before) / (1.0 - THRESHOLD)).clamp(0.0, size);
    flight_before + prefix
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_flight_is_judged_by_its_share_and_a_small_one_with_caution() {
        let of = |lost: f64, flight: f64| is_too_much(lost * 1e3, flight * 1e3, 1e3);
        assert!(!of(1.0, 10.0));
        assert!(of(2.0, 10.0));
        assert!(!of(8.0, 200.0));
        assert!(of(9.0, 200.0));
        assert!(!of(220.0, 10_000.0));
        assert!(of(230.0, 10_000.0));
        assert!(!of(0.0, 0.0));
        assert!(of(1.0, 0.0));
    }

    proptest! {
        /// The point in the flight at which losses became too many lies within the last packet.
        #[test]
        fn excess_lies_within_the_last_packet(flight in 1_000.0f64..1e7, lost in 1_000.0f64..1e6) {
            let at = flight_at_excess(lost, flight, 1_000.0, 1_000.0);
            prop_assert!(at >= flight - 1_000.0 && at <= flight);
        }
    }
}
