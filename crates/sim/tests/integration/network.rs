//! Routes of several hops, shared wires, cross-traffic and flows.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{
    Config as LinkConfig, Jitter, Queue, RateSource, Traffic,
    duplex::Configs,
    traffic::{ParetoOnOff, Sizes},
};
use anabranch_session::{AllowList, Config, Controller};
use anabranch_sim::{
    Flow, FlowPlan, Hop, World,
    apps::{Load, Receiver, Sender},
    topology,
};
use proptest::prelude::*;

fn wire(mbps: u64, delay_ms: u64) -> Configs {
    Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(Rate::from_mbps(mbps)),
        delay: Duration::from_millis(delay_ms),
        queue: Queue::time(Duration::from_millis(50)),
        ..LinkConfig::default()
    })
}

fn secs(secs: u64) -> Instant {
    Instant::from_secs(secs)
}

/// A world with one wire and these flows over it.
fn shared_wire(mbps: u64, delay_ms: u64, plans: &[FlowPlan]) -> (World, Vec<Flow>) {
    let mut world = World::new(Seed(3));
    let wire = world.add_trunk(wire(mbps, delay_ms)).expect("in range");
    let hops = [Hop::forward(wire)];
    let flows = plans.iter().map(|plan| world.add_flow(&hops, plan));
    let flows = flows.collect();
    (world, flows)
}

#[test]
fn delays_and_sending_times_of_hops_add_up() {
    let mut world = World::new(Seed(1));
    let first = world.add_trunk(wire(12, 10)).unwrap();
    let second = world.add_trunk(wire(6, 20)).unwrap();
    world.record();
    let hops = [Hop::forward(first), Hop::backward(second)];
    // One packet each second: from 1 s on.
    let traffic = Traffic::constant(Rate::from_kbps(12), 1500);
    let cross = world.add_cross_traffic(&hops, &traffic).unwrap();
    world.run_until(Instant::from_millis(1_500));
    // 1 ms and 10 ms, then 2 ms and 20 ms.
    let log = world.log().unwrap().text();
    assert_eq!(
        log,
        "     1000.000 ms  wire 0 →  1500 B  cross 0 arrives 1011.000 ms\n     \
         1011.000 ms  wire 1 ←  1500 B  cross 0 arrives 1033.000 ms\n"
    );
    assert_eq!(world.cross_arrived(cross).bytes, 1500);
    assert_eq!(world.wire(second).arrived(false).packets, 1);
    assert_eq!(world.wire(second).arrived(true).packets, 0);

    world.stop_cross_traffic(cross);
    world.run_until(secs(10));
    assert_eq!(world.cross_arrived(cross).packets, 1);
    assert_eq!(world.audit(), Vec::<String>::new());
}

#[test]
fn a_session_crosses_several_hops_and_returns_over_others() {
    let mut world = World::new(Seed(1));
    let sender = Sender::new(World::node_id(1), vec![Load::bulk(1_000_000)]);
    let a = world.add_node(Config::default(), AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let delays = [5, 10, 40];
    let wires = delays.map(|delay_ms| world.add_trunk(wire(20, delay_ms)).unwrap());
    let there = [Hop::forward(wires[0]), Hop::forward(wires[1])];
    let back = [Hop::forward(wires[2])];
    let route = world.add_route([a, b], &there, &back);
    let link = world.route_link(a, route);
    world.app::<Sender>(a).dial(Instant::EPOCH, vec![link]);
    world.with_node(a, |_| ());
    world.run_while(secs(20), |w| !w.app::<Sender>(0).is_done());
    let record = world.app::<Receiver>(b).record("bulk");
    assert!(record.finished && record.corrupt == 0);
    let session = world.app::<Sender>(a).session().unwrap();
    let stats = world
        .engine(a)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default();
    let rtt_min = stats[0].stats.rtt_min;
    // 15 ms there and 40 ms back, and less than a millisecond of transmission time on each hop.
    let range = Duration::from_millis(55)..Duration::from_millis(58);
    assert!(range.contains(&rtt_min), "{rtt_min:?}");
    // Packets of one direction did not take the other.
    assert!(world.wire(wires[0]).arrived(true).bytes > 1_000_000);
    assert_eq!(world.wire(wires[0]).arrived(false).bytes, 0);
    assert_eq!(world.audit(), Vec::<String>::new());
}

#[test]
fn two_cubic_flows_share_a_bottleneck() {
    let plans = [0, 1].map(|s| FlowPlan::greedy(Controller::Cubic, secs(s)));
    let (mut world, flows) = shared_wire(20, 15, &plans);
    world.run_until(secs(60));
    let rates = flows.map_goodput(&mut world, secs(10), secs(60));
    let sum: f64 = rates.iter().sum();
    assert!(sum > 0.88 * 20e6, "the wire is full: {sum}");
    for rate in rates {
        let share = rate / sum;
        assert!((0.3..0.7).contains(&share), "{share}");
    }
    assert_eq!(world.audit(), Vec::<String>::new());
}

#[test]
fn three_newreno_flows_share_a_bottleneck() {
    let plans = [0, 1, 2].map(|s| FlowPlan::greedy(Controller::NewReno, secs(s)));
    let (mut world, flows) = shared_wire(15, 20, &plans);
    world.run_until(secs(90));
    let rates = flows.map_goodput(&mut world, secs(20), secs(90));
    let (sum, squares) = rates
        .iter()
        .fold((0.0, 0.0), |(sum, squares), r| (sum + r, squares + r * r));
    assert!(sum > 0.88 * 15e6, "the wire is full: {sum}");
    // Jain's index: 1 is equal; a third means that one flow takes all.
    let index = sum * sum / (3.0 * squares);
    assert!(index > 0.85, "{index} of {rates:?}");
}

#[test]
fn a_flow_of_bbr3_takes_part() {
    let plans = [
        FlowPlan::greedy(Controller::Bbr3, Instant::EPOCH),
        FlowPlan::greedy(Controller::Cubic, secs(1)),
    ];
    let (mut world, flows) = shared_wire(20, 15, &plans);
    world.run_until(secs(40));
    let rates = flows.map_goodput(&mut world, secs(10), secs(40));
    assert!(rates.iter().sum::<f64>() > 0.8 * 20e6, "{rates:?}");
    assert!(rates.iter().all(|&rate| rate > 1e6), "{rates:?}");
}

#[test]
fn a_flow_takes_what_cross_traffic_leaves() {
    let plan = FlowPlan::greedy(Controller::Cubic, Instant::EPOCH);
    let (mut world, flows) = shared_wire(20, 10, &[plan]);
    let hops = [Hop::forward(0)];
    let others = Traffic::poisson(Rate::from_mbps(12), Sizes::Fixed(700));
    let cross = world.add_cross_traffic(&hops, &others).unwrap();
    world.run_until(secs(30));
    let beside = flows[0].goodput_bps(&mut world, secs(5), secs(30));
    assert!((5.5e6..8.0e6).contains(&beside), "{beside}");
    world.stop_cross_traffic(cross);
    world.run_until(secs(60));
    let alone = flows[0].goodput_bps(&mut world, secs(35), secs(60));
    assert!(alone > 17e6, "{alone}");
}

#[test]
fn a_flow_with_an_end_ends() {
    let plan = FlowPlan {
        bytes: Some(2_000_000),
        ..FlowPlan::greedy(Controller::Cubic, secs(2))
    };
    let (mut world, flows) = shared_wire(20, 10, &[plan]);
    world.run_until(secs(2));
    assert_eq!(world.packets_delivered, 0);
    world.run_until(secs(10));
    let record = world.app::<Receiver>(flows[0].receiver).record("bulk");
    assert!(
        record.finished && record.bytes >= 2_000_000,
        "{}",
        record.bytes
    );
}

#[test]
fn same_seed_same_log_with_everything_in_it() {
    let run = |seed| {
        let mut world = World::new(Seed(seed));
        world.record();
        let mut plan = topology::random(Seed(5)).topology;
        plan.flow(
            &["source 0", "entry 0", "exit 0", "sink 0"],
            FlowPlan::greedy(Controller::Cubic, Instant::EPOCH),
        );
        plan.lay(&mut world).unwrap();
        world.run_until(secs(3));
        world.log().unwrap().text().to_owned()
    };
    let log = run(7);
    assert!(log.lines().count() > 5_000, "{}", log.lines().count());
    assert!(log == run(7), "the logs differ");
    assert!(log != run(8), "the seed decides nothing");
}

trait Goodputs {
    fn map_goodput(&self, world: &mut World, from: Instant, to: Instant) -> Vec<f64>;
}

impl Goodputs for Vec<Flow> {
    fn map_goodput(&self, world: &mut World, from: Instant, to: Instant) -> Vec<f64> {
        let rate = |flow: &Flow| flow.goodput_bps(world, from, to);
        self.iter().map(rate).collect()
    }
}

/// A change of one wire while packets are in transit.
#[derive(Debug, Clone)]
enum Fault {
    Cut,
    Mend,
    Rate(u64),
    Delay(u64),
    Reordering(u64),
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Cut),
        Just(Fault::Mend),
        (200..20_000u64).prop_map(Fault::Rate),
        (0..100u64).prop_map(Fault::Delay),
        (0..20u64).prop_map(Fault::Reordering),
    ]
}

fn strike(world: &mut World, wire: usize, fault: &Fault) {
    let now = world.now();
    match *fault {
        Fault::Cut => world.set_wire_up(wire, false),
        Fault::Mend => world.set_wire_up(wire, true),
        Fault::Rate(kbps) => {
            let rate = RateSource::Constant(Rate::from_kbps(kbps));
            world
                .wire(wire)
                .duplex
                .forward
                .set_rate(now, rate)
                .expect("in range");
        }
        Fault::Delay(ms) => {
            let delay = Duration::from_millis(ms);
            world
                .wire(wire)
                .duplex
                .forward
                .set_delay(delay)
                .expect("in range");
        }
        Fault::Reordering(ms) => {
            let jitter = Jitter::uniform(Duration::from_millis(ms)).reordering();
            world
                .wire(wire)
                .duplex
                .forward
                .set_jitter(jitter)
                .expect("in range");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the network, its traffic and its changes: every packet is accounted for, and none overtakes another
    /// where order is kept.
    #[test]
    fn packets_are_conserved_and_keep_order(
        seed: u64,
        rates in prop::collection::vec(1..30u64, 3..5),
        paths in prop::collection::vec(prop::collection::vec((any::<bool>(), 0..3usize), 1..4), 1..6),
        faults in prop::collection::vec((1..200u64, 0..3usize, any_fault()), 0..12),
        has_flow: bool,
    ) {
        let mut world = World::new(Seed(seed));
        for &mbps in &rates {
            world.add_trunk(wire(mbps, mbps)).unwrap();
        }
        for (index, path) in paths.iter().enumerate() {
            let hop = |&(forward, wire): &(bool, usize)| Hop { wire, forward };
            let hops: Vec<Hop> = path.iter().map(hop).collect();
            let traffic = match index % 3 {
                0 => Traffic::poisson(Rate::from_mbps(4), Sizes::Imix),
                1 => Traffic::constant(Rate::from_mbps(6), 1500),
                _ => Traffic::ParetoOnOff(ParetoOnOff {
                    sources: 5,
                    peak: Rate::from_mbps(3),
                    on_mean: Duration::from_millis(20),
                    off_mean: Duration::from_millis(30),
                    shape: 1.4,
                    sizes: Sizes::Fixed(900),
                }),
            };
            world.add_cross_traffic(&hops, &traffic).unwrap();
        }
        if has_flow {
            let hops = [Hop::forward(0), Hop::forward(1), Hop::forward(2)];
            world.add_flow(&hops, &FlowPlan::greedy(Controller::Cubic, Instant::EPOCH));
        }
        for (after_ms, wire, fault) in &faults {
            world.run_for(Duration::from_millis(*after_ms));
            prop_assert_eq!(world.audit(), Vec::<String>::new());
            strike(&mut world, *wire, fault);
            prop_assert_eq!(world.audit(), Vec::<String>::new());
        }
        world.run_for(Duration::from_secs(1));
        prop_assert_eq!(world.audit(), Vec::<String>::new());
        let offered: u64 = (0..3)
            .map(|wire| {
                let duplex = &world.wire(wire).duplex;
                duplex.forward.stats().offered.packets + duplex.backward.stats().offered.packets
            })
            .sum();
        prop_assert!(offered > 100);
    }
}
