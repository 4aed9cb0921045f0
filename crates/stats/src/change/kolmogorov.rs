//! The two-sample Kolmogorov–Smirnov test.

use crate::evidence::{EstimateError, enough, finite};

/// Up to this many products of sample sizes, the p-value is exact.
const EXACT_MAX: usize = 10_000;

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// D: the largest distance between the two empirical distribution functions, in [0, 1].
    pub distance: f64,
    /// P(a distance at least this large | both samples from one continuous distribution).
    pub p_value: f64,
}

/// Tests whether two samples, each sorted ascending, come from one distribution.
///
/// The p-value is exact up to 10,000 pairs of samples and asymptotic above; it assumes independent samples
/// (see [`crate::joint::effective::of_series`] for others) and is conservative with ties. O(n + m) for D,
/// O(n·m) time and O(m) memory for the exact p-value.
///
/// # Errors
/// An empty sample, one that is unsorted or holds a value that is not finite.
pub fn test_sorted(first: &[f64], second: &[f64]) -> Result<Test, EstimateError> {
    let distance = distance_sorted(first, second)?;
    let (n, m) = (first.len(), second.len());
    let p_value = if n * m <= EXACT_MAX {
        p_value_exact(distance, n, m)
    } else {
        p_value_asymptotic(distance, n as f64, m as f64)
    };
    Ok(Test { distance, p_value })
}

/// D of two sorted samples. O(n + m).
///
/// # Errors
/// As [`test_sorted`].
pub fn distance_sorted(first: &[f64], second: &[f64]) -> Result<f64, EstimateError> {
    for sample in [first, second] {
        enough("Kolmogorov–Smirnov test", sample.len(), 1)?;
        for (&value, next) in sample.iter().zip(sample.iter().skip(1).chain([&f64::MAX])) {
            finite("sample", value)?;
            if value > *next {
                return Err(EstimateError::OutOfRange {
                    name: "sample",
                    value: *next,
                    range: "sorted ascending",
                });
            }
        }
    }
    let (n, m) = (first.len(), second.len());
    let (mut i, mut j, mut distance) = (0, 0, 0.0f64);
    while i < n && j < m {
        // Step over all samples of the smallest value at once, so that ties do not count.
        let value = first[i].min(second[j]);
        while i < n && first[i] <= value {
            i += 1;
        }
        while j < m && second[j] <= value {
            j += 1;
        }
        distance = distance.max((i as f64 / n as f64 - j as f64 / m as f64).abs());
    }
    Ok(distance)
}

/// P(D ≥ `distance`) for samples of `n` and `m` values from one continuous distribution, exactly.
///
/// All orders of the n + m values are equally likely: a random walk from (0, 0) to (n, m) that steps right
/// with probability (values of the first left)/(values left). The p-value is the probability of
/// touching |i/n − j/m| ≥ D. O(n·m) time, O(m) memory.
pub fn p_value_exact(distance: f64, n: usize, m: usize) -> f64 {
    // Distances are multiples of 1/(n·m); half of one keeps rounding out of the comparison.
    let (n_f, m_f) = (n as f64, m as f64);
    let limit = distance * n_f * m_f - 0.5;
    let inside = |i: usize, j: usize| (i as f64 * m_f - j as f64 * n_f).abs() < limit;
    if n == 0 || m == 0 || !inside(0, 0) {
        return 1.0;
    }
    // stays[j]: P(the walk is at (i, j) and never left the band).
    let mut stays = vec![0.0; m + 1];
    stays[0] = 1.0;
    for i in 0..=n {
        for j in 0..=m {
            if i == 0 && j == 0 {
                continue;
            }
            let left = (n + m + 1 - i - j) as f64;
            let from_left = if i > 0 {
                stays[j] * (n + 1 - i) as f64 / left
            } else {
                0.0
            };
            let from_below = if j > 0 {
                stays[j - 1] * (m + 1 - j) as f64 / left
            } else {
                0.0
            };
            stays[j] = if inside(i, j) {
                from_left + from_below
            } else {
                0.0
            };
        }
    }
    (1.0 - stays[m]).clamp(0.0, 1.0)
}

/// P(D ≥ `distance`) by the limiting distribution with Stephens's correction for finite samples:
/// Q((√e + 0.12 + 0.11/√e)·D), e = n·m/(n + m) [Stephens 1970]. `n` and `m` may be effective numbers. O(1).
pub fn p_value_asymptotic(distance: f64, n: f64, m: f64) -> f64 {
    let root = (n * m / (n + m)).sqrt();
    kolmogorov_tail((root + 0.12 + 0.11 / root) * distance)
}

/// Kolmogorov's distribution: Q(λ) = 2·Σ_{j ≥ 1} (−1)^{j−1}·exp(−2·j²·λ²), in [0, 1].
pub fn kolmogorov_tail(lambda: f64) -> f64 {
    if lambda <= 0.0 {
        return 1.0;
    }
    if lambda < 1.18 {
        // The alternating series converges slowly here; its theta transform does not:
        // 1 − (√(2π)/λ)·Σ exp(−(2j − 1)²·π²/(8·λ²)).
        let pi = std::f64::consts::PI;
        let exponent = -pi * pi / (8.0 * lambda * lambda);
        let sum: f64 = [1.0, 9.0, 25.0, 49.0]
            .iter()
            .map(|square| (square * exponent).exp())
            .sum();
        return (1.0 - (2.0 * pi).sqrt() / lambda * sum).clamp(0.0, 1.0);
    }
    let base = -2.0 * lambda * lambda;
    let sum: f64 = [1.0, -4.0, 9.0, -16.0, 25.0]
        .iter()
        .map(|square: &f64| square.signum() * (square.abs() * base).exp())
        .sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    fn sorted(mut values: Vec<f64>) -> Vec<f64> {
        values.sort_by(f64::total_cmp);
        values
    }

    /// Critical values of Kolmogorov's distribution, as in every table.
    #[test]
    fn table_of_kolmogorov() {
        for (lambda, p) in [
            (1.2238, 0.10),
            (1.3581, 0.05),
            (1.4802, 0.025),
            (1.6276, 0.01),
            (0.8276, 0.50),
        ] {
            assert!(
                (kolmogorov_tail(lambda) - p).abs() < 1e-4,
                "{lambda}: {}",
                kolmogorov_tail(lambda)
            );
        }
        // Both series agree where they meet.
        assert!((kolmogorov_tail(1.18 - 1e-12) - kolmogorov_tail(1.18)).abs() < 1e-9);
        assert_eq!(kolmogorov_tail(0.0), 1.0);
    }

    /// 2/C(10, 5) and 20/C(10, 5); the table for n = m = 10 has 0.0524 at 6/10 and 0.0123 at 7/10.
    #[test]
    fn table_of_small_samples() {
        assert!((p_value_exact(1.0, 5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert!((p_value_exact(0.8, 5, 5) - 20.0 / 252.0).abs() < 1e-12);
        assert!((p_value_exact(0.6, 10, 10) - 0.0524).abs() < 1e-4);
        assert!((p_value_exact(0.7, 10, 10) - 0.0123).abs() < 1e-4);
        assert_eq!(p_value_exact(0.0, 3, 4), 1.0);
    }

    #[test]
    fn asymptotic_meets_exact() {
        for (distance, n, m) in [
            (0.15, 100, 100),
            (0.2, 100, 90),
            (0.1, 300, 200),
            (0.3, 40, 60),
        ] {
            let (exact, limit) = (
                p_value_exact(distance, n, m),
                p_value_asymptotic(distance, n as f64, m as f64),
            );
            assert!(
                (exact - limit).abs() < 0.02,
                "{distance}, {n}, {m}: {exact} {limit}"
            );
        }
    }

    #[test]
    fn finds_a_shift_and_no_shift() {
        let mut random = Seed(1).stream("ks");
        let mut draw =
            |n: usize, mean: f64| sorted((0..n).map(|_| random.normal(mean, 1.0)).collect());
        let (a, b, c) = (draw(300, 0.0), draw(300, 0.5), draw(300, 0.0));
        assert!(test_sorted(&a, &b).unwrap().p_value < 1e-4);
        assert!(test_sorted(&a, &c).unwrap().p_value > 0.01);
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(matches!(
            test_sorted(&[], &[1.0]),
            Err(EstimateError::TooFew { .. })
        ));
        for bad in [
            [1.0, f64::NAN],
            [f64::NAN, 1.0],
            [2.0, 1.0],
            [0.0, f64::INFINITY],
        ] {
            assert!(
                matches!(
                    test_sorted(&bad, &[1.0]),
                    Err(EstimateError::OutOfRange { .. })
                ),
                "{bad:?}"
            );
        }
        // Constant samples are a distribution, too.
        assert_eq!(
            test_sorted(&[1.0; 9], &[1.0; 7]).unwrap(),
            Test {
                distance: 0.0,
                p_value: 1.0
            }
        );
        assert_eq!(test_sorted(&[1.0; 9], &[2.0; 7]).unwrap().distance, 1.0);
    }

    /// All orders of n + m values, counted one by one.
    fn p_value_naive(distance: f64, n: usize, m: usize) -> f64 {
        let (mut hits, mut all) = (0u32, 0u32);
        for mask in 0u32..1 << (n + m) {
            if mask.count_ones() as usize != n {
                continue;
            }
            all += 1;
            let (mut i, mut j, mut largest) = (0.0, 0.0, 0.0f64);
            for bit in 0..n + m {
                if mask >> bit & 1 == 1 {
                    i += 1.0;
                } else {
                    j += 1.0;
                }
                largest = largest.max(f64::abs(i / n as f64 - j / m as f64));
            }
            hits += u32::from(largest >= distance - 1e-9);
        }
        f64::from(hits) / f64::from(all)
    }

    proptest! {
        #[test]
        fn exact_is_the_count(n in 1usize..7, m in 1usize..7, step in 1usize..36) {
            let distance = (step as f64 / (n * m) as f64).min(1.0);
            let (exact, naive) = (p_value_exact(distance, n, m), p_value_naive(distance, n, m));
            prop_assert!((exact - naive).abs() < 1e-9, "{exact} {naive}");
        }

        #[test]
        fn distance_is_the_supremum(
            first in prop::collection::vec(-20i32..20, 1..60),
            second in prop::collection::vec(-20i32..20, 1..60),
        ) {
            let to = |values: &[i32]| sorted(values.iter().map(|&v| f64::from(v)).collect());
            let (a, b) = (to(&first), to(&second));
            let below = |values: &[f64], x: f64| {
                values.iter().filter(|&&v| v <= x).count() as f64 / values.len() as f64
            };
            let naive = (-21..=21)
                .map(|x| (below(&a, f64::from(x)) - below(&b, f64::from(x))).abs())
                .fold(0.0, f64::max);
            let test = test_sorted(&a, &b).unwrap();
            prop_assert!((test.distance - naive).abs() < 1e-12);
            prop_assert_eq!(test, test_sorted(&b, &a).unwrap());
        }
    }
}
