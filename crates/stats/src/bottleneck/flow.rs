//! Summary statistics of one channel's delay [RFC 8382 §3.2, §4].

use crate::evidence::{EstimateError, enough, finite, within};

/// Parameters of RFC 8382, with its names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// N: base intervals for oscillation and loss.
    pub intervals: usize,
    /// M ≤ N: base intervals for mean, skewness and variability.
    pub intervals_mean: usize,
    /// F ≤ M: of these, the most recent that weigh fully; the others weigh less the older they are.
    pub intervals_flat: usize,
    /// c_s: skewness below which a channel passes a bottleneck.
    pub c_s: f64,
    /// c_h: the same for a channel that passed one at the last interval (hysteresis).
    pub c_h: f64,
    /// p_f: channels whose oscillation differs by less stay together.
    pub p_f: f64,
    /// p_mad: channels whose variability differs by less than this share of the larger stay together.
    pub p_mad: f64,
    /// p_s: channels whose skewness differs by less stay together.
    pub p_s: f64,
    /// p_d: channels whose loss differs by less than this share of the larger stay together.
    pub p_d: f64,
    /// p_v: a crossing of the mean counts when it goes this many variabilities beyond.
    pub p_v: f64,
    /// p_l: loss above which a channel passes a bottleneck, and loss is compared.
    pub p_l: f64,
}

impl Default for Parameters {
    /// The values recommended in RFC 8382 §2.2 (for T = 350 ms), but for p_l, which it leaves open: 0.05.
    fn default() -> Self {
        Self {
            intervals: 50,
            intervals_mean: 30,
            intervals_flat: 20,
            c_s: 0.1,
            c_h: 0.3,
            p_f: 0.1,
            p_mad: 0.1,
            p_s: 0.15,
            p_d: 0.1,
            p_v: 0.7,
            p_l: 0.05,
        }
    }
}

impl Parameters {
    fn validate(&self) -> Result<(), EstimateError> {
        let (n, m, f) = (self.intervals, self.intervals_mean, self.intervals_flat);
        within(
            "intervals (N)",
            n as f64,
            "2 to 10,000",
            (2..=10_000).contains(&n),
        )?;
        within(
            "intervals_mean (M)",
            m as f64,
            "2 to N",
            (2..=n).contains(&m),
        )?;
        within(
            "intervals_flat (F)",
            f as f64,
            "1 to M",
            (1..=m).contains(&f),
        )?;
        for (name, value) in [
            ("c_s", self.c_s),
            ("c_h", self.c_h),
            ("p_f", self.p_f),
            ("p_mad", self.p_mad),
            ("p_s", self.p_s),
            ("p_d", self.p_d),
            ("p_v", self.p_v),
            ("p_l", self.p_l),
        ] {
            finite(name, value)?;
        }
        Ok(())
    }
}

/// One base interval T.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    samples: u32,
    lost: u32,
    mean: f64,
    skew_base: i32,
    /// Only of intervals at which the channel passed a bottleneck [§4.2].
    var_base: Option<f64>,
    crossed: bool,
}

/// Verdict of RFC 8382 on a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// skew_est, in [−1, 1]: the share of delays below the mean less the share above. An idle path has
    /// mostly small delays and a few large ones (positive); a full queue has not.
    pub skewness: f64,
    /// var_est in seconds: the mean absolute deviation; 0 when no interval met a bottleneck.
    pub variability_s: f64,
    /// freq_est, in [0, 1]: significant crossings of the mean per interval.
    pub oscillation: f64,
    /// pkt_loss, in [0, 1].
    pub loss: f64,
    /// True if the channel passes a bottleneck, by skewness or loss.
    pub is_bottlenecked: bool,
}

/// Gathers the summary statistics of one channel.
///
/// Delays are relative one-way delays in seconds: any constant offset (clocks that disagree) cancels.
/// Round-trip times serve when the way back is not congested. `observe`, `observe_loss`: O(1); `close`:
/// O(M), once every T; no allocation after construction.
#[derive(Debug, Clone)]
pub struct FlowStats {
    parameters: Parameters,
    history: Box<[Interval]>,
    /// Intervals closed so far; the last one lies at `(closed − 1) mod N`.
    closed: usize,
    // The open interval.
    samples: u32,
    lost: u32,
    sum: f64,
    skew_base: i32,
    var_base: f64,
    // Of the intervals before.
    mean_long: Option<f64>,
    mean_last: Option<f64>,
    /// Side of the mean at the last significant crossing.
    side: Option<bool>,
    is_bottlenecked: bool,
}

impl FlowStats {
    /// Empty, with all its memory.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn new(parameters: Parameters) -> Result<Self, EstimateError> {
        parameters.validate()?;
        Ok(Self {
            parameters,
            history: vec![Interval::default(); parameters.intervals].into(),
            closed: 0,
            samples: 0,
            lost: 0,
            sum: 0.0,
            skew_base: 0,
            var_base: 0.0,
            mean_long: None,
            mean_last: None,
            side: None,
            is_bottlenecked: false,
        })
    }

    /// Takes the delay of a packet in seconds; any sign.
    ///
    /// # Errors
    /// A delay that is not finite; it is not taken.
    pub fn observe(&mut self, delay_s: f64) -> Result<(), EstimateError> {
        finite("delay_s", delay_s)?;
        self.samples += 1;
        self.sum += delay_s;
        if let Some(mean) = self.mean_long {
            self.skew_base += i32::from(delay_s < mean) - i32::from(delay_s > mean);
        }
        if let Some(mean) = self.mean_last {
            self.var_base += (delay_s - mean).abs();
        }
        Ok(())
    }

    /// Takes the loss of a packet.
    pub fn observe_loss(&mut self) {
        self.lost += 1;
    }

    /// Ends the base interval T (350 ms recommended).
    pub fn close(&mut self) {
        let samples = self.samples;
        let mean = if samples > 0 {
            self.sum / f64::from(samples)
        } else {
            0.0
        };
        let place = self.closed % self.history.len();
        self.history[place] = Interval {
            samples,
            lost: self.lost,
            mean,
            skew_base: self.skew_base,
            var_base: Some(self.var_base),
            crossed: false,
        };
        self.closed += 1;

        // First the test of §3.3.1 step 1, on which §4.2 lets variability and crossings depend.
        let (skewness, loss) = (self.skewness(), self.loss());
        let p = &self.parameters;
        self.is_bottlenecked = self.closed > p.intervals_mean.min(5)
            && (skewness < p.c_s || (skewness < p.c_h && self.is_bottlenecked) || loss > p.p_l);
        if self.is_bottlenecked {
            let crossed = samples > 0 && self.crosses(mean);
            self.history[place].crossed = crossed;
        } else {
            self.history[place].var_base = None;
        }

        if samples > 0 {
            self.mean_last = Some(mean);
        }
        self.mean_long = self.mean();
        (self.samples, self.lost, self.sum) = (0, 0, 0.0);
        (self.skew_base, self.var_base) = (0, 0.0);
    }

    /// Base intervals closed.
    pub fn intervals(&self) -> usize {
        self.closed
    }

    /// The summary, for grouping.
    ///
    /// # Errors
    /// Fewer than 2·M intervals closed, from which on RFC 8382 §3.3.2 recommends decisions; no packet
    /// in the last M.
    pub fn summary(&self) -> Result<Summary, EstimateError> {
        let need = 2 * self.parameters.intervals_mean;
        enough("shared-bottleneck summary, intervals", self.closed, need)?;
        let samples: u32 = self
            .recent(self.parameters.intervals_mean)
            .map(|i| i.samples)
            .sum();
        enough("shared-bottleneck summary, delays", samples as usize, 1)?;
        Ok(Summary {
            skewness: self.skewness(),
            variability_s: self.variability(),
            oscillation: self.oscillation(),
            loss: self.loss(),
            is_bottlenecked: self.is_bottlenecked,
        })
    }

    /// The last `count` closed intervals, newest first.
    fn recent(&self, count: usize) -> impl Iterator<Item = &Interval> {
        let length = self.history.len();
        (1..=count.min(self.closed)).map(move |back| &self.history[(self.closed - back) % length])
    }

    /// The intervals over M with their weights: M − F + 1 for the newest F, then falling to 1 [§4.1.1].
    fn weighted(&self) -> impl Iterator<Item = (&Interval, f64)> {
        let (m, f) = (
            self.parameters.intervals_mean,
            self.parameters.intervals_flat,
        );
        self.recent(m)
            .enumerate()
            .map(move |(back, interval)| (interval, (m - back.max(f - 1)) as f64))
    }

    /// mean_delay = E_M(E_T(OWD)) [§3.2.1], of intervals with packets.
    fn mean(&self) -> Option<f64> {
        let (sum, count) = self
            .recent(self.parameters.intervals_mean)
            .filter(|interval| interval.samples > 0)
            .fold((0.0, 0.0), |(sum, count), interval| {
                (sum + interval.mean, count + 1.0)
            });
        (count > 0.0).then(|| sum / count)
    }

    /// skew_est [§3.2.2, §4.1.1].
    fn skewness(&self) -> f64 {
        let (base, samples) = self
            .weighted()
            .fold((0.0, 0.0), |(base, samples), (i, weight)| {
                (
                    base + weight * f64::from(i.skew_base),
                    samples + weight * f64::from(i.samples),
                )
            });
        if samples > 0.0 { base / samples } else { 1.0 }
    }

    /// var_est [§3.2.3, §4.1.2], of intervals that met a bottleneck [§4.2].
    fn variability(&self) -> f64 {
        let (base, samples) = self
            .weighted()
            .fold((0.0, 0.0), |(base, samples), (i, weight)| {
                match i.var_base {
                    Some(var) => (base + weight * var, samples + weight * f64::from(i.samples)),
                    None => (base, samples),
                }
            });
        if samples > 0.0 { base / samples } else { 0.0 }
    }

    /// freq_est [§3.2.4].
    fn oscillation(&self) -> f64 {
        let n = self.parameters.intervals;
        self.recent(n).filter(|interval| interval.crossed).count() as f64 / n as f64
    }

    /// pkt_loss [§3.2.5].
    fn loss(&self) -> f64 {
        let (lost, total) = self
            .recent(self.parameters.intervals)
            .fold((0, 0), |(lost, total), i| {
                (lost + i.lost, total + i.lost + i.samples)
            });
        if total > 0 {
            f64::from(lost) / f64::from(total)
        } else {
            0.0
        }
    }

    /// True if `mean` crosses the long mean significantly, to the other side than last time.
    fn crosses(&mut self, mean: f64) -> bool {
        let Some(long) = self.mean_long else {
            return false;
        };
        if (mean - long).abs() <= self.parameters.p_v * self.variability() {
            return false;
        }
        let side = mean > long;
        let crossed = self.side.is_some_and(|last| last != side);
        self.side = Some(side);
        crossed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    fn stats() -> FlowStats {
        FlowStats::new(Parameters::default()).unwrap()
    }

    /// Runs `intervals` intervals of `per` delays drawn by `draw`.
    fn run(
        stats: &mut FlowStats,
        intervals: usize,
        per: usize,
        mut draw: impl FnMut(usize) -> f64,
    ) {
        for interval in 0..intervals {
            for _ in 0..per {
                stats.observe(draw(interval)).unwrap();
            }
            stats.close();
        }
    }

    #[test]
    fn skewness_tells_an_idle_path_from_a_full_queue() {
        let mut random = Seed(1).stream("flow");
        let mut idle = stats();
        run(&mut idle, 100, 30, |_| {
            0.02 + random.exponential(0.001).powi(2) * 1e3
        });
        let summary = idle.summary().unwrap();
        assert!(
            summary.skewness > 0.3 && !summary.is_bottlenecked,
            "{summary:?}"
        );
        assert_eq!(
            (summary.oscillation, summary.variability_s),
            (0.0, 0.0),
            "noise is not recorded"
        );
        let mut full = stats();
        run(&mut full, 100, 30, |_| 0.1 - random.exponential(0.01));
        let summary = full.summary().unwrap();
        assert!(
            summary.skewness < 0.0 && summary.is_bottlenecked,
            "{summary:?}"
        );
    }

    /// Exponential delays above a minimum: P(below the mean) − P(above) = 1 − 2/e = 0.264; MAD = 2/e of
    /// the mean.
    #[test]
    fn known_distribution() {
        let mut random = Seed(2).stream("flow");
        let parameters = Parameters {
            c_s: 0.9,
            ..Parameters::default()
        };
        let mut stats = FlowStats::new(parameters).unwrap();
        run(&mut stats, 120, 400, |_| 5.0 + random.exponential(0.01));
        let summary = stats.summary().unwrap();
        let e = std::f64::consts::E;
        assert!(
            (summary.skewness - (1.0 - 2.0 / e)).abs() < 0.02,
            "{summary:?}"
        );
        assert!(
            (summary.variability_s - 0.02 / e).abs() < 0.0003,
            "{summary:?}"
        );
    }

    #[test]
    fn oscillation_counts_crossings() {
        let mut stats = stats();
        // Five intervals up, five down: ten crossings in fifty intervals.
        run(&mut stats, 200, 10, |interval| {
            if interval / 5 % 2 == 0 { 0.1 } else { 0.05 }
        });
        let summary = stats.summary().unwrap();
        assert!((summary.oscillation - 0.2).abs() < 0.021, "{summary:?}");
        // The clock's offset does not matter.
        let mut shifted = self::stats();
        run(&mut shifted, 200, 10, |interval| {
            -1e4 + if interval / 5 % 2 == 0 { 0.1 } else { 0.05 }
        });
        let moved = shifted.summary().unwrap();
        assert!((moved.variability_s - summary.variability_s).abs() < 1e-9);
        assert_eq!(moved.oscillation, summary.oscillation);
    }

    #[test]
    fn loss_alone_shows_a_bottleneck() {
        let mut random = Seed(3).stream("flow");
        let mut stats = stats();
        for _ in 0..100 {
            for _ in 0..20 {
                stats.observe(random.exponential(0.001).powi(2)).unwrap();
            }
            stats.observe_loss();
            stats.observe_loss();
            stats.close();
        }
        let summary = stats.summary().unwrap();
        assert!((summary.loss - 2.0 / 22.0).abs() < 1e-12);
        assert!(
            summary.is_bottlenecked && summary.skewness > 0.3,
            "{summary:?}"
        );
    }

    #[test]
    fn weights_fall_after_the_flat_part() {
        let stats = {
            let mut stats = stats();
            run(&mut stats, 40, 1, |_| 0.0);
            stats
        };
        let weights: Vec<f64> = stats.weighted().map(|(_, weight)| weight).collect();
        assert_eq!(weights.len(), 30);
        assert!(weights[..20].iter().all(|&w| w == 11.0), "M − F + 1 = 11");
        assert_eq!(
            weights[20..],
            [10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
        );
    }

    #[test]
    fn bad_and_little_input() {
        let mut stats = stats();
        assert!(stats.observe(f64::NAN).is_err());
        run(&mut stats, 59, 5, |_| 0.1);
        assert!(matches!(
            stats.summary(),
            Err(EstimateError::TooFew {
                have: 59,
                need: 60,
                ..
            })
        ));
        run(&mut stats, 60, 0, |_| 0.1);
        assert!(
            matches!(
                stats.summary(),
                Err(EstimateError::TooFew {
                    have: 0,
                    need: 1,
                    ..
                })
            ),
            "silent"
        );
        let bad = |change: fn(&mut Parameters)| {
            let mut parameters = Parameters::default();
            change(&mut parameters);
            FlowStats::new(parameters).is_err()
        };
        assert!(
            bad(|p| p.intervals = 0)
                && bad(|p| p.intervals_mean = 51)
                && bad(|p| p.intervals_flat = 31)
        );
        assert!(bad(|p| p.c_s = f64::NAN));
    }

    proptest! {
        /// The formulas of §3.2 over all delays of the last intervals, with equal weights.
        #[test]
        fn agrees_with_the_formulas(
            intervals in prop::collection::vec(prop::collection::vec(-50i32..50, 1..12), 20..40),
            m in 2usize..8,
        ) {
            let parameters = Parameters {
                intervals: 10,
                intervals_mean: m,
                intervals_flat: m,
                // Always takes part, so that nothing is left out as noise.
                c_s: 2.0,
                ..Parameters::default()
            };
            let mut stats = FlowStats::new(parameters).unwrap();
            for delays in &intervals {
                delays.iter().for_each(|&delay| stats.observe(f64::from(delay)).unwrap());
                stats.close();
            }
            let mean = |delays: &[i32]| f64::from(delays.iter().sum::<i32>()) / delays.len() as f64;
            let (mut skew, mut deviation, mut samples) = (0.0, 0.0, 0.0);
            for at in intervals.len() - m..intervals.len() {
                let long = intervals[at - m..at].iter().map(|d| mean(d)).sum::<f64>() / m as f64;
                let last = mean(&intervals[at - 1]);
                for &delay in &intervals[at] {
                    let delay = f64::from(delay);
                    // Equal up to rounding is neither below nor above; such draws decide nothing.
                    prop_assume!((delay - long).abs() > 1e-9);
                    skew += if delay < long { 1.0 } else { -1.0 };
                    deviation += (delay - last).abs();
                    samples += 1.0;
                }
            }
            let summary = stats.summary().unwrap();
            prop_assert!((summary.skewness - skew / samples).abs() < 1e-9);
            prop_assert!((summary.variability_s - deviation / samples).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&summary.oscillation));
        }
    }
}
