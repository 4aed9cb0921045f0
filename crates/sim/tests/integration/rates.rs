//! Channels whose controllers keep a fixed rate: `ctcp` and `fixed`, through the whole engine.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, StreamError};
use anabranch_sim::{
    Flow, FlowPlan, Hop, World,
    apps::{Load, Receiver, Sender},
};

/// Overhead of the engine's packets as a share of the application's bytes: headers and tags, within the UDP payload.
const OVERHEAD: f64 = 0.05;

fn secs(secs: u64) -> Instant {
    Instant::from_secs(secs)
}

/// A wire of 2 Mbit/s, 40 ms one way with 50 ms of queue, and flows over it from the beginning.
fn world(controllers: &[&str]) -> (World, Vec<Flow>) {
    let mut world = World::new(Seed(3));
    let wire = Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(Rate::from_mbps(2)),
        delay: Duration::from_millis(40),
        queue: Queue::time(Duration::from_millis(50)),
        ..LinkConfig::default()
    });
    let wire = world.add_trunk(wire).expect("in range");
    let flows = controllers
        .iter()
        .map(|text| {
            let plan = FlowPlan::greedy(text.parse().expect(text), Instant::EPOCH);
            world.add_flow(&[Hop::forward(wire)], &plan)
        })
        .collect();
    (world, flows)
}

fn sent(world: &mut World, flow: &Flow) -> (u64, u64) {
    let session = world.app::<Sender>(flow.sender).session().expect("dialled");
    let reports = world
        .engine(flow.sender)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default();
    let stats = &reports.first().expect("a channel").stats;
    (stats.bytes_sent, stats.packets_lost)
}

fn set(world: &mut World, flow: &Flow, rate: Rate) {
    let session = world.app::<Sender>(flow.sender).session().expect("dialled");
    world.with_node(flow.sender, |context| {
        let set = context
            .engine()
            .session(session)
            .map(|mut session| session.set_channel_rate(rate));
        assert_eq!(set, Ok(()));
    });
}

/// Every interval of eight seconds after the first is within 2 % of its target, without a loss, although the wire has
/// no more capacity than both flows need.
#[test]
fn two_targets_are_held_in_every_interval() {
    for inner in ["auto", "newreno"] {
        let texts = [
            format!("ctcp:1.2 Mbit/s,{inner}"),
            format!("ctcp:700 kbit/s,{inner}"),
        ];
        let (mut world, flows) = world(&texts.each_ref().map(String::as_str));
        world.run_until(secs(8));
        let mut before = [sent(&mut world, &flows[0]).0, sent(&mut world, &flows[1]).0];
        // Probes for the largest packet add to the targets, in the first interval.
        let lost_first = [0, 1].map(|index| sent(&mut world, &flows[index]).1);
        for interval in 1..10 {
            world.run_until(secs(8 * (interval + 1)));
            for (index, target) in [1.2e6, 0.7e6].into_iter().enumerate() {
                let (now, lost) = sent(&mut world, &flows[index]);
                let rate = (now - before[index]) as f64 * 8.0 / 8.0;
                assert!(
                    (rate / target - 1.0).abs() < 0.02,
                    "{inner} {index}: {rate}"
                );
                assert_eq!(lost, lost_first[index], "{inner}");
                assert!(lost <= 8, "{inner}: {lost}");
                before[index] = now;
            }
        }
        let goodput = flows[0].goodput_bps(&mut world, secs(8), secs(80));
        assert!(goodput > (1.0 - OVERHEAD) * 1.2e6, "{inner}: {goodput}");
    }
}

#[test]
fn the_rate_changes_while_they_run() {
    let (mut world, flows) = world(&["ctcp:1 Mbit/s", "fixed 600 kbit/s"]);
    world.run_until(secs(5));
    set(&mut world, &flows[0], Rate::from_kbps(400));
    set(&mut world, &flows[1], Rate::from_kbps(900));
    world.run_until(secs(6));
    let before = [0, 1].map(|index| sent(&mut world, &flows[index]).0);
    world.run_until(secs(26));
    let rates = [0, 1].map(|index| {
        let now = sent(&mut world, &flows[index]).0;
        (now - before[index]) as f64 * 8.0 / 20.0
    });
    assert!((rates[0] / 4e5 - 1.0).abs() < 0.02, "{rates:?}");
    assert!((rates[1] / 9e5 - 1.0).abs() < 0.02, "{rates:?}");
}

/// A target that rises is reached at once, although the path has carried no more than the old one for a long time.
#[test]
fn a_target_that_rises_is_reached() {
    for inner in ["auto", "newreno"] {
        let mut world = World::new(Seed(3));
        let wire = Configs::symmetric(LinkConfig {
            rate: RateSource::Constant(Rate::from_mbps(20)),
            delay: Duration::from_millis(12),
            queue: Queue::time(Duration::from_millis(200)),
            ..LinkConfig::default()
        });
        let wire = world.add_trunk(wire).expect("in range");
        let text = format!("ctcp:2 Mbit/s,{inner}");
        let plan = FlowPlan::greedy(text.parse().expect("a controller"), Instant::EPOCH);
        let flow = world.add_flow(&[Hop::forward(wire)], &plan);
        world.run_until(secs(20));
        set(&mut world, &flow, Rate::from_mbps(14));
        world.run_until(secs(21));
        let before = sent(&mut world, &flow).0;
        world.run_until(secs(23));
        let (now, lost) = sent(&mut world, &flow);
        let rate = (now - before) as f64 * 8.0 / 2.0;
        assert!((rate / 14e6 - 1.0).abs() < 0.02, "{inner}: {rate}");
        assert!(lost <= 4, "{inner}: {lost}");
    }
}

/// Two paths of one session, each with its own rate; then one for both again.
#[test]
fn a_channel_has_a_rate_of_its_own() {
    let mut world = World::new(Seed(3));
    let wires = [0, 1].map(|_| {
        let wire = Configs::symmetric(LinkConfig {
            rate: RateSource::Constant(Rate::from_mbps(2)),
            delay: Duration::from_millis(20),
            queue: Queue::time(Duration::from_millis(50)),
            ..LinkConfig::default()
        });
        world.add_trunk(wire).expect("in range")
    });
    let mut config = Config::default();
    config.channel.controller = "ctcp:1 Mbit/s".parse().expect("a controller");
    let load = Load::bulk(u64::MAX);
    let (near, far) = (world.nodes(), world.nodes() + 1);
    let app = Sender::new(World::node_id(far), vec![load]);
    world.add_node(config.clone(), AllowList::default(), app);
    let allowed = AllowList::of([World::node_id(near)]);
    world.add_node(config, allowed, Receiver::new());
    let links = wires.map(|wire| {
        let hops = [Hop::forward(wire)];
        let route = world.add_route([near, far], &hops, &Hop::reversed(&hops));
        world.route_link(near, route)
    });
    world.app::<Sender>(near).dial(Instant::EPOCH, links.into());
    world.with_node(near, |_| ());
    world.run_until(secs(5));
    let session = world.app::<Sender>(near).session().expect("dialled");
    let sent = |world: &mut World| -> Vec<_> {
        let reports = world
            .engine(near)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        let each = reports.iter();
        each.map(|report| (report.channel, report.stats.bytes_sent))
            .collect()
    };
    let channels = sent(&mut world);
    assert_eq!(channels.len(), 2);
    let rates = |world: &mut World, until: u64| -> Vec<f64> {
        let before = sent(world);
        world.run_until(secs(until));
        let pairs = before.into_iter().zip(sent(world));
        pairs
            .map(|(before, now)| (now.1 - before.1) as f64 * 8.0 / 20.0)
            .collect()
    };
    for ((channel, _), kbps) in channels.iter().zip([300, 700]) {
        world.with_node(near, |context| {
            let rate = Rate::from_kbps(kbps);
            let set = context
                .engine()
                .session(session)
                .map(|mut session| session.set_rate_of_channel(*channel, rate));
            assert_eq!(set, Ok(true));
        });
    }
    world.run_until(secs(6));
    let own = rates(&mut world, 26);
    assert!((own[0] / 3e5 - 1.0).abs() < 0.02, "{own:?}");
    assert!((own[1] / 7e5 - 1.0).abs() < 0.02, "{own:?}");
    world.with_node(near, |context| {
        let engine = context.engine();
        let none = anabranch_base::ChannelId(999);
        let missing = engine
            .session(session)
            .map(|mut session| session.set_rate_of_channel(none, Rate::from_mbps(1)));
        assert_eq!(missing, Ok(false));
        assert_eq!(
            engine
                .session(session)
                .map(|mut session| session.set_channel_rate(Rate::from_kbps(500))),
            Ok(())
        );
    });
    world.run_until(secs(27));
    let common = rates(&mut world, 47);
    assert!(
        common.iter().all(|rate| (rate / 5e5 - 1.0).abs() < 0.02),
        "{common:?}"
    );
}

#[test]
fn a_controller_without_a_rate_takes_no_notice() {
    let (mut world, flows) = world(&["auto"]);
    world.run_until(secs(2));
    set(&mut world, &flows[0], Rate::from_kbps(100));
    world.run_until(secs(10));
    assert!(flows[0].goodput_bps(&mut world, secs(3), secs(10)) > 1.7e6);
}

#[test]
fn an_unknown_session_is_refused() {
    let mut world = World::new(Seed(1));
    let node = world.add_node(
        Config::default(),
        Default::default(),
        anabranch_sim::apps::Receiver::new(),
    );
    let session = anabranch_base::SessionId(7);
    let refused = world
        .engine(node)
        .session(session)
        .map(|mut session| session.set_channel_rate(Rate::from_mbps(1)));
    assert!(
        matches!(refused, Err(StreamError::UnknownSession(_))),
        "{refused:?}"
    );
}
