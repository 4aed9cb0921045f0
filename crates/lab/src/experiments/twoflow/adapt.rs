//! A pipe that is too narrow for both flows [Two-flow Figure 14].

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_twoflow::{
    Class,
    adaptation::{Seen, Yielding},
};
use serde_json::json;

use super::{
    film::Film,
    flow::Feeder,
    measure::{judge, rounded},
    packets::{PACKET_BYTES, udp_rates},
    plan::{Method, Plan},
    scene::{Count, Scene},
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
    name: "twoflow-adapt",
    summary: "one stored video in two flows over a pipe that is too narrow for both [Two-flow Figure 14]",
    plan: include_str!("adapt.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Ratio of the pipe to the film's average rate [Two-flow §6].
const NARROW: f64 = 0.4 / 0.495;
const LENGTH: Duration = Duration::from_secs(1_000);
/// Interval at which the enhanced flow is judged.
const LOOK: Duration = Duration::from_secs(4);
/// Number of such intervals in a row.
const LOOKS: usize = 5;

fn run(options: &Options<'_>) -> Vec<Row> {
    let film = Film::load(options);
    let mut jobs = Vec::new();
    for method in [Method::Ctcp, Method::Auto] {
        for adapts in [false, true] {
            if options.wants(&name(method, adapts)) {
                jobs.push((method, adapts));
            }
        }
    }
    let rows = parallel::map(&jobs, |&(method, adapts)| {
        let rows = one(&film, method, adapts, options.seed);
        (options.progress)(&name(method, adapts));
        rows
    });
    rows.into_iter().flatten().flatten().collect()
}

fn name(method: Method, adapts: bool) -> String {
    format!(
        "{} {}",
        method.name(),
        if adapts { "yields" } else { "holds" }
    )
}

fn one(film: &Film, method: Method, adapts: bool, seed: Seed) -> Option<Vec<Row>> {
    let segments = (LENGTH.as_secs() as usize)
        .div_ceil(256)
        .min(film.segments.all().len());
    let plan = Plan {
        method,
        start: Instant::from_secs(1),
        segments: 0..segments,
        is_staggered: true,
    };
    let bytes: u64 = film.frames.iter().map(|frame| u64::from(frame.bytes)).sum();
    let mean = bytes as f64 * 8.0 / film.segments.film().as_secs_f64();
    let pipe = Rate::from_bps((NARROW * mean * PACKET_BYTES / 1_412.0) as u64);
    let mut scene = Scene::new(film, &[plan], pipe, seed)?;
    let running = scene.sessions.first()?.clone();
    let mut yielding: Option<Yielding> = None;
    let mut before = [Count::default(); 2];
    let mut sums = [0.0; 6];
    let mut rows = Vec::new();
    let looks = LENGTH.as_secs() / LOOK.as_secs();
    for look in 1..=looks {
        scene
            .world
            .run_until(running.plays_from + LOOK * look as u32);
        let now = [
            scene.count(running.essential),
            scene.count(running.enhanced),
        ];
        let rate = |flow: usize, of: fn(&Count) -> u64| {
            (of(&now[flow]) - of(&before[flow])) as f64 * 8.0 / LOOK.as_secs_f64()
        };
        let essential = rate(0, |count| count.acked_bytes);
        let enhanced = rate(1, |count| count.acked_bytes);
        let lost = now[1].lost - before[1].lost;
        let outcomes = now[1].acked - before[1].acked + lost;
        let loss = lost as f64 / outcomes.max(1) as f64;
        // The segment in transit, not the one that begins now.
        let time = Duration::from_secs(8) + LOOK * (look as u32 - 1);
        let step = film.schedule.at(time)?;
        let [target, full] = udp_rates(step);
        // Once a segment has arrived the flow has nothing to send.
        let passed = scene.account(running.essential).passed.len();
        let is_busy = passed <= step.segment;
        let seen = Seen {
            essential_target: if is_busy { target } else { Rate::ZERO },
            essential: Rate::from_bps(essential as u64),
            enhanced: Rate::from_bps(enhanced as u64),
            enhanced_loss: loss,
        };
        let yielding = yielding.get_or_insert_with(|| Yielding::new(full));
        yielding.set_full(full);
        if adapts {
            yielding.observe(seen);
            let part = yielding.part();
            scene
                .world
                .with_app(running.enhanced.origin, |feeder: &mut Feeder, context| {
                    feeder.yields(context, part);
                });
        }
        let busy = f64::from(u8::from(is_busy));
        let figures = [
            essential * busy,
            enhanced,
            target.as_bps() as f64 * busy,
            full.as_bps() as f64,
            loss,
            yielding.part(),
        ];
        for (sum, figure) in sums.iter_mut().zip(figures) {
            *sum += figure / LOOKS as f64;
        }
        before = now;
        if (look as usize).is_multiple_of(LOOKS) {
            let mut row = Row::new();
            row.insert("film".into(), json!(film.name));
            row.insert("method".into(), json!(name(method, adapts)));
            row.insert("pipe_bps".into(), json!(pipe.as_bps()));
            row.insert("t_s".into(), json!((LOOK * look as u32).as_secs()));
            row.insert("essential_bps".into(), json!(sums[0].round()));
            row.insert("essential_target_bps".into(), json!(sums[2].round()));
            row.insert("enhanced_bps".into(), json!(sums[1].round()));
            row.insert("enhanced_target_bps".into(), json!(sums[3].round()));
            row.insert("enhanced_loss".into(), json!(rounded(sums[4])));
            row.insert("enhanced_part".into(), json!(rounded(sums[5])));
            rows.push(row);
            sums.fill(0.0);
        }
    }
    rows.push(total(&mut scene, film, &running, &name(method, adapts)));
    Some(rows)
}

/// Numbers of frames that were due, and of those that were complete, by kind.
fn total(scene: &mut Scene, film: &Film, running: &super::scene::Running, name: &str) -> Row {
    let verdict = judge(scene, film, running);
    let repeated = scene.count(running.essential);
    let feeder = scene.world.app::<Feeder>(running.enhanced.origin);
    let handled = feeder.parts()[..feeder.sent()]
        .last()
        .map_or(0, |part| part.frame as usize);
    let out: std::collections::BTreeSet<u32> = feeder.left_out().iter().copied().collect();
    let lost: std::collections::BTreeSet<u32> = feeder
        .lost
        .iter()
        .filter_map(|&part| Some(feeder.parts().get(part as usize)?.frame))
        .collect();
    // P frames have ranks above 50 (`film`).
    let mut kinds = [[0_u32; 3]; 2];
    for (index, frame) in film.frames.iter().enumerate().take(handled) {
        if let Class::Enhanced { rank } = frame.class {
            let counts = &mut kinds[usize::from(rank <= 50)];
            let index = index as u32;
            counts[0] += 1;
            counts[1] += u32::from(out.contains(&index));
            counts[2] += u32::from(lost.contains(&index));
        }
    }
    let mut row = Row::new();
    row.insert("film".into(), json!(film.name));
    row.insert("method".into(), json!(name));
    row.insert("t_s".into(), json!("all"));
    row.insert("repeated_packets".into(), json!(repeated.lost));
    row.insert("essential_packets".into(), json!(repeated.sent));
    let ended = film
        .schedule
        .steps()
        .iter()
        .filter(|step| step.until <= LENGTH)
        .count() as u64;
    let unfinished = running.plan.segments.len() as u64 - ended;
    row.insert(
        "late_segments".into(),
        json!(verdict.late.saturating_sub(unfinished)),
    );
    for (kind, [all, out, lost]) in ["p", "b"].into_iter().zip(kinds) {
        row.insert(format!("{kind}_frames"), json!(all));
        row.insert(format!("{kind}_left_out"), json!(out));
        row.insert(format!("{kind}_lost"), json!(lost));
    }
    row
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for method in [Method::Ctcp, Method::Auto] {
        for adapts in [false, true] {
            let name = name(method, adapts);
            let own: Vec<&Row> = rows
                .iter()
                .filter(|row| row["method"] == name.as_str())
                .collect();
            let Some(all) = own.iter().find(|row| row["t_s"] == "all") else {
                continue;
            };
            let sum = |field: &str| -> f64 {
                own.iter().filter_map(|row| row.get(field)?.as_f64()).sum()
            };
            let n = own.len().saturating_sub(1).max(1) as f64;
            let theirs = if adapts {
                "the target, sustained; reduced"
            } else {
                "–"
            };
            lines.push(Published::new(
                format!("{name}: essential rate over its target, enhanced rate over its own; enhanced packets lost"),
                "Two-flow Figure 14",
                theirs,
                format!(
                    "{:.3}, {:.3}; {:.1} %",
                    sum("essential_bps") / sum("essential_target_bps"),
                    sum("enhanced_bps") / sum("enhanced_target_bps"),
                    sum("enhanced_loss") / n * 100.0
                ),
            ));
            let field = |name: &str| all[name].to_string();
            lines.push(Published::new(
                format!("{name}: essential packets sent again; segments late; of P frames, and of B frames, left out and lost"),
                "target",
                "few; 0; B frames before P frames",
                format!(
                    "{} of {}; {}; {} and {} of {}, {} and {} of {}",
                    field("repeated_packets"), field("essential_packets"), field("late_segments"),
                    field("p_left_out"), field("p_lost"), field("p_frames"),
                    field("b_left_out"), field("b_lost"), field("b_frames"),
                ),
            ));
        }
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (adapts, file) in [(true, "yields"), (false, "holds")] {
        let of = name(Method::Ctcp, adapts);
        let curve = |field: &str, words: &str| Curve {
            name: words.to_owned(),
            mark: Mark::Line,
            points: rows
                .iter()
                .filter(|row| row["method"] == of.as_str())
                .filter_map(|row| Some((row["t_s"].as_f64()?, row[field].as_f64()? / 1e3)))
                .collect(),
        };
        plots.push(Plot {
            file: file.into(),
            title: format!("Figure 14: rates, {of}"),
            x: Axis::linear("time, s"),
            y: Axis::linear("kbit/s"),
            curves: vec![
                curve("essential_bps", "essential"),
                curve("essential_target_bps", "essential: target"),
                curve("enhanced_bps", "enhanced"),
                curve("enhanced_target_bps", "enhanced: target"),
            ],
        });
    }
    plots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_pipe(rows: &[Row]) -> f64 {
        rows[0]["pipe_bps"].as_f64().unwrap()
    }

    fn essential_max(rows: &[Row]) -> f64 {
        let of = |row: &Row| row["essential_target_bps"].as_f64();
        let targets = rows[..rows.len() - 1].iter().filter_map(of);
        targets.fold(0.0, f64::max)
    }

    #[test]
    fn the_enhanced_flow_yields_and_b_frames_go_first() {
        let film = Film::generated(5);
        let of = |adapts| one(&film, Method::Auto, adapts, Seed(1)).unwrap();
        let (yields, holds) = (of(true), of(false));
        let lost = |rows: &[Row]| {
            let all = rows.last().unwrap();
            all["p_lost"].as_f64().unwrap() + all["b_lost"].as_f64().unwrap()
        };
        assert!(
            lost(&yields) < 0.08 * lost(&holds),
            "{} {}",
            lost(&yields),
            lost(&holds)
        );
        let all = yields.last().unwrap();
        assert_eq!(all["late_segments"], 0, "{all:?}");
        let sum = |field: &str| -> f64 {
            let rows = yields[..yields.len() - 1].iter();
            rows.filter_map(|row| row[field].as_f64()).sum()
        };
        let essential = sum("essential_bps") / sum("essential_target_bps");
        assert!(essential >= 0.98, "{essential}");
        // Everything that the pipe has beside the essential target fits.
        let pipe = all_pipe(&yields) * 1_472.0 / PACKET_BYTES;
        let rows = yields[3..yields.len() - 1].iter();
        for row in rows {
            let of = |field: &str| row[field].as_f64().unwrap();
            let fits = (pipe - essential_max(&yields)).min(of("enhanced_target_bps"));
            assert!(of("enhanced_bps") > 0.85 * fits, "{row:?}");
        }
        let loss = sum("enhanced_loss") / (yields.len() - 1) as f64;
        assert!(loss < 0.0055, "{loss}");
        let part = |field: &str, of: &str| all[field].as_f64().unwrap() / all[of].as_f64().unwrap();
        assert!(
            part("p_left_out", "p_frames") < 0.6 * part("b_left_out", "b_frames"),
            "{all:?}"
        );
    }
}
