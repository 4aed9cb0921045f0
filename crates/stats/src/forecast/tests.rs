//! Forecaster: its promises, refusals and resilience.

use anabranch_base::{Random, Seed};
use proptest::prelude::*;

use super::*;
use crate::score::{Score, renewed, rolling};

fn exact(bps: f64) -> Sample {
    Sample::exact(Rate::from_bps(bps as u64))
}

/// A path with memory: its logarithm wanders around 10 Mbit/s.
fn wandering(count: usize, random: &mut Random) -> Vec<f64> {
    let mut log = 0.0;
    (0..count)
        .map(|_| {
            log = 0.95 * log + random.normal(0.0, 0.15);
            (1e7 * f64::exp(log)).floor()
        })
        .collect()
}

/// Promises of `config.levels[index]`, each made before the sample at its place.
fn promised(samples: &[f64], config: &Config, p: f64) -> Vec<f64> {
    let mut forecaster = Forecaster::new(config).unwrap();
    samples
        .iter()
        .map(|&bps| {
            let promise = forecaster.promise(p).unwrap_or(Rate::ZERO);
            forecaster.observe(exact(bps));
            promise.as_bps() as f64
        })
        .collect()
}

#[test]
fn configurations_out_of_range_are_refused() {
    let with = |levels: &[f64], hold| {
        Forecaster::new(&Config {
            levels: levels.to_vec(),
            hold,
            judged: Judged::Whole,
        })
        .err()
    };
    assert_eq!(with(&[0.9], 1), None);
    assert_eq!(with(&[], 1), Some(ConfigError::Levels(0)));
    assert_eq!(with(&[0.49], 1), Some(ConfigError::Level(0.49)));
    assert_eq!(with(&[0.999], 1), Some(ConfigError::Level(0.999)));
    assert!(matches!(with(&[f64::NAN], 1), Some(ConfigError::Level(_))));
    assert_eq!(with(&[0.95, 0.9], 1), Some(ConfigError::Order));
    assert_eq!(with(&[0.9], 0), Some(ConfigError::Hold(0)));
    assert_eq!(with(&[0.9], 61), Some(ConfigError::Hold(61)));
}

#[test]
fn too_little_is_no_promise() {
    let mut forecaster = Forecaster::new(&Config::default()).unwrap();
    // The first sample is followed by outcomes; 20 of them, and 100 for 0.99.
    for seen in 0..=101usize {
        assert_eq!(forecaster.promise(0.9).is_some(), seen > 20, "{seen}");
        assert_eq!(forecaster.promise(0.99).is_some(), seen > 100, "{seen}");
        forecaster.observe(exact(1e6));
    }
    assert_eq!(forecaster.promise(0.995), None, "above every level");
    assert_eq!(forecaster.promise(f64::NAN), None);
    assert_eq!(forecaster.account(0.995), None);
    // Between two levels, the higher one answers.
    assert_eq!(forecaster.promise(0.92), forecaster.promise(0.95));
    assert!(forecaster.promise(0.1).is_some());
}

#[test]
fn constants_and_dead_paths() {
    let mut forecaster = Forecaster::new(&Config::default()).unwrap();
    for _ in 0..600 {
        forecaster.observe(exact(5e6));
        if let Some(promise) = forecaster.promise(0.95) {
            // Never more than it ever held.
            assert!(promise <= Rate::from_mbps(5), "{promise}");
        }
    }
    assert_eq!(forecaster.promise(0.95), Some(Rate::from_mbps(5)));
    assert_eq!(forecaster.account(0.95).unwrap().broken, 0);

    let mut dead = Forecaster::new(&Config::default()).unwrap();
    for _ in 0..3000 {
        dead.observe(exact(0.0));
    }
    for p in [0.5, 0.9, 0.99] {
        assert_eq!(dead.promise(p), Some(Rate::ZERO), "nothing can be promised");
    }
    // It comes back, at the largest rate there is, and dies again.
    for bps in [1e6, u64::MAX as f64, 0.0, 1.0] {
        for _ in 0..100 {
            dead.observe(exact(bps));
            assert!(dead.promise(0.9).is_some());
        }
    }
}

#[test]
fn a_higher_probability_never_promises_more() {
    let mut random = Seed(1).stream("order");
    let mut forecaster = Forecaster::new(&Config::default()).unwrap();
    for bps in wandering(2000, &mut random) {
        forecaster.observe(exact(bps));
        let promises: Vec<Option<Rate>> =
            forecaster.levels().map(|p| forecaster.promise(p)).collect();
        let known: Vec<Rate> = promises.into_iter().flatten().collect();
        assert!(known.windows(2).all(|pair| pair[0] >= pair[1]), "{known:?}");
    }
}

#[test]
fn promises_are_kept_as_often_as_promised_although_the_path_changes() {
    let mut random = Seed(2).stream("calibration");
    let mut samples = wandering(1500, &mut random);
    // A tenth of the rate, then ten times as restless.
    samples.extend(
        wandering(1500, &mut random)
            .iter()
            .map(|b| (b / 10.0).floor()),
    );
    samples.extend((0..1500).map(|_| (1e7 * f64::exp(random.normal(0.0, 1.0))).floor()));
    for p in [0.9, 0.95, 0.99] {
        let promises = promised(&samples, &Config::default(), p);
        let score = Score::of(&promises[100..], &samples[100..], p).unwrap();
        assert!((score.kept() - p).abs() < 0.005, "{p}: {}", score.kept());
        assert!(score.block_kept_least >= p - 0.02, "{p}: {score:?}");
    }
}

#[test]
fn accounts_agree_with_what_was_said() {
    let mut random = Seed(3).stream("account");
    let samples = wandering(900, &mut random);
    let promises = promised(&samples, &Config::default(), 0.9);
    let mut forecaster = Forecaster::new(&Config::default()).unwrap();
    samples
        .iter()
        .for_each(|&bps| forecaster.observe(exact(bps)));
    let account = forecaster.account(0.9).unwrap();
    let broken = samples.iter().zip(&promises).filter(|(b, q)| b < q).count();
    assert_eq!(account.broken, broken as u64);
    // The first sample has no promise, and the first twenty outcomes are only learnt from.
    assert_eq!(account.kept + account.broken, 900 - 21);
    assert_eq!(account.unknown, 0);
    assert!(account.kept_share().unwrap() > 0.88);
    assert_eq!(Account::default().kept_share(), None);
}

#[test]
fn held_promises_stand_for_the_whole_time() {
    let mut random = Seed(4).stream("hold");
    let samples = wandering(6000, &mut random);
    let mut last = f64::INFINITY;
    for hold in [1, 5, 30] {
        let config = Config {
            hold,
            ..Config::default()
        };
        let outcomes = crate::score::held(&samples, hold);
        let promises = promised(&samples, &config, 0.9);
        let score = Score::of(&promises[200..outcomes.len()], &outcomes[200..], 0.9).unwrap();
        assert!(
            (score.kept() - 0.9).abs() < 0.02,
            "{hold}: {}",
            score.kept()
        );
        assert!(score.useful < last, "longer promises are lower");
        last = score.useful;
    }
}

fn terms(hold: usize) -> Config {
    Config {
        hold,
        judged: Judged::Each,
        ..Config::default()
    }
}

#[test]
fn each_sample_of_a_term_is_kept_as_often_as_promised_from_whichever_sample_on() {
    let mut random = Seed(4).stream("terms");
    let mut samples = wandering(3000, &mut random);
    samples.extend(
        wandering(3000, &mut random)
            .iter()
            .map(|b| (b / 5.0).floor()),
    );
    for p in [0.9, 0.95, 0.99] {
        for hold in [5, 10] {
            let promises = promised(&samples, &terms(hold), p);
            let (said, came) = rolling(&promises, &samples, hold, 200);
            let all = Score::of(&said, &came, p).unwrap();
            assert!((all.kept() - p).abs() < 0.005, "{p} {hold}: {all:?}");
            for first in 200..200 + hold {
                let (said, came) = renewed(&promises, &samples, hold, first);
                let one = Score::of(&said, &came, p).unwrap();
                assert!(
                    (one.kept() - p).abs() < 0.007,
                    "{p} {hold} {first}: {one:?}"
                );
            }
            // Whoever promises that the whole term is kept promises less.
            let whole = Config {
                judged: Judged::Whole,
                ..terms(hold)
            };
            let promises = promised(&samples, &whole, p);
            let (said, came) = rolling(&promises, &samples, hold, 200);
            let whole = Score::of(&said, &came, p).unwrap();
            assert!(whole.kept() > all.kept(), "{p} {hold}: {whole:?}");
            assert!(
                p > 0.98 || whole.useful < all.useful,
                "{p} {hold}: {whole:?} {all:?}"
            );
        }
    }
}

#[test]
fn accounts_of_terms_count_samples() {
    let samples = wandering(900, &mut Seed(3).stream("account of terms"));
    let promises = promised(&samples, &terms(10), 0.9);
    let mut forecaster = Forecaster::new(&terms(10)).unwrap();
    samples
        .iter()
        .for_each(|&bps| forecaster.observe(exact(bps)));
    let account = forecaster.account(0.9).unwrap();
    // Twenty outcomes are known after the 21st sample.
    let (said, came) = rolling(&promises, &samples, 10, 21);
    let broken = came.iter().zip(&said).filter(|(b, q)| b < q).count();
    assert_eq!(account.broken, broken as u64);
    assert_eq!(account.kept + account.broken, said.len() as u64);
    assert_eq!(account.unknown, 0);
}

#[test]
fn lower_bounds_break_no_sample_of_a_term() {
    let mut random = Seed(5).stream("censored terms");
    let samples = wandering(4000, &mut random);
    let [mut informed, mut limited] = std::array::from_fn(|_| Forecaster::new(&terms(10)).unwrap());
    let mut sums = [0.0; 2];
    let (mut unknown, mut expected) = (0, 0);
    let mut durable = std::collections::VecDeque::new();
    for (step, &bps) in samples.iter().enumerate() {
        let is_light = random.chance(0.4) && bps > 2e6;
        let seen = if is_light {
            Sample::at_least(Rate::from_mbps(2))
        } else {
            exact(bps)
        };
        durable.push_back((limited.promise(0.9), is_light));
        informed.observe(exact(bps));
        limited.observe(seen);
        if durable.len() > 10 {
            durable.pop_front();
        }
        if step >= 500 && durable.len() == 10 {
            // The term that is over began with the oldest promise.
            let promise = durable[0].0.unwrap();
            let light = durable.iter().filter(|(_, is_light)| *is_light).count();
            expected += if promise > Rate::from_mbps(2) {
                light as u64
            } else {
                0
            };
        }
        if step == 499 {
            unknown = limited.account(0.9).unwrap().unknown;
        }
        if step >= 500 {
            for (sum, one) in sums.iter_mut().zip([&informed, &limited]) {
                *sum += one.promise(0.9).unwrap().as_bps() as f64;
            }
        }
    }
    assert_eq!(limited.account(0.9).unwrap().unknown - unknown, expected);
    assert!(expected > 5000);
    let kept = limited.account(0.9).unwrap().kept_share().unwrap();
    assert!((kept - 0.9).abs() < 0.01, "{kept}");
    assert!(sums[1] > 0.85 * sums[0], "{sums:?}");
}

#[test]
fn terms_on_dead_paths_and_of_bounds_alone() {
    let mut dead = Forecaster::new(&terms(10)).unwrap();
    (0..2000).for_each(|_| dead.observe(exact(0.0)));
    assert_eq!(dead.promise(0.9), Some(Rate::ZERO));
    // Alive again, it is not promised recklessly.
    let before = dead.account(0.9).unwrap().broken;
    for bps in wandering(1000, &mut Seed(10).stream("alive")) {
        dead.observe(exact(bps));
    }
    let broken = dead.account(0.9).unwrap().broken - before;
    assert!(broken <= 1500, "{broken} of 10,000 samples of terms");
    let mut bounds = Forecaster::new(&terms(10)).unwrap();
    (0..500).for_each(|_| bounds.observe(Sample::at_least(Rate::from_mbps(3))));
    assert_eq!(bounds.promise(0.5), None);
}

#[test]
fn lower_bounds_never_break_a_promise_nor_pull_it_down() {
    let mut random = Seed(5).stream("censored");
    let samples = wandering(4000, &mut random);
    let config = Config::default();
    let [mut informed, mut limited, mut naive] =
        std::array::from_fn(|_| Forecaster::new(&config).unwrap());
    let mut sums = [0.0; 3];
    for (step, &bps) in samples.iter().enumerate() {
        // Two windows in five, the application offers only 2 Mbit/s; the path carries about 10.
        let is_light = random.chance(0.4) && bps > 2e6;
        let seen = if is_light {
            Sample::at_least(Rate::from_mbps(2))
        } else {
            exact(bps)
        };
        let broken = limited.account(0.95).unwrap().broken;
        informed.observe(exact(bps));
        limited.observe(seen);
        naive.observe(Sample::exact(seen.rate));
        if is_light {
            assert_eq!(limited.account(0.95).unwrap().broken, broken);
        }
        if step >= 500 {
            for (sum, one) in sums.iter_mut().zip([&informed, &limited, &naive]) {
                *sum += one.promise(0.9).unwrap().as_bps() as f64;
            }
        }
    }
    let [informed_mean, limited_mean, naive_mean] = sums;
    assert!(limited.account(0.9).unwrap().unknown > 500);
    let kept = limited.account(0.9).unwrap().kept_share().unwrap();
    assert!((kept - 0.9).abs() < 0.01, "{kept}");
    assert!(
        limited_mean > 0.85 * informed_mean,
        "{limited_mean} {informed_mean}"
    );
    assert!(
        naive_mean < 0.5 * informed_mean,
        "{naive_mean} {informed_mean}"
    );
}

#[test]
fn bounds_alone_teach_nothing_and_harm_nothing() {
    let mut forecaster = Forecaster::new(&Config::default()).unwrap();
    for _ in 0..500 {
        forecaster.observe(Sample::at_least(Rate::from_mbps(3)));
    }
    assert_eq!(forecaster.promise(0.5), None);
    for bps in wandering(300, &mut Seed(6).stream("after")) {
        forecaster.observe(exact(bps));
    }
    assert!(forecaster.promise(0.9).unwrap() > Rate::from_mbps(1));
}

#[test]
fn the_unit_of_the_rate_does_not_matter() {
    // Offsets and rounding to whole bits are the same for both, so rates are far above them.
    let samples = wandering(1200, &mut Seed(7).stream("unit"));
    let scaled: Vec<f64> = samples.iter().map(|bps| bps * 64.0).collect();
    let config = Config::default();
    let (small, large) = (
        promised(&samples, &config, 0.9),
        promised(&scaled, &config, 0.9),
    );
    let mean = |promises: &[f64]| promises[100..].iter().sum::<f64>();
    assert!((mean(&large) / mean(&small) / 64.0 - 1.0).abs() < 0.01);
}

#[test]
fn equal_samples_give_equal_promises() {
    let samples = wandering(800, &mut Seed(8).stream("same"));
    let config = Config::default();
    assert_eq!(
        promised(&samples, &config, 0.95),
        promised(&samples, &config, 0.95)
    );
}

/// Whatever comes after t changes no promise made up to t.
#[test]
fn the_future_is_not_looked_at() {
    let mut random = Seed(9).stream("future");
    for judged in [Judged::Whole, Judged::Each] {
        let mut samples = wandering(900, &mut random);
        let config = Config {
            hold: 5,
            judged,
            ..Config::default()
        };
        let before = promised(&samples, &config, 0.9);
        for bps in &mut samples[600..] {
            *bps = random.uniform(0.0, 1e9).floor();
        }
        let after = promised(&samples, &config, 0.9);
        assert_eq!(before[..=600], after[..=600]);
        assert_ne!(before[601..], after[601..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_samples_give_promises_within_what_was_seen(
        samples in prop::collection::vec(
            (prop_oneof![Just(0u64), 0..2_000_000u64, any::<u64>()], any::<bool>()), 1..300),
        hold in 1..8usize,
        is_each in any::<bool>(),
    ) {
        let judged = if is_each { Judged::Each } else { Judged::Whole };
        let mut forecaster =
            Forecaster::new(&Config { hold, judged, ..Config::default() }).unwrap();
        let (mut max, mut has_bound) = (0.0f64, false);
        for (bps, is_bound) in samples {
            let rate = Rate::from_bps(bps);
            let sample = if is_bound { Sample::at_least(rate) } else { Sample::exact(rate) };
            forecaster.observe(sample);
            max = max.max(bps as f64);
            has_bound |= is_bound;
            let mut least = f64::INFINITY;
            for p in [0.5, 0.9, 0.99] {
                if let Some(promise) = forecaster.promise(p) {
                    let promise = promise.as_bps() as f64;
                    prop_assert!(promise <= least);
                    // What a lower bound is taken for may exceed what was seen.
                    prop_assert!(has_bound || promise <= max);
                    least = promise;
                }
            }
        }
    }
}
