//! The Gilbert–Elliott model by maximum likelihood.

use super::GilbertElliott;
use crate::evidence::{EstimateError, enough};

/// Fewest packets for a fit; below, four parameters are not worth fitting.
const PACKETS_MIN: usize = 200;
/// Fewest losses and fewest arrivals for a fit.
const LOSSES_MIN: usize = 20;
/// Probabilities are kept this far from 0 and 1, so that no state dies out during the iteration.
const MARGIN: f64 = 1e-9;
/// States good and bad.
type Pair = [f64; 2];

/// Fits all four parameters to a window of outcomes by Baum and Welch's iteration (expectation
/// maximisation over the hidden states) [Rabiner 1989, §III.C, Eqs. 18–27, scaled as in §V.A].
///
/// One iteration is O(packets); the likelihood never falls. Memory is taken at construction. Per window,
/// not per packet: start from the last window's model and few iterations suffice.
#[derive(Debug, Clone)]
pub struct BaumWelch {
    outcomes: Vec<bool>,
    /// Forward probabilities, scaled to sum 1 at each packet.
    forward: Vec<Pair>,
    /// The scales, whose logarithms sum to the log-likelihood.
    scale: Vec<f64>,
    capacity: usize,
    iterations_max: usize,
}

/// Result of the iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The model; its bad state loses at least as much as the good one.
    pub model: GilbertElliott,
    /// Natural logarithm of the likelihood of the window under the model.
    pub log_likelihood: f64,
    /// The same under independent losses with the window's rate.
    pub log_likelihood_independent: f64,
    /// Packets in the window.
    pub packets: usize,
    /// Iterations that it took.
    pub iterations: usize,
}

impl Fit {
    /// True if two states are worth their three further parameters, by the Bayesian information criterion:
    /// 2·(gain in log-likelihood) > 3·ln(packets). When not, use the loss rate alone.
    pub fn is_bursty(&self) -> bool {
        let gain = self.log_likelihood - self.log_likelihood_independent;
        2.0 * gain > 3.0 * (self.packets as f64).ln()
    }
}

impl BaumWelch {
    /// Creates buffers for windows of up to `packets` packets, with at most `iterations_max` iterations a fit.
    pub fn new(packets: usize, iterations_max: usize) -> Self {
        let capacity = packets.max(PACKETS_MIN);
        Self {
            outcomes: Vec::with_capacity(capacity),
            forward: Vec::with_capacity(capacity),
            scale: Vec::with_capacity(capacity),
            capacity,
            iterations_max: iterations_max.max(1),
        }
    }

    /// Fits the model to `outcomes`, in the order of sending, true for lost. Of more than the capacity, the
    /// first are used.
    ///
    /// `start` is where the iteration begins; `None` tries a bursty and a mixed start and keeps the likelier.
    ///
    /// # Errors
    /// Fewer than 200 packets, or fewer than 20 lost or 20 arrived; `start` is no model.
    pub fn fit(
        &mut self,
        outcomes: impl IntoIterator<Item = bool>,
        start: Option<GilbertElliott>,
    ) -> Result<Fit, EstimateError> {
        self.outcomes.clear();
        self.outcomes
            .extend(outcomes.into_iter().take(self.capacity));
        let packets = self.outcomes.len();
        let lost = self.outcomes.iter().filter(|&&lost| lost).count();
        enough("Gilbert–Elliott fit, packets", packets, PACKETS_MIN)?;
        enough("Gilbert–Elliott fit, losses", lost, LOSSES_MIN)?;
        enough("Gilbert–Elliott fit, arrivals", packets - lost, LOSSES_MIN)?;
        if let Some(start) = start {
            return Ok(self.climb(start.validate()?, lost));
        }
        let rate = lost as f64 / packets as f64;
        let bursty = GilbertElliott {
            good_to_bad: 0.1 * rate,
            bad_to_good: 0.2,
            loss_good: 0.1 * rate,
            loss_bad: (0.9f64).max(rate),
        };
        let mixed = GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.05,
            loss_good: 0.3 * rate,
            loss_bad: (2.0 * rate).min(0.95),
        };
        let (first, second) = (self.climb(bursty, lost), self.climb(mixed, lost));
        Ok(if first.log_likelihood >= second.log_likelihood {
            first
        } else {
            second
        })
    }

    fn climb(&mut self, start: GilbertElliott, lost: usize) -> Fit {
        let packets = self.outcomes.len();
        let mut model = clamped(start);
        let mut log_likelihood = self.run_forward(&model);
        let mut iterations = 0;
        while iterations < self.iterations_max {
            iterations += 1;
            let better = clamped(self.reestimate(&model));
            let reached = self.run_forward(&better);
            model = better;
            let gained = reached - log_likelihood;
            log_likelihood = reached;
            if gained < 1e-7 * packets as f64 {
                break;
            }
        }
        let rate = lost as f64 / packets as f64;
        let arrived = (packets - lost) as f64;
        Fit {
            model: model.ordered(),
            log_likelihood,
            log_likelihood_independent: lost as f64 * rate.ln() + arrived * (1.0 - rate).ln(),
            packets,
            iterations,
        }
    }

    /// Forward pass with scaling; returns the log-likelihood.
    fn run_forward(&mut self, model: &GilbertElliott) -> f64 {
        self.forward.clear();
        self.scale.clear();
        let bad = model.bad_share();
        let mut prior = [1.0 - bad, bad];
        let mut log_likelihood = 0.0;
        for &lost in &self.outcomes {
            let emission = emission(model, lost);
            let joint = [prior[0] * emission[0], prior[1] * emission[1]];
            let scale = joint[0] + joint[1];
            let state = [joint[0] / scale, joint[1] / scale];
            log_likelihood += scale.ln();
            self.forward.push(state);
            self.scale.push(scale);
            prior = step(model, state);
        }
        log_likelihood
    }

    /// Backward pass over the forward pass of `model`, gathering expected counts; returns the model that
    /// they give.
    fn reestimate(&self, model: &GilbertElliott) -> GilbertElliott {
        let mut backward = [1.0, 1.0];
        // Expected: stays in a state, of which lost; leavings; packets after which the state could change.
        let (mut here, mut lost_here, mut left, mut could_leave) =
            ([0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]);
        let moves = [
            [1.0 - model.good_to_bad, model.good_to_bad],
            [model.bad_to_good, 1.0 - model.bad_to_good],
        ];
        for at in (0..self.outcomes.len()).rev() {
            let forward = self.forward[at];
            for state in 0..2 {
                let posterior = forward[state] * backward[state];
                here[state] += posterior;
                if self.outcomes[at] {
                    lost_here[state] += posterior;
                }
            }
            if at == 0 {
                break;
            }
            let emission = emission(model, self.outcomes[at]);
            let future = [0, 1].map(|to| emission[to] * backward[to] / self.scale[at]);
            let before = self.forward[at - 1];
            for from in 0..2 {
                let to_each = [0, 1].map(|to| before[from] * moves[from][to] * future[to]);
                left[from] += to_each[1 - from];
                could_leave[from] += to_each[0] + to_each[1];
            }
            backward = [0, 1].map(|from| moves[from][0] * future[0] + moves[from][1] * future[1]);
        }
        let ratio = |part: f64, whole: f64, old: f64| if whole > 0.0 { part / whole } else { old };
        GilbertElliott {
            good_to_bad: ratio(left[0], could_leave[0], model.good_to_bad),
            bad_to_good: ratio(left[1], could_leave[1], model.bad_to_good),
            loss_good: ratio(lost_here[0], here[0], model.loss_good),
            loss_bad: ratio(lost_here[1], here[1], model.loss_bad),
        }
    }
}

fn emission(model: &GilbertElliott, lost: bool) -> Pair {
    let loss = [model.loss_good, model.loss_bad];
    loss.map(|p| if lost { p } else { 1.0 - p })
}

fn step(model: &GilbertElliott, state: Pair) -> Pair {
    let bad = state[0] * model.good_to_bad + state[1] * (1.0 - model.bad_to_good);
    [1.0 - bad, bad]
}

fn clamped(model: GilbertElliott) -> GilbertElliott {
    let keep = |p: f64| p.clamp(MARGIN, 1.0 - MARGIN);
    GilbertElliott {
        good_to_bad: keep(model.good_to_bad),
        bad_to_good: keep(model.bad_to_good),
        loss_good: keep(model.loss_good),
        loss_bad: keep(model.loss_bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::gilbert::tests::draw;
    use proptest::prelude::*;

    #[test]
    fn recovers_four_parameters() {
        let truth = GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.08,
            loss_good: 0.01,
            loss_bad: 0.7,
        };
        let mut fitter = BaumWelch::new(100_000, 200);
        let fit = fitter.fit(draw(truth, 100_000, 1), None).unwrap();
        let model = fit.model;
        assert!((model.good_to_bad - 0.01).abs() < 0.002, "{model:?}");
        assert!((model.bad_to_good - 0.08).abs() < 0.01, "{model:?}");
        assert!((model.loss_good - 0.01).abs() < 0.003, "{model:?}");
        assert!((model.loss_bad - 0.7).abs() < 0.02, "{model:?}");
        assert!(fit.is_bursty());
    }

    #[test]
    fn independent_losses_are_not_called_bursty() {
        let independent = GilbertElliott {
            good_to_bad: 0.5,
            bad_to_good: 0.5,
            loss_good: 0.05,
            loss_bad: 0.05,
        };
        let mut fitter = BaumWelch::new(5_000, 100);
        let bursty = (0..40)
            .filter(|&seed| {
                let fit = fitter.fit(draw(independent, 5_000, seed), None).unwrap();
                fit.is_bursty()
            })
            .count();
        assert_eq!(bursty, 0);
    }

    #[test]
    fn a_warm_start_is_quick() {
        let truth = GilbertElliott {
            good_to_bad: 0.02,
            bad_to_good: 0.2,
            loss_good: 0.001,
            loss_bad: 0.8,
        };
        let mut fitter = BaumWelch::new(5_000, 100);
        let cold = fitter.fit(draw(truth, 5_000, 8), None).unwrap();
        let warm = fitter.fit(draw(truth, 5_000, 8), Some(cold.model)).unwrap();
        assert!(warm.iterations <= 3, "{}", warm.iterations);
        assert!((warm.log_likelihood - cold.log_likelihood).abs() < 0.1);
    }

    #[test]
    fn too_little_is_said() {
        let mut fitter = BaumWelch::new(1000, 10);
        for outcomes in [vec![], vec![true; 500], vec![false; 500], vec![true, false]] {
            assert!(matches!(
                fitter.fit(outcomes, None),
                Err(EstimateError::TooFew { .. })
            ));
        }
    }

    /// Sums the probability of the outcomes over all sequences of states.
    fn likelihood_naive(model: &GilbertElliott, outcomes: &[bool]) -> f64 {
        let bad = model.bad_share();
        (0..1u32 << outcomes.len())
            .map(|states| {
                let mut p = 1.0;
                let mut before = None;
                for (at, &lost) in outcomes.iter().enumerate() {
                    let state = (states >> at & 1) as usize;
                    p *= match before {
                        None => [1.0 - bad, bad][state],
                        Some(0) => [1.0 - model.good_to_bad, model.good_to_bad][state],
                        Some(_) => [model.bad_to_good, 1.0 - model.bad_to_good][state],
                    } * emission(model, lost)[state];
                    before = Some(state);
                }
                p
            })
            .sum()
    }

    proptest! {
        #[test]
        fn forward_pass_is_the_likelihood(
            good_to_bad in 0.01..0.99f64, bad_to_good in 0.01..0.99f64,
            loss_good in 0.01..0.99f64, loss_bad in 0.01..0.99f64,
            outcomes in prop::collection::vec(any::<bool>(), 1..10),
        ) {
            let model = GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad };
            let mut fitter = BaumWelch::new(10, 1);
            fitter.outcomes.extend_from_slice(&outcomes);
            let log_likelihood = fitter.run_forward(&model);
            prop_assert!((log_likelihood - likelihood_naive(&model, &outcomes).ln()).abs() < 1e-9);
            // A step of the iteration climbs (up to the start state, which is tied to the transitions).
            let better = clamped(fitter.reestimate(&model));
            prop_assert!(better.validate().is_ok());
        }

        #[test]
        fn the_likelihood_does_not_fall(seed in 0u64..200) {
            let truth = GilbertElliott { good_to_bad: 0.03, bad_to_good: 0.2, loss_good: 0.01, loss_bad: 0.6 };
            let mut fitter = BaumWelch::new(2_000, 1);
            fitter.outcomes = draw(truth, 2_000, seed);
            let mut model = GilbertElliott { good_to_bad: 0.1, bad_to_good: 0.1, loss_good: 0.05, loss_bad: 0.5 };
            let mut before = fitter.run_forward(&model);
            for _ in 0..15 {
                model = clamped(fitter.reestimate(&model));
                let after = fitter.run_forward(&model);
                // The tied start state may cost a little.
                prop_assert!(after > before - 0.05, "{before} → {after}");
                before = after;
            }
        }
    }
}
