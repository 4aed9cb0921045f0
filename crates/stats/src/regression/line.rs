//! Least squares for a line.

use crate::evidence::{EstimateError, enough, finite, within};

/// A fitted line y = slope·x + intercept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Units of y per unit of x.
    pub slope: f64,
    /// y at x = 0.
    pub intercept: f64,
    /// Standard error of the slope; `None` when the method gives none.
    pub slope_error: Option<f64>,
    /// Standard error of the intercept; `None` when the method gives none.
    pub intercept_error: Option<f64>,
    /// Points behind it, faded.
    pub points: f64,
}

impl Line {
    /// y at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.slope * x + self.intercept
    }
}

/// Least squares y = a₁·x + a₀ over a stream of points [Daemons §3, Eq. (5): (XᵀX)⁻¹·Xᵀy for degree 1].
///
/// The sums are kept around the running means (Welford), so large sizes lose no digits, and fade
/// exponentially. `observe`: O(1), no allocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineFit {
    keep: f64,
    weight: f64,
    /// Sum of squared weights, for the effective number of points.
    weight_squares: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

/// Estimate from the points of the errors of a fit by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scatter {
    /// Standard deviation of a point around the line, in units of y.
    pub deviation: f64,
    /// Variance of the intercept, its covariance with the slope (negative where all x are positive), and variance of the
    /// slope.
    pub covariance: [f64; 3],
}

/// Fewest effective points of a fit with errors.
const POINTS_MIN: usize = 3;

impl LineFit {
    /// Empty; the weight of a point falls to 1/e after `memory_points` (infinite: never).
    ///
    /// # Errors
    /// `memory_points` below 3 or NaN.
    pub fn new(memory_points: f64) -> Result<Self, EstimateError> {
        within(
            "memory_points",
            memory_points,
            "at least 3 points",
            memory_points >= 3.0,
        )?;
        Ok(Self {
            keep: (-1.0 / memory_points).exp(),
            weight: 0.0,
            weight_squares: 0.0,
            mean_x: 0.0,
            mean_y: 0.0,
            xx: 0.0,
            xy: 0.0,
            yy: 0.0,
        })
    }

    /// Takes a point.
    ///
    /// # Errors
    /// A coordinate that is not finite; the point is not taken.
    pub fn observe(&mut self, x: f64, y: f64) -> Result<(), EstimateError> {
        finite("x", x)?;
        finite("y", y)?;
        self.weight = self.weight * self.keep + 1.0;
        self.weight_squares = self.weight_squares * self.keep * self.keep + 1.0;
        let (dx, dy) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += dx / self.weight;
        self.mean_y += dy / self.weight;
        // One deviation from the old mean, one from the new.
        self.xx = self.xx * self.keep + dx * (x - self.mean_x);
        self.xy = self.xy * self.keep + dx * (y - self.mean_y);
        self.yy = self.yy * self.keep + dy * (y - self.mean_y);
        Ok(())
    }

    /// Points behind the fit: those of equal weight that the faded ones are worth.
    pub fn points(&self) -> f64 {
        if self.weight_squares > 0.0 {
            self.weight * self.weight / self.weight_squares
        } else {
            0.0
        }
    }

    /// The line that minimises the squared errors [Daemons Eq. (9)].
    ///
    /// # Errors
    /// Fewer than three points, or all of the same x.
    pub fn line(&self) -> Result<Line, EstimateError> {
        let (slope, intercept, scatter) = self.fit()?;
        let [intercept_variance, _, slope_variance] = scatter.covariance;
        Ok(Line {
            slope,
            intercept,
            slope_error: Some(slope_variance.sqrt()),
            intercept_error: Some(intercept_variance.sqrt()),
            points: self.points(),
        })
    }

    /// Distance of points from the line, and what follows for its errors.
    ///
    /// # Errors
    /// As [`LineFit::line`].
    pub fn scatter(&self) -> Result<Scatter, EstimateError> {
        self.fit().map(|(_, _, scatter)| scatter)
    }

    fn fit(&self) -> Result<(f64, f64, Scatter), EstimateError> {
        const WHAT: &str = "regression line";
        let points = self.points();
        // Rounding may leave three points a hair short of three.
        enough(WHAT, (points + 1e-6) as usize, POINTS_MIN)?;
        if self.xx <= self.weight * (1e-12 * self.mean_x).powi(2) {
            return Err(EstimateError::Constant {
                what: "regression line over sizes",
            });
        }
        let slope = self.xy / self.xx;
        let intercept = self.mean_y - slope * self.mean_x;
        // Means over the weights, then scaled to the effective number of points.
        let residual = ((self.yy - slope * self.xy) / self.weight).max(0.0);
        let variance = residual * points / (points - 2.0).max(f64::EPSILON);
        let spread_x = self.xx / self.weight;
        let slope_variance = variance / (points * spread_x);
        let intercept_variance = variance / points * (1.0 + self.mean_x * self.mean_x / spread_x);
        let scatter = Scatter {
            deviation: variance.sqrt(),
            covariance: [
                intercept_variance,
                -self.mean_x * slope_variance,
                slope_variance,
            ],
        };
        Ok((slope, intercept, scatter))
    }

    /// The share of the variance of y that the line explains, in [0, 1].
    ///
    /// # Errors
    /// As [`LineFit::line`], or a constant y.
    pub fn explained(&self) -> Result<f64, EstimateError> {
        self.line()?;
        if self.yy <= self.weight * (1e-12 * self.mean_y).powi(2) {
            return Err(EstimateError::Constant {
                what: "explained share",
            });
        }
        Ok((self.xy * self.xy / (self.xx * self.yy)).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    /// Anscombe's first data set: y = 0.5001·x + 3.0001, standard errors 0.1179 and 1.1247, R² 0.6665.
    #[test]
    fn anscombe() {
        let xs = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let ys = [
            8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68,
        ];
        let mut fit = LineFit::new(f64::INFINITY).unwrap();
        for (x, y) in xs.into_iter().zip(ys) {
            fit.observe(x, y).unwrap();
        }
        let line = fit.line().unwrap();
        assert!(
            (line.slope - 0.5001).abs() < 1e-4 && (line.intercept - 3.0001).abs() < 1e-4,
            "{line:?}"
        );
        assert!(
            (line.slope_error.unwrap() - 0.1179).abs() < 1e-4,
            "{line:?}"
        );
        assert!(
            (line.intercept_error.unwrap() - 1.1247).abs() < 1e-4,
            "{line:?}"
        );
        assert!((fit.explained().unwrap() - 0.6665).abs() < 1e-4);
        // Residual standard error 1.237 on 9 degrees of freedom; the mean of x is 9.
        let scatter = fit.scatter().unwrap();
        assert!((scatter.deviation - 1.2366).abs() < 1e-4, "{scatter:?}");
        let [_, both, slope] = scatter.covariance;
        assert!((both + 9.0 * slope).abs() < 1e-12, "{scatter:?}");
    }

    #[test]
    fn bad_and_little_input() {
        let mut fit = LineFit::new(100.0).unwrap();
        assert!(fit.line().is_err());
        assert!(fit.observe(f64::NAN, 1.0).is_err() && fit.observe(1.0, f64::INFINITY).is_err());
        fit.observe(1.0, 1.0).unwrap();
        fit.observe(2.0, 2.0).unwrap();
        assert!(matches!(fit.line(), Err(EstimateError::TooFew { .. })));
        let mut flat = LineFit::new(100.0).unwrap();
        (0..50).for_each(|i| flat.observe(1e9, f64::from(i)).unwrap());
        assert!(matches!(flat.line(), Err(EstimateError::Constant { .. })));
        assert!(LineFit::new(f64::NAN).is_err());
    }

    #[test]
    fn forgets_the_old_line() {
        let mut random = Seed(1).stream("line");
        let mut fit = LineFit::new(50.0).unwrap();
        for at in 0..1000 {
            let x = random.uniform(0.0, 1000.0);
            let slope = if at < 500 { 1.0 } else { 3.0 };
            fit.observe(x, slope * x + random.normal(0.0, 5.0)).unwrap();
        }
        let line = fit.line().unwrap();
        assert!((line.slope - 3.0).abs() < 0.02, "{line:?}");
        assert!((99.0..=101.0).contains(&fit.points()), "{}", fit.points());
    }

    /// The error that the fit states is the error that it has.
    #[test]
    fn errors_are_as_stated() {
        let mut random = Seed(2).stream("line");
        let mut inside = 0;
        for _ in 0..500 {
            let mut fit = LineFit::new(f64::INFINITY).unwrap();
            for _ in 0..30 {
                let x = random.uniform(1e5, 1e6);
                fit.observe(x, 8e-6 * x + 0.035 + random.normal(0.0, 0.2))
                    .unwrap();
            }
            let line = fit.line().unwrap();
            inside += usize::from((line.slope - 8e-6).abs() < 2.05 * line.slope_error.unwrap());
        }
        assert!((460..=488).contains(&inside), "{inside} of 500 within 95 %");
    }

    proptest! {
        #[test]
        fn solves_the_normal_equations(points in prop::collection::vec((-1000i32..1000, -1000i32..1000), 3..100)) {
            let mut fit = LineFit::new(f64::INFINITY).unwrap();
            let (mut n, mut sx, mut sy, mut sxx, mut sxy) = (0i64, 0i64, 0i64, 0i64, 0i64);
            for &(x, y) in &points {
                fit.observe(f64::from(x), f64::from(y)).unwrap();
                let (x, y) = (i64::from(x), i64::from(y));
                n += 1;
                sx += x;
                sy += y;
                sxx += x * x;
                sxy += x * y;
            }
            let determinant = n * sxx - sx * sx;
            match fit.line() {
                Ok(line) => {
                    let slope = (n * sxy - sx * sy) as f64 / determinant as f64;
                    let intercept = (sy as f64 - slope * sx as f64) / n as f64;
                    prop_assert!((line.slope - slope).abs() < 1e-7 * (1.0 + slope.abs()));
                    prop_assert!((line.intercept - intercept).abs() < 1e-4);
                    prop_assert!((line.points - n as f64).abs() < 1e-6);
                }
                Err(_) => prop_assert_eq!(determinant, 0),
            }
        }
    }
}
