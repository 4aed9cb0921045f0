//! Parallel streams against two paths, congestion bypassed and not [Daemons Figure 6].

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, Controller};
use anabranch_sim::{
    Flow, FlowPlan, Hop, World,
    apps::{Load, Receiver, Sender},
    topology::Topology,
};
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
        streams::show::find,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "daemons-fig6",
    summary: "1 to 16 parallel streams on one path against two paths [Daemons Figure 6]",
    plan: include_str!("fig6.md"),
    folders: &[],
    run,
    compare,
    plots,
};

const SCENES: [&str; 2] = ["not bypassed", "bypassed"];
/// `session` is one session with both paths; it does not depend on the number of streams.
const METHODS: [&str; 3] = ["parallel", "multi-path", "session"];
const STREAMS: u32 = 16;
/// Downloads of other users in the congested zone.
const RIVALS: usize = 4;
const CONTROLLER: Controller = Controller::Cubic;
const DIRECT: &[&str] = &["ORNL", "hub", "LSU"];
const SECOND: &[&str] = &["ORNL", "hub", "GaTech", "LSU"];
const COUNTED: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(80)];

/// Sites and the position of the bottleneck.
fn topology(scene: &str) -> Topology {
    let is_bypassed = scene == SCENES[1];
    let wire = |mbps, delay_ms| {
        Configs::symmetric(LinkConfig {
            rate: RateSource::Constant(Rate::from_mbps(mbps)),
            delay: Duration::from_millis(delay_ms),
            queue: Queue::time(Duration::from_millis(100)),
            ..LinkConfig::default()
        })
    };
    let (first, direct) = if is_bypassed { (20, 6) } else { (6, 20) };
    let rivals: &[&str] = if is_bypassed {
        &["users", "hub", "LSU"]
    } else {
        DIRECT
    };
    let mut topology = Topology::default();
    topology
        .wire("ORNL", "hub", wire(first, 5))
        .wire("users", "hub", wire(20, 5))
        .wire("hub", "LSU", wire(direct, 30))
        .wire("hub", "GaTech", wire(20, 10))
        .wire("GaTech", "LSU", wire(3, 30));
    for rival in 0..RIVALS as u64 {
        let start = Instant::from_millis(500 + 300 * rival);
        topology.flow(rivals, FlowPlan::greedy(CONTROLLER, start));
    }
    topology
}

/// Goodput of our flows and of the rivals, in bits per second.
fn goodputs(scene: &str, method: &str, streams: u32, seed: Seed) -> Option<[f64; 2]> {
    let mut world = World::new(seed);
    let mut config = Config::default();
    config.channel.controller = CONTROLLER;
    let [sender, receiver] = [0, 1];
    let app = Sender::new(World::node_id(receiver), vec![Load::bulk(1 << 45)]);
    world.add_node(config.clone(), AllowList::default(), app);
    let allowed = AllowList::of([World::node_id(sender)]);
    world.add_node(config, allowed, Receiver::new());
    let laid = topology(scene).lay(&mut world).ok()?;
    let start = |index: u32| Instant::from_millis(2_000 + 100 * u64::from(index));
    let mut ours: Vec<Flow> = Vec::new();
    let direct = laid.path(DIRECT).ok()?;
    let second = laid.path(SECOND).ok()?;
    if method == METHODS[2] {
        let mut route = None;
        let mut links = Vec::new();
        for hops in [&direct, &second] {
            let path = world.add_route([sender, receiver], hops, &Hop::reversed(hops));
            links.push(world.route_link(sender, path));
            route = Some(path);
        }
        world.app::<Sender>(sender).dial(start(0), links);
        world.with_node(sender, |_| ());
        ours.push(Flow {
            sender,
            receiver,
            route: route?,
        });
    } else {
        for stream in 0..streams {
            let plan = FlowPlan::greedy(CONTROLLER, start(stream));
            ours.push(world.add_flow(&direct, &plan));
        }
        if method == METHODS[1] {
            let plan = FlowPlan::greedy(CONTROLLER, start(streams));
            ours.push(world.add_flow(&second, &plan));
        }
    }
    let [from, to] = COUNTED.map(|at| Instant::EPOCH + at);
    world.run_until(to);
    let mut sum = |flows: &[Flow]| -> f64 {
        let each = flows
            .iter()
            .map(|flow| flow.goodput_bps(&mut world, from, to));
        each.sum()
    };
    Some([sum(&ours), sum(&laid.flows)])
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut jobs = Vec::new();
    for scene in SCENES {
        for method in METHODS {
            let most = if method == METHODS[2] { 1 } else { STREAMS };
            jobs.extend((1..=most).map(|streams| (scene, method, streams)));
        }
    }
    jobs.retain(|(scene, method, streams)| options.wants(&format!("{scene} {method} {streams}")));
    let rows = parallel::map(&jobs, |&(scene, method, streams)| {
        let seed = options.seed.child(scene);
        let [ours, rivals] = goodputs(scene, method, streams, seed)?;
        (options.progress)(&format!("{scene} {method} {streams}"));
        let mut row = Row::new();
        row.insert("scene".into(), json!(scene));
        row.insert("method".into(), json!(method));
        row.insert("streams".into(), json!(streams));
        row.insert("goodput_bps".into(), json!(ours.round()));
        row.insert("rivals_bps".into(), json!(rivals.round()));
        Some(row)
    });
    rows.into_iter().flatten().collect()
}

fn goodput(rows: &[Row], scene: &str, method: &str, streams: u32) -> f64 {
    let row = rows
        .iter()
        .find(|row| row["scene"] == scene && row["method"] == method && row["streams"] == streams);
    row.and_then(|row| row["goodput_bps"].as_f64())
        .unwrap_or(f64::NAN)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let source = "Daemons Figure 6";
    let line = |scene: &str, method: &str| {
        let each = [1, 2, 4, 8, 16].map(|n| goodput(rows, scene, method, n) / 1e6);
        let each = each.map(|mbps| format!("{mbps:.2}"));
        each.join(" / ")
    };
    let session = |scene: &str| {
        let wanted = [("scene", scene), ("method", METHODS[2])];
        find(rows, &wanted, "goodput_bps").unwrap_or(f64::NAN)
    };
    let crossing = |scene: &str| {
        let over = (1..=STREAMS).find(|&n| goodput(rows, scene, METHODS[0], n) > session(scene));
        over.map_or("none of 16 does".to_owned(), |n| format!("{n} streams do"))
    };
    let mut lines = Vec::new();
    for (scene, words) in [
        (SCENES[0], "about the same as parallel streams"),
        (
            SCENES[1],
            "more than parallel streams that saturate the first",
        ),
    ] {
        lines.push(Published::new(
            format!("{scene}: 1 / 2 / 4 / 8 / 16 streams, Mbit/s"),
            source,
            format!("two paths: {words}"),
            format!(
                "one path {}; a second beside it {}",
                line(scene, METHODS[0]),
                line(scene, METHODS[1])
            ),
        ));
        lines.push(Published::new(
            format!(
                "{scene}: one session with both paths, Mbit/s, and what carries more than it on one"
            ),
            source,
            "–",
            format!("{:.2}; {}", session(scene) / 1e6, crossing(scene)),
        ));
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (scene, file) in [(SCENES[0], "not-bypassed"), (SCENES[1], "bypassed")] {
        let curve = |method: &str, name: &str| Curve {
            name: name.to_owned(),
            mark: Mark::Line,
            points: (1..=STREAMS)
                .map(|n| {
                    let of = if method == METHODS[2] { 1 } else { n };
                    (f64::from(n), goodput(rows, scene, method, of) / 1e6)
                })
                .filter(|(_, mbps)| mbps.is_finite())
                .collect(),
        };
        plots.push(Plot {
            file: file.into(),
            title: format!("Figure 6: congestion {scene}"),
            x: Axis::linear("parallel streams on the first path"),
            y: Axis::linear("throughput, Mbit/s"),
            curves: vec![
                curve(METHODS[0], "parallel streams"),
                curve(METHODS[1], "and one on the second path"),
                curve(METHODS[2], "one session with both"),
            ],
        });
    }
    plots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_path_helps_where_it_avoids_the_crowd() {
        let of = |scene, method| goodputs(scene, method, 4, Seed(1)).unwrap()[0];
        let gain = |scene| of(scene, METHODS[1]) / of(scene, METHODS[0]);
        let (shared, apart) = (gain(SCENES[0]), gain(SCENES[1]));
        assert!(shared < 1.25, "{shared}");
        assert!(apart > 1.5, "{apart}");
    }
}
