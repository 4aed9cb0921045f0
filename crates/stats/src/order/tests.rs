//! Against a sorted copy, and the worked example of the lemmas.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn window(capacity: usize, values: &[f64]) -> Window {
    let mut window = Window::new(capacity);
    for &value in values {
        window.push(value).expect("finite");
    }
    window
}

/// Ten windows of one second, in Mbit/s: 2, 4, 4, 6, 8, 10, 10, 12, 14, 20. Worked by hand.
#[test]
fn the_inputs_of_both_lemmas() {
    let samples = [10.0, 4.0, 20.0, 2.0, 8.0, 14.0, 4.0, 12.0, 6.0, 10.0].map(|mbps| mbps * 1e6);
    let window = window(10, &samples);
    // F(8) = 5/10, M[8] = (2+4+4+6+8)/10 = 2.4.
    assert_eq!(window.cdf(8e6), Some(0.5));
    assert_eq!(window.partial_mean(8e6), Some(2.4e6));
    assert_eq!(window.mean(), Some(9e6));
    // Lemma 1: x packets of s = 12 kbit within t_w = 1 s need b0 = 8 Mbit/s for x = 2000/3;
    // P = 1 − F(b0) = 0.5.
    let (s, t_w, b0) = (12_000.0, 1.0, 8e6);
    let x = b0 * t_w / s;
    let (f, m) = (window.cdf(b0).unwrap(), window.partial_mean(b0).unwrap());
    assert!((1.0 - f - 0.5).abs() < 1e-12);
    // Lemma 2: E[Z] ≤ x·F − (t_w/s)·M = 333.3 − 200 = 133.3 packets; directly, the mean of
    // max(0, x − b·t_w/s) over the ten windows: (500 + 333.3·2 + 166.7 + 0)/10.
    let bound = x * f - t_w / s * m;
    let direct: f64 = samples
        .iter()
        .map(|b| (x - b * t_w / s).max(0.0))
        .sum::<f64>()
        / 10.0;
    assert!((bound - 133.333_333).abs() < 1e-3, "{bound}");
    assert!((bound - direct).abs() < 1e-9);
}

/// [IQ-Paths §V-B] reads M as the mean of those b ≤ b₀; the proof's integral is the partial mean, and only
/// that bounds the late packets (spec/deviations.toml).
#[test]
fn the_conditional_mean_would_not_bound() {
    let window = window(4, &[1.0, 2.0, 3.0, 4.0]);
    let (f, m) = (window.cdf(2.0).unwrap(), window.partial_mean(2.0).unwrap());
    assert_eq!((f, m), (0.5, 0.75));
    let conditional = m / f;
    // x = 2 units wanted: one window in four is one short.
    assert_eq!(2.0 * f - m, 0.25);
    assert!(2.0 * f - conditional < 0.0);
}

#[test]
fn says_when_it_knows_nothing() {
    let mut window = Window::new(3);
    assert_eq!(window.cdf(1.0), None);
    assert_eq!(window.partial_mean(1.0), None);
    assert_eq!(window.quantile(0.5), None);
    assert_eq!(window.quantile_of_next(0.5), None);
    assert_eq!(window.mean(), None);
    assert_eq!(window.remove_oldest(), None);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(window.push(bad), Err(NotFinite));
    }
    assert!(window.is_empty());
    assert_eq!(window.push(1.0), Ok(None));
    assert_eq!(window.quantile(f64::NAN), None);
}

#[test]
fn quantiles_are_the_smallest_value_that_holds_the_share() {
    let window = window(5, &[5.0, 1.0, 4.0, 2.0, 3.0]);
    for (p, expected) in [
        (-1.0, 1.0),
        (0.0, 1.0),
        (0.2, 1.0),
        (0.21, 2.0),
        (0.6, 3.0),
        (1.0, 5.0),
        (2.0, 5.0),
    ] {
        assert_eq!(window.quantile(p), Some(expected), "{p}");
    }
    // k/(n+1): 1 stands at 1/6, and half of the way down to 0 at 1/12.
    let next = |p| window.quantile_of_next(p).unwrap();
    assert!((next(1.0 / 6.0) - 1.0).abs() < 1e-12);
    assert!((next(1.0 / 12.0) - 0.5).abs() < 1e-12);
    assert!((next(0.5) - 3.0).abs() < 1e-12);
    assert_eq!(next(0.0), 0.0);
    assert_eq!(next(1.0), 5.0);
}

#[test]
fn a_constant_series_has_one_value() {
    let window = window(100, &[7.0; 300]);
    assert_eq!(window.len(), 100);
    assert_eq!(window.quantile(0.01), Some(7.0));
    assert_eq!(
        (window.cdf(7.0), window.cdf_below(7.0)),
        (Some(1.0), Some(0.0))
    );
}

#[derive(Debug, Clone)]
enum Step {
    Push(f64),
    Remove,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        // Few distinct values, so that ties are common.
        6 => (0..40u32).prop_map(|value| Step::Push(f64::from(value) / 4.0)),
        2 => (-1e9..1e9f64).prop_map(Step::Push),
        1 => Just(Step::Remove),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_sorted_copy(
        capacity in 1..70usize,
        steps in prop::collection::vec(step(), 0..300),
        probe in -50.0..50.0f64,
        p in 0.0..1.0f64,
    ) {
        let mut window = Window::new(capacity);
        let mut naive: VecDeque<f64> = VecDeque::new();
        for step in steps {
            match step {
                Step::Push(value) => {
                    let oldest = (naive.len() == capacity).then(|| naive.pop_front().unwrap());
                    naive.push_back(value);
                    prop_assert_eq!(window.push(value), Ok(oldest));
                }
                Step::Remove => prop_assert_eq!(window.remove_oldest(), naive.pop_front()),
            }
        }
        let mut sorted: Vec<f64> = naive.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        prop_assert_eq!(window.len(), sorted.len());
        prop_assert_eq!(window.values(), &sorted[..]);
        // Slots lead back to the order of arrival.
        let oldest = (window.next_slot() + capacity - window.len()) % capacity;
        for (&value, &slot) in window.values().iter().zip(window.slots()) {
            prop_assert_eq!(naive[(slot as usize + capacity - oldest) % capacity], value);
        }
        if sorted.is_empty() {
            prop_assert_eq!(window.cdf(probe), None);
            return Ok(());
        }
        let probes = [probe, (probe * 4.0).round() / 4.0];
        for b in probes {
            let at_most = sorted.iter().filter(|&&x| x <= b);
            prop_assert_eq!(window.cdf(b), Some(at_most.clone().count() as f64 / n));
            let below = sorted.iter().filter(|&&x| x < b).count() as f64;
            prop_assert_eq!(window.cdf_below(b), Some(below / n));
            let partial = at_most.sum::<f64>() / n;
            let found = window.partial_mean(b).unwrap();
            prop_assert!((found - partial).abs() <= 1e-6 * (1.0 + partial.abs()));
        }
        let quantile = window.quantile(p).unwrap();
        prop_assert!(window.cdf(quantile).unwrap() >= p - 1e-9);
        prop_assert!(window.cdf_below(quantile).unwrap() < p.max(1e-9));
        let next = window.quantile_of_next(p).unwrap();
        if sorted[0] >= 0.0 {
            prop_assert!((0.0..=sorted[sorted.len() - 1]).contains(&next));
        }
    }
}
