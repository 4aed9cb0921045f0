//! One path, parallel connections on it, two quickest paths [Daemons Table 1].

use std::time::Duration;

use anabranch_route::partition::{Leg, partition};
use anabranch_session::Controller;
use anabranch_sim::topology::{Topology, three_sites};
use serde_json::json;

use super::{
    measure::{self, Overlay},
    transfer::{self, Part},
};
use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
        series::quantile,
        streams::show::rounded,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "daemons-table1",
    summary: "three sites: one path, parallel connections, two quickest paths [Daemons Table 1]",
    plan: include_str!("table1.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Size in MB; throughput of a single stream and of two quickest paths, in Mbit/s.
const TABLE: [(u64, f64, f64); 21] = [
    (1, 1.63, 3.31),
    (5, 1.40, 2.36),
    (10, 1.38, 2.68),
    (15, 1.35, 2.55),
    (20, 1.16, 2.41),
    (25, 1.07, 2.10),
    (30, 0.84, 1.80),
    (35, 0.92, 1.75),
    (40, 1.44, 3.79),
    (45, 1.88, 4.26),
    (50, 1.01, 2.03),
    (55, 0.98, 1.68),
    (60, 0.66, 1.13),
    (65, 0.82, 2.17),
    (70, 1.11, 2.06),
    (75, 1.03, 2.48),
    (80, 0.79, 1.37),
    (85, 1.26, 3.39),
    (90, 1.21, 2.83),
    (95, 0.92, 1.72),
    (100, 1.16, 2.74),
];
const ENDS: [&str; 2] = ["ORNL", "LSU"];
const DIRECT: &[&str] = &["ORNL", "LSU"];
const LINKS: [[&str; 2]; 3] = [["ORNL", "LSU"], ["ORNL", "GaTech"], ["GaTech", "LSU"]];
/// Connections on the default path that represent parallel TCP.
const PARALLEL: usize = 4;
/// Time of the transfer, after the last measurement.
const START: Duration = Duration::from_secs(measure::END.as_secs() + 8);
const WINDOW: Duration = Duration::from_millis(100);
/// Bytes that the queue of a wire holds, 100 ms of 3 Mbit/s, as rate over a window.
const QUEUED_BPS: f64 = 3e6;

fn run(options: &Options<'_>) -> Vec<Row> {
    let sizes: Vec<_> = (TABLE.iter().enumerate())
        .filter(|(_, (mb, ..))| options.wants(&format!("{mb} MB")))
        .collect();
    let rows = parallel::map(&sizes, |&(index, &(mb, ..))| {
        let row = row(mb, index, options);
        (options.progress)(&format!("{mb} MB"));
        row
    });
    rows.into_iter().flatten().collect()
}

fn row(mb: u64, index: usize, options: &Options<'_>) -> Option<Row> {
    let bytes = mb * 1_000_000;
    // Each transfer meets different users, but every method meets the same ones.
    let seed = options.seed.child(&format!("transfer {index}"));
    let topology = three_sites();
    let (published, ours) = (Controller::Cubic, Controller::Auto);
    let overlay = Overlay::measure(&topology, &LINKS, published, seed)?;
    let own = Overlay::measure(&topology, &LINKS, ours, seed)?;

    let time = |controller, parts: &[Part<'_>]| {
        let took = transfer::run(&topology, controller, parts, START, seed)?;
        Some(took.as_secs_f64())
    };
    let whole = |bytes| Part {
        paths: vec![DIRECT],
        bytes,
    };
    let single_s = time(published, &[whole(bytes)])?;
    let single_auto_s = time(ours, &[whole(bytes)])?;
    let each: Vec<Part<'_>> = (0..PARALLEL)
        .map(|_| whole(bytes / PARALLEL as u64))
        .collect();
    let parallel_s = time(published, &each)?;

    let two = overlay.two_quickest(ENDS, bytes)?;
    let legs: Vec<Leg> = two.iter().map(|(path, _)| path.into()).collect();
    let shares = partition(&legs, bytes)?;
    let parts: Vec<Part<'_>> = (two.iter().zip(&shares.bytes))
        .map(|((_, via), &bytes)| Part {
            paths: vec![via],
            bytes,
        })
        .collect();
    let fixed_s = time(published, &parts)?;

    let two = own.two_quickest(ENDS, bytes)?;
    let legs: Vec<Leg> = two.iter().map(|(path, _)| path.into()).collect();
    let predicted_s = partition(&legs, bytes)?.finish.as_secs_f64();
    let paths = two.iter().map(|(_, via)| via.as_slice()).collect();
    let two_s = time(ours, &[Part { paths, bytes }])?;

    let bits = bytes as f64 * 8.0;
    let flow_bps = own.maximum_flow(ENDS)?.as_bps() as f64;
    let available_s = earliest(&topology, seed, bits)?;
    let mut row = Row::new();
    row.insert("kind".into(), json!("transfer"));
    row.insert("size_mb".into(), json!(mb));
    for (name, seconds) in [
        ("single_cubic", single_s),
        ("parallel_cubic", parallel_s),
        ("two_fixed_cubic", fixed_s),
        ("single", single_auto_s),
        ("two", two_s),
    ] {
        row.insert(format!("{name}_bps"), json!((bits / seconds).round()));
    }
    row.insert("paths".into(), json!(two.len()));
    row.insert("flow_bps".into(), json!(flow_bps));
    for (name, value) in [
        ("gain", single_auto_s / two_s),
        ("gain_fixed", single_s / fixed_s),
        ("of_flow", bits / two_s / flow_bps),
        ("of_available", available_s / two_s),
        ("two_s", two_s),
        ("predicted_s", predicted_s),
    ] {
        row.insert(name.into(), rounded(value));
    }
    let direct = own.link(ENDS)?.bandwidth.as_bps();
    let second = own.link(LINKS[2])?.bandwidth.as_bps();
    row.insert("direct_bps".into(), json!(direct));
    row.insert("second_bps".into(), json!(second));
    Some(row)
}

/// Time at which `bits` could have crossed with all the capacity that the users leave on both paths, if no packet of theirs is
/// dropped in favour of ours; headers are not counted.
fn earliest(topology: &Topology, seed: anabranch_base::Seed, bits: f64) -> Option<f64> {
    let from = (START.as_millis() / WINDOW.as_millis()) as usize;
    let count = from + (bits / 1e6 / WINDOW.as_secs_f64()).ceil() as usize + 600;
    let left = |link| {
        topology
            .available_bps(seed, link, (WINDOW, count))
            .ok()
            .flatten()
    };
    let (direct, second) = (left(LINKS[0])?, left(LINKS[2])?);
    let mut debts = [0.0_f64; 2];
    let mut carried = 0.0;
    for at in from..count {
        let mut now = 0.0;
        for (left, debt) in [direct[at], second[at]].into_iter().zip(&mut debts) {
            // Users that overfill a window take from the next one, as far as the queue holds their data.
            let with_debt = left + *debt;
            *debt = with_debt.clamp(-QUEUED_BPS, 0.0);
            now += with_debt.max(0.0) * WINDOW.as_secs_f64();
        }
        if carried + now >= bits {
            let part = (bits - carried) / now;
            return Some((at - from) as f64 * WINDOW.as_secs_f64() + part * WINDOW.as_secs_f64());
        }
        carried += now;
    }
    None
}

fn values(rows: &[Row], field: &str) -> Vec<f64> {
    let all = rows.iter().filter_map(|row| row.get(field)?.as_f64());
    all.collect()
}

/// Minimum, median and maximum.
fn spread(values: &[f64]) -> String {
    let at = |p| quantile(values.iter().copied(), p).unwrap_or(f64::NAN);
    format!("{:.2} / {:.2} / {:.2}", at(0.0), at(0.5), at(1.0))
}

fn mbps(rows: &[Row], field: &str) -> String {
    let values: Vec<f64> = values(rows, field).iter().map(|bps| bps / 1e6).collect();
    spread(&values)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let source = "Daemons Table 1";
    let published = |pick: fn(&(u64, f64, f64)) -> f64| {
        let all: Vec<f64> = TABLE.iter().map(pick).collect();
        spread(&all)
    };
    let near = rows.iter().filter(|row| {
        let of = |field: &str| row.get(field).and_then(serde_json::Value::as_f64);
        let ratio = of("two_s")
            .zip(of("predicted_s"))
            .map(|(two, said)| two / said);
        ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= 0.1)
    });
    vec![
        Published::new(
            "single stream, Mbit/s: least / median / most of 21 sizes",
            source,
            published(|row| row.1),
            format!(
                "cubic {}; auto {}",
                mbps(rows, "single_cubic_bps"),
                mbps(rows, "single_bps")
            ),
        ),
        Published::new(
            "two quickest paths, Mbit/s",
            source,
            published(|row| row.2),
            format!(
                "divided by Eq. (13), cubic {}; one session, auto {}",
                mbps(rows, "two_fixed_cubic_bps"),
                mbps(rows, "two_bps")
            ),
        ),
        Published::new(
            "two paths over one",
            source,
            published(|row| row.2 / row.1),
            format!(
                "divided by Eq. (13) {}; one session {}",
                spread(&values(rows, "gain_fixed")),
                spread(&values(rows, "gain"))
            ),
        ),
        Published::new(
            "two paths, of the maximum flow of the measured links",
            "target of issue 6",
            "at least 0.97 on every row",
            spread(&values(rows, "of_flow")),
        ),
        Published::new(
            "two paths, of what the users leave on both wires when nobody pushes them aside",
            "–",
            "–",
            spread(&values(rows, "of_available")),
        ),
        Published::new(
            "transfers that end within 10 % of the predicted time",
            "target of issue 6 (steady links)",
            "90 %",
            format!("{} of {}", near.count(), rows.len()),
        ),
    ]
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let curve = |name: &str, field: &str| Curve {
        name: name.to_owned(),
        mark: Mark::Points,
        points: (rows.iter())
            .filter_map(|row| {
                let size = row.get("size_mb")?.as_f64()?;
                Some((size, row.get(field)?.as_f64()? / 1e6))
            })
            .collect(),
    };
    vec![Plot {
        file: "throughput".into(),
        title: "Table 1: from ORNL to LSU".into(),
        x: Axis::linear("size, MB"),
        y: Axis::linear("throughput, Mbit/s"),
        curves: vec![
            curve("one path, cubic", "single_cubic_bps"),
            curve("four connections on it", "parallel_cubic_bps"),
            curve("two paths, divided, cubic", "two_fixed_cubic_bps"),
            curve("one path, auto", "single_bps"),
            curve("two paths, auto", "two_bps"),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    #[test]
    fn two_paths_are_found_and_carry_nearly_the_capacity_of_both() {
        let corpus = Corpus::default();
        let rows = run(&Options {
            seed: Seed(1),
            only: Some("10 MB"),
            corpus: &corpus,
            progress: &|_| {},
        });
        let of = |field: &str| rows[0][field].as_f64().unwrap();
        assert_eq!(rows[0]["paths"], 2);
        assert!(of("gain") > 1.6, "{}", of("gain"));
        let of_available = of("of_available");
        assert!((0.85..1.1).contains(&of_available), "{of_available}");
    }
}
