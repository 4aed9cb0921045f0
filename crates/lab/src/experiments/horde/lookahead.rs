//! Mean round trip over cycle period and look-ahead [Horde §7.3, Figure 7-24].

use serde_json::json;

use super::{ASSIGN, WALK, driver, driver::Setting, planner, policies};
use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "horde-lookahead",
    summary: "benefit of phantom slots, by cycle period and look-ahead [Horde Figure 7-24]",
    plan: super::PLAN,
    folders: &[],
    run,
    compare,
    plots,
};

const PERIODS_MS: [f64; 5] = [50.0, 100.0, 200.0, 300.0, 500.0];
const AHEADS_MS: [f64; 8] = [0.0, 50.0, 100.0, 200.0, 280.0, 400.0, 600.0, 1_000.0];
/// Stream that the objective favours.
const FAVOURED: u64 = 3;
fn run(options: &Options<'_>) -> Vec<Row> {
    let mut jobs = Vec::new();
    for scheduler in [WALK, ASSIGN] {
        for period in PERIODS_MS {
            for ahead in AHEADS_MS {
                if options.wants(scheduler) {
                    jobs.push((scheduler, period, ahead));
                }
            }
        }
    }
    parallel::map(&jobs, |&(scheduler, period_ms, ahead_ms)| {
        let mut setting = Setting {
            period_ms,
            ahead_ms,
            length_ms: 600e3,
            ..Setting::published(policies::LOOK_AHEAD)
        };
        for kind in &mut setting.kinds {
            (kind.loss, kind.deviation_ms) = (0.0, 0.0);
        }
        let mut planner = planner(scheduler, options.seed);
        let sent = driver::run(&setting, planner.as_mut(), options.seed.child("channels"));
        let favoured = || sent.iter().filter(|one| one.stream == FAVOURED);
        let count = favoured().count() as f64;
        let trips: f64 = favoured().filter_map(|one| one.round_trip_ms).sum();
        let waited: f64 = favoured().map(|one| one.waited_ms).sum();
        let mut row = Row::new();
        row.insert("scheduler".into(), json!(scheduler));
        row.insert("period_ms".into(), json!(period_ms));
        row.insert("lookahead_ms".into(), json!(ahead_ms));
        row.insert(
            "round_trip_mean_ms".into(),
            json!((trips / count * 10.0).round() / 10.0),
        );
        row.insert(
            "waited_mean_ms".into(),
            json!((waited / count * 10.0).round() / 10.0),
        );
        (options.progress)(&format!(
            "{scheduler}, every {period_ms} ms, {ahead_ms} ms ahead"
        ));
        row
    })
}

fn get(rows: &[Row], scheduler: &str, period_ms: f64, ahead_ms: f64) -> f64 {
    rows.iter()
        .find(|row| {
            row["scheduler"] == scheduler
                && row["period_ms"].as_f64() == Some(period_ms)
                && row["lookahead_ms"].as_f64() == Some(ahead_ms)
        })
        .and_then(|row| row["round_trip_mean_ms"].as_f64())
        .unwrap_or(f64::NAN)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let line = |what: &str, theirs: &str, period: f64, aheads: &[f64]| {
        let of = |scheduler: &str| {
            let each = aheads
                .iter()
                .map(|&ahead| format!("{:.0}", get(rows, scheduler, period, ahead)));
            format!("{scheduler} {}", each.collect::<Vec<_>>().join(" / "))
        };
        let ours = format!("{}; {}", of(WALK), of(ASSIGN));
        Published::new(what, "Horde Figure 7-24", theirs, ours)
    };
    vec![
        line(
            "mean round trip, ms, every 50 ms, 0 / 100 / 280 ms ahead",
            "near 580, then much less",
            50.0,
            &[0.0, 100.0, 280.0],
        ),
        line(
            "every 100 ms, 0 / 100 / 280 ms ahead",
            "near 580, then much less",
            100.0,
            &[0.0, 100.0, 280.0],
        ),
        line(
            "every 500 ms, 0 / 280 ms ahead",
            "lower without look-ahead, too",
            500.0,
            &[0.0, 280.0],
        ),
        line(
            "every 100 ms, 280 / 400 / 600 / 1000 ms ahead",
            "rises again at some point",
            100.0,
            &[280.0, 400.0, 600.0, 1_000.0],
        ),
    ]
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let curve = |scheduler: &str, period: f64| Curve {
        name: format!("{scheduler}, every {period} ms"),
        mark: Mark::Line,
        points: (AHEADS_MS.iter())
            .map(|&ahead| (ahead, get(rows, scheduler, period, ahead)))
            .filter(|(_, ms)| ms.is_finite())
            .collect(),
    };
    vec![Plot {
        file: "lookahead".into(),
        title: "mean round trip of the favoured stream".to_owned(),
        x: Axis::linear("look-ahead, ms"),
        y: Axis::linear("mean round trip, ms"),
        curves: (PERIODS_MS[..3].iter().map(|&period| curve(WALK, period)))
            .chain(PERIODS_MS[..3].iter().map(|&period| curve(ASSIGN, period)))
            .collect(),
    }]
}
