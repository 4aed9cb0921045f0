//! One session, segment by segment [Two-flow Figures 5 and 6].

use anabranch_base::Instant;
use serde_json::json;

use super::{
    film::{Film, SEGMENT},
    measure::{judge, rounded, watch},
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
    name: "twoflow-session",
    summary: "one stored video in two flows, segment by segment [Two-flow Figures 5, 6]",
    plan: include_str!("session.md"),
    folders: &[],
    run,
    compare,
    plots,
};

const FACTORS: [f64; 2] = [1.0, 1.1];

fn run(options: &Options<'_>) -> Vec<Row> {
    let film = Film::load(options);
    let mut jobs = Vec::new();
    for factor in FACTORS {
        for method in Method::ALL {
            if options.wants(&format!("{factor:.1} {}", method.name())) {
                jobs.push((factor, method));
            }
        }
    }
    let rows = parallel::map(&jobs, |&(factor, method)| {
        let rows = one(&film, factor, method, film.segments.all().len(), options);
        (options.progress)(&format!("{factor:.1} {}", method.name()));
        rows
    });
    rows.into_iter().flatten().flatten().collect()
}

fn one(
    film: &Film,
    factor: f64,
    method: Method,
    segments: usize,
    options: &Options<'_>,
) -> Option<Vec<Row>> {
    let plan = Plan {
        method,
        start: Instant::from_secs(1),
        segments: 0..segments,
        is_staggered: true,
    };
    let capacity = capacity(film, 1, factor);
    let mut scene = Scene::new(film, &[plan], capacity, options.seed)?;
    let until = SEGMENT * segments as u32 + 2 * INTERVAL;
    let ticks = watch(&mut scene, until, |_, _| ()).pop()?;
    let running = scene.sessions.first()?.clone();
    let verdict = judge(&mut scene, film, &running);
    let passed = scene.account(running.essential).passed.clone();
    let per_segment = (SEGMENT.as_secs() / INTERVAL.as_secs()) as usize;
    let mut rows = Vec::new();
    for (index, step) in film.schedule.steps()[..segments].iter().enumerate() {
        let first = index * per_segment;
        let [from, to] = [ticks.get(first)?, ticks.get(first + per_segment)?];
        // Full intervals of the segment after its first, while there is data to send.
        let end_s = passed
            .get(index)
            .map_or(f64::INFINITY, |at| at.as_secs_f64());
        let target =
            step.essential_rate.as_bps() as f64 * 1_472.0 / super::packets::ESSENTIAL_BYTES;
        let rates: Vec<f64> = (first + 1..first + per_segment)
            .filter(|&tick| ((tick + 1) as u64 * INTERVAL.as_secs()) as f64 + 1.0 < end_s)
            .map(|tick| {
                let bytes = ticks[tick + 1][0].sent_bytes - ticks[tick][0].sent_bytes;
                bytes as f64 * 8.0 / INTERVAL.as_secs_f64()
            })
            .collect();
        let off = rates
            .iter()
            .map(|rate| (rate / target - 1.0).abs())
            .fold(0.0, f64::max);
        let deadline_s = 1.0 + step.until.as_secs_f64();
        let mut row = Row::new();
        row.insert("film".into(), json!(film.name));
        row.insert("capacity".into(), json!(factor));
        row.insert("capacity_bps".into(), json!(capacity.as_bps()));
        row.insert("method".into(), json!(method.name()));
        row.insert("segment".into(), json!(index + 1));
        row.insert("target_bps".into(), json!(target.round()));
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        row.insert("rate_mean_bps".into(), json!(mean.round()));
        row.insert("off_target_max".into(), json!(rounded(off)));
        row.insert(
            "window_bytes".into(),
            json!(ticks[first + per_segment / 2][0].window_bytes),
        );
        let spare = (step.essential_bytes > 0).then(|| rounded(deadline_s - end_s));
        row.insert("before_deadline_s".into(), json!(spare));
        row.insert("repeated_packets".into(), json!(to[0].lost - from[0].lost));
        row.insert("lost_packets".into(), json!(to[1].lost - from[1].lost));
        rows.push(row);
    }
    let mut row = Row::new();
    row.insert("film".into(), json!(film.name));
    row.insert("capacity".into(), json!(factor));
    row.insert("capacity_bps".into(), json!(capacity.as_bps()));
    row.insert("method".into(), json!(method.name()));
    row.insert("segment".into(), json!("all"));
    row.insert("repeated_packets".into(), json!(verdict.repeated));
    row.insert("lost_packets".into(), json!(verdict.lost));
    row.insert("late_segments".into(), json!(verdict.late));
    row.insert("delay_max_s".into(), json!(rounded(verdict.delay_max_s)));
    verdict.affected.write(&mut row);
    rows.push(row);
    Some(rows)
}

fn of(rows: &[Row], factor: f64, method: Method) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(move |row| row["capacity"] == factor && row["method"] == method.name())
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for factor in FACTORS {
        for method in Method::ALL {
            let Some(all) = of(rows, factor, method).find(|row| row["segment"] == "all") else {
                continue;
            };
            let theirs = match (method, factor == 1.0) {
                (Method::NewReno, _) => "large numbers",
                (_, true) => "a few",
                (_, false) => "none",
            };
            lines.push(Published::new(
                format!(
                    "{} at {factor:.1}: essential packets sent again, enhanced lost, segments late",
                    method.name()
                ),
                "Two-flow Figure 6",
                theirs,
                format!(
                    "{}, {}, {}",
                    all["repeated_packets"], all["lost_packets"], all["late_segments"]
                ),
            ));
            let off =
                of(rows, factor, method).filter_map(|row| row.get("off_target_max")?.as_f64());
            let spare =
                of(rows, factor, method).filter_map(|row| row.get("before_deadline_s")?.as_f64());
            lines.push(Published::new(
                format!("{} at {factor:.1}: farthest of any interval from the target; least time before a deadline", method.name()),
                "target",
                if method == Method::NewReno { "–" } else { "2 %; above 0" },
                format!(
                    "{:.1} %; {:.1} s",
                    off.fold(0.0, f64::max) * 100.0,
                    spare.fold(f64::INFINITY, f64::min)
                ),
            ));
        }
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (factor, file) in [(1.0, "losses-10"), (1.1, "losses-11")] {
        let mut curves = Vec::new();
        for method in Method::ALL {
            for (field, words) in [
                ("repeated_packets", "sent again"),
                ("lost_packets", "enhanced lost"),
            ] {
                let points: Vec<(f64, f64)> = of(rows, factor, method)
                    .filter_map(|row| Some((row["segment"].as_f64()?, row[field].as_f64()?)))
                    .collect();
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
            title: format!("Figure 6: packets per segment, capacity {factor:.1}"),
            x: Axis::linear("segment"),
            y: Axis::linear("packets"),
            curves,
        });
    }
    plots
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    /// Two segments of a generated film, in a pipe that both flows just fill.
    #[test]
    fn ctcp_holds_its_target_and_nothing_is_lost() {
        let film = Film::generated(3);
        let options = Options {
            seed: Seed(1),
            only: None,
            corpus: &Corpus::default(),
            progress: &|_| (),
        };
        for method in [Method::Ctcp, Method::Auto] {
            let rows = one(&film, 1.0, method, 2, &options).unwrap();
            let all = rows.last().unwrap();
            assert_eq!(all["late_segments"], 0, "{all:?}");
            assert_eq!(all["repeated_packets"], 0, "{all:?}");
            assert_eq!(all["lost_packets"], 0, "{all:?}");
            for row in &rows[..2] {
                assert!(row["off_target_max"].as_f64().unwrap() < 0.02, "{row:?}");
            }
        }
        let rows = one(&film, 1.0, Method::NewReno, 2, &options).unwrap();
        assert!(rows.last().unwrap()["lost_packets"].as_f64().unwrap() > 50.0);
    }

    #[test]
    fn times_are_whole_intervals() {
        assert_eq!(SEGMENT.as_secs() % INTERVAL.as_secs(), 0);
    }
}
