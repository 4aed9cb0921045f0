#![doc = include_str!("plan.md")]

mod beds;

use anabranch_base::{Random, Seed};
use anabranch_route::design::{self, Belief, Criterion, Noise, Probe, Task};
use anabranch_stats::regression::LineFit;
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
    },
};
use beds::{Bed, KINDS, Kind, Probes, Truth};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "probe-design",
    summary: "estimation error against probe budget: equal rates, random probes, optimal designs [Daemons §5]",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Budgets, in rounds of one probe of every size on every link.
const ROUNDS: [u64; 5] = [4, 8, 16, 32, 64];
/// Part of the budget after which an optimal design that does not know the noise is planned anew.
const PILOT: f64 = 0.25;
const TRIALS: u64 = 200;
/// Trials on the link model, and budgets used there: fewer, because it takes longer.
const TRIALS_BUSY: u64 = 16;
const ROUNDS_BUSY: usize = 3;
/// Overhead that gives all probes the same cost, to count probes instead of bytes.
const FLAT_BYTES: u64 = 1 << 40;
/// Limit on a relative error: beyond it there is no estimate.
const ERROR_MAX: f64 = 1.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Design {
    /// The same number of probes on every link and of every size.
    Equal,
    /// The same number on every link, of its smallest and its largest size.
    EqualEnds,
    Random,
    /// Planned after a pilot from the noise observed in it.
    Optimal(Criterion),
    /// Planned from the true noise, without a pilot.
    Known,
}

const DESIGNS: [(&str, Design); 6] = [
    ("equal", Design::Equal),
    ("equal_ends", Design::EqualEnds),
    ("random", Design::Random),
    ("optimal_a", Design::Optimal(Criterion::A)),
    ("optimal_d", Design::Optimal(Criterion::D)),
    ("optimal_a_known", Design::Known),
];

/// Cost of a probe.
const COSTS: [(&str, u64); 2] = [("bytes", 0), ("probes", FLAT_BYTES)];

fn tasks(bed: &Bed, overhead_bytes: u64) -> Vec<Task> {
    let task = |truth: &Truth| {
        let slope = 1.0 / truth.rate.as_bytes_per_s();
        let messages: Vec<u64> = truth.messages.iter().map(|(bytes, _)| *bytes).collect();
        Task {
            // Almost nothing is known yet.
            belief: Belief::guess(1.0, 100.0 * slope),
            noise: Noise {
                fixed_s: truth.noise_s,
                per_byte_s: 0.0,
            },
            sizes: truth.sizes.clone(),
            overhead_bytes,
            interest: design::interest(&messages, 0.03, slope),
        }
    };
    bed.truth.iter().map(task).collect()
}

/// Lines being fitted, one per link.
struct Fits<'a> {
    probes: Probes<'a>,
    lines: Vec<LineFit>,
    /// By link: sizes and delays in seconds.
    timed: Vec<Vec<(u64, f64)>>,
    sent: u64,
}

impl<'a> Fits<'a> {
    fn new(bed: &'a Bed, seed: Seed) -> Self {
        let line = LineFit::new(f64::INFINITY).expect("a memory of any length");
        Self {
            probes: bed.probes(seed),
            lines: vec![line; bed.truth.len()],
            timed: vec![Vec::new(); bed.truth.len()],
            sent: 0,
        }
    }

    /// Sends probes in random order.
    fn send(&mut self, probes: &[Probe], random: &mut Random) {
        let each = probes.iter().flat_map(|probe| {
            let one = (probe.task, probe.bytes);
            std::iter::repeat_n(one, probe.count as usize)
        });
        let mut each: Vec<(usize, u64)> = each.collect();
        for index in (1..each.len()).rev() {
            each.swap(index, random.below(index as u64 + 1) as usize);
        }
        for (link, bytes) in each {
            let delay_s = self.probes.message(link, bytes);
            self.lines[link]
                .observe(bytes as f64, delay_s)
                .expect("delays are finite");
            self.timed[link].push((bytes, delay_s));
            self.sent += 1;
        }
    }

    /// Noise of the delays on a link, from their distances to the line: for its smallest messages, and the increase for its
    /// largest. Uses only the measured delays.
    fn noise(&self, link: usize) -> Option<Noise> {
        let line = self.lines[link].line().ok()?;
        let timed = &self.timed[link];
        let all = self.lines[link].scatter().ok()?.deviation.max(1e-5);
        let of = |bytes: u64| {
            let same = timed.iter().filter(|(size, _)| *size == bytes);
            let squares = same.map(|(size, delay_s)| (delay_s - line.at(*size as f64)).powi(2));
            let squares: Vec<f64> = squares.collect();
            // Few messages are unreliable: combined with all, with a weight of four.
            let sum = squares.iter().sum::<f64>() + 4.0 * all * all;
            (sum / (squares.len() + 4) as f64).sqrt()
        };
        let small = timed.iter().map(|(bytes, _)| *bytes).min()?;
        let large = timed.iter().map(|(bytes, _)| *bytes).max()?;
        let fixed_s = of(small);
        let more = (of(large).powi(2) - fixed_s * fixed_s).max(0.0).sqrt();
        Some(Noise {
            fixed_s,
            per_byte_s: more / large as f64,
        })
    }

    /// Mean squared relative error of the predicted delays.
    fn error(&self, bed: &Bed) -> f64 {
        let links = self.lines.iter().zip(&bed.truth);
        let squares = links.flat_map(|(fit, truth)| {
            let line = fit.line().ok();
            truth.messages.iter().map(move |&(bytes, true_s)| {
                let error = line
                    .as_ref()
                    .map_or(ERROR_MAX, |line| (line.at(bytes as f64) - true_s) / true_s);
                error.clamp(-ERROR_MAX, ERROR_MAX).powi(2)
            })
        });
        let squares: Vec<f64> = squares.collect();
        squares.iter().sum::<f64>() / squares.len() as f64
    }
}

/// Spends a budget; returns the mean squared error, and the probes sent.
fn spend(design: Design, bed: &Bed, tasks: &[Task], budget: u64, seed: Seed) -> (f64, u64) {
    let mut random = seed.stream("order");
    let mut fits = Fits::new(bed, seed);
    let first = match design {
        Design::Equal => design::equal(tasks, budget),
        Design::EqualEnds => {
            let mut ends = tasks.to_vec();
            for task in &mut ends {
                task.sizes.dedup();
                let most = task.sizes.len() - 1;
                task.sizes = vec![task.sizes[0], task.sizes[most]];
            }
            design::equal(&ends, budget)
        }
        Design::Random => design::random(tasks, budget, &mut seed.stream("lots")),
        Design::Optimal(_) => design::equal(tasks, (budget as f64 * PILOT) as u64),
        Design::Known => design::plan(tasks, Criterion::A, budget),
    };
    fits.send(&first.probes, &mut random);
    if let Design::Optimal(criterion) = design {
        let mut again = tasks.to_vec();
        for (task, link) in again.iter_mut().zip(0..) {
            // Without an answer from the pilot the guess stands; the true noise is not used.
            task.noise = fits.noise(link).unwrap_or(Noise {
                fixed_s: 5e-3,
                per_byte_s: 0.0,
            });
            if let Ok(scatter) = fits.lines[link].scatter() {
                task.belief = Belief::fitted(&scatter, &task.belief);
            }
        }
        let rest = design::plan(&again, criterion, budget - first.cost_bytes);
        fits.send(&rest.probes, &mut random);
    }
    (fits.error(bed), fits.sent)
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, kind) in KINDS.into_iter().filter(|(name, _)| options.wants(name)) {
        let seed = options.seed.child(name);
        let (trials, budgets) = match kind {
            Kind::Busy => (TRIALS_BUSY, &ROUNDS[..ROUNDS_BUSY]),
            Kind::Unequal | Kind::Equal => (TRIALS, &ROUNDS[..]),
        };
        let trials: Vec<u64> = (0..trials).collect();
        let found = parallel::map(&trials, |number| {
            let seed = seed.child(&number.to_string());
            trial(&Bed::draw(kind, seed), budgets, seed)
        });
        for ((cost, _), c) in COSTS.into_iter().zip(0..) {
            for ((design, _), w) in DESIGNS.into_iter().zip(0..) {
                for (&rounds, r) in budgets.iter().zip(0..) {
                    let mean = |value: &dyn Fn(&Spent) -> f64| -> f64 {
                        let sum: f64 = found.iter().map(|trial| value(&trial[c][w][r])).sum();
                        sum / found.len() as f64
                    };
                    let mut row = Row::new();
                    row.insert("links".into(), json!(name));
                    row.insert("cost".into(), json!(cost));
                    row.insert("design".into(), json!(design));
                    row.insert("rounds".into(), json!(rounds));
                    row.insert("trials".into(), json!(found.len()));
                    row.insert(
                        "budget_mb".into(),
                        rounded(mean(&|spent| spent.budget_bytes / 1e6)),
                    );
                    row.insert("probes".into(), rounded(mean(&|spent| spent.probes)));
                    row.insert(
                        "error_rms".into(),
                        rounded(mean(&|spent| spent.square).sqrt()),
                    );
                    rows.push(row);
                }
            }
        }
        (options.progress)(&format!("{name}: {} trials", found.len()));
    }
    rows
}

/// Result of spending a budget.
#[derive(Debug, Clone, Copy)]
struct Spent {
    budget_bytes: f64,
    square: f64,
    probes: f64,
}

/// Results by cost, design and budget.
type Trial = [[Vec<Spent>; DESIGNS.len()]; COSTS.len()];

fn trial(bed: &Bed, budgets: &[u64], seed: Seed) -> Trial {
    COSTS.map(|(_, overhead_bytes)| {
        let tasks = tasks(bed, overhead_bytes);
        let sizes = tasks.iter().flat_map(|task| task.sizes.iter());
        let round: u64 = sizes.map(|bytes| bytes + overhead_bytes).sum();
        DESIGNS.map(|(name, design)| {
            let spent = budgets.iter().map(|&rounds| {
                let seed = seed.child(&format!("{name} {rounds}"));
                let (square, probes) = spend(design, bed, &tasks, round * rounds, seed);
                let flat = overhead_bytes * rounds * (tasks.len() * tasks[0].sizes.len()) as u64;
                Spent {
                    budget_bytes: (round * rounds).saturating_sub(flat) as f64,
                    square,
                    probes: probes as f64,
                }
            });
            spent.collect()
        })
    })
}

fn rounded(value: f64) -> serde_json::Value {
    json!((value * 1e5).round() / 1e5)
}

/// Rounds and errors of a design.
fn errors(rows: &[Row], links: &str, cost: &str, design: &str) -> Vec<(f64, f64)> {
    rows.iter()
        .filter(|row| row["links"] == links && row["cost"] == cost && row["design"] == design)
        .filter_map(|row| Some((row["rounds"].as_f64()?, row["error_rms"].as_f64()?)))
        .collect()
}

/// Part of the budget of `equal` rates that a design needs for the same error, at the budgets where its own errors enclose
/// that; mean of the logarithms.
fn part(equal: &[(f64, f64)], design: &[(f64, f64)]) -> Option<f64> {
    let logs = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points
            .iter()
            .map(|(rounds, error)| (rounds.ln(), error.ln()))
            .collect()
    };
    let (equal, design) = (logs(equal), logs(design));
    let parts = equal.iter().filter_map(|&(rounds, error)| {
        let pair = design
            .windows(2)
            .find(|pair| pair[0].1 >= error && error > pair[1].1)?;
        let share = (pair[0].1 - error) / (pair[0].1 - pair[1].1);
        Some(pair[0].0 + share * (pair[1].0 - pair[0].0) - rounds)
    });
    let parts: Vec<f64> = parts.collect();
    (!parts.is_empty()).then(|| (parts.iter().sum::<f64>() / parts.len() as f64).exp())
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for (links, kind) in KINDS {
        for (cost, _) in COSTS {
            let equal = errors(rows, links, cost, "equal");
            for (name, design) in &DESIGNS[1..] {
                let Some(part) = part(&equal, &errors(rows, links, cost, name)) else {
                    continue;
                };
                let is_target = kind != Kind::Equal && matches!(design, Design::Optimal(_));
                lines.push(Published::new(
                    format!("{links} links, budget in {cost}: what {name} needs of that of equal rates for the same error"),
                    "target",
                    if is_target { "≤ 0.5" } else { "–" },
                    format!("{part:.3}"),
                ));
            }
        }
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let curves = |links: &str, cost: &str| -> Vec<Curve> {
        let curve = |(design, _): (&str, Design)| Curve {
            name: design.to_owned(),
            mark: Mark::Line,
            points: errors(rows, links, cost, design),
        };
        DESIGNS.map(curve).into()
    };
    let plot = |links: &str, cost: &str| Plot {
        file: format!("{links}_{cost}"),
        title: format!("Error of predicted delays, {links} links, budget in {cost}"),
        x: Axis::log("budget, probes of each size on each link, or their worth"),
        y: Axis::log("relative error, root of mean square"),
        curves: curves(links, cost),
    };
    let kinds = KINDS.into_iter().map(|(links, _)| links);
    kinds
        .flat_map(|links| COSTS.map(|(cost, _)| plot(links, cost)))
        .filter(|plot| plot.curves.iter().any(|curve| !curve.points.is_empty()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimal_designs_need_less_on_unequal_links() {
        let mut squares = [0.0; DESIGNS.len()];
        for number in 0..30 {
            let seed = Seed(number);
            let bed = Bed::draw(Kind::Unequal, seed);
            let tasks = tasks(&bed, 0);
            let budget = tasks.iter().flat_map(|task| &task.sizes).sum::<u64>() * 16;
            for ((_, design), square) in DESIGNS.into_iter().zip(&mut squares) {
                *square += spend(design, &bed, &tasks, budget, seed).0;
            }
        }
        let [equal, _, random, optimal, ..] = squares;
        assert!(
            optimal < 0.6 * equal && optimal < 0.6 * random,
            "{squares:?}"
        );
    }

    /// An error that falls with the square root of the budget: half the error takes a quarter of the budget.
    #[test]
    fn parts_are_read_off_the_curves() {
        let equal: Vec<(f64, f64)> = [4.0, 8.0, 16.0, 32.0]
            .map(|b: f64| (b, 1.0 / b.sqrt()))
            .into();
        let half: Vec<(f64, f64)> = equal.iter().map(|&(b, error)| (b, error / 2.0)).collect();
        let found = part(&equal, &half).expect("they overlap");
        assert!((found - 0.25).abs() < 1e-9, "{found}");
        assert_eq!(part(&equal, &[]), None);
    }
}
