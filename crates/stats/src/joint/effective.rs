//! Effective sample size of a series.

/// Sum of the products of deviations `lag` apart: the autocovariance times n.
fn autocovariance(values: &[f64], mean: f64, lag: usize) -> f64 {
    values
        .iter()
        .zip(&values[lag..])
        .map(|(a, b)| (a - mean) * (b - mean))
        .sum()
}

/// Effective number of samples for the correlation of two series of equal length n.
///
/// Under independence the variance of the correlation is about 1/n* with
/// 1/n* = 1/n + (2/n)·Σ_j (1 − j/n)·ρ_xx(j)·ρ_yy(j), lags j up to n/5 [Pyper & Peterman 1998, Eq. 1; Bartlett
/// 1935]. At most n (negative autocorrelation earns nothing), at least 1. O(n²/5), no allocation.
pub fn of_pair(xs: &[f64], ys: &[f64]) -> f64 {
    let n = xs.len().min(ys.len());
    if n < 2 {
        return n as f64;
    }
    let (xs, ys) = (&xs[..n], &ys[..n]);
    let (mean_x, mean_y) = (mean(xs), mean(ys));
    let variance = autocovariance(xs, mean_x, 0) * autocovariance(ys, mean_y, 0);
    if variance <= 0.0 {
        return n as f64;
    }
    let sum: f64 = (1..=n / 5)
        .map(|lag| {
            let product = autocovariance(xs, mean_x, lag) * autocovariance(ys, mean_y, lag);
            // Sums over n − lag terms; the usual divisor n − lag of ρ cancels one of the weights.
            product / variance * n as f64 / (n - lag) as f64
        })
        .sum();
    shrunk(n, sum)
}

/// Effective number of samples for a mean or a distribution function of one series: n/τ with
/// τ = 1 + 2·Σ ρ(j), summed up to the first lag whose ρ falls below 0.05 (or n/4).
/// At most n, at least 1. O(n·lags), no allocation.
pub fn of_series(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 2 {
        return n as f64;
    }
    let mean = mean(values);
    let variance = autocovariance(values, mean, 0);
    if variance <= 0.0 {
        return n as f64;
    }
    let sum: f64 = (1..=n / 4)
        .map(|lag| autocovariance(values, mean, lag) / variance)
        .take_while(|&rho| rho >= 0.05)
        .sum();
    shrunk(n, sum)
}

/// n/(1 + 2·sum) within 1 to n; n when the sum is negative.
fn shrunk(n: usize, sum: f64) -> f64 {
    (n as f64 / (1.0 + 2.0 * sum.max(0.0))).max(1.0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use anabranch_base::{Random, Seed};

    /// A first-order autoregressive series with standard normal innovations.
    pub(crate) fn autoregressive(random: &mut Random, phi: f64, n: usize) -> Vec<f64> {
        let mut value = random.normal(0.0, 1.0) / (1.0 - phi * phi).sqrt();
        (0..n)
            .map(|_| {
                let now = value;
                value = phi * value + random.normal(0.0, 1.0);
                now
            })
            .collect()
    }

    #[test]
    fn independent_samples_count_whole() {
        let mut random = Seed(1).stream("effective");
        let xs = autoregressive(&mut random, 0.0, 2000);
        let ys = autoregressive(&mut random, 0.0, 2000);
        assert!(of_pair(&xs, &ys) > 1700.0);
        assert!(of_series(&xs) > 1700.0);
    }

    #[test]
    fn autoregressive_samples_count_as_theory_says() {
        let mut random = Seed(2).stream("effective");
        let (mut pair, mut single) = (0.0, 0.0);
        for _ in 0..20 {
            let xs = autoregressive(&mut random, 0.8, 2000);
            let ys = autoregressive(&mut random, 0.8, 2000);
            pair += of_pair(&xs, &ys) / 20.0;
            single += of_series(&xs) / 20.0;
        }
        // n·(1 − φ²)/(1 + φ²) with products of autocorrelations φ^2j; n·(1 − φ)/(1 + φ) for one.
        assert!((pair / (2000.0 * 0.36 / 1.64) - 1.0).abs() < 0.15, "{pair}");
        assert!(
            (single / (2000.0 * 0.2 / 1.8) - 1.0).abs() < 0.25,
            "{single}"
        );
    }

    #[test]
    fn degenerate_series() {
        assert_eq!(of_series(&[]), 0.0);
        assert_eq!(of_series(&[3.0; 50]), 50.0);
        assert_eq!(of_pair(&[3.0; 50], &[1.0; 50]), 50.0);
        let ramp: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(of_pair(&ramp, &ramp) < 10.0);
    }
}
