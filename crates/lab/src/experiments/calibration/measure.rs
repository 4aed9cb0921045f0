//! Promises on one series: the share kept, and their cost.

use anabranch_stats::{
    forecast::{Config, Judged},
    order::Window,
    score::{Hindsight, Score, held, renewed, rolling},
};

use crate::kit::series::{promises, ratio};

/// Promises are judged from this sample on: before, neither our methods nor the baseline have enough history.
pub(super) const FROM: usize = 100;
/// Windows of the best fixed quantile in hindsight, in samples.
const WINDOWS: [usize; 3] = [100, 500, 1000];
/// Index in [`WINDOWS`] of the baseline.
const BASELINE: usize = 1;
/// Levels between those of the default configuration, for a finer curve.
const LEVELS_BETWEEN: [f64; 5] = [0.6, 0.7, 0.8, 0.85, 0.97];
/// Samples that a promise covers.
pub(super) const HOLDS: [usize; 4] = [1, 5, 10, 30];
/// Our methods, in the order of [`HOLDS`].
pub(super) const OURS: [&str; 4] = ["calibrated", "held_5", "held_10", "held_30"];
/// The quantile of 500 outcomes, in the order of [`HOLDS`].
pub(super) const PERCENTILES: [&str; 4] = [
    "percentile_500",
    "percentile_500_held_5",
    "percentile_500_held_10",
    "percentile_500_held_30",
];
/// Method with promises for a term, each of whose samples is judged on its own, and the samples of a term.
pub(super) const TERM: &str = "term_10";
const TERM_SAMPLES: usize = 10;

/// The figures of one method at one level on one series.
pub(super) struct Figures {
    pub(super) method: &'static str,
    pub(super) hold: usize,
    /// The probability promised.
    pub(super) promised: f64,
    pub(super) score: Score,
    /// Useful rate over that of the best fixed quantile of a fixed window in hindsight, kept as often.
    pub(super) over_fixed: f64,
    /// Useful rate over the constant rate that is kept as often on this series.
    pub(super) over_constant: f64,
    /// Pinball loss over that of the quantile of 500 outcomes.
    pub(super) pinball_ratio: f64,
    /// Of [`TERM`] only.
    pub(super) term: Option<Term>,
}

/// Further figures of promises for a term, each of whose samples is judged on its own.
pub(super) struct Term {
    /// Share kept for a caller that renews every H samples, for each of the H samples to begin with.
    pub(super) renewed: Vec<f64>,
    /// Useful rate over that of promises of the same probability that are judged as a whole, each of their samples on its own.
    pub(super) over_whole: f64,
}

impl Term {
    /// Number of renewing callers for whom the promise is kept to one point.
    pub(super) fn within_point(&self, promised: f64) -> usize {
        let is_near = |kept: &&f64| is_within(**kept, promised, 1.0);
        self.renewed.iter().filter(is_near).count()
    }
}

/// True if the share `kept` is within `points` of the probability promised.
fn is_within(kept: f64, promised: f64, points: f64) -> bool {
    (kept - promised).abs() <= points / 100.0 + 1e-12
}

impl Figures {
    /// True if the promises were kept as often as promised, within half a point.
    pub(super) fn is_calibrated(&self) -> bool {
        is_within(self.score.kept(), self.promised, 0.5)
    }

    /// The same within one point.
    pub(super) fn is_within_point(&self) -> bool {
        is_within(self.score.kept(), self.promised, 1.0)
    }

    /// True if no 500 consecutive promises were kept more than two points less often than promised.
    pub(super) fn is_block_met(&self) -> bool {
        self.score.block_kept_least >= self.promised - 0.02 - 1e-9
    }
}

/// Every hold and level on `bps`.
pub(super) fn all(bps: &[f64]) -> Vec<Figures> {
    let mut all = Vec::new();
    for hold in HOLDS {
        let config = Config {
            hold,
            ..Config::default()
        };
        all.extend(figures(bps, &config));
    }
    all.extend(of_terms(bps));
    let between = Config {
        levels: LEVELS_BETWEEN.to_vec(),
        hold: 1,
        ..Config::default()
    };
    all.extend(figures(bps, &between));
    all
}

/// Promises of the default configuration for the next sample.
pub(super) fn of_next(bps: &[f64]) -> Vec<Figures> {
    figures(bps, &Config::default())
}

/// Promises for terms at the levels of the default configuration. The share kept is that of all samples of all terms, with a
/// promise made at each sample; the worst block is that of a caller that renews from the first sample on.
pub(super) fn of_terms(bps: &[f64]) -> Vec<Figures> {
    let config = |judged| Config {
        hold: TERM_SAMPLES,
        judged,
        ..Config::default()
    };
    let ours = promises(bps, &config(Judged::Each));
    let whole = promises(bps, &config(Judged::Whole));
    let levels = config(Judged::Each).levels;
    let mut sorted: Vec<f64> = bps.get(FROM..).unwrap_or_default().to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut all = Vec::new();
    for (level, &promised) in levels.iter().enumerate() {
        let all_of = |promises: &[f64]| {
            let (promised_bps, came) = rolling(promises, bps, TERM_SAMPLES, FROM);
            Score::of(&promised_bps, &came, promised)
        };
        let of_renewed: Vec<Score> = (FROM..FROM + TERM_SAMPLES)
            .filter_map(|first| {
                let (promised_bps, came) = renewed(&ours[level], bps, TERM_SAMPLES, first);
                Score::of(&promised_bps, &came, promised)
            })
            .collect();
        let (Some(score), Some(rival), Some(first)) = (
            all_of(&ours[level]),
            all_of(&whole[level]),
            of_renewed.first(),
        ) else {
            continue;
        };
        let hindsights = WINDOWS
            .map(|window| Hindsight::of_terms(bps, window, TERM_SAMPLES, FROM, 1.0 - promised));
        let best = hindsights
            .iter()
            .flatten()
            .map(|hindsight| hindsight.useful_at(score.kept()))
            .fold(0.0, f64::max);
        let baseline = hindsights[BASELINE].as_ref().map(Hindsight::pinball);
        let broken = ((1.0 - score.kept()) * sorted.len() as f64) as usize;
        let constant = sorted.get(broken).copied().unwrap_or(0.0);
        all.push(Figures {
            method: TERM,
            hold: TERM_SAMPLES,
            promised,
            over_fixed: ratio(score.useful, best),
            over_constant: ratio(score.useful, constant),
            pinball_ratio: ratio(score.pinball, baseline.unwrap_or(f64::NAN)),
            score: Score {
                block_kept_least: first.block_kept_least,
                ..score
            },
            term: Some(Term {
                renewed: of_renewed.iter().map(Score::kept).collect(),
                over_whole: ratio(score.useful, rival.useful),
            }),
        });
    }
    all
}

fn figures(bps: &[f64], config: &Config) -> Vec<Figures> {
    let hold = config.hold;
    let Some(index) = HOLDS.iter().position(|known| *known == hold) else {
        return Vec::new();
    };
    let outcomes = held(bps, hold);
    let ours = promises(bps, config);
    let baseline = percentiles(&outcomes, hold, &config.levels);
    let mut sorted: Vec<f64> = outcomes.get(FROM..).unwrap_or_default().to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut all = Vec::new();
    for (level, &promised) in config.levels.iter().enumerate() {
        let hindsights: Vec<Hindsight> = WINDOWS
            .iter()
            .filter_map(|&window| Hindsight::of(&outcomes, window, hold, FROM, 1.0 - promised))
            .collect();
        for (method, promises) in [
            (OURS[index], &ours[level]),
            (PERCENTILES[index], &baseline[level]),
        ] {
            let judged = promises.get(FROM..outcomes.len()).unwrap_or_default();
            let known = outcomes.get(FROM..).unwrap_or_default();
            let Some(score) = Score::of(judged, known, promised) else {
                continue;
            };
            let best = hindsights
                .iter()
                .map(|hindsight| hindsight.useful_at(score.kept()))
                .fold(0.0, f64::max);
            let constant = sorted.get(score.broken).copied().unwrap_or(0.0);
            all.push(Figures {
                method,
                hold,
                promised,
                over_fixed: ratio(score.useful, best),
                over_constant: ratio(score.useful, constant),
                pinball_ratio: ratio(score.pinball, hindsights[BASELINE].pinball()),
                score,
                term: None,
            });
        }
    }
    all
}

/// For each level, the quantile of the last 500 outcomes known at the time of the promise.
fn percentiles(outcomes: &[f64], hold: usize, levels: &[f64]) -> Vec<Vec<f64>> {
    let mut seen = Window::new(WINDOWS[BASELINE]);
    let mut all = vec![Vec::with_capacity(outcomes.len()); levels.len()];
    for t in 0..outcomes.len() {
        if t >= hold {
            // Recordings contain finite numbers only.
            let _ = seen.push(outcomes[t - hold]);
        }
        for (promises, level) in all.iter_mut().zip(levels) {
            promises.push(seen.quantile_of_next(1.0 - level).unwrap_or(0.0));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;

    fn noise(samples: usize) -> Vec<f64> {
        let mut random = Seed(3).stream("noise");
        (0..samples)
            .map(|_| (1e7 * random.normal(0.0, 0.5).exp()).floor())
            .collect()
    }

    #[test]
    fn the_ratio_is_to_the_baseline() {
        let all = all(&noise(900));
        assert_eq!(all.len(), 2 * (4 * 5 + 5) + 5);
        for figures in all.iter().filter(|f| PERCENTILES.contains(&f.method)) {
            assert!(
                (figures.pinball_ratio - 1.0).abs() < 1e-9,
                "{}",
                figures.method
            );
        }
    }

    #[test]
    fn no_look_ahead_gains_nothing_on_noise() {
        for figures in of_next(&noise(2500)) {
            if figures.method != OURS[0] || figures.promised > 0.96 {
                continue;
            }
            assert!(figures.is_calibrated(), "{}", figures.score.kept());
            // A method that knows the whole series beforehand does better, if not by much.
            for gain in [figures.over_fixed, figures.over_constant] {
                assert!((0.9..=1.02).contains(&gain), "{} {gain}", figures.promised);
            }
        }
    }

    #[test]
    fn promises_for_terms_gain_nothing_on_noise() {
        for figures in of_terms(&noise(2500)) {
            if !(0.89..0.96).contains(&figures.promised) {
                continue;
            }
            assert!(figures.is_calibrated(), "{}", figures.score.kept());
            let term = figures.term.as_ref().unwrap();
            assert_eq!(term.within_point(figures.promised), 10);
            assert!(term.over_whole > 1.5, "{}", term.over_whole);
            for gain in [figures.over_fixed, figures.over_constant] {
                assert!((0.9..=1.02).contains(&gain), "{} {gain}", figures.promised);
            }
        }
    }

    #[test]
    fn a_series_too_short_gives_no_result() {
        assert!(all(&noise(FROM)).is_empty());
        assert!(all(&[]).is_empty());
    }
}
