//! The paths, and records whose demand on them is that of the paper.

use std::time::Duration;

use anabranch_base::{Rate, Seed};
use anabranch_link::{
    Traffic,
    traffic::{ParetoOnOff, Sizes},
};
use anabranch_sim::topology::figure8_with;

use crate::{
    Options,
    kit::{
        sources::{
            Records,
            records::{PERIOD, PUBLISHED},
        },
        streams::{Scene, Timing, figures::exceeded, measure::WINDOW},
    },
};

/// Application data that the paper's paths carried, on average and in 95 % of windows, in bits per second: the sums of the GridFTP
/// rows of Table IV, whose components move together. Their deviation is 5.67 Mbit/s.
const CARRIED_BPS: [f64; 2] = [134.507e6, 124.106e6];
/// Share of the application in the bits that a path carries, the rest being headers and control.
pub(super) const APPLICATION_SHARE: f64 = 0.945;
/// Sum to which recorded paths are scaled down, to limit the duration of a run.
const RECORDED_MAX: Rate = Rate::from_mbps(100);
/// Rate below which a record of the smaller critical component is too small for a message.
const CRITICAL_LEAST_BPS: f64 = 100e3;

/// Paths, and the records to send over them.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) scene: Scene,
    pub(super) records: Records,
    /// Rate that fair queuing is to give the elastic component: what the others leave on average.
    pub(super) elastic: Rate,
}

/// The paper's records on its testbed, or records that are as demanding on recorded paths.
pub(super) fn setting(options: &Options<'_>) -> Result<Setting, String> {
    let recordings: Vec<_> = options.corpus.recordings.iter().collect();
    let is_testbed = recordings.is_empty();
    let scene = if is_testbed {
        testbed()
    } else {
        let scene = Scene::of_recordings(&recordings, RECORDED_MAX);
        scene.ok_or("a recording has no bandwidth above 0")?
    };
    let capacity = capacity(&scene, options.seed, Timing::USUAL)?;
    let sizes = if is_testbed {
        PUBLISHED
    } else {
        as_demanding(capacity)?
    };
    let critical = (sizes[0] + sizes[1]) as f64 * 8.0 / PERIOD.as_secs_f64();
    let left = APPLICATION_SHARE * capacity.mean_bps - critical;
    Ok(Setting {
        scene,
        records: Records::of_sizes(sizes),
        elastic: Rate::from_bps(left.max(1e3) as u64),
    })
}

/// The testbed with cross-traffic that leaves what Table IV's streams had: two like paths, together 142.3 Mbit/s of packets with a
/// deviation of 6.1 over a second.
fn testbed() -> Scene {
    let users = || {
        Traffic::ParetoOnOff(ParetoOnOff {
            sources: 5,
            peak: Rate::from_kbps(3_820),
            on_mean: Duration::from_millis(500),
            off_mean: Duration::from_millis(500),
            shape: 1.5,
            sizes: Sizes::Fixed(1_000),
        })
    };
    Scene::Network(figure8_with(
        [(); 3].map(|()| users()),
        [(); 3].map(|()| users()),
    ))
}

/// Capacity of all paths together in the windows that count, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Capacity {
    mean_bps: f64,
    /// Reached in 95 % of windows.
    p95_bps: f64,
}

fn capacity(scene: &Scene, seed: Seed, timing: Timing) -> Result<Capacity, String> {
    let count = timing.end().as_secs() as usize;
    let paths = scene
        .available_bps(seed, (WINDOW, count))
        .map_err(|error| error.to_string())?;
    let skipped = count.saturating_sub(timing.windows + 1);
    let sums = (skipped..count).map(|window| paths.iter().map(|path| path[window]).sum());
    let mut sums: Vec<f64> = sums.collect();
    let mean_bps = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
    sums.sort_by(f64::total_cmp);
    Ok(Capacity {
        mean_bps,
        p95_bps: exceeded(&sums, 0.95),
    })
}

/// Sizes of components that ask of these paths what the paper's asked of its own: the critical ones the same share of what there is
/// in 95 % of windows, all together the same share of the mean.
fn as_demanding(capacity: Capacity) -> Result<[usize; 3], String> {
    let bps = PUBLISHED.map(|bytes| bytes as f64 * 8.0 / PERIOD.as_secs_f64());
    let [mean, p95] = CARRIED_BPS.map(|carried| carried / APPLICATION_SHARE);
    let critical = (bps[0] + bps[1]) / p95 * capacity.p95_bps;
    if critical < CRITICAL_LEAST_BPS {
        return Err(format!(
            "the paths together hold {:.3} Mbit/s in 95 % of seconds, which is too little for any demand",
            capacity.p95_bps / 1e6
        ));
    }
    let all = bps.iter().sum::<f64>() / mean * capacity.mean_bps;
    let part = |index: usize| critical * bps[index] / (bps[0] + bps[1]);
    let rates = [
        part(0),
        part(1),
        (all - critical).max(8.0 / PERIOD.as_secs_f64()),
    ];
    Ok(rates.map(|bps| (bps * PERIOD.as_secs_f64() / 8.0).round() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact, as the cross-traffic follows from the seed.
    #[test]
    fn the_testbed_carries_what_the_papers_did() {
        let seeds = 1..=10_u64;
        let found: Vec<Capacity> = seeds
            .map(|seed| capacity(&testbed(), Seed(seed), Timing::USUAL).unwrap())
            .collect();
        let mean = |of: fn(&Capacity) -> f64| {
            found.iter().map(of).sum::<f64>() / found.len() as f64 * APPLICATION_SHARE
        };
        let (average, p95) = (mean(|one| one.mean_bps), mean(|one| one.p95_bps));
        assert!((average / CARRIED_BPS[0] - 1.0).abs() < 0.005, "{average}");
        assert!((p95 / CARRIED_BPS[1] - 1.0).abs() < 0.01, "{p95}");
    }

    #[test]
    fn other_paths_are_asked_for_as_much() {
        let [mean, p95] = CARRIED_BPS.map(|carried| carried / APPLICATION_SHARE);
        let own = as_demanding(Capacity {
            mean_bps: mean,
            p95_bps: p95,
        });
        assert_eq!(own, Ok(PUBLISHED));
        let half = as_demanding(Capacity {
            mean_bps: mean / 2.0,
            p95_bps: p95 / 2.0,
        });
        assert_eq!(half, Ok(PUBLISHED.map(|bytes| bytes / 2)));
        let dead = Capacity {
            mean_bps: 1e6,
            p95_bps: 0.0,
        };
        assert!(as_demanding(dead).unwrap_err().contains("0.000 Mbit/s"));
    }
}
