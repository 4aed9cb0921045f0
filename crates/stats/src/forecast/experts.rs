//! Seven estimates of the next outcome's distribution, each answering any quantile.

use crate::order::Window;

use super::{
    analogue::Analogues,
    state::{FEATURES, Situation},
};

/// Samples in the windows of rates, and in those of ratios and residuals.
const RECENT: usize = 60;
const ALL: usize = 500;

/// Their number.
pub(super) const EXPERTS: usize = 7;

/// The experts and what they have learnt.
///
/// | expert | outcome seen as | over |
/// |---|---|---|
/// | recent, all | rate | the last 60, the last 500 |
/// | fast ratio, short ratio | ratio to an average with half-life 0.3, 2 | the last 500 |
/// | residual | distance from the mean logarithm in units of the recent spread | the last 500 |
/// | analogue rate, analogue ratio | rate, ratio to the short average | the nearest neighbours |
///
/// The residual is filtered historical simulation (Barone-Adesi et al., 1999).
#[derive(Debug, Clone)]
pub(super) struct Experts {
    recent: Window,
    all: Window,
    fast_ratios: Window,
    short_ratios: Window,
    /// exp of the residual: never negative, as `quantile_of_next` wants it; its logarithm goes to −∞ at level 0.
    residuals: Window,
    analogues: Analogues,
}

impl Experts {
    /// Experts that learn of `situations` with each sample.
    pub(super) fn new(situations: usize) -> Self {
        let related = || Window::new(ALL * situations);
        Self {
            recent: Window::new(RECENT),
            all: Window::new(ALL),
            fast_ratios: related(),
            short_ratios: related(),
            residuals: related(),
            analogues: Analogues::new(),
        }
    }

    /// Outcomes learnt and still held.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The ratios of outcomes to the short average.
    pub(super) fn short_ratios(&self) -> &Window {
        &self.short_ratios
    }

    /// `situation` was followed by `bps`.
    pub(super) fn learn(&mut self, situation: &Situation, bps: f64) {
        self.learn_rate(bps);
        if situation.is_known() {
            self.relate(situation, bps);
            self.analogues.learn(situation, bps);
        }
    }

    /// A sample of `bps` came, and each of `situations` is one that it may be seen from.
    pub(super) fn learn_sample<'a>(
        &mut self,
        situations: impl Iterator<Item = &'a Situation>,
        bps: f64,
    ) {
        for (index, situation) in situations.enumerate() {
            if index == 0 {
                self.learn_rate(bps);
            }
            if !situation.is_known() {
                continue;
            }
            if index == 0 {
                self.analogues.learn(situation, bps);
            }
            self.relate(situation, bps);
        }
    }

    fn learn_rate(&mut self, bps: f64) {
        // Rates are finite.
        let _ = self.recent.push(bps);
        let _ = self.all.push(bps);
    }

    fn relate(&mut self, situation: &Situation, bps: f64) {
        let shifted = bps + situation.offset;
        let residual = situation.residual(bps).clamp(-RESIDUAL_MAX, RESIDUAL_MAX);
        // All of these are finite, because rates are and averages plus offset are above 0.
        let _ = self.fast_ratios.push(shifted / situation.fast);
        let _ = self.short_ratios.push(shifted / situation.short);
        let _ = self.residuals.push(residual.exp());
    }

    /// The quantiles at increasing `levels` of what follows `situation`, in bits per second: one row of
    /// `levels.len()` for each expert. None is above the largest outcome held.
    pub(super) fn quantiles(
        &mut self,
        situation: &Situation,
        precision: &[f64; FEATURES],
        levels: &[f64],
        out: &mut [f64],
    ) {
        let (offset, max) = (situation.offset, self.all.max().unwrap_or(0.0));
        self.analogues.weigh(situation, precision);
        for (expert, row) in out.chunks_exact_mut(levels.len()).enumerate() {
            match expert {
                0 => plain(&self.recent, levels, row, |rate| rate),
                1 => plain(&self.all, levels, row, |rate| rate),
                2 => plain(&self.fast_ratios, levels, row, |ratio| {
                    ratio * situation.fast - offset
                }),
                3 => plain(&self.short_ratios, levels, row, |ratio| {
                    ratio * situation.short - offset
                }),
                4 => plain(&self.residuals, levels, row, |e| situation.rate_at(e.ln())),
                5 => self.analogues.rate_quantiles(levels, row),
                _ => {
                    self.analogues.ratio_quantiles(levels, row);
                    for value in &mut *row {
                        *value = *value * situation.short - offset;
                    }
                }
            }
            for value in row {
                *value = value.clamp(0.0, max);
            }
        }
    }
}

/// The quantiles of what `window` holds, made rates by `rate`.
fn plain(window: &Window, levels: &[f64], row: &mut [f64], rate: impl Fn(f64) -> f64) {
    for (value, &level) in row.iter_mut().zip(levels) {
        *value = rate(window.quantile_of_next(level).unwrap_or(0.0));
    }
}

/// Residuals beyond this many spreads count as much.
const RESIDUAL_MAX: f64 = 300.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the first exact sample, an outcome has no average to be a ratio of, and no spread to be measured in.
    #[test]
    fn an_outcome_without_a_situation_is_a_rate_only() {
        let nothing = Situation::default();
        let mut experts = Experts::new(1);
        experts.learn(&nothing, 5e6);
        experts.learn_sample([&nothing, &nothing].into_iter(), 6e6);
        assert_eq!(experts.all.values(), [5e6, 6e6]);
        assert!(experts.short_ratios.is_empty() && experts.fast_ratios.is_empty());
        assert!(experts.residuals.is_empty());
        let mut rates = [1.0];
        experts.analogues.rate_quantiles(&[0.5], &mut rates);
        assert_eq!(rates, [0.0], "nothing is remembered");
    }
}
