//! Sessions that join and leave [Two-flow Figures 8 and 13].

use anabranch_base::{Instant, Seed};
use serde_json::json;

use super::{
    film::{Film, SEGMENT},
    measure::{Ticks, judge, rounded, watch},
    plan::{Method, Plan},
    scene::{INTERVAL, Scene, capacity},
};
use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "twoflow-arrivals",
    summary: "a stored video that joins others, and two that leave [Two-flow Figures 8, 13]",
    plan: include_str!("arrivals.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Segments after which a fifth session joins, after which two leave, and the total.
const SHORT: [usize; 3] = [3, 5, 8];
const FULL: [usize; 3] = [10, 13, 20];
const FACTOR: f64 = 1.1;

fn run(options: &Options<'_>) -> Vec<Row> {
    let film = Film::load(options);
    let mut jobs = Vec::new();
    for method in Method::ALL {
        let name = method.name();
        let is_full = options
            .only
            .is_some_and(|only| only.starts_with("full") && format!("full {name}").contains(only));
        if is_full {
            jobs.push((method, FULL));
        } else if options.wants(name) {
            jobs.push((method, SHORT));
        }
    }
    let rows = parallel::map(&jobs, |&(method, times)| {
        let rows = one(&film, method, times, options.seed);
        (options.progress)(method.name());
        rows
    });
    rows.into_iter().flatten().flatten().collect()
}

fn one(
    film: &Film,
    method: Method,
    [joins, leave, end]: [usize; 3],
    seed: Seed,
) -> Option<Vec<Row>> {
    let at = |segment: usize| Instant::from_secs(1) + SEGMENT * segment as u32;
    let end = end.min(film.segments.all().len());
    let plan = |index: u64, start, segments| Plan {
        method,
        // Within a few seconds, as viewers do not start together.
        start: start + std::time::Duration::from_millis(700 * index),
        segments,
        is_staggered: true,
    };
    let plans: Vec<Plan> = vec![
        plan(0, at(0), 0..end),
        plan(1, at(0), 0..end),
        plan(2, at(0), 0..leave.min(end)),
        plan(3, at(0), 0..leave.min(end)),
        plan(0, at(joins), 0..end.saturating_sub(joins)),
    ];
    let mut scene = Scene::new(film, &plans, capacity(film, 5, FACTOR), seed)?;
    let until = SEGMENT * end as u32 + INTERVAL * 2;
    let ticks = watch(&mut scene, until, |_, _| ());
    let per_segment = (SEGMENT.as_secs() / INTERVAL.as_secs()) as usize;
    let sessions = scene.sessions.clone();
    let staying = sessions[0].clone();
    let late: u64 = judge(&mut scene, film, &staying).late;
    let mut rows = Vec::new();
    for segment in 0..end {
        // The two sessions that run all the time.
        let of = |ticks: &Ticks, flow: usize| {
            let from = ticks[segment * per_segment][flow];
            let to = ticks[(segment + 1) * per_segment][flow];
            (to.lost - from.lost) as f64
        };
        let mean = |flow| (of(&ticks[0], flow) + of(&ticks[1], flow)) / 2.0;
        let offs: Vec<f64> = (segment * per_segment + 1..(segment + 1) * per_segment)
            .filter_map(|tick| {
                let bytes = ticks[0][tick + 1][1]
                    .sent_bytes
                    .checked_sub(ticks[0][tick][1].sent_bytes)?;
                Some(bytes as f64 * 8.0 / INTERVAL.as_secs_f64())
            })
            .collect();
        let mean_bps = offs.iter().sum::<f64>() / offs.len().max(1) as f64;
        let spread = offs
            .iter()
            .map(|rate| (rate / mean_bps - 1.0).abs())
            .fold(0.0, f64::max);
        let present = 2 + 2 * usize::from(segment < leave) + usize::from(segment >= joins);
        let mut row = Row::new();
        row.insert("film".into(), json!(film.name));
        row.insert("method".into(), json!(method.name()));
        row.insert("segment".into(), json!(segment + 1));
        row.insert("sessions".into(), json!(present));
        row.insert("repeated_packets".into(), json!(mean(0)));
        row.insert("lost_packets".into(), json!(mean(1)));
        row.insert("enhanced_rate_off_max".into(), json!(rounded(spread)));
        row.insert("late_segments_all".into(), json!(late));
        rows.push(row);
    }
    Some(rows)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for method in Method::ALL {
        let of = |field: &'static str| -> Vec<String> {
            let own = rows.iter().filter(|row| row["method"] == method.name());
            own.map(|row| row[field].to_string()).collect()
        };
        let (repeated, lost) = (of("repeated_packets"), of("lost_packets"));
        if repeated.is_empty() {
            continue;
        }
        lines.push(Published::new(
            format!("{}: packets sent again, and lost, of a session that stays, by segment; {} sessions", method.name(), of("sessions").join(" ")),
            "Two-flow Figure 8",
            if method == Method::NewReno { "large, and fluctuating as sessions come and go" } else { "no visible impact" },
            format!("{}; {}", repeated.join(" "), lost.join(" ")),
        ));
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut curves = Vec::new();
    for method in Method::ALL {
        for (field, words) in [
            ("repeated_packets", "sent again"),
            ("lost_packets", "enhanced lost"),
        ] {
            let own = rows.iter().filter(|row| row["method"] == method.name());
            curves.push(Curve {
                name: format!("{}: {words}", method.name()),
                mark: Mark::Line,
                points: own
                    .filter_map(|row| Some((row["segment"].as_f64()?, row[field].as_f64()?)))
                    .collect(),
            });
        }
    }
    curves.retain(|curve| !curve.points.is_empty());
    vec![Plot {
        file: "arrivals".into(),
        title: "Figure 8: packets of a session that stays".into(),
        x: Axis::linear("segment"),
        y: Axis::linear("packets"),
        curves,
    }]
}
