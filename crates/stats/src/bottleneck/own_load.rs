//! Effect of a channel's own traffic on its delay, so that it can be taken out.

/// Bins of own load, the present one included, that explain the delay.
const TAPS: usize = 6;
/// Initial variance of the weights, in units of the deviation of the delay over that of the load:
/// large, so that the first samples decide.
const VARIANCE_INITIAL: f64 = 100.0;

/// Recursive least squares of a delay on the last loads, with exponential forgetting [Haykin, Adaptive
/// Filter Theory, §10.3].
///
/// Values are detrended. The residual is taken before the weights learn from it, so that a load that
/// explains nothing removes nothing. O(TAPS²) a bin, no allocation.
#[derive(Debug, Clone)]
pub(super) struct OwnLoad {
    /// The last loads, newest first, in mean absolute deviations.
    loads: [f64; TAPS],
    trend: Option<f64>,
    deviation: f64,
    bins: f64,
    weights: [f64; TAPS],
    /// Inverse of the weighted covariance of the loads.
    inverse: [[f64; TAPS]; TAPS],
}

impl OwnLoad {
    pub(super) fn new() -> Self {
        let mut inverse = [[0.0; TAPS]; TAPS];
        for (at, row) in inverse.iter_mut().enumerate() {
            row[at] = VARIANCE_INITIAL;
        }
        Self {
            loads: [0.0; TAPS],
            trend: None,
            deviation: 0.0,
            bins: 0.0,
            weights: [0.0; TAPS],
            inverse,
        }
    }

    /// Takes the load of the next bin. `gain` is that of the trend.
    pub(super) fn load(&mut self, load: f64, gain: f64) {
        let trend = self.trend.get_or_insert(load);
        let away = load - *trend;
        *trend += gain * away;
        // A plain mean at first: an early scale that is too small would make the first loads too large
        // to be forgotten.
        self.bins += 1.0;
        let slow = (0.1 * gain).max(1.0 / self.bins);
        self.deviation += slow * (away.abs() - self.deviation);
        self.loads.copy_within(..TAPS - 1, 1);
        self.loads[0] = if self.deviation > 0.0 {
            away / self.deviation
        } else {
            0.0
        };
    }

    /// Part of the detrended delay of this bin that the loads do not explain.
    pub(super) fn residual(&mut self, delay: f64, keep: f64) -> f64 {
        let loads = &self.loads;
        let residual = delay - dot(&self.weights, loads);
        // A load that does not vary teaches nothing; learning from it would only inflate the inverse.
        if loads.iter().all(|load| load.abs() < 1e-6) {
            return residual;
        }
        let spread = self.inverse.map(|row| dot(&row, loads));
        let scale = keep + dot(&spread, loads);
        for at in 0..TAPS {
            self.weights[at] += spread[at] / scale * residual;
            for other in 0..TAPS {
                let learned = spread[at] * spread[other] / scale;
                self.inverse[at][other] =
                    ((self.inverse[at][other] - learned) / keep).clamp(-1e6, 1e6);
            }
        }
        residual
    }
}

fn dot(a: &[f64; TAPS], b: &[f64; TAPS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    #[test]
    fn takes_out_what_the_load_explains() {
        let response = [1.0, 0.8, 0.5, 0.2, 0.0, 0.0];
        let mut random = Seed(1).stream("own load");
        let mut own = OwnLoad::new();
        let mut loads = [0.0; TAPS];
        let (mut power, mut unexplained) = (0.0, 0.0);
        for bin in 0..4000 {
            loads.copy_within(..TAPS - 1, 1);
            loads[0] = random.normal(0.0, 1e4);
            own.load(loads[0], 0.01);
            let delay = 1e-6 * dot(&response, &loads) + random.normal(0.0, 1e-3);
            let residual = own.residual(delay, 0.999);
            if bin > 2000 {
                power += delay * delay;
                unexplained += residual * residual;
            }
        }
        // The noise is 1e-6 of 1e-4·1.93 + 1e-6; the wandering trend and forgetting add a little.
        assert!(unexplained / power < 0.02, "{}", unexplained / power);
    }

    #[test]
    fn takes_out_nothing_else() {
        let mut random = Seed(2).stream("own load");
        let mut own = OwnLoad::new();
        let (mut power, mut unexplained) = (0.0, 0.0);
        for bin in 0..4000 {
            own.load(random.uniform(0.0, 1e6), 0.1);
            let delay = random.normal(0.0, 1.0);
            let residual = own.residual(delay, 0.999);
            if bin > 100 {
                power += delay * delay;
                unexplained += residual * residual;
            }
        }
        assert!(
            (unexplained / power - 1.0).abs() < 0.03,
            "{}",
            unexplained / power
        );
    }

    #[test]
    fn no_load_changes_nothing() {
        let mut own = OwnLoad::new();
        for bin in 0..10_000 {
            own.load(1200.0, 0.1);
            let delay = f64::from(bin % 7);
            assert_eq!(own.residual(delay, 0.99), delay);
        }
    }
}
