#![doc = include_str!("plan.md")]

mod exact;
mod instance;

use anabranch_base::Seed;
use anabranch_sched::objective::{Assign, Placed, Planner, RandomWalk, Schedule};
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
        streams::show::find,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "assign-gap",
    summary: "share of the greatest utility that schedulers by objectives find, on random instances",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// A kind of instances.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    is_combinatorial: bool,
    /// Limit on slots and ADUs.
    most: u64,
    instances: u64,
}

const fn kind(name: &'static str, is_combinatorial: bool, most: u64, instances: u64) -> Kind {
    Kind {
        name,
        is_combinatorial,
        most,
        instances,
    }
}

/// Small instances are solved by exhaustive search, medium ones by branch and bound.
const KINDS: [Kind; 4] = [
    kind("separable", false, 5, 3_000),
    kind("combinatorial", true, 5, 3_000),
    kind("medium separable", false, 10, 300),
    kind("medium combinatorial", true, 10, 300),
];
/// Largest instances solved by exhaustive search.
const SMALL: u64 = 5;
const SCHEDULERS: [&str; 2] = ["random_walk", "assign"];
/// Smallest loss that counts: below it lie only the terms that break ties.
const TIE: f64 = 5e-3;

/// Utilities of one instance: the greatest, if it was found, and that of each scheduler.
struct Found {
    best: Option<f64>,
    by: [f64; 2],
}

fn solve(seed: Seed, kind: Kind) -> Found {
    let mut random = seed.stream("instance");
    let mut instance = instance::draw(&mut random, kind.is_combinatorial, kind.most);
    let walk = RandomWalk::new(RandomWalk::WALK_LENGTH, seed.stream("walk"));
    let mut planners: [Box<dyn Planner>; 2] = [Box::new(walk), Box::new(Assign::default())];
    let mut schedule = Schedule::new();
    let by = planners.each_mut().map(|planner| {
        planner.plan(&instance.cycle, &mut instance.objectives, &mut schedule);
        let placed = Placed {
            cycle: &instance.cycle,
            slots: &schedule,
        };
        instance.objectives.begin(&placed);
        instance.objectives.utility(&placed)
    });
    let (cycle, objectives) = (&instance.cycle, &mut instance.objectives);
    let best = if kind.most <= SMALL {
        Some(exact::best(cycle, objectives))
    } else {
        exact::best_by_bounds(cycle, objectives, by[0].max(by[1]))
    };
    Found { best, by }
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| options.wants(kind.name)) {
        let seed = options.seed.child(kind.name);
        let numbers: Vec<u64> = (0..kind.instances).collect();
        let found = parallel::map(&numbers, |number| {
            solve(seed.child(&number.to_string()), kind)
        });
        let unsolved = found.iter().filter(|found| found.best.is_none()).count();
        let solved = found.into_iter();
        let solved = solved.filter_map(|found| Some((found.best?, found.by)));
        let found: Vec<Solved> = solved.filter(|(best, _)| *best > TIE).collect();
        (options.progress)(&format!("{}: {} instances", kind.name, found.len()));
        for (index, scheduler) in SCHEDULERS.into_iter().enumerate() {
            let mut row = row(kind.name, scheduler, &found, index);
            row.insert("unsolved".into(), json!(unsolved));
            rows.push(row);
        }
    }
    rows
}

/// Greatest utility, and that of each scheduler.
type Solved = (f64, [f64; 2]);

fn row(kind: &str, scheduler: &str, found: &[Solved], index: usize) -> Row {
    let count = found.len() as f64;
    let fractions = || found.iter().map(|(best, by)| by[index] / best);
    let exact = found.iter().filter(|(best, by)| by[index] > best - TIE);
    let fraction = |value: f64| json!((value * 1e5).round() / 1e5);
    let mut row = Row::new();
    row.insert("instances".into(), json!(found.len()));
    row.insert("kind".into(), json!(kind));
    row.insert("scheduler".into(), json!(scheduler));
    let gained: f64 = found.iter().map(|(_, by)| by[index]).sum();
    let pooled = gained / found.iter().map(|(best, _)| best).sum::<f64>();
    row.insert("pooled_fraction".into(), fraction(pooled));
    row.insert(
        "mean_fraction".into(),
        fraction(fractions().sum::<f64>() / count),
    );
    row.insert(
        "worst_fraction".into(),
        fraction(fractions().fold(1.0, f64::min)),
    );
    row.insert(
        "exact_fraction".into(),
        fraction(exact.count() as f64 / count),
    );
    row
}

fn get(rows: &[Row], kind: &str, scheduler: &str, field: &str) -> f64 {
    find(rows, &[("kind", kind), ("scheduler", scheduler)], field).unwrap_or(f64::NAN)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let line = |kind: Kind| {
        let target = match kind.is_combinatorial {
            false => "assign 99.5",
            true => "assign 97",
        };
        let kind = kind.name;
        let of = |field| {
            SCHEDULERS
                .map(|s| format!("{s} {:.2}", get(rows, kind, s, field) * 100.0))
                .join(", ")
        };
        Published::new(
            format!("{kind}: utility found, % of the greatest; exact in %"),
            "target",
            target,
            format!("{}; {}", of("pooled_fraction"), of("exact_fraction")),
        )
    };
    KINDS.into_iter().map(line).collect()
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let curve = |scheduler: &&str| Curve {
        name: (*scheduler).to_owned(),
        mark: Mark::Points,
        points: (1..)
            .zip(KINDS)
            .map(|(x, kind)| {
                (
                    f64::from(x),
                    get(rows, kind.name, scheduler, "pooled_fraction") * 100.0,
                )
            })
            .filter(|(_, found)| found.is_finite())
            .collect(),
    };
    vec![Plot {
        file: "gap".into(),
        title: "utility found: separable, combinatorial; 3, 4 medium".into(),
        x: Axis::linear("kind of instance"),
        y: Axis::linear("of the greatest, %"),
        curves: SCHEDULERS.iter().map(curve).collect(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assignment_is_exact_and_the_search_no_worse_than_where_it_began() {
        let [separable, combinatorial, ..] = KINDS;
        for number in 0..60 {
            let Found { best, by } = solve(Seed(number), separable);
            let best = best.expect("small");
            assert!((by[1] - best).abs() < TIE, "{number}: {} of {best}", by[1]);
            let Found { best, by } = solve(Seed(number), combinatorial);
            let best = best.expect("small");
            assert!(
                by[0] < best + TIE && by[1] < best + TIE,
                "nothing is better than the best"
            );
        }
    }

    #[test]
    fn branch_and_bound_matches_exhaustive_search() {
        for number in 0..80 {
            let mut random = Seed(number).stream("instance");
            let mut instance = instance::draw(&mut random, true, SMALL);
            let (cycle, objectives) = (&instance.cycle, &mut instance.objectives);
            let all = exact::best(cycle, objectives);
            let bound = exact::best_by_bounds(cycle, objectives, 0.0).expect("small");
            assert!((all - bound).abs() < TIE, "{number}: {bound} of {all}");
        }
    }
}
