//! Textbook examples of the product-limit estimate, and windows by hand.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use proptest::prelude::*;

use super::*;

fn survival(samples: &[Sample]) -> Survival {
    let mut survival = Survival::new(samples.len().max(1));
    for &sample in samples {
        survival.push(sample);
    }
    survival.refresh();
    survival
}

/// The 6-MP arm of Freireich et al. (1963), the example of Kalbfleisch and Prentice: 21 patients, weeks of
/// remission, + censored: 6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+.
#[test]
fn the_textbook_example() {
    let exact = [6, 6, 6, 7, 10, 13, 16, 22, 23];
    let censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
    let samples: Vec<Sample> = exact
        .map(|week| Sample::exact(Rate::from_bps(week)))
        .into_iter()
        .chain(censored.map(|week| Sample::at_least(Rate::from_bps(week))))
        .collect();
    let survival = survival(&samples);
    for (week, expected) in [
        (5, 1.0),
        (6, 0.857),
        (7, 0.807),
        (10, 0.753),
        (13, 0.690),
        (16, 0.627),
        (22, 0.538),
        (23, 0.448),
        (35, 0.448),
    ] {
        let above = 1.0 - survival.cdf(Rate::from_bps(week)).unwrap();
        assert!((above - expected).abs() < 5e-4, "{week}: {above}");
    }
    assert_eq!(survival.quantile(0.5), Some(Rate::from_bps(23)));
    assert_eq!(survival.quantile(0.6), None, "beyond what was seen");
}

#[test]
fn too_little_is_said_to_be_too_little() {
    assert_eq!(survival(&[]).cdf(Rate::ZERO), None);
    let only_bounds = survival(&[Sample::at_least(Rate::from_mbps(5)); 9]);
    assert_eq!(only_bounds.cdf(Rate::from_mbps(9)), None);
    assert_eq!(only_bounds.quantile(0.05), None);
    let one = survival(&[Sample::exact(Rate::ZERO)]);
    assert_eq!(one.cdf(Rate::ZERO), Some(1.0));
    for p in [0.0, -1.0, 1.1, f64::NAN] {
        assert_eq!(one.quantile(p), None);
    }
}

#[test]
fn idle_windows_do_not_pull_the_quantile_down() {
    // The path carries 5 to 15 Mbit/s; half of the time the sender offers only 6.
    let mut random = Seed(2).stream("survival");
    let mut survival = Survival::new(4000);
    let mut naive = Vec::new();
    for _ in 0..4000 {
        let path = Rate::from_bps(random.uniform(5e6, 15e6) as u64);
        let offered = Rate::from_mbps(6);
        let is_light = random.chance(0.5);
        let sample = if is_light && offered < path {
            Sample::at_least(offered)
        } else {
            Sample::exact(path)
        };
        naive.push(sample.rate);
        survival.push(sample);
    }
    survival.refresh();
    naive.sort_unstable();
    let wrong = naive[naive.len() / 4].as_bps() as f64;
    let right = survival.quantile(0.25).unwrap().as_bps() as f64;
    assert!((right / 7.5e6 - 1.0).abs() < 0.03, "{right}");
    assert!(wrong < 6.1e6, "{wrong}");
}

proptest! {
    #[test]
    fn without_censoring_it_is_the_empirical_distribution(
        rates in prop::collection::vec(0..30u64, 1..80), probe in 0..32u64,
    ) {
        let samples: Vec<Sample> =
            rates.iter().map(|&bps| Sample::exact(Rate::from_bps(bps))).collect();
        let survival = survival(&samples);
        let n = rates.len() as f64;
        let below = rates.iter().filter(|&&bps| bps <= probe);
        let f = below.clone().count() as f64 / n;
        let m = below.sum::<u64>() as f64 / n;
        prop_assert!((survival.cdf(Rate::from_bps(probe)).unwrap() - f).abs() < 1e-9);
        prop_assert!((survival.partial_mean(Rate::from_bps(probe)).unwrap() - m).abs() < 1e-6);
    }

    #[test]
    fn censoring_never_lowers_what_the_path_carries(
        rates in prop::collection::vec((0..30u64, any::<bool>()), 1..80), probe in 0..32u64,
    ) {
        let exact: Vec<Sample> =
            rates.iter().map(|r| Sample::exact(Rate::from_bps(r.0))).collect();
        let censored: Vec<Sample> = rates
            .iter()
            .map(|&(bps, bound)| Sample {
                rate: Rate::from_bps(bps),
                bound: if bound { Bound::AtLeast } else { Bound::Exact },
            })
            .collect();
        let probe = Rate::from_bps(probe);
        if let Some(f) = survival(&censored).cdf(probe) {
            prop_assert!((-1e-12..=1.0).contains(&f));
            prop_assert!(f <= survival(&exact).cdf(probe).unwrap() + 1e-9);
        }
    }
}

#[test]
fn windows_follow_each_other() {
    let at = |ms| Instant::EPOCH + Duration::from_millis(ms);
    let mut sampler = Sampler::new(Duration::from_millis(200), at(0)).unwrap();
    sampler.delivered(25_000);
    assert_eq!(sampler.poll(at(199)), None);
    assert_eq!(
        sampler.poll(at(200)),
        Some(Sample::exact(Rate::from_mbps(1)))
    );
    sampler.ran_dry();
    sampler.delivered(12_500);
    // Two windows have ended: one that ran dry, one in which the path was down.
    let later = at(601);
    assert_eq!(
        sampler.poll(later),
        Some(Sample::at_least(Rate::from_kbps(500)))
    );
    assert_eq!(sampler.poll(later), Some(Sample::exact(Rate::ZERO)));
    assert_eq!(sampler.poll(later), None);
    assert_eq!(sampler.ends_at(), at(800));
    for bad in [0, 99, 1001] {
        assert!(Sampler::new(Duration::from_millis(bad), at(0)).is_err());
    }
}
