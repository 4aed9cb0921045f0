//! Agents over the real engine: a transfer on the paths that they give.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_overlay::{Config, State};
use anabranch_session::{Guarantee, StreamSpec};
use anabranch_sim::{
    World,
    overlay::{
        host::Host,
        mesh::{Mesh, SINK, SOURCE, link},
    },
};
use bytes::Bytes;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A direct link of 10 Mbit/s, relays at 20 Mbit/s; at most three paths beside the direct one.
fn mesh(count: usize, seed: u64, spread: f64) -> Mesh {
    let mut config = Config::default();
    config.routing.relays = Some(Rate::from_mbps(200));
    config.routing.paths = 3;
    config.routing.hops = 2;
    let links = |a: usize, b: usize| {
        let mbps = if (a, b) == (SOURCE, SINK) { 10 } else { 20 };
        link(Rate::from_mbps(mbps), ms(20 + 4 * (a + b) as u64), spread)
    };
    Mesh::new(count, &config, Seed(seed), links).expect("valid")
}

/// The same, with a transfer that has found its paths.
fn sending(count: usize, seed: u64, spread: f64, bytes: u64) -> Mesh {
    let mut mesh = mesh(count, seed, spread);
    mesh.world.run_for(ms(20_000));
    mesh.send(bytes);
    mesh.world.run_for(ms(5_000));
    assert_eq!(mesh.relays().len(), 3, "three relays carry");
    mesh
}

/// Time until `is_done`; `None` if it is more than 10 s.
fn until(mesh: &mut Mesh, is_done: impl Fn(&mut Mesh) -> bool) -> Option<Duration> {
    let begin = mesh.world.now();
    for _ in 0..200 {
        if is_done(mesh) {
            return Some(mesh.world.now().since(begin));
        }
        mesh.world.run_for(ms(50));
    }
    None
}

/// Checks that all of it arrived, in order, once, unchanged.
fn finish(mesh: &mut Mesh, bytes: u64) {
    let end = mesh.world.now() + ms(120_000);
    mesh.world
        .run_while(end, |world| !world.app::<Host>(SOURCE).is_delivered());
    assert!(mesh.host(SOURCE).is_delivered());
    let sink = mesh.host(SINK);
    let numbers: Vec<u64> = sink.received.iter().map(|&(_, number)| number).collect();
    assert_eq!(numbers, (0..Host::adus(bytes)).collect::<Vec<_>>());
    assert_eq!(sink.corrupt, 0);
}

fn alive(mesh: &mut Mesh, n: usize) -> usize {
    let now: Instant = mesh.world.now();
    let views = mesh.host(n).agent.members(now);
    views.filter(|view| view.state == State::Alive).count()
}

#[test]
fn members_find_each_other_over_sessions() {
    let mut mesh = mesh(5, 1, 0.0);
    mesh.world.run_for(ms(8_000));
    for n in 0..5 {
        assert_eq!(alive(&mut mesh, n), 5, "node {n}");
        let now = mesh.world.now();
        let links = mesh.host(n).agent.links(now);
        let own = links.iter().filter(|view| view.from == World::node_id(n));
        assert_eq!(own.count(), 4, "node {n} has measured its links");
    }
}

/// Without any traffic but test messages. The rate that a channel of little traffic reaches depends on the state of its
/// controller, so that some links look slower than they are.
#[test]
fn most_estimates_are_of_the_links() {
    let mut mesh = mesh(5, 2, 0.0);
    mesh.world.run_for(ms(120_000));
    let mut ratios = Vec::new();
    for n in 0..5 {
        let now = mesh.world.now();
        let me = World::node_id(n);
        let links = mesh.host(n).agent.links(now);
        for view in links.iter().filter(|view| view.from == me) {
            let (a, b) = (World::node_id(SOURCE), World::node_id(SINK));
            let is_direct = [view.from, view.to].iter().all(|id| [a, b].contains(id));
            let truth = if is_direct { 10e6 } else { 20e6 };
            ratios.push(view.bandwidth.as_bps() as f64 / truth);
        }
    }
    ratios.sort_by(f64::total_cmp);
    assert_eq!(ratios.len(), 20);
    let good = ratios
        .iter()
        .filter(|ratio| (0.8..1.1).contains(*ratio))
        .count();
    assert!(good >= 13, "{ratios:?}");
    assert!(ratios[19] < 1.2, "none looks faster than it is: {ratios:?}");
}

#[test]
fn a_relay_that_dies_is_replaced_under_a_transfer() {
    let bytes = 150_000_000;
    let mut mesh = sending(6, 1, 0.0, bytes);
    let relay = mesh.relays()[0];
    mesh.crash(relay);
    let took = until(&mut mesh, |mesh| {
        let now = mesh.world.now();
        let agent = &mut mesh.host(SOURCE).agent;
        let routes = agent.routes(&World::node_id(SINK), now);
        let paths = routes.map_or(0, |routes| routes.paths.len());
        paths == 4 && !mesh.relays().contains(&relay)
    });
    assert!(took.is_some_and(|took| took <= ms(2_000)), "{took:?}");
    finish(&mut mesh, bytes);
}

#[test]
fn a_link_that_degrades_is_left_under_a_transfer() {
    let bytes = 150_000_000;
    for is_own in [true, false] {
        let mut mesh = sending(6, 2, 0.0, bytes);
        let relay = mesh.relays()[0];
        let end = if is_own { SOURCE } else { SINK };
        mesh.set_rate(end, relay, Rate::from_mbps(2)).unwrap();
        let took = until(&mut mesh, |mesh| !mesh.relays().contains(&relay));
        assert!(
            took.is_some_and(|took| took <= ms(3_500)),
            "own {is_own}: {took:?}"
        );
        finish(&mut mesh, bytes);
    }
}

#[test]
fn noise_of_a_fifth_moves_no_paths_under_a_transfer() {
    let mut mesh = sending(6, 3, 0.2, 400_000_000);
    let mut paths = mesh.relays();
    let mut changes = 0;
    for _ in 0..30 {
        mesh.world.run_for(ms(1_000));
        let now = mesh.relays();
        changes += u32::from(now != paths);
        paths = now;
    }
    assert!(changes <= 1, "{changes} changes in half a minute");
}

#[test]
fn a_partition_loses_nothing() {
    let bytes = 100_000_000;
    let mut mesh = sending(6, 4, 0.0, bytes);
    // Source and sink on two islands: nothing passes.
    mesh.partition(|n| n % 2);
    mesh.world.run_for(ms(20_000));
    assert!(!mesh.host(SOURCE).is_delivered());
    assert_eq!(alive(&mut mesh, SOURCE), 3);
    mesh.partition(|_| 0);
    finish(&mut mesh, bytes);
    mesh.world.run_for(ms(60_000));
    for n in 0..6 {
        assert_eq!(alive(&mut mesh, n), 6, "node {n}");
    }
}

/// A promised stream beside a transfer, while one relay after the other dies without a word, and the agents find others.
#[test]
fn a_promise_survives_relays_that_agents_replace() {
    const DEATHS: usize = 5;
    let mut mesh = sending(11, 5, 0.0, 1 << 40);
    let session = mesh.host(SOURCE).session().expect("connected");
    let guarantee = Guarantee::rate(Rate::from_mbps(12), 0.9).waiting();
    let spec = StreamSpec::messages("live").with_guarantee(guarantee);
    let stream = mesh.world.with_node(SOURCE, |context| {
        let stream = context.open(session, spec);
        stream.expect("it waits")
    });
    // 12 Mbit/s, all the time.
    let run = |mesh: &mut Mesh, seconds: u64| {
        for _ in 0..seconds * 50 {
            mesh.world.with_node(SOURCE, |context| {
                let frame = Bytes::from_static(&[7; 30_000]);
                let _ = context.send(session, stream, frame);
            });
            mesh.world.run_for(ms(20));
        }
    };
    let explain = |mesh: &mut Mesh| {
        let session = mesh.world.engine(SOURCE).session(session).expect("open");
        let explained = session.stream(stream).explain();
        explained.expect("it asked for a promise")
    };
    run(&mut mesh, 40);
    assert!(explain(&mut mesh).term.is_some());
    let mut in_force = 0;
    for _ in 0..DEATHS {
        let relay = mesh.relays()[0];
        mesh.crash(relay);
        run(&mut mesh, 20);
        assert!(!mesh.relays().contains(&relay), "it was replaced");
        in_force += usize::from(explain(&mut mesh).term.is_some());
    }
    let explained = explain(&mut mesh);
    let notes: Vec<&str> = explained.notes.iter().map(|n| n.text.as_str()).collect();
    for pair in notes.windows(2) {
        let is_sudden = pair[1].starts_with("withdrawn") && !pair[0].starts_with("warned");
        assert!(!is_sudden, "a warning goes before a withdrawal: {notes:#?}");
    }
    let account = explained.account;
    println!("in force after {in_force} of {DEATHS}; {account:?}");
    assert!(in_force >= DEATHS - 1, "{in_force}: {explained:#?}");
    let share = account.kept as f64 / (account.kept + account.broken) as f64;
    assert!(share >= 0.9, "{account:?}");
}
