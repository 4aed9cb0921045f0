#![doc = include_str!("plan.md")]

mod queue;
mod session;
mod trace;

use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
        recording::Recording,
        series::{self, insert, median},
    },
};
use queue::Queue;
use session::{OnSession, POLICIES, RUN};
use trace::OnTrace;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "buffers",
    summary: "sender and receiver buffers against Equation 4, in a queue, on recorded paths, by policy [IQ-Paths §V-C]",
    plan: include_str!("plan.md"),
    folders: &["paths"],
    run,
    compare,
    plots,
};

const PACKET_BYTES: u32 = 1200;
/// Sampling, in seconds.
const WINDOWS_S: [f64; 1] = [1.0];
/// Samples without which a recording is left out.
const SAMPLES_MIN: usize = 300;
/// Sets of two recordings over which sessions run.
const SETS_MAX: usize = 4;

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    if options.wants("queue") {
        let all = queue::all(|name| options.seed.stream(name));
        rows.extend(all.iter().map(row_of_queue));
        (options.progress)("queue: one server");
    }
    let all = series::all(options, &WINDOWS_S, SAMPLES_MIN, |name| {
        options.wants(&format!("trace {name}"))
    });
    let measured = parallel::map(&all, |series| trace::all(&series.bps, series.window_s));
    for (series, measured) in all.iter().zip(&measured) {
        let rows_of = measured.iter().map(|on| row_of_trace(series.header(), on));
        rows.extend(rows_of);
    }
    let jobs: Vec<(usize, [&Recording; 2], &'static str)> = sets(&options.corpus.recordings)
        .into_iter()
        .enumerate()
        .flat_map(|(set, both)| POLICIES.map(|policy| (set, both, policy)))
        .filter(|(_, both, policy)| {
            options.wants(&format!(
                "session {} {} {policy}",
                both[0].name, both[1].name
            ))
        })
        .collect();
    let runs = parallel::map(&jobs, |&(set, both, policy)| {
        let seed = options.seed.child(&format!("set {set}"));
        let run = session::run(seed, policy, both, RUN);
        (options.progress)(&format!(
            "session over {} and {}: {policy}",
            both[0].name, both[1].name
        ));
        run
    });
    for ((_, both, _), run) in jobs.iter().zip(&runs) {
        if let Some(run) = run {
            rows.push(row_of_session(*both, run));
        }
    }
    rows
}

/// Neighbours with enough time, spread over the corpus.
fn sets(recordings: &[Recording]) -> Vec<[&Recording; 2]> {
    let is_long = |recording: &&Recording| {
        let step = recording.step_s().unwrap_or(0.0);
        recording.bandwidths_bps().len() as f64 * step >= RUN.as_secs_f64()
    };
    let long: Vec<&Recording> = recordings.iter().filter(is_long).collect();
    let all: Vec<[&Recording; 2]> = long
        .chunks_exact(2)
        .map(|pair| [pair[0], pair[1]])
        .collect();
    let step = all.len().div_ceil(SETS_MAX).max(1);
    all.into_iter().step_by(step).collect()
}

fn row_of_queue(queue: &Queue) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!("queue"));
    row.insert("arrivals".into(), json!(queue.arrivals));
    row.insert("service".into(), json!(queue.service));
    row.insert("run_packets".into(), json!(queue.run_packets));
    row.insert("load".into(), json!(queue.load));
    finish(&mut row, queue.measured, queue.formula);
    row
}

fn row_of_trace(mut row: Row, on: &OnTrace) -> Row {
    row.insert("load".into(), json!(on.load));
    finish(&mut row, on.measured, on.formula);
    insert(&mut row, "formula_windows_packets", on.formula_windows);
    insert(&mut row, "prebuffer_packets", on.prebuffer);
    row
}

fn row_of_session(both: [&Recording; 2], run: &OnSession) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!("session"));
    row.insert(
        "trace".into(),
        json!(format!("{} + {}", both[0].name, both[1].name)),
    );
    row.insert("policy".into(), json!(run.policy));
    finish(&mut row, run.measured, run.formula);
    insert(&mut row, "measured_max_packets", run.measured_max);
    insert(&mut row, "prebuffer_packets", run.prebuffer);
    insert(&mut row, "kept_fraction", run.kept);
    insert(&mut row, "total_mbps", run.total_mbps);
    row
}

/// Finishes a row; figures that are not finite are left out.
fn finish(row: &mut Row, measured: f64, formula: f64) {
    insert(row, "measured_packets", measured);
    insert(row, "formula_packets", formula);
    if formula.is_finite() {
        insert(row, "measured_over_formula", measured / formula);
    }
}

fn number(row: &Row, field: &str) -> Option<f64> {
    row.get(field)?.as_f64()
}

/// Median of a field over the rows for which `holds` is true.
fn middle(rows: &[Row], field: &str, holds: impl Fn(&Row) -> bool) -> Option<f64> {
    median(
        rows.iter()
            .filter(|row| holds(row))
            .filter_map(|row| number(row, field)),
    )
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    let mut line = |what: &str, theirs: &str, ours: Option<f64>| {
        if let Some(ours) = ours {
            lines.push(Published::new(
                what,
                "IQ-Paths §V-C, Equation 4",
                theirs,
                format!("{ours:.3}"),
            ));
        }
    };
    let ratio = "measured_over_formula";
    let is_queue = |row: &Row, arrivals: &str, packets: u64| {
        row["kind"] == "queue" && row["arrivals"] == arrivals && row["run_packets"] == packets
    };
    line(
        "measured over formula: random arrivals, independent service times",
        "1",
        middle(rows, ratio, |row| is_queue(row, "poisson", 1)),
    );
    line(
        "measured over formula: even arrivals",
        "1",
        middle(rows, ratio, |row| is_queue(row, "even", 1)),
    );
    line(
        "measured over formula: 100 packets in a row take the same time",
        "1",
        middle(rows, ratio, |row| is_queue(row, "poisson", 100)),
    );
    line(
        "measured over formula: recorded paths, median",
        "1",
        middle(rows, ratio, |row| row["kind"] == "trace"),
    );
    for policy in POLICIES {
        let is_it = |row: &Row| row["kind"] == "session" && row["policy"] == policy;
        line(
            &format!("packets waiting at the sender, median of sets, {policy}"),
            "the smaller Var(S), the fewer",
            middle(rows, "measured_packets", is_it),
        );
        line(
            &format!("packets the receiver needs, median of sets, {policy}"),
            "few",
            middle(rows, "prebuffer_packets", is_it),
        );
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let points = |kind: &str| {
        let pair = |row: &Row| {
            Some((
                number(row, "formula_packets")?,
                number(row, "measured_packets")?,
            ))
        };
        let of_kind = rows.iter().filter(|row| row["kind"] == kind);
        of_kind
            .filter_map(pair)
            .filter(|&(x, y)| x > 0.0 && y > 0.0)
            .collect()
    };
    let mut curves: Vec<Curve> = ["queue", "trace", "session"]
        .into_iter()
        .map(|kind| Curve {
            name: kind.to_owned(),
            mark: Mark::Points,
            points: points(kind),
        })
        .collect();
    curves.push(Curve {
        name: "Equation 4".into(),
        mark: Mark::Guide,
        points: vec![(0.1, 0.1), (1000.0, 1000.0)],
    });
    vec![Plot {
        file: "equation-4".into(),
        title: "Packets that wait at the sender".into(),
        x: Axis::log("Equation 4"),
        y: Axis::log("measured"),
        curves,
    }]
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    fn rows(only: Option<&str>) -> Vec<Row> {
        run(&Options {
            seed: Seed(1),
            only,
            corpus: &Corpus::bundled(),
            progress: &|_| {},
        })
    }

    #[test]
    fn rows_of_the_queue_and_of_recordings() {
        let all = [rows(Some("queue")), rows(Some("trace"))].concat();
        let count = |kind: &str| all.iter().filter(|row| row["kind"] == kind).count();
        assert_eq!(count("queue"), 36);
        assert!(count("trace") >= 2);
        assert!(!compare(&all).is_empty());
        for plot in plots(&all) {
            assert!(plot.to_svg().is_some(), "{}", plot.file);
        }
    }
}
