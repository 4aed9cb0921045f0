//! Metered links: a cap is never exceeded, the data it stops moves to other links, and a new period opens it again.

use crate::common;

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_session::{
    AllowList, Config, Policy,
    metering::{Meter, Model, Period},
};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

use common::{link, world, world_with};

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const BYTES: u64 = 8_000_000;

/// A bulk transfer of 8 MB over some links, with a tariff at the sender for the first.
fn metered(seed: u64, links: usize, price: &str, used_bytes: u64) -> World {
    let all = [link(20, 20), link(10, 60)];
    let world = world(seed, all.into_iter().take(links), vec![Load::bulk(BYTES)]);
    with_tariff(world, price, used_bytes)
}

/// Gives the sender's first link a tariff.
fn with_tariff(mut world: World, price: &str, used_bytes: u64) -> World {
    let socket = world.link(SENDER, 0).socket;
    let model: Model = price.parse().expect("a price list");
    let (now, meter) = (world.now(), Meter::new(model, Period(1), used_bytes));
    world.engine(SENDER).set_meter(now, socket, Some(meter));
    world.with_node(SENDER, |_| ());
    world
}

fn used(world: &mut World) -> u64 {
    let socket = world.link(SENDER, 0).socket;
    let meter = world.engine(SENDER).meter(socket).expect("it has one");
    meter.used_bytes()
}

fn begin(world: &mut World, period: u64) {
    let socket = world.link(SENDER, 0).socket;
    let now = world.now();
    let engine = world.engine(SENDER);
    engine.begin_period(now, socket, Period(period));
    world.with_node(SENDER, |_| ());
}

/// Bytes that the first wire was given to carry, by its own counter.
fn carried(world: &mut World) -> u64 {
    carried_by(world, 0)
}

fn carried_by(world: &mut World, wire: usize) -> u64 {
    world.wire(wire).duplex.forward.stats().offered.bytes
}

fn assert_whole(world: &mut World) {
    let record = world.app::<Receiver>(RECEIVER).record("bulk");
    let expected: Vec<u64> = (0..BYTES.div_ceil(64 << 10)).collect();
    assert_eq!(record.numbers, expected, "all of it, in order, once");
    assert_eq!(world.audit(), Vec::<String>::new());
}

fn run(world: &mut World, until: Instant) -> bool {
    world.run_while(until, |w| !w.app::<Sender>(SENDER).is_done());
    world.app::<Sender>(SENDER).is_done()
}

/// Every byte is counted once, headers of IP and UDP included, as on the wire.
#[test]
fn every_byte_sent_is_counted() {
    let mut world = metered(1, 1, "1 MB then 0.01/MB", 0);
    let before = carried(&mut world);
    assert!(run(&mut world, Instant::from_secs(60)));
    let (used, carried) = (used(&mut world), carried(&mut world));
    assert_eq!(used, carried - before);
    assert!(used > BYTES);
    assert_whole(&mut world);
}

/// The cap holds at any time of any run, whatever its value.
#[test]
fn no_cap_is_exceeded_and_the_rest_goes_elsewhere() {
    for (seed, cap) in [
        (1, 2_000_000),
        (2, 500_000),
        (3, 60_000),
        (4, 20_000),
        (5, 1),
    ] {
        let mut world = metered(seed, 2, &format!("{cap} B then stop"), 0);
        let before = carried(&mut world);
        let mut is_done = false;
        while !is_done && world.now() < Instant::from_secs(60) {
            let until = world.now() + Duration::from_millis(50);
            is_done = run(&mut world, until);
            let (used, carried) = (used(&mut world), carried(&mut world));
            assert!(used <= cap, "seed {seed}: {used} of {cap}");
            assert_eq!(used, carried - before, "seed {seed}: as on the wire");
        }
        assert!(is_done, "seed {seed}: the other link has no cap");
        assert_whole(&mut world);
        let used = used(&mut world);
        assert!(
            cap < 500_000 || used > cap * 9 / 10,
            "seed {seed}: {used} of {cap}"
        );
    }
}

/// A link for which no more is granted stays open, is the nearest, and has room in its window: no policy waits for it.
#[test]
fn no_policy_waits_for_a_link_that_may_send_nothing() {
    let bytes = 66_000;
    for policy in Policy::ALL.into_iter().filter(|one| *one != Policy::Pinned) {
        let config = Config {
            policy,
            ..Config::default()
        };
        let mut world = world_with(
            12,
            config,
            [link(20, 20), link(2, 400)],
            vec![Load::bulk(bytes)],
        );
        world = with_tariff(world, "20 MB then stop", 0);
        let socket = world.link(SENDER, 0).socket;
        world.engine(SENDER).grant(socket, Period(1), 60_000);
        assert!(run(&mut world, Instant::from_secs(30)), "{policy}");
        let record = world.app::<Receiver>(RECEIVER).record("bulk");
        let expected = bytes.div_ceil(64 << 10) as usize;
        assert_eq!(record.numbers.len(), expected, "{policy}");
    }
}

/// A session whose only link has no quota left waits for the next month; a clock that is set back grants nothing twice.
#[test]
fn a_month_begins() {
    let cap = 3_000_000;
    let mut world = metered(6, 1, &format!("{cap} B then stop"), 1_000_000);
    assert!(!run(&mut world, Instant::from_secs(30)), "not with 2 MB");
    let spent = used(&mut world);
    assert!((cap * 9 / 10..=cap).contains(&spent), "{spent}");
    begin(&mut world, 1);
    begin(&mut world, 0);
    world.run_until(Instant::from_secs(60));
    assert!(used(&mut world) <= cap, "no new period, no packets");
    for month in 2..=4 {
        begin(&mut world, month);
        let until = world.now() + Duration::from_secs(40);
        run(&mut world, until);
        assert!(used(&mut world) <= cap);
    }
    assert!(world.app::<Sender>(SENDER).is_done(), "8 MB in four months");
    assert_eq!(world.app::<Receiver>(RECEIVER).sessions, 1, "one session");
    assert_whole(&mut world);
}

/// A host that records in advance what will be spent grants it in small parts: no traffic exceeds them, and no data is
/// lost by waiting for the next.
#[test]
fn the_grant_bounds_the_traffic() {
    for price in ["0.01/MB", "20 MB then stop"] {
        let mut world = metered(8, 1, price, 0);
        let socket = world.link(SENDER, 0).socket;
        let (mut granted, mut is_done) = (0, false);
        while !is_done && world.now() < Instant::from_secs(120) {
            granted += 200_000;
            world.engine(SENDER).grant(socket, Period(1), granted);
            world.with_node(SENDER, |_| ());
            let until = world.now() + Duration::from_millis(500);
            is_done = run(&mut world, until);
            let used = used(&mut world);
            assert!(used <= granted, "{used} of {granted}");
        }
        assert!(is_done, "{price}: {granted} were granted");
        assert!(granted < 2 * BYTES, "what is granted is used");
        assert_eq!(world.app::<Receiver>(RECEIVER).sessions, 1, "one session");
        assert_whole(&mut world);
    }
}

/// The nearest link of the receiver may send nothing more for now: its credit goes over another link, and the transfer
/// continues where it can.
#[test]
fn control_frames_avoid_a_link_without_quota() {
    // Twice the smallest window.
    let bytes = 2 * (16 << 20);
    let mut world = World::new(Seed(10));
    let sender = Sender::new(World::node_id(1), vec![Load::bulk(bytes)]);
    let config = Config {
        session_window_bytes: 16 << 20,
        ..Config::default()
    };
    let from = world.add_node(Config::default(), AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(SENDER)]);
    let to = world.add_node(config, allowed, Receiver::new());
    let wires = [link(40, 20), link(20, 60)].map(|configs| {
        let wire = world.add_wire(from, to, configs);
        wire.expect("a valid link")
    });
    let socket = world.link(to, wires[0]).socket;
    let model: Model = "0.01/MB".parse().expect("a price list");
    let (now, period) = (world.now(), Period(1));
    let engine = world.engine(to);
    engine.set_meter(now, socket, Some(Meter::new(model, period, 0)));
    engine.grant(socket, period, 15_000);
    let links = wires.map(|wire| world.link(from, wire)).to_vec();
    world.app::<Sender>(from).dial(now, links);
    world.with_node(from, |_| ());
    let is_done = run(&mut world, Instant::from_secs(18));
    assert!(is_done, "14 s of 20 Mbit/s");
    let used = world.engine(to).meter(socket).expect("it has one");
    assert!((13_000..=15_000).contains(&used.used_bytes()), "{used:?}");
    let receiver = world.app::<Receiver>(to);
    let numbers = &receiver.record("bulk").numbers;
    assert_eq!(numbers.len() as u64, bytes.div_ceil(64 << 10));
    assert_eq!(receiver.sessions, 1, "one session");
}

/// Removing a meter leaves no state behind: neither its grants, nor links that were closed.
#[test]
fn without_its_meter_a_link_is_free_again() {
    for (price, is_granted) in [("300 kB then stop", false), ("0.01/MB", true)] {
        let mut world = metered(11, 2, price, 0);
        let [first, second] = [0, 1].map(|index| world.link(SENDER, index).socket);
        let now = world.now();
        let engine = world.engine(SENDER);
        engine.share_meter(now, second, first);
        if is_granted {
            engine.grant(first, Period(1), 300_000);
        }
        assert!(!run(&mut world, Instant::from_secs(5)), "{price}");
        let before = [0, 1].map(|wire| carried_by(&mut world, wire));
        let now = world.now();
        world.engine(SENDER).set_meter(now, first, None);
        world.with_node(SENDER, |_| ());
        assert!(run(&mut world, Instant::from_secs(30)), "{price}");
        for (wire, before) in before.into_iter().enumerate() {
            let carried = carried_by(&mut world, wire) - before;
            assert!(carried > 500_000, "{price}: {carried} over {wire}");
        }
        assert_whole(&mut world);
    }
}

/// Two addresses of one modem share its quota.
#[test]
fn links_that_share_a_meter_share_its_cap() {
    let cap = 3_000_000;
    let mut world = metered(9, 2, "3 MB then stop", 0);
    let [first, second] = [0, 1].map(|index| world.link(SENDER, index).socket);
    let now = world.now();
    world.engine(SENDER).share_meter(now, second, first);
    let mut before = [0, 1].map(|wire| carried_by(&mut world, wire));
    for month in 1..=6 {
        begin(&mut world, month);
        let until = world.now() + Duration::from_secs(40);
        let is_done = run(&mut world, until);
        let (used, after) = (
            used(&mut world),
            [0, 1].map(|wire| carried_by(&mut world, wire)),
        );
        assert!(used <= cap, "month {month}: {used}");
        let each = [after[0] - before[0], after[1] - before[1]];
        assert_eq!(used, each[0] + each[1], "month {month}");
        assert!(
            each.iter().all(|bytes| *bytes > 0),
            "month {month}: {each:?}"
        );
        before = after;
        if is_done {
            break;
        }
    }
    assert!(world.app::<Sender>(SENDER).is_done());
    assert_whole(&mut world);
}

#[test]
fn a_run_with_a_cap_is_the_same_again() {
    let log = || {
        let mut world = metered(7, 2, "500 kB then stop", 0);
        world.run_until(Instant::from_secs(8));
        (used(&mut world), world.app::<Sender>(SENDER).is_done())
    };
    assert_eq!(log(), log());
}
