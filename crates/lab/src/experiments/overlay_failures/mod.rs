#![doc = include_str!("plan.md")]

mod scene;

use std::time::Duration;

use serde_json::json;

use self::scene::{Case, Seen};
use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Plot, Published},
        parallel,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "overlay-failures",
    summary: "a transfer while relays die, links degrade, the overlay parts, over 5 to 50 nodes",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Sizes, and runs of each.
const SIZES: [(usize, u64); 4] = [(5, 5), (10, 5), (20, 3), (50, 1)];

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut jobs = Vec::new();
    for case in Case::ALL {
        for (nodes, runs) in SIZES {
            for number in 0..runs {
                let name = format!("{}, {nodes} nodes, run {number}", case.name());
                if options.wants(&name) {
                    jobs.push((case, nodes, name));
                }
            }
        }
    }
    let rows = parallel::map(&jobs, |(case, nodes, name)| {
        let seen = scene::run(*case, *nodes, options.seed.child(name));
        (options.progress)(name);
        seen.map(|seen| row(*case, *nodes, &seen))
    });
    rows.into_iter().flatten().collect()
}

fn row(case: Case, nodes: usize, seen: &Seen) -> Row {
    let ms = |time: Duration| (time.as_secs_f64() * 1e3).round();
    let mut row = Row::new();
    row.insert("case".into(), json!(case.name()));
    row.insert("nodes".into(), json!(nodes));
    row.insert("left_ms".into(), json!(seen.left.map(ms)));
    row.insert("replaced_ms".into(), json!(seen.replaced.map(ms)));
    row.insert("gap_ms".into(), json!(ms(seen.gap)));
    row.insert("gap_before_ms".into(), json!(ms(seen.gap_before)));
    row.insert("still_ms".into(), json!(ms(seen.still)));
    row.insert("three_rtt_ms".into(), json!(ms(seen.three_rtt)));
    row.insert("changes".into(), json!(seen.changes));
    row.insert("lost".into(), json!(seen.lost));
    let bps = seen.goodput_before.as_bps();
    row.insert("goodput_before_bps".into(), json!(bps));
    let bps = seen.goodput_after.as_bps();
    row.insert("goodput_after_bps".into(), json!(bps));
    row
}

/// Maximum of a field over the rows of a case; `None` if it is missing in one of them. With five nodes all relays are in use,
/// so that no alternative is better than a link that has degraded.
fn worst(rows: &[Row], cases: &[&str], field: &str) -> Option<f64> {
    let values = rows
        .iter()
        .filter(|row| cases.iter().any(|case| row["case"] == *case))
        .filter(|row| field != "left_ms" || row["nodes"] != 5)
        .map(|row| row[field].as_f64());
    let values: Option<Vec<f64>> = values.collect();
    values?.into_iter().max_by(f64::total_cmp)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), |ms| format!("{ms:.0} ms"));
    // Worst value of a field after a relay's failure, in units of 3 RTT.
    let excess = |field: &str| {
        let dead = rows.iter().filter(|row| row["case"] == "relay");
        let parts =
            dead.filter_map(|row| Some(row[field].as_f64()? / row["three_rtt_ms"].as_f64()?));
        let worst = parts.max_by(f64::total_cmp);
        worst.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"))
    };
    let lost = worst(rows, &Case::ALL.map(Case::name), "lost");
    vec![
        Published::new(
            "relay dies: longest standstill of the other paths, over 3 RTT of that path (worst)",
            "target",
            "1 at most",
            excess("still_ms"),
        ),
        Published::new(
            "relay dies: longest gap in order at the receiver, over 3 RTT of that path (worst)",
            "target",
            "1 at most",
            excess("gap_ms"),
        ),
        Published::new(
            "relay dies: replacement (worst)",
            "target",
            "2,000 ms at most",
            shown(worst(rows, &["relay"], "replaced_ms")),
        ),
        Published::new(
            "link degrades: left (worst)",
            "target",
            "3,000 ms at most",
            shown(worst(rows, &["near", "far"], "left_ms")),
        ),
        Published::new(
            "changes of routes in a minute of ±20 % noise (worst)",
            "target",
            "0",
            worst(rows, &["noise"], "changes").map_or("–".to_owned(), |n| format!("{n}")),
        ),
        Published::new(
            "messages lost (worst)",
            "target",
            "0",
            lost.map_or("–".to_owned(), |n| format!("{n}")),
        ),
    ]
}

fn plots(_rows: &[Row]) -> Vec<Plot> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    /// Longest gap in order after a relay's failure, over 3 RTT, of the runs in docs/results/overlay.md. The target is 1; it is missed
    /// by the time for suspicion (two round trips and their variation) and the delay of the repair.
    const GAP_MOST: f64 = 1.7;

    #[test]
    fn a_failed_relay_costs_little_time_and_no_data() {
        let corpus = Corpus::default();
        let rows = run(&Options {
            seed: Seed(1),
            only: Some("relay, 5 nodes, run 0"),
            corpus: &corpus,
            progress: &|_| {},
        });
        let row = &rows[0];
        assert_eq!(row["lost"], 0);
        assert!(row["replaced_ms"].as_f64().unwrap() <= 2_000.0, "{row:?}");
        // Data flow again: on the other paths, which never stop, and in order, including the data in flight on the failed one.
        let field = |name: &str| row[name].as_f64().unwrap();
        let three_rtt = field("three_rtt_ms");
        assert!(field("still_ms") <= three_rtt, "{row:?}");
        assert!(field("gap_ms") <= GAP_MOST * three_rtt, "{row:?}");
        assert_eq!(compare(&rows).len(), 6);
    }
}
