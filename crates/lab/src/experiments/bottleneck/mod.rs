#![doc = include_str!("plan.md")]

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anabranch_base::{Instant, Seed};
use anabranch_session::{AllowList, Config, Order, Policy, Priority, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
    topology,
};
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Plot, Published},
        parallel,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "bottleneck",
    summary: "detection of the channels of a session that share a bottleneck, over random networks [DESIGN §5, RFC 8382]",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Networks for each load.
const NETWORKS: u64 = 200;
/// Loads that run by default.
const USUAL: [&str; 2] = ["bulk", "spread"];
/// Duration of a session.
const RUN: Duration = Duration::from_secs(60);
/// Interval at which answers and queues are read.
const LOOK: Duration = Duration::from_millis(100);

/// Mean queueing time from which a wire counts as congested: the time for which acknowledgements are held back, which round
/// trips cannot distinguish from a queue.
const CONGESTED_S: f64 = 0.004;

/// Load of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carried {
    /// Bulk data without a limit.
    Bulk,
    /// 1.2 Mbit/s in frames of 40 ms, with the default policy.
    Media,
    /// The same on every channel at once.
    Copied,
    /// 1.2 Mbit/s a channel in small messages, over the channels in turn.
    Spread,
}

const CARRIED: [(&str, Carried); 4] = [
    ("bulk", Carried::Bulk),
    ("media", Carried::Media),
    ("copied", Carried::Copied),
    ("spread", Carried::Spread),
];

impl Carried {
    fn load(self, routes: usize) -> Load {
        let live = |adu_bytes, every| Load {
            spec: StreamSpec {
                order: Order::Unordered,
                lifetime: Some(Duration::from_millis(400)),
                priority: Priority::NORMAL,
                label: "media".to_owned(),
                ..StreamSpec::default()
            },
            adu_bytes,
            every: Some(every),
            adus: u64::MAX,
            start: Instant::EPOCH,
        };
        match self {
            Self::Bulk => Load::bulk(1 << 40),
            Self::Media | Self::Copied => live(6_000, Duration::from_millis(40)),
            Self::Spread => live(1_200, Duration::from_millis(8) / routes as u32),
        }
    }

    fn policy(self) -> Policy {
        match self {
            Self::Bulk | Self::Media => Policy::default(),
            Self::Copied => Policy::Redundant,
            Self::Spread => Policy::RoundRobin,
        }
    }
}

/// Answer about two routes.
#[derive(Debug, Clone, Copy)]
struct Answer {
    /// The truth: index of the common bottleneck.
    shared: Option<usize>,
    /// Mean queue there, in seconds.
    queue_s: f64,
    is_said: bool,
    was_ever_said: bool,
}

/// Answers about each pair of routes from a session over one random network after `run`; `None` if it was not established.
fn trial(carried: Carried, seed: Seed, run: Duration) -> Option<Vec<Answer>> {
    let network = topology::random(seed);
    let mut world = World::new(seed);
    let routes = network.bottleneck_of.len();
    let sender = Sender::new(World::node_id(1), vec![carried.load(routes)]);
    let config = Config {
        policy: carried.policy(),
        ..Config::default()
    };
    let source = world.add_node(config, AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(source)]);
    let sink = world.add_node(Config::default(), allowed, Receiver::new());
    let laid = network.topology.lay(&mut world).ok()?;
    let links = laid.connect(&mut world, [source, sink]);
    world
        .app::<Sender>(source)
        .dial(Instant::EPOCH, links.clone());
    world.with_node(source, |_| ());
    let mut answers = Vec::new();
    for one in 0..routes {
        for other in one + 1..routes {
            answers.push(Answer {
                shared: network
                    .shares(one, other)
                    .then(|| network.bottleneck_of[one]),
                queue_s: 0.0,
                is_said: false,
                was_ever_said: false,
            });
        }
    }
    let looks = run.as_millis() / LOOK.as_millis();
    let mut queues_s = vec![0.0; network.bottlenecks.len()];
    for look in 1..=looks {
        world.run_for(LOOK);
        let now = world.now();
        for (sum, bottleneck) in queues_s.iter_mut().zip(&network.bottlenecks) {
            let [entry, exit] = &bottleneck.between;
            let wire = world.wire(laid.wire(entry, exit)?);
            *sum += wire.duplex.forward.queue_delay(now).as_secs_f64() / looks as f64;
        }
        // Answers change once a second at most.
        if look % 10 != 0 {
            continue;
        }
        let session = world.app::<Sender>(source).session()?;
        let reports = world
            .engine(source)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        let of = |route: usize| {
            reports.iter().find(|report| {
                report.socket == links[route].socket && report.remote == links[route].remote
            })
        };
        let mut at = 0;
        for one in 0..routes {
            for other in one + 1..routes {
                let is_said = of(one).zip(of(other)).is_some_and(|(one, other)| {
                    let path = one.path.as_ref();
                    path.is_some_and(|path| path.shares_with.contains(&other.channel))
                });
                answers[at].is_said = is_said;
                answers[at].was_ever_said |= is_said;
                at += 1;
            }
        }
    }
    for answer in &mut answers {
        answer.queue_s = answer.shared.map_or(0.0, |index| queues_s[index]);
    }
    Some(answers)
}

/// Seeds of the networks: 1 to 200 of the first run, 201 to 400 of the second, so that runs with other seeds share none.
fn networks(Seed(seed): Seed) -> Vec<u64> {
    let first = seed.wrapping_sub(1).wrapping_mul(NETWORKS).wrapping_add(1);
    (0..NETWORKS).map(|n| first.wrapping_add(n)).collect()
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let (loads, networks) = match options.only.map(|only| only.split_once('/')) {
        Some(Some((load, network))) => match network.parse() {
            Ok(network) => (Some(load), vec![network]),
            Err(_) => return Vec::new(),
        },
        _ => (options.only, networks(options.seed)),
    };
    let mut rows = Vec::new();
    for &(name, carried) in &CARRIED {
        if !loads.map_or_else(|| USUAL.contains(&name), |loads| name.contains(loads)) {
            continue;
        }
        let done = AtomicUsize::new(0);
        let found = parallel::map(&networks, |&network| {
            let answers = trial(carried, Seed(network), RUN);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(20) {
                (options.progress)(&format!("{name}: {done} of {} networks", networks.len()));
            }
            answers
        });
        let mut all = Vec::new();
        for (network, answers) in networks.iter().zip(found) {
            let answers = answers.unwrap_or_default();
            let mut row = row_of("network", name, &answers);
            row.insert("network".into(), json!(network));
            rows.push(row);
            all.extend(answers);
        }
        rows.push(row_of("summary", name, &all));
    }
    rows
}

fn row_of(kind: &str, load: &str, answers: &[Answer]) -> Row {
    let count = |which: &dyn Fn(&Answer) -> bool| answers.iter().filter(|a| which(a)).count();
    let mut row = Row::new();
    row.insert("kind".into(), json!(kind));
    row.insert("load".into(), json!(load));
    row.insert("pairs".into(), json!(answers.len()));
    let shares = |a: &Answer| a.shared.is_some();
    row.insert("sharing".into(), json!(count(&shares)));
    row.insert("found".into(), json!(count(&|a| shares(a) && a.is_said)));
    let congested = |a: &Answer| shares(a) && a.queue_s >= CONGESTED_S;
    row.insert("congested".into(), json!(count(&congested)));
    row.insert(
        "congested_found".into(),
        json!(count(&|a| congested(a) && a.is_said)),
    );
    row.insert("separate".into(), json!(count(&|a| !shares(a))));
    row.insert(
        "false_alarms".into(),
        json!(count(&|a| !shares(a) && a.is_said)),
    );
    row.insert(
        "false_alarms_ever".into(),
        json!(count(&|a| !shares(a) && a.was_ever_said)),
    );
    row
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let summaries = rows.iter().filter(|row| row["kind"] == "summary");
    summaries
        .flat_map(|row| {
            let count = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
            let share = |part: f64, whole: f64| format!("{:.1} %", 100.0 * part / whole);
            let load = row["load"].as_str().unwrap_or_default();
            let judged = count("congested") + count("separate");
            let right = count("congested_found") + count("separate") - count("false_alarms");
            [
                Published::new(
                    format!("{load}: pairs right, where a common wire has a queue"),
                    "target",
                    "95 %",
                    share(right, judged),
                ),
                Published::new(
                    format!("{load}: false alarms"),
                    "target",
                    "at most 2 %",
                    share(count("false_alarms"), count("separate")),
                ),
            ]
        })
        .collect()
}

fn plots(_rows: &[Row]) -> Vec<Plot> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_networks_of_their_own() {
        assert_eq!(networks(Seed(1)), (1..=200).collect::<Vec<_>>());
        assert_eq!(networks(Seed(2)), (201..=400).collect::<Vec<_>>());
        assert_eq!(networks(Seed(0)).len(), 200);
        assert_eq!(networks(Seed(u64::MAX)).len(), 200);
    }

    #[test]
    fn a_session_distinguishes_shared_bottlenecks_from_separate_ones() {
        let mut all = Vec::new();
        for seed in 1..=6 {
            all.extend(trial(Carried::Spread, Seed(seed), Duration::from_secs(40)).unwrap());
        }
        let congested = all
            .iter()
            .filter(|a| a.shared.is_some() && a.queue_s >= CONGESTED_S);
        assert!(congested.clone().count() >= 4, "{all:?}");
        assert!(congested.clone().all(|a| a.is_said), "{all:?}");
        let mut separate = all.iter().filter(|a| a.shared.is_none());
        assert!(separate.clone().count() >= 4, "{all:?}");
        assert!(separate.all(|a| !a.is_said), "{all:?}");
    }
}
