//! How much must lie at the proxy beforehand, and what is lost, by number of sessions [Two-flow Figures 10, 11 and 12].

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_twoflow::rate::RETRANSMITTED;
use serde_json::json;

use super::{
    film::{Film, SEGMENT, needed_bps},
    flow::Sink,
    measure::rounded,
    scene::{ESSENTIAL_BYTES, Method, Plan, STARTS, Scene, capacity},
};
use crate::{
    Experiment, Options, Row,
    output::{Axis, Curve, Mark, Plot, Published},
    parallel,
};

/// Prefixes.
pub const PREFIX: Experiment = Experiment {
    name: "twoflow-prefix",
    summary: "bytes of the essential flow that a proxy must have beforehand, by number of sessions [Two-flow Figure 10]",
    plan: include_str!("prefix.md"),
    folders: &[],
    run,
    compare: compare_prefix,
    plots: plots_prefix,
};

/// Losses of the same runs.
pub const LOSSES: Experiment = Experiment {
    name: "twoflow-losses",
    summary: "bytes sent again and packets lost, by number of sessions [Two-flow Figures 11, 12]",
    plan: include_str!("losses.md"),
    folders: &[],
    run,
    compare: compare_losses,
    plots: plots_losses,
};

const SESSIONS: [usize; 6] = [1, 2, 4, 6, 8, 10];
const FACTOR: f64 = 1.1;
/// Of what the pipe has to spare, the part that the essential flow is given to be ahead of play.
const SPARE: f64 = 0.5;
/// So much of the film; its first segment.
const LENGTH: Duration = SEGMENT;

fn run(options: &Options<'_>) -> Vec<Row> {
    let film = Film::load(options);
    let mut jobs = Vec::new();
    for n in SESSIONS {
        for method in Method::ALL {
            if options.wants(&format!("{n} {}", method.name())) {
                jobs.push((n, method));
            }
        }
    }
    jobs.reverse();
    let rows = parallel::map(&jobs, |&(n, method)| {
        let row = one(&film, n, method, options.seed);
        (options.progress)(&format!("{n} {}", method.name()));
        row
    });
    rows.into_iter().rev().flatten().collect()
}

fn one(film: &Film, n: usize, method: Method, seed: Seed) -> Option<Row> {
    let seed = seed.child(&format!("{n} sessions"));
    // Most of what the pipe has to spare, for the flow that play waits for.
    let spare = SPARE * (FACTOR - 1.0) * needed_bps(&film.schedule);
    let extra = Rate::from_bps(spare as u64);
    let mut random = seed.stream("starts");
    let plans: Vec<Plan> = (0..n)
        .map(|_| Plan {
            method,
            start: Instant::from_secs(1) + STARTS.mul_f64(random.unit()),
            segments: 0..1,
            is_staggered: false,
            extra,
        })
        .collect();
    let capacity = capacity(film, n, FACTOR);
    // A queue of one product of rate and round trip [Two-flow §5.2].
    let mut scene = Scene::empty(capacity, Duration::from_millis(80), seed)?;
    for plan in &plans {
        scene.join(film, plan)?;
    }
    scene
        .world
        .run_until(Instant::EPOCH + LENGTH + STARTS + Duration::from_secs(20));
    let sessions = scene.sessions.clone();
    let (mut prefixes, mut repeated, mut lost) = (Vec::new(), 0, 0);
    for running in &sessions {
        prefixes.push(needed(&mut scene, film, running) as f64);
        repeated += scene.count(running.essential).lost;
        lost += scene.count(running.enhanced).lost;
    }
    let step = film.schedule.steps().first()?;
    let bytes = film.segments.all().first()?.essential_bytes;
    let own = anabranch_twoflow::rate::target(bytes, step.until - step.from, RETRANSMITTED);
    let supply = anabranch_twoflow::prefix::Supply {
        rate: Rate::from_bps(own.as_bps() + extra.as_bps()),
        rtt: Duration::from_millis(80),
        loss: 0.0,
    };
    let planned = anabranch_twoflow::prefix::needed(wanted(film), &supply);
    let mut row = Row::new();
    row.insert("film".into(), json!(film.name));
    row.insert("sessions".into(), json!(n));
    row.insert("method".into(), json!(method.name()));
    row.insert(
        "prefix_mean_bytes".into(),
        json!((prefixes.iter().sum::<f64>() / n as f64).round()),
    );
    row.insert(
        "prefix_max_bytes".into(),
        json!(prefixes.iter().copied().fold(0.0, f64::max)),
    );
    row.insert("prefix_planned_bytes".into(), json!(planned));
    // What a proxy holds for each viewer, as all of them see the same film and it is held once.
    let most = prefixes.iter().copied().fold(0.0, f64::max);
    row.insert(
        "prefix_shared_bytes".into(),
        json!((most / n as f64).round()),
    );
    row.insert(
        "repeated_bytes".into(),
        json!(rounded(repeated as f64 * ESSENTIAL_BYTES / n as f64)),
    );
    row.insert(
        "lost_packets".into(),
        json!(rounded(lost as f64 / n as f64)),
    );
    Some(row)
}

/// The essential frames of the first segment: when they are needed, and their bytes.
fn wanted(film: &Film) -> impl Iterator<Item = (Duration, u64)> {
    let frames = film.segments.all()[0].frames.clone();
    film.frames[frames]
        .iter()
        .filter(|frame| frame.class.is_essential())
        .map(|frame| (frame.at, u64::from(frame.bytes)))
}

/// The largest lead of what play needs over what has arrived: with so much at the proxy, and the flow
/// sending what follows it, every frame is in time. Play begins with the flow.
fn needed(scene: &mut Scene, film: &Film, running: &super::scene::Running) -> u64 {
    let sink = scene.world.app::<Sink>(running.essential.proxy);
    let (mut prefix, mut sum, mut at) = (0, 0, 0_usize);
    for (time, bytes) in wanted(film) {
        sum += bytes;
        let now = running.plan.start + time;
        while sink
            .arrivals
            .get(at)
            .is_some_and(|arrival| arrival.0 <= now)
        {
            at += 1;
        }
        let arrived = at.checked_sub(1).map_or(0, |last| sink.arrivals[last].1);
        prefix = prefix.max(sum.saturating_sub(arrived));
    }
    prefix
}

fn value(rows: &[Row], n: usize, method: Method, field: &str) -> Option<f64> {
    let row = rows
        .iter()
        .find(|row| row["sessions"] == n && row["method"] == method.name())?;
    row[field].as_f64()
}

fn lines(
    rows: &[Row],
    (field, what, scale): (&str, &str, f64),
    source: &'static str,
    theirs: [&str; 2],
) -> Vec<Published> {
    let mut lines = Vec::new();
    for method in Method::ALL {
        let of: Vec<String> = SESSIONS
            .iter()
            .filter_map(|&n| Some(format!("{:.1}", value(rows, n, method, field)? / scale)))
            .collect();
        if !of.is_empty() {
            let sizes = SESSIONS.map(|n| n.to_string()).join(" / ");
            lines.push(Published::new(
                format!("{}: {what}, {sizes} sessions", method.name()),
                source,
                theirs[usize::from(method == Method::NewReno)],
                of.join(" / "),
            ));
        }
    }
    lines
}

fn plot(rows: &[Row], file: &'static str, title: &str, (field, label): (&str, &str)) -> Plot {
    let curve = |method: Method| Curve {
        name: method.name().to_owned(),
        mark: Mark::Line,
        points: SESSIONS
            .iter()
            .filter_map(|&n| Some((n as f64, value(rows, n, method, field)?)))
            .collect(),
    };
    Plot {
        file: file.into(),
        title: title.to_owned(),
        x: Axis::linear("sessions"),
        y: Axis::linear(label),
        curves: Method::ALL
            .into_iter()
            .map(curve)
            .filter(|curve| !curve.points.is_empty())
            .collect(),
    }
}

fn compare_prefix(rows: &[Row]) -> Vec<Published> {
    let theirs = ["much smaller than TCP's", "larger"];
    let mut all = lines(
        rows,
        ("prefix_mean_bytes", "prefix needed, kB", 1e3),
        "Two-flow Figure 10",
        theirs,
    );
    let shared = (
        "prefix_shared_bytes",
        "the same for each viewer of one film, held once, kB",
        1e3,
    );
    all.extend(lines(
        rows,
        shared,
        "target",
        ["falling with sessions", "–"],
    ));
    all.extend(lines(
        rows,
        (
            "prefix_planned_bytes",
            "prefix planned from rate and round trip, kB",
            1e3,
        ),
        "target",
        ["what is needed", "–"],
    ));
    all
}

fn compare_losses(rows: &[Row]) -> Vec<Published> {
    let few = ["a small number", "many more"];
    let mut all = lines(
        rows,
        ("repeated_bytes", "bytes sent again of a session, kB", 1e3),
        "Two-flow Figure 11",
        few,
    );
    all.extend(lines(
        rows,
        ("lost_packets", "enhanced packets lost of a session", 1.0),
        "Two-flow Figure 12",
        few,
    ));
    all
}

fn plots_prefix(rows: &[Row]) -> Vec<Plot> {
    vec![plot(
        rows,
        "prefix",
        "Figure 10: prefix needed",
        ("prefix_mean_bytes", "bytes"),
    )]
}

fn plots_losses(rows: &[Row]) -> Vec<Plot> {
    vec![
        plot(
            rows,
            "repeated",
            "Figure 11: sent again",
            ("repeated_bytes", "bytes"),
        ),
        plot(
            rows,
            "lost",
            "Figure 12: enhanced packets lost",
            ("lost_packets", "packets"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctcp_needs_less_beforehand_than_newreno_and_what_was_planned() {
        let film = Film::generated(2);
        let of = |method| one(&film, 2, method, Seed(1)).unwrap();
        let (ctcp, reno) = (of(Method::Ctcp), of(Method::NewReno));
        let bytes = |row: &Row, field: &str| row[field].as_f64().unwrap();
        assert!(
            bytes(&ctcp, "lost_packets") < 0.2 * bytes(&reno, "lost_packets"),
            "{ctcp:?}"
        );
        assert!(bytes(&reno, "lost_packets") > 50.0, "{reno:?}");
        let (needed, planned) = (
            bytes(&ctcp, "prefix_max_bytes"),
            bytes(&ctcp, "prefix_planned_bytes"),
        );
        assert!(needed <= 1.02 * planned + 10_000.0, "{ctcp:?}");
    }
}
