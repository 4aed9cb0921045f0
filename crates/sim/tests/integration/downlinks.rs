//! Promises of several nodes to one peer: no capacity of its downlink is promised twice.

use crate::common;

use anabranch_base::{Instant, Seed};
use anabranch_session::{AllowList, Config, LocalDescription};
use anabranch_sim::{Hop, World, apps::Receiver};

use common::{
    flows::{Flow, Sources, explain, is_refused},
    link,
};

const RECEIVER: usize = 2;

/// Two nodes, each with a session to a third, whose downlink of 20 Mbit/s is the bottleneck of both.
fn two_senders(flows: [Vec<Flow>; 2]) -> World {
    let mut world = World::new(Seed(22));
    for (sender, mut flows) in flows.into_iter().enumerate() {
        // The receiver knows streams by their labels.
        for flow in &mut flows {
            flow.spec.label = format!("of node {sender}");
        }
        world.add_node(Config::default(), AllowList::default(), Sources::new(flows));
    }
    let allowed = AllowList::of([0, 1].map(World::node_id));
    let receiver = world.add_node(Config::default(), allowed, Receiver::new());
    assert_eq!(receiver, RECEIVER);
    let trunk = world.add_trunk(link(20, 20)).expect("a valid link");
    for sender in 0..2 {
        let (there, back) = ([Hop::forward(trunk)], [Hop::backward(trunk)]);
        let route = world.add_route([sender, receiver], &there, &back);
        let end = world.route_link(receiver, route);
        let description = LocalDescription {
            name: Some("eth0".into()),
            ..LocalDescription::default()
        };
        let engine = world.engine(receiver);
        engine.describe_socket(end.socket, description);
        let link = world.route_link(sender, route);
        let sources = world.app::<Sources>(sender);
        sources.peers.push((World::node_id(receiver), vec![link]));
        world.with_node(sender, |_| ());
    }
    world
}

/// Each sender has measured the whole downlink by itself, one after the other.
fn in_turn() -> [Vec<Flow>; 2] {
    [
        vec![Flow::bulk(0, [0, 40]), Flow::promised(0, 12, [85, 160])],
        vec![
            Flow::bulk(0, [46, 82]),
            Flow::promised(0, 12, [90, 160]),
            Flow::promised(0, 5, [91, 160]),
        ],
    ]
}

#[test]
fn no_capacity_of_a_downlink_is_promised_twice() {
    let mut world = two_senders(in_turn());
    world.run_until(Instant::from_secs(150));
    assert!(is_refused(&mut world, 1, 1), "12 of 20 Mbit/s are taken");
    for (node, flow) in [(0, 1), (1, 2)] {
        let explained = explain(&mut world, node, flow);
        assert!(explained.term.is_some(), "{explained:#?}");
        let account = explained.account;
        assert!(
            account.kept > 50 && account.broken <= 1,
            "{node}: {explained:#?}"
        );
    }
}

/// A promise that is over, or whose node is gone, no longer counts.
#[test]
fn what_is_not_promised_any_more_can_be_promised_to_others() {
    let [mut first, mut second] = in_turn();
    first[1].until = Instant::from_secs(119);
    second.truncate(1);
    second.push(Flow::promised(0, 12, [135, 200]));
    second.push(Flow::promised(0, 12, [100, 200]));
    let mut world = two_senders([first, second]);
    world.run_until(Instant::from_secs(120));
    assert!(is_refused(&mut world, 1, 2));
    let session = world.app::<Sources>(0).sessions[0];
    let stream = world.app::<Sources>(0).flows[1]
        .stream
        .expect("it is promised");
    let session = world.engine(0).session(session).expect("it is open");
    session.stream(stream).reset(0).expect("it is open");
    world.with_node(0, |_| ());
    world.run_until(Instant::from_secs(160));
    let explained = explain(&mut world, 1, 1);
    assert!(explained.term.is_some(), "{explained:#?}");
}

/// Bulk of one node takes what another's promise leaves.
#[test]
fn bulk_of_one_node_leaves_to_another_what_that_was_promised() {
    let [first, mut second] = in_turn();
    second.truncate(1);
    second.push(Flow::bulk(0, [100, 200]));
    let mut world = two_senders([first, second]);
    world.run_until(Instant::from_secs(110));
    let before = explain(&mut world, 0, 1).account;
    world.run_until(Instant::from_secs(155));
    let after = explain(&mut world, 0, 1).account;
    let [kept, broken] = [after.kept - before.kept, after.broken - before.broken];
    assert!(broken <= kept / 10, "{kept} kept, {broken} broken");
    assert!(explain(&mut world, 0, 1).term.is_some());
}
