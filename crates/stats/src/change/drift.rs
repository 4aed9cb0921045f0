//! A Kolmogorov–Smirnov test that follows a stream of samples.

use super::kolmogorov;
use crate::{
    evidence::{EstimateError, enough, finite, level, within},
    joint::effective,
};

/// Parameters of a [`DriftDetector`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Samples of the reference, which is taken first and then stays, at least 20.
    pub reference: usize,
    /// Last samples that are compared with it, at least 10.
    pub window: usize,
    /// Samples between two verdicts. Verdicts on overlapping windows are not independent: at `window` or
    /// more, `alpha` is the rate of false alarms per verdict.
    pub stride: usize,
    /// The p-value below which the distribution has changed.
    pub alpha: f64,
}

impl Default for Config {
    /// A reference of 500 sub-windows, the last 100 against it, a verdict every 100, one false alarm in
    /// a thousand verdicts.
    fn default() -> Self {
        Self {
            reference: 500,
            window: 100,
            stride: 100,
            alpha: 0.001,
        }
    }
}

/// A change that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// D between reference and window.
    pub distance: f64,
    /// Its p-value, for the effective numbers of samples.
    pub p_value: f64,
    /// Independent samples per sample, in (0, 1], by the autocorrelation of the reference or the window,
    /// whichever is worse.
    pub independent_share: f64,
}

/// Compares the last samples of a stream with a reference taken before, and reports when the distribution
/// has moved; then the moved window becomes the start of a new reference.
///
/// D is kept exactly and incrementally: the reference's distinct values cut the line into cells, a
/// segment tree over the cells holds the smallest and largest prefix sums of (window count)·|reference|
/// − (reference count)·|window|, and D is the largest of them in magnitude: inside a cell the reference
/// does not step, so the supremum lies at a cell's end. `observe`: O(log reference), no allocation; a
/// verdict: O(window log window) for the autocorrelation; a new reference: O(reference log reference)
/// once.
#[derive(Debug, Clone)]
pub struct DriftDetector {
    config: Config,
    /// In order of time, while it is being taken.
    reference: Vec<f64>,
    /// Its distinct values, ascending; empty until it is complete.
    edges: Vec<f64>,
    independent_share: f64,
    tree: PrefixTree,
    /// The last samples by arrival, with their cells.
    window: Vec<(f64, u32)>,
    oldest: usize,
    since_verdict: usize,
    ranks: Vec<f64>,
    order: Vec<u32>,
}

impl DriftDetector {
    /// Empty, with all its memory.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn new(config: Config) -> Result<Self, EstimateError> {
        let Config {
            reference,
            window,
            stride,
            alpha,
        } = config;
        let fits = |count: usize, low: usize| (low..=1_000_000).contains(&count);
        within(
            "reference",
            reference as f64,
            "20 to 1,000,000 samples",
            fits(reference, 20),
        )?;
        within(
            "window",
            window as f64,
            "10 to 1,000,000 samples",
            fits(window, 10),
        )?;
        within(
            "stride",
            stride as f64,
            "1 to 1,000,000 samples",
            fits(stride, 1),
        )?;
        level("alpha", alpha)?;
        let longest = reference.max(window);
        Ok(Self {
            config,
            reference: Vec::with_capacity(longest),
            edges: Vec::with_capacity(reference),
            independent_share: 1.0,
            tree: PrefixTree::new(2 * reference + 1),
            window: Vec::with_capacity(window),
            oldest: 0,
            since_verdict: 0,
            ranks: Vec::with_capacity(longest),
            order: Vec::with_capacity(longest),
        })
    }

    /// Takes the next sample; a change, if one is found with it.
    ///
    /// # Errors
    /// A sample that is not finite; it is not taken.
    pub fn observe(&mut self, value: f64) -> Result<Option<Drift>, EstimateError> {
        finite("sample", value)?;
        if self.edges.is_empty() {
            self.reference.push(value);
            if self.reference.len() == self.config.reference {
                self.complete_reference();
            }
            return Ok(None);
        }
        let weight = self.config.reference as i64;
        let cell = self.cell_of(value);
        if self.window.len() < self.config.window {
            self.window.push((value, cell));
        } else {
            let (_, leaving) = std::mem::replace(&mut self.window[self.oldest], (value, cell));
            self.tree.add(leaving as usize, -weight);
            self.oldest = (self.oldest + 1) % self.config.window;
        }
        self.tree.add(cell as usize, weight);
        self.since_verdict += 1;
        if self.window.len() < self.config.window || self.since_verdict < self.config.stride {
            return Ok(None);
        }
        self.since_verdict = 0;
        let drift = self.current()?;
        if drift.p_value >= self.config.alpha {
            return Ok(None);
        }
        self.restart();
        Ok(Some(drift))
    }

    /// The comparison as it stands, whether or not it is a change.
    ///
    /// # Errors
    /// The reference or the window is not full yet.
    pub fn current(&mut self) -> Result<Drift, EstimateError> {
        if self.edges.is_empty() {
            enough(
                "reference distribution",
                self.reference.len(),
                self.config.reference,
            )?;
        }
        enough(
            "Kolmogorov–Smirnov window",
            self.window.len(),
            self.config.window,
        )?;
        let (n, m) = (self.config.reference as f64, self.config.window as f64);
        let distance = self.tree.extreme() as f64 / (n * m);
        let in_order =
            (0..self.window.len()).map(|i| self.window[(self.oldest + i) % self.window.len()].0);
        let window_share = independent_share(in_order, &mut self.ranks, &mut self.order);
        let share = self.independent_share.min(window_share);
        Ok(Drift {
            distance,
            p_value: kolmogorov::p_value_asymptotic(distance, n * share, m * share),
            independent_share: share,
        })
    }

    /// True if the reference is complete.
    pub fn is_ready(&self) -> bool {
        !self.edges.is_empty()
    }

    /// Cells alternate: even 2·i for values between edges i − 1 and i, odd 2·i + 1 for edge i itself.
    fn cell_of(&self, value: f64) -> u32 {
        let cell = match self.edges.binary_search_by(|edge| edge.total_cmp(&value)) {
            Ok(at) => 2 * at + 1,
            Err(at) => 2 * at,
        };
        cell as u32
    }

    fn complete_reference(&mut self) {
        let in_order = self.reference.iter().copied();
        self.independent_share = independent_share(in_order, &mut self.ranks, &mut self.order);
        // Zeros of both signs are one value.
        self.reference.iter_mut().for_each(|value| *value += 0.0);
        self.reference.sort_unstable_by(f64::total_cmp);
        self.edges.clear();
        self.edges.extend_from_slice(&self.reference);
        self.edges.dedup();
        self.tree.clear();
        for at in 0..self.reference.len() {
            let cell = self.cell_of(self.reference[at]) as usize;
            self.tree.add(cell, -(self.config.window as i64));
        }
        self.reference.clear();
        self.window.clear();
        self.oldest = 0;
        self.since_verdict = 0;
    }

    /// Begins a new reference with the samples of the window.
    fn restart(&mut self) {
        self.edges.clear();
        self.reference.clear();
        let skip = self.window.len().saturating_sub(self.config.reference);
        for offset in skip..self.window.len() {
            let (value, _) = self.window[(self.oldest + offset) % self.window.len()];
            self.reference.push(value);
        }
        self.window.clear();
        self.oldest = 0;
        if self.reference.len() == self.config.reference {
            self.complete_reference();
        }
    }
}

/// Effective over nominal number of samples, on ranks: the test sees nothing else.
fn independent_share(
    values: impl Iterator<Item = f64>,
    ranks: &mut Vec<f64>,
    order: &mut Vec<u32>,
) -> f64 {
    ranks.clear();
    ranks.extend(values);
    crate::joint::correlation::rank(ranks, order);
    effective::of_series(ranks) / ranks.len() as f64
}

/// Sums over cells, with the extremes of the prefix sums, in a complete binary tree.
#[derive(Debug, Clone)]
struct PrefixTree {
    nodes: Vec<Node>,
    leaves: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    sum: i64,
    /// Smallest and largest prefix sum within the node, the empty prefix included.
    low: i64,
    high: i64,
}

impl PrefixTree {
    fn new(cells: usize) -> Self {
        let leaves = cells.next_power_of_two();
        Self {
            nodes: vec![Node::default(); 2 * leaves],
            leaves,
        }
    }

    fn clear(&mut self) {
        self.nodes.fill(Node::default());
    }

    fn add(&mut self, cell: usize, amount: i64) {
        let mut at = self.leaves + cell;
        let sum = self.nodes[at].sum + amount;
        self.nodes[at] = Node {
            sum,
            low: sum.min(0),
            high: sum.max(0),
        };
        while at > 1 {
            at /= 2;
            let (left, right) = (self.nodes[2 * at], self.nodes[2 * at + 1]);
            self.nodes[at] = Node {
                sum: left.sum + right.sum,
                low: left.low.min(left.sum + right.low),
                high: left.high.max(left.sum + right.high),
            };
        }
    }

    /// The largest prefix sum in magnitude.
    fn extreme(&self) -> i64 {
        self.nodes[1].high.max(-self.nodes[1].low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joint::effective::tests::autoregressive;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    fn detector(reference: usize, window: usize, alpha: f64) -> DriftDetector {
        DriftDetector::new(Config {
            reference,
            window,
            stride: window,
            alpha,
        })
        .unwrap()
    }

    #[test]
    fn finds_a_change_once_and_settles() {
        let mut random = Seed(1).stream("drift");
        let mut detector = detector(300, 100, 0.001);
        let mut found = Vec::new();
        for at in 0..4000 {
            let mean = if at < 2000 { 10.0 } else { 11.0 };
            if let Some(drift) = detector.observe(random.normal(mean, 1.0)).unwrap() {
                assert!(drift.distance > 0.2);
                found.push(at);
            }
        }
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((2000..2200).contains(&found[0]), "{found:?}");
    }

    /// A change of shape that no mean shows.
    #[test]
    fn finds_a_change_of_spread() {
        let mut random = Seed(2).stream("drift");
        let mut detector = detector(300, 150, 0.001);
        let found = (0..3000).find(|&at| {
            let spread = if at < 1500 { 1.0 } else { 3.0 };
            detector
                .observe(random.normal(10.0, spread))
                .unwrap()
                .is_some()
        });
        assert!(
            found.is_some_and(|at| (1500..1900).contains(&at)),
            "{found:?}"
        );
    }

    #[test]
    fn false_alarms_are_as_promised() {
        let mut random = Seed(3).stream("drift");
        for phi in [0.0, 0.9] {
            let (mut alarms, mut verdicts) = (0, 0);
            for _ in 0..150 {
                let mut detector = detector(400, 100, 0.01);
                for value in autoregressive(&mut random, phi, 400 + 1000) {
                    alarms += u32::from(detector.observe(value).unwrap().is_some());
                }
                verdicts += 10;
            }
            // 15 of 1500 are expected of independent verdicts; they share a reference, so they cluster.
            assert!(
                alarms <= 45,
                "phi {phi}: {alarms} false alarms of {verdicts}"
            );
        }
    }

    #[test]
    fn bad_and_little_input() {
        let mut detector = detector(20, 10, 0.01);
        assert!(matches!(
            detector.current(),
            Err(EstimateError::TooFew {
                have: 0,
                need: 20,
                ..
            })
        ));
        assert!(detector.observe(f64::NAN).is_err() && detector.observe(f64::INFINITY).is_err());
        (0..20).for_each(|_| assert_eq!(detector.observe(5.0), Ok(None)));
        assert!(detector.is_ready());
        assert!(matches!(
            detector.current(),
            Err(EstimateError::TooFew {
                have: 0,
                need: 10,
                ..
            })
        ));
        (0..10).for_each(|_| assert_eq!(detector.observe(5.0), Ok(None)));
        assert_eq!(
            detector.current().unwrap().distance,
            0.0,
            "constant, and the same constant"
        );
        for bad in [
            Config {
                reference: 5,
                ..Config::default()
            },
            Config {
                window: 0,
                ..Config::default()
            },
            Config {
                stride: 0,
                ..Config::default()
            },
            Config {
                alpha: f64::NAN,
                ..Config::default()
            },
        ] {
            assert!(DriftDetector::new(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn incremental_distance_is_the_distance(
            reference in prop::collection::vec(-30i32..30, 20..80),
            stream in prop::collection::vec(-40i32..40, 10..150),
            window in 10usize..60,
        ) {
            let mut detector = detector(reference.len(), window, 1e-300);
            for &value in reference.iter().chain(&stream) {
                let found = detector.observe(f64::from(value) / 4.0).unwrap();
                prop_assume!(found.is_none());
            }
            let sorted = |values: &[i32]| {
                let mut values: Vec<f64> = values.iter().map(|&v| f64::from(v) / 4.0).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            match detector.current() {
                Ok(drift) => {
                    let last = &stream[stream.len() - window..];
                    let naive = kolmogorov::distance_sorted(&sorted(&reference), &sorted(last)).unwrap();
                    prop_assert!((drift.distance - naive).abs() < 1e-12);
                }
                Err(_) => prop_assert!(stream.len() < window),
            }
        }
    }
}
