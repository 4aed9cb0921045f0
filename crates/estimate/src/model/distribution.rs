//! A distribution of round trips in nine numbers.

/// The probabilities whose quantiles a [`Distribution`] holds.
pub const LEVELS: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

/// Quantiles at [`LEVELS`], linear in between; 1 % lies at the first and 1 % at the last. No allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    knots_ms: [f64; LEVELS.len()],
}

impl Distribution {
    /// Of quantiles in milliseconds at [`LEVELS`]. One below its predecessor, or below 0, is raised to it.
    pub fn new(mut knots_ms: [f64; LEVELS.len()]) -> Self {
        let mut floor = 0.0_f64;
        for knot in &mut knots_ms {
            // `max` passes over a NaN.
            floor = floor.max(*knot);
            *knot = floor;
        }
        Self { knots_ms }
    }

    /// Time that is not exceeded with probability `p`, in milliseconds; ascending in `p`, which is clamped to
    /// 1 % to 99 %.
    pub fn quantile(&self, p: f64) -> f64 {
        let last = LEVELS.len() - 1;
        let at = LEVELS.partition_point(|&level| level < p);
        if at == 0 {
            return self.knots_ms[0];
        }
        if at > last {
            return self.knots_ms[last];
        }
        let share = (p - LEVELS[at - 1]) / (LEVELS[at] - LEVELS[at - 1]);
        self.knots_ms[at - 1] + share * (self.knots_ms[at] - self.knots_ms[at - 1])
    }

    /// P(a round trip is at most `ms`), in [0, 1].
    pub fn at_most(&self, ms: f64) -> f64 {
        let last = LEVELS.len() - 1;
        let at = self.knots_ms.partition_point(|&knot| knot <= ms);
        if at == 0 {
            return 0.0;
        }
        if at > last {
            return 1.0;
        }
        let (low, high) = (self.knots_ms[at - 1], self.knots_ms[at]);
        let share = (ms - low) / (high - low);
        LEVELS[at - 1] + share * (LEVELS[at] - LEVELS[at - 1])
    }

    /// Its mean, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.moments().0
    }

    /// Its standard deviation, in milliseconds.
    pub fn deviation_ms(&self) -> f64 {
        let (mean, square) = self.moments();
        (square - mean * mean).max(0.0).sqrt()
    }

    /// E[x] and E[x²]: uniform between two quantiles, a mass at either end.
    fn moments(&self) -> (f64, f64) {
        let (first, last) = (self.knots_ms[0], self.knots_ms[LEVELS.len() - 1]);
        let tail = LEVELS[0];
        let mut sums = (tail * (first + last), tail * (first * first + last * last));
        for (levels, knots) in LEVELS.windows(2).zip(self.knots_ms.windows(2)) {
            let (a, b, mass) = (knots[0], knots[1], levels[1] - levels[0]);
            sums.0 += mass * (a + b) / 2.0;
            sums.1 += mass * (a * a + a * b + b * b) / 3.0;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let one = Distribution::new([40.0; 9]);
        assert!((one.mean_ms() - 40.0).abs() < 1e-9 && one.deviation_ms() < 1e-5);
        assert_eq!((one.at_most(39.9), one.at_most(40.0)), (0.0, 1.0));
        // Uniform from 0 to 100: quantiles are their levels; the tails lie at 1 and 99.
        let uniform = Distribution::new(LEVELS.map(|level| level * 100.0));
        assert!((uniform.mean_ms() - 50.0).abs() < 1e-9);
        assert!((uniform.deviation_ms() - 100.0 / 12_f64.sqrt()).abs() < 0.1);
        assert!((uniform.quantile(0.6) - 60.0).abs() < 1e-9);
        assert!((uniform.at_most(37.0) - 0.37).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn quantiles_ascend_and_invert(
            knots in prop::array::uniform9(-10.0..1e4_f64), p in 0.0..1.0_f64, more in 0.0..0.5_f64,
        ) {
            let one = Distribution::new(knots);
            prop_assert!(one.quantile(p) <= one.quantile(p + more) + 1e-9);
            prop_assert!(one.quantile(p) >= 0.0);
            prop_assert!(one.at_most(one.quantile(p)) >= p.min(0.99) - 1e-6);
            prop_assert!(one.quantile(0.0) <= one.mean_ms() + 1e-9);
            prop_assert!(one.mean_ms() <= one.quantile(1.0) + 1e-9);
        }
    }
}
