//! Many sessions in one pipe [Two-flow Figure 7, Tables I and II].

use anabranch_base::Seed;
use serde_json::json;

use super::{
    film::{Film, SEGMENT},
    measure::{Affected, Verdict, judge, rounded},
    plan::Method,
    scene::{INTERVAL, Scene, capacity, together},
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
    name: "twoflow-sessions",
    summary: "1 to 50 stored videos in two flows each, in a pipe that they fill [Two-flow Figure 7, Tables I, II]",
    plan: include_str!("sessions.md"),
    folders: &[],
    run,
    compare,
    plots,
};

const FACTORS: [f64; 2] = [1.0, 1.1];
const METHODS: [Method; 4] = [Method::Ctcp, Method::Auto, Method::Pipe, Method::NewReno];
/// Sessions, and segments that they play unless the whole film is requested: enough for a minute or two of computing time.
const SIZES: [(usize, usize); 5] = [(1, 25), (5, 10), (10, 5), (20, 3), (50, 2)];
/// Published E_f, E_g, G_max, G_avg, and of consecutive frames total, max, avg [Two-flow Tables I and II].
const TABLES: [(Method, [[f64; 7]; 5]); 2] = [
    (
        Method::NewReno,
        [
            [2862.0, 2365.0, 5.0, 1.2, 139.0, 3.0, 2.0],
            [4856.0, 3799.0, 5.0, 1.3, 282.0, 3.0, 2.1],
            [6501.0, 4605.0, 5.0, 1.4, 519.0, 4.0, 2.1],
            [8971.0, 5594.0, 7.0, 1.6, 848.0, 5.0, 2.1],
            [6196.0, 4530.0, 6.0, 1.4, 379.0, 5.0, 2.1],
        ],
    ),
    (
        Method::Ctcp,
        [
            [617.0, 541.0, 2.0, 1.0, 9.0, 2.0, 1.0],
            [356.0, 380.0, 2.0, 1.0, 5.0, 2.0, 1.0],
            [0.0; 7],
            [0.0; 7],
            [0.0; 7],
        ],
    ),
];

fn run(options: &Options<'_>) -> Vec<Row> {
    let film = Film::load(options);
    let mut jobs = Vec::new();
    for is_full in [false, true] {
        for (n, segments) in SIZES {
            for factor in FACTORS {
                for method in METHODS {
                    let all = film.segments.all().len();
                    let segments = if is_full { all } else { segments.min(all) };
                    let name = format!("{n} {} {factor:.1}", method.name());
                    let is_asked = if is_full {
                        options.only.is_some_and(|only| {
                            only.starts_with("full") && format!("full {name}").contains(only)
                        })
                    } else {
                        options.wants(&name)
                    };
                    if is_asked {
                        jobs.push((n, segments, factor, method));
                    }
                }
            }
        }
    }
    // The longest first, so that no core waits for the last.
    jobs.sort_by_key(|&(n, segments, ..)| std::cmp::Reverse(n * segments));
    let rows = parallel::map(&jobs, |&(n, segments, factor, method)| {
        let row = one(&film, (n, segments), factor, method, options.seed);
        (options.progress)(&format!(
            "{n} {} {factor:.1}, {segments} segments",
            method.name()
        ));
        row
    });
    let mut rows: Vec<Row> = rows.into_iter().flatten().collect();
    rows.sort_by_key(|row| row["sessions"].as_u64());
    rows
}

fn one(
    film: &Film,
    (n, segments): (usize, usize),
    factor: f64,
    method: Method,
    seed: Seed,
) -> Option<Row> {
    let seed = seed.child(&format!("{n} sessions"));
    let plans = together(n, method, segments, seed);
    let capacity = capacity(film, n, factor);
    let mut scene = Scene::new(film, &plans, capacity, seed)?;
    let until = SEGMENT * segments as u32 + 4 * INTERVAL;
    scene
        .world
        .run_until(anabranch_base::Instant::EPOCH + until);
    let sessions = scene.sessions.clone();
    let verdicts: Vec<Verdict> = sessions
        .iter()
        .map(|running| judge(&mut scene, film, running))
        .collect();
    let mean = |of: fn(&Verdict) -> f64| verdicts.iter().map(of).sum::<f64>() / n as f64;
    let affected: Vec<Affected> = verdicts.iter().map(|verdict| verdict.affected).collect();
    let dropped = scene
        .world
        .wire(scene.wire)
        .one_way(true)
        .stats()
        .dropped_total();
    let mut row = Row::new();
    row.insert("film".into(), json!(film.name));
    row.insert("sessions".into(), json!(n));
    row.insert("method".into(), json!(method.name()));
    row.insert("capacity".into(), json!(factor));
    row.insert("capacity_bps".into(), json!(capacity.as_bps()));
    row.insert("segments".into(), json!(segments));
    row.insert(
        "repeated_packets".into(),
        json!(rounded(mean(|v| v.repeated as f64))),
    );
    row.insert(
        "lost_packets".into(),
        json!(rounded(mean(|v| v.lost as f64))),
    );
    row.insert("dropped_in_pipe".into(), json!(dropped.packets));
    row.insert(
        "late_segments".into(),
        json!(rounded(mean(|v| v.late as f64))),
    );
    let spare = verdicts
        .iter()
        .map(|v| v.spare_min_s)
        .fold(f64::INFINITY, f64::min);
    row.insert("before_deadline_min_s".into(), json!(rounded(spare)));
    Affected::mean(&affected).write(&mut row);
    Some(row)
}

fn find(rows: &[Row], n: usize, method: Method, factor: f64) -> Option<&Row> {
    rows.iter().find(|row| {
        row["sessions"] == n && row["method"] == method.name() && row["capacity"] == factor
    })
}

const FIELDS: [&str; 7] = [
    "affected_frames",
    "affected_groups",
    "group_max",
    "group_avg",
    "consecutive_total",
    "consecutive_max",
    "consecutive_avg",
];

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for factor in FACTORS {
        for method in METHODS {
            for (index, (n, _)) in SIZES.into_iter().enumerate() {
                let Some(row) = find(rows, n, method, factor) else {
                    continue;
                };
                let table = TABLES.iter().find(|(of, _)| *of == method);
                let theirs = match table.filter(|_| factor == 1.0) {
                    Some((_, figures)) => {
                        figures[index].map(|figure| figure.to_string()).join(" / ")
                    }
                    None => "–".to_owned(),
                };
                let ours = FIELDS.map(|field| row[field].to_string()).join(" / ");
                let source = if method == Method::NewReno {
                    "Two-flow Table I"
                } else {
                    "Two-flow Table II"
                };
                lines.push(Published::new(
                    format!(
                        "{n} sessions, {}, {factor:.1}: E_f / E_g / G_max / G_avg / consecutive total, max, avg, {} of 25 segments",
                        method.name(), row["segments"]
                    ),
                    source,
                    theirs,
                    ours,
                ));
                lines.push(Published::new(
                    format!("{n} sessions, {}, {factor:.1}: essential packets sent again, enhanced lost, segments late, of each session", method.name()),
                    "target",
                    match (method, n >= 5 || factor > 1.0) {
                        (Method::NewReno, _) => "large numbers",
                        (_, true) => "0, 0, 0",
                        (_, false) => "a tenth of the paper's (E_f 61), 0",
                    },
                    format!("{}, {}, {}", row["repeated_packets"], row["lost_packets"], row["late_segments"]),
                ));
            }
        }
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (factor, file) in [(1.0, "losses-10"), (1.1, "losses-11")] {
        let mut curves = Vec::new();
        for method in METHODS {
            for (field, words) in [
                ("repeated_packets", "sent again"),
                ("lost_packets", "enhanced lost"),
            ] {
                let per_segment = |n: usize| {
                    let row = find(rows, n, method, factor)?;
                    Some((n as f64, row[field].as_f64()? / row["segments"].as_f64()?))
                };
                let points: Vec<_> = SIZES.iter().filter_map(|&(n, _)| per_segment(n)).collect();
                if !points.is_empty() {
                    curves.push(Curve {
                        name: format!("{}: {words}", method.name()),
                        mark: Mark::Line,
                        points,
                    });
                }
            }
        }
        plots.push(Plot {
            file: file.into(),
            title: format!("Figure 7: packets of a session and segment, capacity {factor:.1}"),
            x: Axis::linear("sessions"),
            y: Axis::linear("packets"),
            curves,
        });
    }
    plots
}

#[cfg(test)]
mod tests {
    use super::{super::measure::watch, *};

    #[test]
    fn five_sessions_lose_nothing_where_the_baseline_does() {
        let film = Film::generated(2);
        let lost = |method| {
            let row = one(&film, (5, 1), 1.0, method, Seed(1)).unwrap();
            (
                row["dropped_in_pipe"].as_u64().unwrap(),
                row["late_segments"].as_f64().unwrap(),
            )
        };
        assert_eq!(lost(Method::Ctcp), (0, 0.0));
        assert_eq!(lost(Method::Pipe), (0, 0.0));
        assert!(lost(Method::NewReno).0 > 100);
    }

    #[test]
    fn watching_changes_nothing() {
        let film = Film::generated(2);
        let run = |is_watched: bool| {
            let plans = together(1, Method::NewReno, 1, Seed(1));
            let mut scene = Scene::new(&film, &plans, capacity(&film, 1, 1.0), Seed(1)).unwrap();
            let until = 4 * INTERVAL;
            if is_watched {
                watch(&mut scene, until, |_, _| ());
            } else {
                scene
                    .world
                    .run_until(anabranch_base::Instant::from_secs(1) + until);
            }
            scene.count(scene.sessions[0].essential)
        };
        assert_eq!(run(true), run(false));
    }
}
