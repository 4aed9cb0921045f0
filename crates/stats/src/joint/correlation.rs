//! Correlation between channels, with the probability of seeing it by chance.

use super::{
    effective,
    rows::{Cell, JointWindow},
    student,
};
use crate::evidence::{EstimateError, enough, finite};

/// Fewest pairs for a correlation.
const PAIRS_MIN: usize = 8;
/// Fewest effective pairs: below, the t distribution has hardly a degree of freedom.
const EFFECTIVE_MIN: f64 = 4.0;
const WHAT: &str = "correlation";

/// Kind of coefficient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of the values: linear relations; sensitive to outliers.
    Pearson,
    /// Of the ranks (ties share their mean rank): monotone relations; robust.
    Spearman,
}

/// A correlation and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correlation {
    /// The coefficient, in [−1, 1].
    pub coefficient: f64,
    /// Pairs of samples.
    pub pairs: usize,
    /// Independent pairs that they are worth, for the autocorrelation of both series; at most `pairs`.
    pub pairs_effective: f64,
    /// P(a coefficient at least this large | no correlation), two-sided, from Student's t with
    /// `pairs_effective` − 2 degrees of freedom.
    pub p_value: f64,
}

/// Two-sided p-value of coefficient `r` from `pairs` independent pairs (more than 2):
/// t = r·√((n − 2)/(1 − r²)), Student with n − 2 degrees of freedom.
pub fn p_value(r: f64, pairs: f64) -> f64 {
    let freedom = pairs - 2.0;
    let t = r * (freedom / (1.0 - r * r).max(0.0)).sqrt();
    student::two_sided(t, freedom)
}

/// Computes correlations; holds the scratch memory, so that repeated questions do not allocate.
#[derive(Debug, Clone)]
pub struct Correlator {
    xs: Vec<f64>,
    ys: Vec<f64>,
    order: Vec<u32>,
    capacity: usize,
}

impl Correlator {
    /// For series of up to `samples` values.
    pub fn new(samples: usize) -> Self {
        Self {
            xs: Vec::with_capacity(samples),
            ys: Vec::with_capacity(samples),
            order: Vec::with_capacity(samples),
            capacity: samples,
        }
    }

    /// Correlation of two series of simultaneous samples, oldest first. O(n²/5) for the effective number of
    /// pairs.
    ///
    /// # Errors
    /// Different or too large lengths, a value that is not finite, fewer than 8 pairs, a constant series, or
    /// so much autocorrelation that fewer than 4 independent pairs remain.
    pub fn between(
        &mut self,
        xs: &[f64],
        ys: &[f64],
        kind: Kind,
    ) -> Result<Correlation, EstimateError> {
        self.fits("second series", ys.len(), xs.len())?;
        if xs.len() > self.capacity {
            self.fits("series", xs.len(), self.capacity)?;
        }
        for &value in xs.iter().chain(ys) {
            finite("sample", value)?;
        }
        self.xs.clear();
        self.ys.clear();
        self.xs.extend_from_slice(xs);
        self.ys.extend_from_slice(ys);
        self.compute(kind)
    }

    /// Correlation of two channels over the rows of `window` in which both were measured exactly. A lower
    /// bound is not a measurement here: it would correlate what the application sent, not what the
    /// channels hold.
    ///
    /// # Errors
    /// As [`Correlator::between`]; a channel that the window does not have.
    pub fn channels(
        &mut self,
        window: &JointWindow,
        first: usize,
        second: usize,
        kind: Kind,
    ) -> Result<Correlation, EstimateError> {
        for channel in [first, second] {
            let value = channel as f64;
            let range = "below the number of channels";
            crate::evidence::within("channel", value, range, channel < window.channels())?;
        }
        if window.rows() > self.capacity {
            self.fits("window", window.rows(), self.capacity)?;
        }
        self.xs.clear();
        self.ys.clear();
        for row in window.iter() {
            if let (Cell::Exact(x), Cell::Exact(y)) = (row[first], row[second]) {
                self.xs.push(x);
                self.ys.push(y);
            }
        }
        self.compute(kind)
    }

    /// The matrix over all channels of `window`, row by row: entry `[i · channels + j]`. Off-diagonal
    /// entries may lack evidence each on its own. Allocates the answer.
    pub fn matrix(
        &mut self,
        window: &JointWindow,
        kind: Kind,
    ) -> Vec<Result<Correlation, EstimateError>> {
        let channels = window.channels();
        let mut matrix = Vec::with_capacity(channels * channels);
        for i in 0..channels {
            for j in 0..channels {
                let entry = if j < i {
                    matrix[j * channels + i]
                } else {
                    self.channels(window, i, j, kind)
                };
                matrix.push(entry);
            }
        }
        matrix
    }

    fn fits(&self, name: &'static str, have: usize, need: usize) -> Result<(), EstimateError> {
        if have == need {
            Ok(())
        } else {
            Err(EstimateError::Length { name, have, need })
        }
    }

    fn compute(&mut self, kind: Kind) -> Result<Correlation, EstimateError> {
        let pairs = self.xs.len();
        enough(WHAT, pairs, PAIRS_MIN)?;
        if kind == Kind::Spearman {
            rank(&mut self.xs, &mut self.order);
            rank(&mut self.ys, &mut self.order);
        }
        let coefficient =
            pearson(&self.xs, &self.ys).ok_or(EstimateError::Constant { what: WHAT })?;
        let pairs_effective = effective::of_pair(&self.xs, &self.ys);
        if pairs_effective < EFFECTIVE_MIN {
            return Err(EstimateError::TooFew {
                what: "correlation, independent pairs",
                have: pairs_effective as usize,
                need: EFFECTIVE_MIN as usize,
            });
        }
        Ok(Correlation {
            coefficient,
            pairs,
            pairs_effective,
            p_value: p_value(coefficient, pairs_effective),
        })
    }
}

/// Pearson's coefficient of two series of equal length; `None` when one of them does not vary.
fn pearson(xs: &[f64], ys: &[f64]) -> Option<f64> {
    let n = xs.len() as f64;
    let (mean_x, mean_y) = (xs.iter().sum::<f64>() / n, ys.iter().sum::<f64>() / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in xs.iter().zip(ys) {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    // Deviations that are rounding errors of the mean are none.
    let negligible = |sum: f64, mean: f64| sum <= n * (1e-14 * mean).powi(2);
    if negligible(xx, mean_x) || negligible(yy, mean_y) {
        return None;
    }
    Some((xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0))
}

/// Replaces values by their ranks from 1, ties by their mean rank. In place: in ascending order, what lies
/// ahead is still a value when it is compared.
pub(crate) fn rank(values: &mut [f64], order: &mut Vec<u32>) {
    order.clear();
    order.extend(0..values.len() as u32);
    order.sort_unstable_by(|&a, &b| values[a as usize].total_cmp(&values[b as usize]));
    let mut start = 0;
    while start < order.len() {
        let value = values[order[start] as usize];
        let ties = order[start..]
            .iter()
            .take_while(|&&i| values[i as usize] == value)
            .count();
        let mean_rank = start as f64 + (ties as f64 + 1.0) / 2.0;
        for &i in &order[start..start + ties] {
            values[i as usize] = mean_rank;
        }
        start += ties;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joint::effective::tests::autoregressive;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    /// Ten pairs, worked by hand: Σ(x − 5.5)² = 82.5, ranks of y swapped pairwise.
    #[test]
    fn worked_by_hand() {
        let xs: Vec<f64> = (1..=10).map(f64::from).collect();
        let ys = [2.0, 1.0, 4.0, 3.0, 6.0, 5.0, 8.0, 7.0, 10.0, 9.0];
        let mut correlator = Correlator::new(10);
        // 1 − 6·Σd²/(n(n² − 1)) with d² = 1 ten times.
        let expected = 1.0 - 60.0 / 990.0;
        for kind in [Kind::Pearson, Kind::Spearman] {
            let found = correlator.between(&xs, &ys, kind).unwrap();
            assert!((found.coefficient - expected).abs() < 1e-12, "{found:?}");
        }
        let convex: Vec<f64> = ys.iter().map(|y: &f64| y.exp()).collect();
        let found = correlator.between(&xs, &convex, Kind::Spearman).unwrap();
        assert!(
            (found.coefficient - expected).abs() < 1e-12,
            "ranks do not change"
        );
    }

    /// Critical coefficients from tables: n = 10, 5 %: 0.632; n = 22, 1 %: 0.537; n = 102, 5 %: 0.195.
    #[test]
    fn table_of_critical_coefficients() {
        for (r, n, p) in [
            (0.632, 10.0, 0.05),
            (0.537, 22.0, 0.01),
            (0.1946, 102.0, 0.05),
        ] {
            assert!(
                (p_value(r, n) / p - 1.0).abs() < 0.01,
                "{r} {n}: {}",
                p_value(r, n)
            );
        }
        assert_eq!(p_value(1.0, 10.0), 0.0);
        assert_eq!(p_value(0.0, 10.0), 1.0);
    }

    /// [Horde Figure A-25]: of "around 500 samples", the coefficients above 0.08 are significant and the
    /// others are not. The smallest above is 0.0850, which is below 5 % from 533 samples on.
    #[test]
    fn horde_figure_a_25() {
        let stationary = [
            -0.0552, -0.0475, -0.0401, -0.0015, 0.4015, 0.1406, 0.5619, 0.3568, 0.7724, 0.0036,
            0.2218, 0.2181, 0.1690, 0.4420, 0.2413,
        ];
        let moving = [
            0.0135, -0.2228, 0.0850, -0.1330, 0.8727, -0.0065, -0.0392, 0.0298, 0.1768, -0.1720,
            0.5166, 0.0416, -0.5400, 0.1091, 0.0951,
        ];
        for r in stationary.into_iter().chain(moving) {
            assert_eq!(p_value(r, 533.0) < 0.05, f64::abs(r) > 0.08, "{r}");
        }
    }

    #[test]
    fn autocorrelated_series_raise_no_false_alarms() {
        let mut random = Seed(3).stream("correlation");
        let mut correlator = Correlator::new(500);
        let runs = 400;
        let (mut naive, mut corrected) = (0, 0);
        for _ in 0..runs {
            let xs = autoregressive(&mut random, 0.9, 500);
            let ys = autoregressive(&mut random, 0.9, 500);
            let found = correlator.between(&xs, &ys, Kind::Pearson).unwrap();
            naive += usize::from(p_value(found.coefficient, 500.0) < 0.05);
            corrected += usize::from(found.p_value < 0.05);
        }
        assert!(naive > runs / 3, "without correction {naive} of {runs}");
        assert!(
            (runs / 100..=runs / 10).contains(&corrected),
            "with it {corrected} of {runs}"
        );
    }

    #[test]
    fn bad_input_is_refused() {
        let mut correlator = Correlator::new(100);
        let ramp: Vec<f64> = (0..20).map(f64::from).collect();
        let between = |correlator: &mut Correlator, xs: &[f64], ys: &[f64]| {
            correlator.between(xs, ys, Kind::Pearson).unwrap_err()
        };
        assert!(matches!(
            between(&mut correlator, &[], &[]),
            EstimateError::TooFew { .. }
        ));
        assert!(matches!(
            between(&mut correlator, &ramp, &ramp[1..]),
            EstimateError::Length { .. }
        ));
        assert!(matches!(
            between(&mut correlator, &ramp, &[0.1; 20]),
            EstimateError::Constant { .. }
        ));
        let mut bad = ramp.clone();
        bad[3] = f64::NAN;
        assert!(matches!(
            between(&mut correlator, &ramp, &bad),
            EstimateError::OutOfRange { .. }
        ));
        let long = vec![1.0; 101];
        assert!(matches!(
            between(&mut correlator, &long, &long),
            EstimateError::Length { .. }
        ));
    }

    #[test]
    fn matrix_of_a_window() {
        let mut random = Seed(4).stream("correlation");
        let mut window = JointWindow::new(3, 300).unwrap();
        for _ in 0..400 {
            let shared = random.normal(0.0, 1.0);
            let cell = |value: f64| Cell::Exact(10.0 + value);
            let third = if random.chance(0.2) {
                Cell::Missing
            } else {
                cell(random.normal(0.0, 1.0))
            };
            window
                .push(&[cell(shared), cell(shared + random.normal(0.0, 0.5)), third])
                .unwrap();
        }
        let matrix = Correlator::new(300).matrix(&window, Kind::Pearson);
        let at = |i: usize, j: usize| matrix[i * 3 + j].unwrap();
        assert!(at(0, 1).coefficient > 0.8 && at(0, 1).p_value < 1e-9);
        assert_eq!(at(0, 1), at(1, 0));
        assert!((at(2, 2).coefficient - 1.0).abs() < 1e-12);
        assert!(at(0, 2).p_value > 0.01 && at(0, 2).pairs < 280);
    }

    proptest! {
        #[test]
        fn coefficients_behave(
            pairs in prop::collection::vec((-100i32..100, -100i32..100), 8..120),
            scale in 0.1..9.0f64, shift in -50.0..50.0f64,
        ) {
            let xs: Vec<f64> = pairs.iter().map(|p| f64::from(p.0)).collect();
            let ys: Vec<f64> = pairs.iter().map(|p| f64::from(p.1)).collect();
            let moved: Vec<f64> = ys.iter().map(|y| scale * y + shift).collect();
            let negative: Vec<f64> = ys.iter().map(|y| -y).collect();
            let mut correlator = Correlator::new(120);
            for kind in [Kind::Pearson, Kind::Spearman] {
                let Ok(found) = correlator.between(&xs, &ys, kind) else { continue };
                prop_assert!(found.coefficient.abs() <= 1.0 && (0.0..=1.0).contains(&found.p_value));
                prop_assert!(found.pairs_effective <= found.pairs as f64);
                let moved = correlator.between(&xs, &moved, kind).unwrap();
                prop_assert!((found.coefficient - moved.coefficient).abs() < 1e-9);
                let mirrored = correlator.between(&xs, &negative, kind).unwrap();
                prop_assert!((found.coefficient + mirrored.coefficient).abs() < 1e-9);
                let swapped = correlator.between(&ys, &xs, kind).unwrap();
                prop_assert!((found.coefficient - swapped.coefficient).abs() < 1e-12);
            }
        }

        #[test]
        fn ranks_are_mean_ranks(values in prop::collection::vec(-9i32..9, 1..60)) {
            let mut ranks: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
            rank(&mut ranks, &mut Vec::new());
            for (value, rank) in values.iter().zip(&ranks) {
                let below = values.iter().filter(|v| *v < value).count() as f64;
                let equal = values.iter().filter(|v| *v == value).count() as f64;
                prop_assert_eq!(*rank, below + (equal + 1.0) / 2.0);
            }
        }
    }
}
