//! Promises that rules ask for, in virtual time: they are made when the paths are known, refused when the paths cannot hold them, and
//! withdrawn when a path fails; the flow is carried meanwhile.

use std::time::Duration;

use anabranch::{
    AllowList, Explanation, StreamSpec,
    base::{Instant, Rate, Seed, StreamId},
    config::Layer,
    daemon::PromiseState,
    net::{
        emulate::link::{Config as Link, Queue, RateSource, duplex::Configs},
        session::{Config, Reason, StreamError},
    },
};
use anabranch_gateway::Services;
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

const NEAR: usize = 0;
const FAR: usize = 1;
/// Datagrams of 5 Mbit/s, 100 a second.
const DATAGRAM_BYTES: usize = 6_250;
const EVERY: Duration = Duration::from_millis(10);

/// The spec of the streams for datagrams under a rule, and whether their promise waits.
fn spec(rule: &str) -> StreamSpec {
    let layer = Layer::from_toml(rule).unwrap();
    let rules = layer.rule.unwrap();
    let service = rules[0].service.clone().unwrap();
    let services = Services::read(&service.0, Some(true)).unwrap();
    let target = "udp:10.0.0.9:5004".parse().unwrap();
    services.of(&target).spec().clone()
}

fn video(mbps: u64) -> StreamSpec {
    spec(&format!(
        "[[rule]]\nmatch = {{ protocol = \"udp\", port = 5004 }}\n\
         service = {{ rate = \"{mbps} Mbit/s\", probability = \"90 %\", lifetime = \"300 ms\" }}\n"
    ))
}

/// Stream that the gateway opens when the promise is refused: the same, which waits for it.
fn waiting(spec: &StreamSpec) -> StreamSpec {
    let guarantee = spec.guarantee.as_ref().unwrap();
    spec.clone().with_guarantee(guarantee.waiting())
}

fn link(mbps: u64, rtt_ms: u64) -> Configs {
    let (rate, rtt) = (Rate::from_mbps(mbps), Duration::from_millis(rtt_ms));
    Configs::symmetric(Link {
        rate: RateSource::Constant(rate),
        delay: rtt / 2,
        queue: Queue::bdp(rate, rtt),
        ..Link::default()
    })
}

/// A download and a flow of datagrams with this spec, over links of 20 and 4 Mbit/s.
fn world(seed: u64, spec: StreamSpec) -> World {
    let mut world = World::new(Seed(seed));
    let flow = Load {
        spec,
        ..Load::messages(DATAGRAM_BYTES, EVERY, u64::MAX)
    };
    let loads = vec![Load::bulk(1 << 40), flow];
    let near = Sender::new(World::node_id(FAR), loads);
    world.add_node(Config::default(), AllowList::default(), near);
    let allowed = AllowList::of([World::node_id(NEAR)]);
    world.add_node(Config::default(), allowed, Receiver::new());
    let links = [link(20, 30), link(4, 60)].map(|link| {
        let wire = world.add_wire(NEAR, FAR, link).unwrap();
        world.link(NEAR, wire)
    });
    world
        .app::<Sender>(NEAR)
        .dial(Instant::EPOCH, links.to_vec());
    world.with_node(NEAR, |_| ());
    world
}

fn explained(world: &mut World) -> Explanation {
    let session = world.app::<Sender>(NEAR).session().unwrap();
    let session = world.engine(NEAR).session(session).unwrap();
    session.stream(StreamId::new(1, true)).explain().unwrap()
}

/// State of the promise, as `anabranch flows` shows it.
fn state(world: &mut World) -> PromiseState {
    PromiseState::of(&explained(world))
}

/// Datagrams that have arrived.
fn arrived(world: &mut World) -> usize {
    let label = anabranch_gateway::wire::LABEL;
    world.app::<Receiver>(FAR).record(label).numbers.len()
}

/// Share of the datagrams of these seconds that arrive.
fn share(world: &mut World, seconds: u64) -> f64 {
    let before = arrived(world);
    let until = world.now() + Duration::from_secs(seconds);
    world.run_until(until);
    (arrived(world) - before) as f64 / (100 * seconds) as f64
}

/// Asks for a promise, as a flow that may not wait does.
fn admit(world: &mut World, spec: &StreamSpec) -> Result<(), StreamError> {
    let session = world.app::<Sender>(NEAR).session().unwrap();
    world.with_node(NEAR, |context| {
        let now = context.now();
        let mut session = context.engine().session(session)?;
        session.admit(now, spec).map(drop)
    })
}

fn reason(refused: Result<(), StreamError>) -> Reason {
    match refused {
        Err(StreamError::Refused(refusal)) => refusal.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_flow_is_carried_until_its_promise_can_be_made_and_after_it_is_withdrawn() {
    let rule = video(5);
    let mut world = world(1, waiting(&rule));
    world.run_until(Instant::from_secs(1));
    let refused = reason(admit(&mut world, &rule));
    assert!(
        matches!(refused, Reason::TooLittleKnown { .. }),
        "{refused:?}"
    );
    assert_eq!(state(&mut world), PromiseState::Waiting);
    let carried = share(&mut world, 10);
    assert!(
        carried > 0.95,
        "{carried}: before a download, though not promised"
    );

    world.run_until(Instant::from_secs(60));
    assert_eq!(state(&mut world), PromiseState::Promised);
    let carried = share(&mut world, 20);
    assert!(carried > 0.99, "{carried}");

    // The path that carries it fails, and the other one has 4 Mbit/s.
    world.set_wire_up(0, false);
    world.run_until(Instant::from_secs(120));
    assert_eq!(state(&mut world), PromiseState::Withdrawn);
    let notes = explained(&mut world).notes;
    let at = |word: &str| notes.iter().find(|note| note.text.starts_with(word));
    let warned = at("warned").expect("a warning").at;
    let withdrawn = at("withdrawn").expect("a withdrawal").at;
    assert!(warned < withdrawn, "{notes:?}");
    let carried = share(&mut world, 20);
    assert!(
        (0.5..0.9).contains(&carried),
        "{carried}: the capacity of the path"
    );

    // It comes back, and so does the promise.
    world.set_wire_up(0, true);
    world.run_until(Instant::from_secs(260));
    assert_eq!(state(&mut world), PromiseState::Promised);
    let carried = share(&mut world, 20);
    assert!(carried > 0.99, "{carried}");
}

#[test]
fn what_the_paths_cannot_hold_is_refused_with_an_offer_and_carried_without() {
    let rule = video(40);
    let mut world = world(2, waiting(&rule));
    world.run_until(Instant::from_secs(60));
    assert_eq!(state(&mut world), PromiseState::Waiting);
    let Err(StreamError::Refused(refusal)) = admit(&mut world, &rule) else {
        panic!("it is promised 40 of 24 Mbit/s");
    };
    assert!(
        matches!(refusal.reason, Reason::TooLittle { .. }),
        "{refusal}"
    );
    assert!(refusal.offer.rate.is_some(), "{refusal}");
    let carried = share(&mut world, 20);
    assert!(carried > 0.95, "{carried}");
}
