//! CDMA2000 1xRTT as the thesis measured it in Boston in 2004 [Horde Appendix A.3], stationary and on the move.
//!
//! Unlike in other channels, the rate comes in bursts: the base station assigns a fast supplemental channel when a
//! queue has built up, and takes it away again [Horde §A.3.1]. So round trips jump up and fall evenly, in a saw-tooth
//! (Figures 7-25 and A-10a). Here the supplemental channel is absent for [`ABSENT`], then sends at [`PEAK`] until the
//! mean rate of the cycle is what the radio grants.

use std::time::Duration;

use anabranch_base::{Random, Rate, Seed};

use crate::{Config, Jitter, Loss, Queue, RateSource, Trace, duplex::Configs, loss::Doubling};

/// The rate of the supplemental channel: 16 × 9.6 kbit/s [Horde §A.3.1].
pub const PEAK: Rate = Rate::from_bps(153_600);
/// Time for which it is absent. Assumed: with the packets' own time it makes round trips vary by 0.6 s, which has about
/// the deviation of Figure A-10a (221 ms).
pub const ABSENT: Duration = Duration::from_millis(500);
/// A frame on the air [Horde §A.3.1].
pub const FRAME: Duration = Duration::from_millis(20);
/// Loss bursts double from one packet to this many: Figure A-13 has runs of up to 20.
const BURST_MAX: u32 = 16;
/// Lost on the air. About 1 % were lost under AIMD, much of it AIMD's own doing [Horde §A.3.7].
const LOSS: f64 = 0.005;
/// Round trips above four seconds were seen (Figure A-10b): 5 s of queue.
const QUEUE: Duration = Duration::from_secs(5);
/// Time that the recordings last before they repeat.
const STATIONARY: Duration = Duration::from_secs(600);
const MOBILE: Duration = Duration::from_secs(1_200);

/// Rate over a drive of twenty minutes [Horde Figure 7-28, note 19]: from and to, in seconds, and the factor on the
/// rate. Lengths and depths of the dips are assumed; the blackout was shorter than 45 s (§A.3.8).
const DRIVE: [(u64, u64, f64); 5] = [
    (80, 120, 0.75),
    (200, 212, 0.3),
    (480, 520, 1.15),
    (750, 790, 0.0),
    (1_050, 1_070, 0.4),
];

/// Stationary: 130 kbit/s, σ = 5 [Horde §A.1].
pub fn stationary() -> Configs {
    configs("cdma2000", STATIONARY, 130.0, 5.0, &[], Seed(0x1c2d))
}

/// In a van: 120 kbit/s, σ = 22 [Horde §A.1], with the dips of `DRIVE`.
pub fn mobile() -> Configs {
    configs("cdma2000-mobile", MOBILE, 120.0, 22.0, &DRIVE, Seed(0x1c2e))
}

fn configs(
    name: &str,
    duration: Duration,
    mean_kbps: f64,
    deviation_kbps: f64,
    places: &[(u64, u64, f64)],
    seed: Seed,
) -> Configs {
    let rates = frames(duration, mean_kbps, deviation_kbps, places, seed);
    let loss = Doubling::horde(LOSS, BURST_MAX).expect("in range, as a test checks");
    let forward = Config {
        rate: RateSource::trace(Trace::from_rates(name, FRAME, &rates)),
        // Small packets came back after 316 ms (Figure A-8c), 20 ms of which is a wait for a frame.
        delay: Duration::from_millis(150),
        jitter: Jitter::uniform(FRAME),
        loss: Loss::Doubling(loss),
        queue: Queue::bytes(PEAK.bytes_in(QUEUE)),
        ..Config::default()
    };
    Configs {
        // Slower than the uplink (Figure A-1), but dedicated, so without the saw-tooth.
        backward: Config {
            rate: RateSource::Constant(Rate::from_kbps(100)),
            loss: Loss::None,
            ..forward.clone()
        },
        forward,
    }
}

/// The rate of each frame.
fn frames(
    duration: Duration,
    mean_kbps: f64,
    deviation_kbps: f64,
    places: &[(u64, u64, f64)],
    seed: Seed,
) -> Vec<Rate> {
    /// Correlation of the rate that the radio grants from one cycle to the next, some seconds later.
    const MEMORY: f64 = 0.7;
    let peak_kbps = PEAK.as_bps() as f64 / 1e3;
    let count = (duration.as_nanos() / FRAME.as_nanos()) as usize;
    let absent = (ABSENT.as_nanos() / FRAME.as_nanos()) as usize;
    let mut random = seed.stream("cdma2000");
    let mut rates = Vec::with_capacity(count);
    let mut deviate = 0.0;
    while rates.len() < count {
        let second = (rates.len() as u64 * FRAME.as_millis() as u64) / 1_000;
        let place = places
            .iter()
            .find(|(from, to, _)| (*from..*to).contains(&second));
        let factor = place.map_or(1.0, |&(_, _, factor)| factor);
        deviate = MEMORY * deviate + (1.0 - MEMORY * MEMORY).sqrt() * normal(&mut random);
        let granted = (mean_kbps + deviation_kbps * deviate) * factor;
        let part = (granted / peak_kbps).clamp(0.0, 0.93);
        // Of the cycle, `part` is sent at the peak; if that is little, a cycle is at least a second.
        let cycle = (absent as f64 / (1.0 - part)).max(50.0);
        let sending = (part * cycle).round() as usize;
        let idle = (cycle.round() as usize).saturating_sub(sending);
        rates.extend(std::iter::repeat_n(Rate::ZERO, idle));
        rates.extend(std::iter::repeat_n(PEAK, sending));
    }
    rates.truncate(count);
    rates
}

/// A standard normal deviate (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.uniform(1e-12, 1.0).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.uniform(0.0, 1.0)).cos()
}

/// The recorded rates of a direction over windows of this length in seconds, in kbit/s.
#[cfg(test)]
fn windows(configs: &Configs, seconds: usize) -> Vec<f64> {
    let RateSource::Trace(playback) = &configs.forward.rate else {
        return Vec::new();
    };
    let crate::trace::Shape::Steps(steps) = playback.trace.shape() else {
        return Vec::new();
    };
    let frames = seconds * 50;
    let sum = |part: &[crate::trace::Step]| part.iter().map(|step| step.rate.as_bps()).sum::<u64>();
    steps
        .chunks_exact(frames)
        .map(|part| sum(part) as f64 / frames as f64 / 1e3)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        (mean, (squares / values.len() as f64).sqrt())
    }

    #[test]
    fn the_rates_are_those_measured() {
        let (mean, deviation) = mean_and_deviation(&windows(&stationary(), 10));
        assert!((mean - 130.0).abs() < 3.0, "{mean}");
        assert!((2.0..9.0).contains(&deviation), "{deviation}");
        let (mean, deviation) = mean_and_deviation(&windows(&mobile(), 10));
        // The best place and the bound of the peak leave a little more than 120.
        assert!((110.0..126.0).contains(&mean), "{mean}");
        assert!((18.0..32.0).contains(&deviation), "{deviation}");
    }

    #[test]
    fn the_drive_has_its_blackout() {
        let windows = windows(&mobile(), 10);
        assert_eq!(windows[76..78], [0.0, 0.0]);
        assert!(windows[72] > 60.0);
    }
}
