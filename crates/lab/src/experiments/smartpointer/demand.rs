//! Rates as demanding on recorded paths as the paper's were on its own.

use anabranch_base::{Rate, Seed};

use crate::kit::{
    sources::visualisation::PUBLISHED,
    streams::{Scene, Timing, figures::exceeded, measure::WINDOW},
};

/// Share of the capacity of all paths together in 95 % of windows that the critical streams ask for: the paper's 25.40 Mbit/s
/// of the 71.09 that PGOS had there [IQ-Paths Table III].
const CRITICAL_SHARE: f64 = 25.397 / 71.09;
/// Rate of all three streams together, relative to the average capacity of the paths: the paper's 95.74 Mbit/s to the 84.42
/// that its paths carried [IQ-Paths Table III].
const OFFERED_SHARE: f64 = 95.737 / 84.42;
/// Share of the application in the bits that a path carries, the rest being headers and control: as achieved by `opt` on the
/// testbed.
const APPLICATION_SHARE: f64 = 0.945;
/// Rate below which a frame of the smaller critical stream is too small for a message.
const CRITICAL_LEAST_BPS: f64 = 100e3;

/// Demand on a set of paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Rates of atoms, bonds in view, bonds out of view.
    pub rates: [Rate; 3],
    /// Average capacity of all paths together, in bits per second.
    pub mean_bps: f64,
    /// Their capacity in 95 % of windows.
    pub p95_bps: f64,
}

impl Demand {
    /// Average capacity left for the elastic stream, if streams of these rates have theirs.
    pub fn elastic_share(&self, rates: [Rate; 3]) -> Rate {
        let critical = (rates[0].as_bps() + rates[1].as_bps()) as f64;
        let left = APPLICATION_SHARE * self.mean_bps - critical;
        Rate::from_bps(left.clamp(1e3, rates[2].as_bps().max(1_000) as f64) as u64)
    }
}

/// Demand on a scene: atoms and bonds in view in the paper's proportion, together the same share of the paths' capacity in 95 %
/// of the windows that count; bonds out of view make up the rest.
///
/// # Errors
/// A message that explains why nothing can be asked of it.
pub fn demand_of(scene: &Scene, seed: Seed, timing: Timing) -> Result<Demand, String> {
    let count = timing.end().as_secs() as usize;
    let paths = scene
        .available_bps(seed, (WINDOW, count))
        .map_err(|error| error.to_string())?;
    let skipped = count.saturating_sub(timing.windows + 1);
    let sums = (skipped..count).map(|window| paths.iter().map(|path| path[window]).sum());
    let mut sums: Vec<f64> = sums.collect();
    let mean_bps = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
    sums.sort_by(f64::total_cmp);
    let p95_bps = exceeded(&sums, 0.95);
    let critical = CRITICAL_SHARE * p95_bps;
    if critical < CRITICAL_LEAST_BPS {
        return Err(format!(
            "the paths together hold {:.3} Mbit/s in 95 % of seconds, which is too little for any demand",
            p95_bps / 1e6
        ));
    }
    let [atoms, seen, _] = PUBLISHED.map(|rate| rate.as_bps() as f64);
    let part = |rate: f64| Rate::from_bps((critical * rate / (atoms + seen)) as u64);
    let rest = (OFFERED_SHARE * mean_bps - critical).max(0.0);
    Ok(Demand {
        rates: [part(atoms), part(seen), Rate::from_bps(rest as u64)],
        mean_bps,
        p95_bps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::recording::Recording;

    fn scene(rates: &[f64]) -> Scene {
        let recording = Recording {
            name: "r".to_owned(),
            times_s: (0..rates.len()).map(|index| index as f64).collect(),
            bandwidth_bps: Some(rates.iter().copied().map(Some).collect()),
            ..Recording::default()
        };
        Scene::of_recordings(&[&recording, &recording], Rate::from_mbps(1_000)).unwrap()
    }

    #[test]
    fn proportions_are_the_papers() {
        let demand = demand_of(&scene(&[10e6, 10e6]), Seed(1), Timing::USUAL).unwrap();
        assert_eq!((demand.mean_bps, demand.p95_bps), (20e6, 20e6));
        let [atoms, seen, rest] = demand.rates.map(|rate| rate.as_bps() as f64);
        let critical = 20e6 * 25.397 / 71.09;
        assert!((atoms + seen - critical).abs() < 2.0);
        let share = demand.elastic_share(demand.rates).as_bps() as f64;
        assert!((share - (0.945 * 20e6 - critical)).abs() < 3.0, "{share}");
        assert!((seen / atoms - 22.148 / 3.249).abs() < 1e-3);
        assert!((atoms + seen + rest - 20e6 * 95.737 / 84.42).abs() < 3.0);
    }

    #[test]
    fn nothing_is_asked_of_dead_paths() {
        let rates: Vec<f64> = (0..10).map(|n| if n == 0 { 0.0 } else { 5e6 }).collect();
        let refusal = demand_of(&scene(&rates), Seed(1), Timing::USUAL).unwrap_err();
        assert!(refusal.contains("0.000 Mbit/s"), "{refusal}");
    }
}
