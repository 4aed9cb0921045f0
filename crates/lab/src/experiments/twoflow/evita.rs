//! Prefixes needed at the proxy, and losses, by number of sessions [Two-flow Figures 10, 11 and 12].

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_twoflow::{
    prefetch::{self, Lead},
    prefix::{Supply, needed},
    rate::{self, RETRANSMITTED},
};
use serde_json::json;

use super::{
    film::{Film, SEGMENT},
    flow::Feeder,
    measure::rounded,
    packets::{ESSENTIAL_BYTES, PACKET_BYTES, udp},
    plan::{Method, Plan},
    scene::{Running, STARTS, Scene, filled},
};
use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
    },
};

/// Prefixes.
pub const PREFIX: Experiment = Experiment {
    name: "twoflow-prefix",
    summary: "bytes of the essential flow that a proxy must hold in advance, by number of sessions [Two-flow Figure 10]",
    plan: include_str!("prefix.md"),
    folders: &[],
    run,
    compare: compare_prefix,
    plots: plots_prefix,
};

/// Losses of the same runs.
pub const LOSSES: Experiment = Experiment {
    name: "twoflow-losses",
    summary: "bytes retransmitted and packets lost, by number of sessions [Two-flow Figures 11, 12]",
    plan: include_str!("losses.md"),
    folders: &[],
    run,
    compare: compare_losses,
    plots: plots_losses,
};

const SESSIONS: [usize; 6] = [1, 2, 4, 6, 8, 10];
const FACTOR: f64 = 1.1;
/// Unused share of the pipe when the rest of it is given to essential flows close to playback, and interval at which that is
/// divided.
const MARGIN: f64 = 0.03;
const LOOK: Duration = Duration::from_secs(1);
/// Length of the part of the film that is streamed.
const LENGTH: Duration = SEGMENT;
/// Time from the request to the first byte, and until a loss is repaired.
const RTT: Duration = Duration::from_millis(80);

/// Segment of the film for all sessions: the one that needs the longest prefix.
struct Clip<'a> {
    film: &'a Film,
    segment: usize,
}

impl<'a> Clip<'a> {
    fn hardest(film: &'a Film) -> Self {
        let whole = film
            .segments
            .all()
            .iter()
            .filter(|segment| segment.length == LENGTH);
        let clips = (0..whole.count()).map(|segment| Self { film, segment });
        let needs = |clip: &Self| needed(clip.wanted(), &clip.supply(1, clip.capacity(1, FACTOR)));
        let hardest = clips.max_by_key(needs);
        hardest.unwrap_or(Self { film, segment: 0 })
    }

    /// Its essential frames: the time at which each is needed, and its bytes.
    fn wanted(&self) -> impl Iterator<Item = (Duration, u64)> {
        let frames = &self.film.frames[self.film.segments.all()[self.segment].frames.clone()];
        let start = self.film.schedule.steps()[self.segment].from;
        frames
            .iter()
            .filter(|frame| frame.class.is_essential())
            .map(move |frame| (frame.at.saturating_sub(start), u64::from(frame.bytes)))
    }

    /// Target of its essential flow.
    fn own(&self) -> Rate {
        let bytes = self.film.segments.all()[self.segment].essential_bytes;
        rate::target(bytes, LENGTH, RETRANSMITTED)
    }

    /// Pipe that `sessions` sessions just fill, times `factor`.
    fn capacity(&self, sessions: usize, factor: f64) -> Rate {
        let enhanced = self.film.schedule.steps()[self.segment].enhanced_rate;
        filled([self.own(), enhanced], sessions, factor)
    }

    /// Rate that `sessions` sessions leave, for the application's bytes of essential flows.
    fn spare(&self, pipe: Rate, sessions: usize) -> Rate {
        let taken = self.capacity(sessions, 1.0).as_bps() as f64;
        let left = (pipe.as_bps() as f64 * (1.0 - MARGIN) - taken).max(0.0);
        Rate::from_bps((left * ESSENTIAL_BYTES / PACKET_BYTES) as u64)
    }

    /// Worst-case supply of a flow: if all sessions begin at once.
    fn supply(&self, sessions: usize, pipe: Rate) -> Supply {
        let extra = self.spare(pipe, sessions).as_bps() / sessions as u64;
        Supply {
            rate: Rate::from_bps(self.own().as_bps() + extra),
            rtt: RTT,
            loss: 0.0,
        }
    }

    /// Time of the film for which `bytes` bytes of its essential flow suffice.
    fn covered(&self, bytes: u64) -> Duration {
        let mut sum = 0;
        let missing = self.wanted().find(|&(_, frame)| {
            sum += frame;
            sum > bytes
        });
        missing.map_or(LENGTH, |(at, _)| at)
    }
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let film = Film::load(options);
    let clip = Clip::hardest(&film);
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
        let row = one(&clip, n, method, options.seed);
        (options.progress)(&format!("{n} {}", method.name()));
        row
    });
    rows.into_iter().rev().flatten().collect()
}

fn one(clip: &Clip<'_>, n: usize, method: Method, seed: Seed) -> Option<Row> {
    let seed = seed.child(&format!("{n} sessions"));
    let mut random = seed.stream("starts");
    let plans: Vec<Plan> = (0..n)
        .map(|_| Plan {
            method,
            start: Instant::from_secs(1) + STARTS.mul_f64(random.unit()),
            segments: clip.segment..clip.segment + 1,
            is_staggered: false,
        })
        .collect();
    let capacity = clip.capacity(n, FACTOR);
    // A queue of one product of rate and round trip [Two-flow §5.2].
    let mut scene = Scene::empty(capacity, RTT, seed)?;
    for plan in &plans {
        scene.join(clip.film, plan)?;
    }
    let end = Instant::EPOCH + LENGTH + STARTS + Duration::from_secs(20);
    let mut looks: Vec<Instant> = plans.iter().map(|plan| plan.start).collect();
    looks.extend(
        (0..end.as_nanos() / LOOK.as_nanos() as u64)
            .map(|look| Instant::EPOCH + LOOK * look as u32),
    );
    looks.sort_unstable();
    for look in looks.into_iter().filter(|_| method.is_ctcp()) {
        scene.world.run_until(look);
        prefetch(&mut scene, clip, capacity);
    }
    scene.world.run_until(end);
    let sessions = scene.sessions.clone();
    let (mut prefixes, mut repeated, mut lost) = (Vec::new(), 0, 0);
    for running in &sessions {
        prefixes.push(lead_needed(&mut scene, clip, running) as f64);
        repeated += scene.count(running.essential).lost;
        lost += scene.count(running.enhanced).lost;
    }
    let planned = needed(clip.wanted(), &clip.supply(n, capacity));
    let mut row = Row::new();
    row.insert("film".into(), json!(clip.film.name));
    row.insert("segment".into(), json!(clip.segment + 1));
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
    // Data that a proxy holds for each viewer; all of them see the same film, which is held once.
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

/// Divides the spare capacity of the pipe.
fn prefetch(scene: &mut Scene, clip: &Clip<'_>, pipe: Rate) {
    let now = scene.world.now();
    let own = clip.own();
    let begun = scene
        .sessions
        .iter()
        .filter(|running| running.plan.start <= now);
    let begun: Vec<_> = begun.cloned().collect();
    let mut leads = Vec::new();
    for running in &begun {
        let arrived = scene.account(running.essential).bytes;
        let played = now.since(running.plan.start);
        leads.push(Lead {
            rate: own,
            lead_s: clip.covered(arrived).as_secs_f64() - played.as_secs_f64(),
            lead_max_s: LENGTH.saturating_sub(played).as_secs_f64(),
        });
    }
    let extra = prefetch::divide(clip.spare(pipe, begun.len()), &leads);
    for (running, extra) in begun.iter().zip(extra) {
        let rate = udp(
            Rate::from_bps(own.as_bps() + extra.as_bps()),
            ESSENTIAL_BYTES,
        );
        let hold = |feeder: &mut Feeder, context: &mut anabranch_sim::Context<'_>| {
            feeder.hold(context, rate);
        };
        scene.world.with_app(running.essential.origin, hold);
    }
}

/// Largest lead of the bytes that play needs over the bytes that have arrived: with that prefix at the proxy, and the flow
/// sending the data after it, every frame is in time. Play begins with the flow.
fn lead_needed(scene: &mut Scene, clip: &Clip<'_>, running: &Running) -> u64 {
    let account = scene.account(running.essential);
    let (mut prefix, mut sum, mut at) = (0, 0, 0_usize);
    for (time, bytes) in clip.wanted() {
        sum += bytes;
        let now = running.plan.start + time;
        while account
            .arrivals
            .get(at)
            .is_some_and(|arrival| arrival.0 <= now)
        {
            at += 1;
        }
        let arrived = at.checked_sub(1).map_or(0, |last| account.arrivals[last].1);
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
    fn ctcp_needs_a_shorter_prefix_than_newreno_and_than_planned() {
        let film = Film::generated(2);
        let clip = Clip::hardest(&film);
        let of = |method| one(&clip, 2, method, Seed(1)).unwrap();
        let (ctcp, reno) = (of(Method::Ctcp), of(Method::NewReno));
        let bytes = |row: &Row, field: &str| row[field].as_f64().unwrap();
        assert!(bytes(&reno, "lost_packets") > 50.0, "{reno:?}");
        let (needed, planned) = (
            bytes(&ctcp, "prefix_max_bytes"),
            bytes(&ctcp, "prefix_planned_bytes"),
        );
        assert!(needed <= planned, "{ctcp:?}");
        assert_eq!(ctcp["lost_packets"], 0.0, "{ctcp:?}");
    }

    /// A session that begins has the capacity left by all: with more sessions each needs less, and no packet is lost for it.
    #[test]
    fn the_prefix_falls_with_sessions() {
        let mut film = Film::generated(2);
        // Its first minute has twice the rate of the others.
        for frame in &mut film.frames[..LENGTH.as_secs() as usize * 24] {
            if frame.class.is_essential() {
                let is_early = frame.at < LENGTH / 4;
                let factor = if is_early { 1.6 } else { 0.8 };
                frame.bytes = (f64::from(frame.bytes) * factor) as u32;
            }
        }
        let clip = Clip {
            film: &film,
            segment: 0,
        };
        let of = |n| {
            let row = one(&clip, n, Method::Auto, Seed(1)).unwrap();
            assert!(row["lost_packets"].as_f64().unwrap() < 2.0, "{row:?}");
            row["prefix_mean_bytes"].as_f64().unwrap()
        };
        let needed = [of(1), of(4)];
        assert!(needed[1] < 0.7 * needed[0], "{needed:?}");
    }
}
