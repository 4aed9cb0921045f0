//! Promises of one node over several sessions: no capacity of an uplink is promised twice.

use crate::common;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_session::{
    AllowList, Config, Explanation, LocalDescription, Reason, Share, StreamError, Tenant,
};
use anabranch_sim::{Hop, World, apps::Receiver};

use common::{
    flows::{self, Flow, Sources},
    link,
};

const SENDER: usize = 0;
/// A node with one uplink of 20 Mbit/s and a session to each of two peers behind it, or, if not `is_shared`, with another path
/// from the same uplink to each peer.
fn two_peers(is_shared: bool, flows: Vec<Flow>) -> World {
    let mut world = World::new(Seed(21));
    let sources = Sources::new(flows);
    world.add_node(Config::default(), AllowList::default(), sources);
    let mut trunk = None;
    for peer in 1..=2 {
        let allowed = AllowList::of([World::node_id(SENDER)]);
        let receiver = world.add_node(Config::default(), allowed, Receiver::new());
        let wire = match trunk {
            Some(wire) if is_shared => wire,
            _ => world.add_trunk(link(20, 20)).expect("a valid link"),
        };
        trunk = Some(wire);
        let hops = [[Hop::forward(wire)], [Hop::backward(wire)]];
        let route = world.add_route([SENDER, receiver], &hops[0], &hops[1]);
        let link = world.route_link(SENDER, route);
        let description = LocalDescription {
            name: Some("wlan0".into()),
            ..LocalDescription::default()
        };
        world
            .engine(SENDER)
            .describe_socket(link.socket, description);
        let sources = world.app::<Sources>(SENDER);
        sources.peers.push((World::node_id(peer), vec![link]));
    }
    world.with_node(SENDER, |_| ());
    world
}

fn explain(world: &mut World, flow: usize) -> Explanation {
    flows::explain(world, SENDER, flow)
}

fn is_refused(world: &mut World, flow: usize) -> bool {
    flows::is_refused(world, SENDER, flow)
}

/// Each session has measured the whole uplink by itself, one after the other.
fn in_turn() -> Vec<Flow> {
    vec![
        Flow::bulk(0, [0, 40]),
        Flow::bulk(1, [46, 82]),
        Flow::promised(0, 12, [85, 160]),
        Flow::promised(1, 12, [90, 160]),
        Flow::promised(1, 5, [91, 160]),
    ]
}

#[test]
fn no_capacity_of_an_uplink_is_promised_twice() {
    let mut world = two_peers(true, in_turn());
    world.run_until(Instant::from_secs(150));
    assert!(is_refused(&mut world, 3), "12 of 20 Mbit/s are taken");
    for flow in [2, 4] {
        let explained = explain(&mut world, flow);
        assert!(explained.term.is_some(), "{explained:#?}");
        let account = explained.account;
        // At first, the bulk stream's queue is in the way.
        assert!(account.kept > 50 && account.broken <= 1, "{account:?}");
    }
}

/// The uplinks only seem to be one: each peer has the whole 20 Mbit/s. It is not assumed before both were busy at once.
#[test]
fn peers_that_share_no_capacity_are_promised_their_own() {
    let mut flows = in_turn();
    flows.push(Flow::bulk(0, [42, 60]));
    flows.push(Flow::bulk(1, [30, 41]));
    let mut world = two_peers(false, flows);
    world.run_until(Instant::from_secs(150));
    for flow in 2..=4 {
        if flow == 4 {
            // 17 of 20 Mbit/s to the same peer.
            continue;
        }
        let explained = explain(&mut world, flow);
        assert!(explained.term.is_some(), "{explained:#?}");
        assert_eq!(explained.account.broken, 0, "{explained:#?}");
    }
}

/// Another session's bulk takes what a promise leaves, and no more; while the promised stream is quiet, all.
#[test]
fn bulk_of_one_session_leaves_to_another_what_that_was_promised() {
    let mut flows = in_turn();
    flows.truncate(3);
    flows.push(Flow::bulk(1, [100, 200]));
    let mut world = two_peers(true, flows);
    world.run_until(Instant::from_secs(110));
    let before = explain(&mut world, 2).account;
    world.run_until(Instant::from_secs(155));
    let after = explain(&mut world, 2).account;
    let [kept, broken] = [after.kept - before.kept, after.broken - before.broken];
    assert!(broken <= kept / 10, "{kept} kept, {broken} broken");
    assert!(explain(&mut world, 2).term.is_some());
    let mut delivered = |until: u64| {
        world.run_until(Instant::from_secs(until));
        let records = world.app::<Receiver>(2).records.values();
        records.map(|record| record.bytes).sum::<u64>() as f64
    };
    let mut mbps = |from: u64, until: u64| {
        let before = delivered(from);
        (delivered(until) - before) * 8e-6 / (until - from) as f64
    };
    // The bulk stream has the rest; and then all.
    let beside = mbps(155, 158);
    assert!((6.0..7.5).contains(&beside), "{beside}");
    let alone = mbps(162, 180);
    assert!(alone > 17.5, "{alone}");
}

/// When an uplink carries less than was promised on it, the newer promise yields, whichever session it belongs to.
#[test]
fn the_older_promise_is_kept_when_the_uplink_sinks() {
    for [older, newer] in [[0, 1], [1, 0]] {
        let mut flows = in_turn();
        flows.truncate(2);
        flows.push(Flow::promised(older, 8, [85, 300]));
        flows.push(Flow::promised(newer, 8, [95, 300]));
        let mut world = two_peers(true, flows);
        world.run_until(Instant::from_secs(110));
        for flow in [2, 3] {
            assert!(explain(&mut world, flow).term.is_some());
        }
        let now = world.now();
        let sunk = link(12, 20);
        world.wire(0).duplex.set_configs(now, &sunk).expect("valid");
        world.run_until(Instant::from_secs(140));
        let before = [2, 3].map(|flow| explain(&mut world, flow));
        world.run_until(Instant::from_secs(290));
        let after = [2, 3].map(|flow| explain(&mut world, flow));
        assert!(
            after[0].term.is_some() && after[1].term.is_none(),
            "{after:#?}"
        );
        let [kept, broken] = [
            after[0].account.kept - before[0].account.kept,
            after[0].account.broken - before[0].account.broken,
        ];
        assert!(broken <= kept / 10, "{kept} kept, {broken} broken");
    }
}

/// The share of a tenant holds over all sessions of the node, and leaves the rest to others.
#[test]
fn a_tenant_has_its_share_over_all_sessions_and_others_have_the_rest() {
    let [ada, bob] = [1, 2].map(Tenant::new);
    let share = |share: f64| Share::new(share).expect("a share");
    let mut flows = in_turn();
    flows.truncate(2);
    let all = [85, 300];
    flows.push(Flow::promised(0, 5, all).of(ada));
    flows.push(Flow::promised(1, 4, [90, 300]).of(ada));
    flows.push(Flow::promised(1, 4, [91, 300]).of(ada).waiting());
    flows.push(Flow::promised(1, 8, [92, 300]).of(bob));
    let mut world = two_peers(true, flows);
    world
        .engine(SENDER)
        .set_promised_share(ada, Some(share(0.4)));
    world.run_until(Instant::from_secs(140));
    let Some(StreamError::Refused(refusal)) = &world.app::<Sources>(SENDER).flows[3].refusal else {
        panic!("9 of 20 Mbit/s");
    };
    let Reason::OverShare { whole, has, .. } = refusal.reason else {
        panic!("{refusal}");
    };
    let mbps = |rate: Rate| rate.as_bps() as f64 / 1e6;
    assert!((17.0..20.0).contains(&mbps(whole)), "{refusal}");
    assert!((5.0..5.2).contains(&mbps(has)), "{refusal}");
    let offered = mbps(refusal.offer.rate.expect("a part is left"));
    let left = (0.4 * mbps(whole) - mbps(has)) / 1.02;
    assert!((left - 0.01..=left).contains(&offered), "{refusal}: {left}");
    let terms = |world: &mut World| [2, 4, 5].map(|flow| explain(world, flow).term.is_some());
    assert_eq!(terms(&mut world), [true, false, true], "one waits");
    world
        .engine(SENDER)
        .set_promised_share(ada, Some(share(0.6)));
    world.run_until(Instant::from_secs(160));
    assert_eq!(terms(&mut world), [true; 3]);
    let account = explain(&mut world, 2).account;
    assert!(account.kept > 60 && account.broken <= 2, "{account:?}");
}
