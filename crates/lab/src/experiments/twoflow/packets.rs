//! Sizes of the packets of both flows, and rates in UDP payload.

use anabranch_base::Rate;

/// A full packet with its IP header, and without.
pub(super) const PACKET_BYTES: f64 = 1_500.0;
pub(super) const UDP_BYTES: f64 = 1_472.0;
/// Application bytes of a full packet of each flow; parts of several frames share packets. Measured (a test of `scene`).
pub(super) const ESSENTIAL_BYTES: f64 = 1_400.0;
pub(super) const ENHANCED_BYTES: f64 = 1_412.0;

/// Rate of UDP payload that carries this rate of the application.
pub(super) fn udp(rate: Rate, payload_bytes: f64) -> Rate {
    Rate::from_bps((rate.as_bps() as f64 * UDP_BYTES / payload_bytes).ceil() as u64)
}

/// Rates of both channels in a step, in UDP payload: the essential one and the enhanced one.
pub(super) fn udp_rates(step: &anabranch_twoflow::Step) -> [Rate; 2] {
    [
        udp(step.essential_rate, ESSENTIAL_BYTES),
        udp(step.enhanced_rate, ENHANCED_BYTES),
    ]
}
