#![doc = include_str!("plan.md")]

mod exact;
mod instance;

use anabranch_base::Seed;
use anabranch_sched::objective::{Assign, Placed, Planner, RandomWalk, Schedule};
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    output::{Axis, Curve, Mark, Plot, Published},
    parallel,
    streams::show::find,
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "assign-gap",
    summary: "how much of the greatest utility schedulers by objectives find, on small random instances",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

const INSTANCES: u64 = 3_000;
const KINDS: [&str; 2] = ["separable", "combinatorial"];
const SCHEDULERS: [&str; 2] = ["random_walk", "assign"];
/// Less than that is nothing lost: it is what ties are broken by.
const TIE: f64 = 5e-3;

/// Utilities of one instance: the greatest, and what each scheduler found.
struct Found {
    best: f64,
    by: [f64; 2],
}

fn solve(seed: Seed, is_combinatorial: bool) -> Found {
    let mut instance = instance::draw(&mut seed.stream("instance"), is_combinatorial);
    let best = exact::best(&instance.cycle, &mut instance.objectives);
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
    Found { best, by }
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| options.wants(kind)) {
        let seed = options.seed.child(kind);
        let numbers: Vec<u64> = (0..INSTANCES).collect();
        let mut found = parallel::map(&numbers, |number| {
            solve(seed.child(&number.to_string()), kind == KINDS[1])
        });
        found.retain(|found| found.best > TIE);
        (options.progress)(&format!("{kind}: {} instances", found.len()));
        for (index, scheduler) in SCHEDULERS.into_iter().enumerate() {
            rows.push(row(kind, scheduler, &found, index));
        }
    }
    rows
}

fn row(kind: &str, scheduler: &str, found: &[Found], index: usize) -> Row {
    let count = found.len() as f64;
    let fractions = || found.iter().map(|found| found.by[index] / found.best);
    let sum =
        |of: fn(&Found, usize) -> f64| found.iter().map(|found| of(found, index)).sum::<f64>();
    let exact = found
        .iter()
        .filter(|found| found.by[index] > found.best - TIE);
    let fraction = |value: f64| json!((value * 1e5).round() / 1e5);
    let mut row = Row::new();
    row.insert("instances".into(), json!(found.len()));
    row.insert("kind".into(), json!(kind));
    row.insert("scheduler".into(), json!(scheduler));
    let pooled = sum(|found, index| found.by[index]) / sum(|found, _| found.best);
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
    let targets = ["assign 99.5", "assign 97"];
    let line = |(kind, target): (&str, &str)| {
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
    KINDS.into_iter().zip(targets).map(line).collect()
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
                    get(rows, kind, scheduler, "pooled_fraction") * 100.0,
                )
            })
            .filter(|(_, found)| found.is_finite())
            .collect(),
    };
    vec![Plot {
        file: "gap".into(),
        title: "utility found: 1 separable, 2 combinatorial".into(),
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
        for number in 0..60 {
            let seed = Seed(number);
            let Found { best, by } = solve(seed, false);
            assert!(
                by[1] > best - TIE && by[1] < best + TIE,
                "{number}: {} of {best}",
                by[1]
            );
            let Found { best, by } = solve(seed, true);
            assert!(
                by[0] < best + TIE && by[1] < best + TIE,
                "nothing is better than the best"
            );
        }
    }
}
