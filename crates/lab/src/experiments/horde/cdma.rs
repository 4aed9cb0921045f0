//! Round trips as on a CDMA2000 1xRTT channel: a queue that is held, then drained.

use anabranch_base::{Random, Seed};
use anabranch_link::loss::Doubling;

/// Time between packets of 768 bytes at 60 kbit/s, one of the published constant rates [Horde §7.4.1].
pub(super) const GAP_MS: f64 = 102.4;
/// Round trip without queueing: the smallest measured ones are near 300 ms [Horde §A.3.2, §A.3.5].
const BASE_MS: f64 = 300.0;
/// Time of a packet at 153.6 kbit/s, the maximum of the standard [Horde §A.3.1].
const SERVICE_MS: f64 = 40.0;
/// Duration of a frame [Horde §A.3.1].
const FRAME_MS: f64 = 20.0;
/// Time for which a queue is held before a channel for its data is reserved: assumed, so that round trips have about the
/// published mean and deviation.
const HOLD_MS: (f64, f64) = (700.0, 80.0);
const NOISE_MS: f64 = 10.0;
/// Loss rate: Figure 7-5 has 0 to 1 %, in bursts of up to 16.
const LOSS: f64 = 0.005;
const BURST_MAX: u32 = 16;

/// A packet: its sending time, and its round trip in ms; `None`: lost.
pub(super) type Probe = (f64, Option<f64>);

/// `packets` packets, [`GAP_MS`] apart. Packets that arrive at an idle channel wait until it is reserved, with all that arrive
/// meanwhile; then all leave at the channel's rate, until none is left [Horde Figures 7-25, A-10a]. With `elevated_ms`, periods
/// of about a minute have round trips longer by that much [Horde Figure 7-29b].
pub(super) fn probes(packets: u64, elevated_ms: f64, seed: Seed) -> Vec<Probe> {
    let mut random: Random = seed.stream("cdma2000");
    let losses = Doubling::horde(LOSS, BURST_MAX).expect("figures that are possible");
    let mut state = losses.any_state(&mut random);
    let (mut released_ms, mut left_ms) = (0.0_f64, 0.0_f64);
    let (mut is_elevated, mut more_ms) = (false, 0.0);
    let one = |number| {
        let at_ms = number as f64 * GAP_MS;
        if at_ms >= left_ms {
            released_ms = at_ms + random.normal(HOLD_MS.0, HOLD_MS.1).max(0.0);
        }
        left_ms = left_ms.max(released_ms).max(at_ms) + SERVICE_MS;
        let framed_ms = (left_ms / FRAME_MS).ceil() * FRAME_MS;
        if elevated_ms > 0.0 && random.chance(GAP_MS / 60e3) {
            is_elevated = !is_elevated;
        }
        let wanted_ms = if is_elevated { elevated_ms } else { 0.0 };
        more_ms += 0.02 * (wanted_ms - more_ms);
        let trip_ms = BASE_MS + more_ms + framed_ms - at_ms + random.normal(0.0, NOISE_MS);
        state = losses.step(state, &mut random);
        (at_ms, (state == 0).then_some(trip_ms.max(1.0)))
    };
    (0..packets).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mean of 850 and a deviation of 221 ms were measured [Horde Figure A-10a], with packets larger by half.
    #[test]
    fn round_trips_fall_slowly_and_rise_at_once() {
        let probes = probes(20_000, 0.0, Seed(1));
        let trips: Vec<f64> = probes.iter().filter_map(|probe| probe.1).collect();
        let count = trips.len() as f64;
        let mean = trips.iter().sum::<f64>() / count;
        let square = trips.iter().map(|trip| (trip - mean).powi(2)).sum::<f64>();
        let deviation = (square / count).sqrt();
        assert!((600.0..900.0).contains(&mean), "{mean}");
        assert!((150.0..280.0).contains(&deviation), "{deviation}");
        let falling = trips.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64;
        assert!(falling / count > 0.7, "most are on the downward edge");
        let lost = probes.iter().filter(|probe| probe.1.is_none()).count() as f64;
        assert!((lost / 20_000.0 - LOSS).abs() < 0.003);
    }
}
