//! Rates by Lemma 2 on past samples, and their late packets on the samples that follow.

use std::time::Duration;

use anabranch_admission::AdmissionController;
use anabranch_admission::{
    guarantee::{
        Distribution, Scale,
        late::{late_packets, rate_for_late},
        split::{Part, late_moving, late_of_parts, late_of_parts_published},
    },
    mapping::{Capacity, Term},
};
use anabranch_spec::ChannelMask;
use anabranch_stats::{
    joint::{Cell, JointWindow},
    order::Window,
};

/// Sample from which on promises are made.
pub(super) const FROM: usize = 100;
/// Limit on the samples on which a promise is based.
const HISTORY: usize = 500;
/// Number of windows between two promises.
const RENEWED: usize = 10;
pub(super) const PACKET_BYTES: u32 = 1200;
/// Bounds z, as shares of the path's average capacity.
pub(super) const BOUNDS: [f64; 2] = [0.01, 0.05];
/// Methods for one path.
pub(super) const SINGLE: [&str; 5] = [
    "once",
    "renewed_10",
    "calibrated",
    "engine",
    "conditional_mean",
];
/// Step by which one window moves the logarithm of the bound that `calibrated` asks of Lemma 2, and the maximum weight of a
/// window, in bounds.
const GAIN: f64 = 0.02;
const WORST: f64 = 10.0;
/// Smallest bound that `calibrated` asks for, as a share of the promised bound.
const ASKED_MIN: f64 = 1e-4;
/// Methods for two paths.
pub(super) const PAIR: [&str; 3] = ["split_published", "split_sum", "split_moving"];

/// Outcome of the promises of one method.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) method: &'static str,
    pub(super) bound: f64,
    pub(super) windows: usize,
    /// Mean over windows.
    pub(super) promised: f64,
    pub(super) measured: f64,
    pub(super) rate_bps: f64,
}

/// Sums over the windows so far.
#[derive(Default)]
struct Sums {
    windows: usize,
    promised: f64,
    measured: f64,
    rate_bps: f64,
}

impl Sums {
    fn add(&mut self, promised: f64, measured: f64, rate_bps: f64) {
        self.windows += 1;
        self.promised += promised;
        self.measured += measured;
        self.rate_bps += rate_bps;
    }

    fn figures(&self, method: &'static str, bound: f64) -> Option<Figures> {
        let windows = self.windows as f64;
        (self.windows > 0 && self.promised > 0.0).then(|| Figures {
            method,
            bound,
            windows: self.windows,
            promised: self.promised / windows,
            measured: self.measured / windows,
            rate_bps: self.rate_bps / windows,
        })
    }
}

pub(super) fn scale(window_s: f64) -> Scale {
    Scale {
        packet_bytes: PACKET_BYTES,
        window: Duration::from_secs_f64(window_s),
    }
}

/// Largest rate of which `late` packets a window are late on these samples.
pub(super) fn rate_seen(bps: &[f64], late: f64, window_s: f64) -> Option<f64> {
    let mut seen = Window::new(bps.len().max(1));
    for &bps in bps {
        // Recordings contain finite numbers only.
        let _ = seen.push(bps);
    }
    rate_for_late(&seen, late, scale(window_s))
}

/// All methods for one path.
pub(super) fn single(bps: &[f64], window_s: f64) -> Vec<Figures> {
    let scale = scale(window_s);
    let mut all = Vec::new();
    for bound in BOUNDS {
        for method in SINGLE {
            let mut seen = Window::new(HISTORY);
            let mut promise = None;
            let mut asked = 1.0f64;
            let mut controller = (method == "engine").then(|| AdmissionController::new(1));
            let mut sums = Sums::default();
            for (index, &bps) in bps.iter().enumerate() {
                let is_due = match (index.checked_sub(FROM), method) {
                    (None, _) => false,
                    (Some(since), "once") => since == 0,
                    (Some(since), _) => since.is_multiple_of(RENEWED),
                };
                if is_due {
                    let late = bound * scale.packets(seen.mean().unwrap_or(0.0));
                    let rate = match method {
                        "conditional_mean" => rate_by_conditional_mean(&seen, late, scale),
                        "calibrated" => rate_for_late(&seen, asked * late, scale),
                        "engine" => controller.as_mut().and_then(|controller| {
                            rate_of_controller(controller, &seen, late, scale)
                        }),
                        _ => rate_for_late(&seen, late, scale),
                    };
                    promise = rate.map(|rate| (late, rate));
                }
                if let Some((late, rate)) = promise {
                    let missed = scale.packets((rate - bps).max(0.0));
                    sums.add(late, missed, rate);
                    if late > 0.0 {
                        let step = GAIN * (1.0 - (missed / late).min(WORST));
                        asked = (asked * step.exp()).clamp(ASKED_MIN, 1.0);
                    }
                }
                if let Some(controller) = &mut controller {
                    controller.end_window(&[bps], |_| false);
                }
                // Recordings contain finite numbers only.
                let _ = seen.push(bps);
            }
            all.extend(sums.figures(method, bound));
        }
    }
    all
}

/// Rate that a session would admit: Lemma 2 on its history, with the bound adjusted as the session's controller does.
fn rate_of_controller(
    controller: &mut AdmissionController,
    seen: &Window,
    late: f64,
    scale: Scale,
) -> Option<f64> {
    let late_bps = scale.rate_bps(late);
    let path = ChannelMask::only(0);
    let allowed_bps = controller
        .capacity()
        .allowed(path, late_bps, Term::Renewable)?;
    rate_for_late(seen, scale.packets(allowed_bps), scale)
}

/// Largest rate at or below the largest sample that Lemma 2 as worded would admit, with the mean of b for all b ≤ b₀ in place
/// of M. It is not an increasing function of the rate, so every sample is tried.
fn rate_by_conditional_mean(seen: &Window, late: f64, scale: Scale) -> Option<f64> {
    let is_admitted = |need: &f64| {
        let share = Distribution::cdf(seen, *need).unwrap_or(0.0);
        let mean = Distribution::partial_mean(seen, *need).unwrap_or(0.0) / share;
        scale.packets(need * share - mean) <= late
    };
    seen.values().iter().rev().copied().find(is_admitted)
}

/// All methods for two paths with rows of simultaneous samples.
pub(super) fn pair(rows: &[[f64; 2]], window_s: f64) -> Vec<Figures> {
    let scale = scale(window_s);
    let mut all = Vec::new();
    for bound in BOUNDS {
        for method in PAIR {
            let mut seen = [Window::new(HISTORY), Window::new(HISTORY)];
            let Ok(mut joint) = JointWindow::new(2, HISTORY) else {
                return all;
            };
            let mut promise = None;
            let mut sums = Sums::default();
            for (index, row) in rows.iter().enumerate() {
                if index >= FROM && (index - FROM).is_multiple_of(RENEWED) {
                    promise = promise_pair(method, &seen, &joint, bound, scale);
                }
                if let Some((late, rates)) = promise {
                    let lack = if method == "split_moving" {
                        rates[0] + rates[1] - row[0] - row[1]
                    } else {
                        (rates[0] - row[0]).max(0.0) + (rates[1] - row[1]).max(0.0)
                    };
                    let total: f64 = rates.iter().sum();
                    sums.add(late, scale.packets(lack.max(0.0)), total);
                }
                for (window, &bps) in seen.iter_mut().zip(row) {
                    let _ = window.push(bps);
                }
                let _ = joint.push(&row.map(Cell::Exact));
            }
            all.extend(sums.figures(method, bound));
        }
    }
    all
}

/// Bound z, and the rate of each path.
fn promise_pair(
    method: &str,
    seen: &[Window; 2],
    joint: &JointWindow,
    bound: f64,
    scale: Scale,
) -> Option<(f64, [f64; 2])> {
    let means = [seen[0].mean()?, seen[1].mean()?];
    let total = means[0] + means[1];
    if total <= 0.0 {
        return None;
    }
    let late = bound * scale.packets(total);
    let rates = |all: f64| means.map(|mean| all * mean / total);
    let is_admitted = |all: f64| {
        let rates = rates(all);
        let promised = if method == "split_moving" {
            late_moving(joint, &rates, scale).ok()
        } else {
            let part = |path: usize| {
                let packets = scale.packets(rates[path]);
                let late_packets = late_packets(&seen[path], packets, scale)?;
                Some(Part {
                    packets,
                    late_packets,
                })
            };
            let parts = [part(0), part(1)].into_iter().collect::<Option<Vec<_>>>();
            parts.map(|parts| {
                if method == "split_published" {
                    late_of_parts_published(&parts)
                } else {
                    late_of_parts(&parts)
                }
            })
        };
        promised.is_some_and(|promised| promised <= late)
    };
    // Late packets grow with the rate, without limit.
    let (mut low, mut high) = (0.0, total);
    while is_admitted(high) {
        low = high;
        high *= 2.0;
    }
    while high - low > 1e-6 * total {
        let middle = f64::midpoint(low, high);
        if is_admitted(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some((late, rates(low)))
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;

    fn find<'a>(all: &'a [Figures], method: &str) -> &'a Figures {
        let mut found = all.iter().filter(|f| f.method == method && f.bound == 0.05);
        found.next().unwrap()
    }

    /// Without drift and memory, the measured value is the promised one.
    #[test]
    fn independent_samples_keep_the_bound() {
        let mut random = Seed(3).stream("late");
        let bps: Vec<f64> = (0..6000).map(|_| random.uniform(5e6, 15e6)).collect();
        let all = single(&bps, 1.0);
        let renewed = find(&all, "renewed_10");
        let ratio = renewed.measured / renewed.promised;
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
        let calibrated = find(&all, "calibrated");
        assert!(
            calibrated.measured <= 1.02 * calibrated.promised,
            "{calibrated:?}"
        );
        assert!(
            calibrated.rate_bps > 0.95 * renewed.rate_bps,
            "{calibrated:?}"
        );
        let engine = find(&all, "engine");
        assert!(engine.measured <= 1.05 * engine.promised, "{engine:?}");
        assert!(engine.rate_bps > 0.9 * renewed.rate_bps, "{engine:?}");
        // As worded, the formula admits rates with far more losses.
        let worded = find(&all, "conditional_mean");
        assert!(worded.measured > 3.0 * worded.promised, "{worded:?}");
    }

    /// A path that falls more often than before: the rate admitted by a session is late less often than that of Lemma 2.
    #[test]
    fn on_a_path_that_drifts_the_engine_is_closer_to_the_bound() {
        let mut random = Seed(6).stream("late");
        // Every ten minutes its capacity drops, without announcement.
        let bps: Vec<f64> = (0..3000)
            .map(|at| (20e6 * 0.7f64.powi(at / 600)) * random.uniform(0.6, 1.4))
            .collect();
        let all = single(&bps, 1.0);
        let ratio = |method| {
            let figures = find(&all, method);
            figures.measured / figures.promised
        };
        let (lemma, engine) = (ratio("renewed_10"), ratio("engine"));
        assert!(lemma > 1.1, "{lemma}");
        assert!(engine < 1.05, "{engine}");
    }

    #[test]
    fn two_like_halves_are_late_twice_as_often_as_published() {
        let mut random = Seed(4).stream("late");
        let rows: Vec<[f64; 2]> = (0..3000)
            .map(|_| [random.uniform(5e6, 15e6), random.uniform(5e6, 15e6)])
            .collect();
        let all = pair(&rows, 1.0);
        let ratio = |method| {
            let figures = find(&all, method);
            figures.measured / figures.promised
        };
        assert!((1.9..2.1).contains(&ratio("split_published")));
        assert!(
            (0.93..1.07).contains(&ratio("split_sum")),
            "{}",
            ratio("split_sum")
        );
        assert!(
            (0.9..1.1).contains(&ratio("split_moving")),
            "{}",
            ratio("split_moving")
        );
        let rate = |method| find(&all, method).rate_bps;
        assert!(rate("split_moving") > rate("split_sum"));
    }

    #[test]
    fn a_series_too_short_gives_no_result() {
        assert!(single(&[1e6; FROM], 1.0).is_empty());
        assert!(pair(&[[1e6; 2]; FROM], 1.0).is_empty());
    }
}
