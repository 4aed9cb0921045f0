//! Worked examples, and series whose coefficients are known.

use anabranch_base::Seed;

use super::*;

fn fed<P: Predictor>(mut predictor: P, values: &[f64]) -> Option<f64> {
    for &value in values {
        predictor.observe(value);
    }
    predictor.predict()
}

#[test]
fn means_by_hand() {
    let values = [4.0, 8.0, 6.0, 2.0];
    assert_eq!(fed(MovingAverage::default(), &values), Some(5.0));
    assert_eq!(fed(SlidingAverage::new(2), &values), Some(4.0));
    // Half-life 1: weights 1/2, 1/4, 1/8, 1/16 over their sum.
    let expected = (2.0 / 2.0 + 6.0 / 4.0 + 8.0 / 8.0 + 4.0 / 16.0) / (15.0 / 16.0);
    let found = fed(Ewma::with_half_life(1.0), &values).unwrap();
    assert!((found - expected).abs() < 1e-12);
    let same = fed(Ewma::with_weight(0.5), &values).unwrap();
    assert!((found - same).abs() < 1e-12);
}

#[test]
fn nothing_is_said_too_early() {
    assert_eq!(MovingAverage::default().predict(), None);
    assert_eq!(SlidingAverage::new(5).predict(), None);
    assert_eq!(Ewma::with_half_life(3.0).predict(), None);
    assert_eq!(fed(Percentile::new(500, 0.1), &[1.0; 9]), None);
    assert_eq!(fed(Percentile::new(500, 0.1), &[1.0; 10]), Some(1.0));
    assert_eq!(fed(Arma::new(2, 1).unwrap(), &[1.0; 11]), None);
    assert!(Arma::new(0, 0).is_err() && Arma::new(5, 4).is_err());
}

#[test]
fn values_that_are_no_numbers_are_passed_over() {
    let bad = [3.0, f64::NAN, 5.0, f64::INFINITY];
    assert_eq!(fed(MovingAverage::default(), &bad), Some(4.0));
    assert_eq!(fed(SlidingAverage::new(9), &bad), Some(4.0));
    let nan_laden: Vec<f64> = (0..100)
        .flat_map(|i| [f64::from(i % 2), f64::NAN])
        .collect();
    let found = fed(Arma::new(1, 0).unwrap(), &nan_laden).unwrap();
    assert!(found.abs() < 0.05, "after 1 comes 0, not {found}");
}

#[test]
fn constants_and_silence_are_predicted() {
    for value in [0.0, 5e6] {
        for (p, q) in [(1, 0), (2, 1), (4, 4)] {
            let found = fed(Arma::new(p, q).unwrap(), &[value; 5000]).unwrap();
            assert!((found - value).abs() <= 1e-3 * value, "{p},{q}: {found}");
        }
    }
}

#[test]
fn coefficients_of_a_known_series_are_found() {
    // x_t = 2 + 0.7·x_{t−1} + e_t + 0.5·e_{t−1}, in units of 1e6.
    let mut random = Seed(5).stream("arma");
    let (mut x, mut last) = (6.0, 0.0);
    let mut arma = Arma::new(1, 1).unwrap();
    for _ in 0..20_000 {
        let e = random.normal(0.0, 0.3);
        x = 2.0 + 0.7 * x + e + 0.5 * last;
        last = e;
        arma.observe(x * 1e6);
    }
    assert!((arma.coefficients[1] - 0.7).abs() < 0.08, "{arma:?}");
    assert!((arma.coefficients[2] - 0.5).abs() < 0.12, "{arma:?}");
}

#[test]
fn autoregression_beats_the_mean_where_there_is_memory() {
    let mut random = Seed(6).stream("ar");
    let (mut ar, mut mean) = (Arma::new(2, 0).unwrap(), MovingAverage::default());
    let (mut x, mut of_ar, mut of_mean) = (10.0, 0.0, 0.0);
    for step in 0..5000 {
        x = 1.0 + 0.9 * x + random.normal(0.0, 1.0);
        if step > 100 {
            of_ar += (ar.predict().unwrap() - x).abs();
            of_mean += (mean.predict().unwrap() - x).abs();
        }
        ar.observe(x);
        mean.observe(x);
    }
    // In theory √(1 − 0.9²) = 0.44.
    assert!(of_ar < 0.5 * of_mean, "{of_ar} {of_mean}");
}
