//! A line that outliers do not move.

use super::Line;
use crate::evidence::{EstimateError, enough, finite, within};

/// Largest window: 512 points make 130,816 slopes, 1 MB of scratch.
pub const POINTS_MAX: usize = 512;
const POINTS_MIN: usize = 5;
const WHAT: &str = "Theil–Sen line";

/// Theil and Sen's line over the last points: the slope is the median of the slopes of all pairs of points
/// with different x, the intercept the median of y − slope·x.
///
/// Holds while fewer than 29 % of the points are arbitrarily wrong; least squares fails with one.
/// `observe`: O(1); `line`: O(points²); no allocation after construction.
#[derive(Debug, Clone)]
pub struct TheilSen {
    points: Vec<(f64, f64)>,
    capacity: usize,
    next: usize,
    scratch: Vec<f64>,
}

impl TheilSen {
    /// Remembers the last `points` points, 5 to 512.
    ///
    /// # Errors
    /// `points` outside that range.
    pub fn new(points: usize) -> Result<Self, EstimateError> {
        let sane = (POINTS_MIN..=POINTS_MAX).contains(&points);
        within("points", points as f64, "5 to 512", sane)?;
        Ok(Self {
            points: Vec::with_capacity(points),
            capacity: points,
            next: 0,
            scratch: Vec::with_capacity(points * (points - 1) / 2),
        })
    }

    /// Takes a point; the oldest leaves when full.
    ///
    /// # Errors
    /// A coordinate that is not finite; the point is not taken.
    pub fn observe(&mut self, x: f64, y: f64) -> Result<(), EstimateError> {
        let point = (finite("x", x)?, finite("y", y)?);
        if self.points.len() < self.capacity {
            self.points.push(point);
        } else {
            self.points[self.next] = point;
        }
        self.next = (self.next + 1) % self.capacity;
        Ok(())
    }

    /// The line. It states no standard errors.
    ///
    /// # Errors
    /// Fewer than five points, or all of the same x.
    pub fn line(&mut self) -> Result<Line, EstimateError> {
        enough(WHAT, self.points.len(), POINTS_MIN)?;
        self.scratch.clear();
        for (at, &(x, y)) in self.points.iter().enumerate() {
            for &(other_x, other_y) in &self.points[at + 1..] {
                if other_x != x {
                    self.scratch.push((other_y - y) / (other_x - x));
                }
            }
        }
        let slope = median(&mut self.scratch).ok_or(EstimateError::Constant { what: WHAT })?;
        self.scratch.clear();
        self.scratch
            .extend(self.points.iter().map(|(x, y)| y - slope * x));
        let intercept = median(&mut self.scratch).ok_or(EstimateError::Constant { what: WHAT })?;
        Ok(Line {
            slope,
            intercept,
            slope_error: None,
            intercept_error: None,
            points: self.points.len() as f64,
        })
    }
}

/// The median (mean of the two middle values of an even number); `None` of nothing. O(n).
fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return Some(upper);
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(lower + (upper - lower) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::LineFit;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    #[test]
    fn outliers_do_not_move_it() {
        let mut random = Seed(1).stream("theil-sen");
        let (mut robust, mut squares) = (
            TheilSen::new(100).unwrap(),
            LineFit::new(f64::INFINITY).unwrap(),
        );
        for at in 0..100 {
            let x = random.uniform(1e4, 1e6);
            let mut y = 8e-6 * x + 0.035 + random.normal(0.0, 0.01);
            if at % 5 == 0 {
                y += random.exponential(20.0);
            }
            robust.observe(x, y).unwrap();
            squares.observe(x, y).unwrap();
        }
        let line = robust.line().unwrap();
        assert!((line.slope / 8e-6 - 1.0).abs() < 0.01, "{line:?}");
        assert!((line.intercept - 0.035).abs() < 0.01, "{line:?}");
        assert!((squares.line().unwrap().intercept - 0.035).abs() > 0.5);
    }

    #[test]
    fn bad_and_little_input() {
        let mut line = TheilSen::new(10).unwrap();
        assert!(line.observe(f64::NAN, 0.0).is_err());
        (0..4).for_each(|i| line.observe(f64::from(i), 1.0).unwrap());
        assert!(matches!(
            line.line(),
            Err(EstimateError::TooFew {
                have: 4,
                need: 5,
                ..
            })
        ));
        let mut same = TheilSen::new(10).unwrap();
        (0..20).for_each(|i| same.observe(5.0, f64::from(i)).unwrap());
        assert!(matches!(same.line(), Err(EstimateError::Constant { .. })));
        assert!(TheilSen::new(4).is_err() && TheilSen::new(513).is_err());
    }

    proptest! {
        #[test]
        fn is_the_median_of_slopes(points in prop::collection::vec((0i32..50, -100i32..100), 5..40), n in 5usize..30) {
            let mut fit = TheilSen::new(n).unwrap();
            points.iter().for_each(|&(x, y)| fit.observe(f64::from(x), f64::from(y)).unwrap());
            let kept = &points[points.len().saturating_sub(n)..];
            let mut slopes = Vec::new();
            for (i, a) in kept.iter().enumerate() {
                for b in &kept[i + 1..] {
                    if a.0 != b.0 {
                        slopes.push(f64::from(b.1 - a.1) / f64::from(b.0 - a.0));
                    }
                }
            }
            slopes.sort_by(f64::total_cmp);
            match fit.line() {
                Ok(line) => {
                    let h = slopes.len() / 2;
                    let expected = if slopes.len() % 2 == 1 { slopes[h] } else { (slopes[h - 1] + slopes[h]) / 2.0 };
                    prop_assert!((line.slope - expected).abs() < 1e-12);
                }
                Err(_) => prop_assert!(slopes.is_empty()),
            }
        }
    }
}
