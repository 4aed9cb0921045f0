//! Attempts to reach a peer that refuse, answer wrongly, or are met by silence.

use std::time::Duration;

use anabranch_base::{Instant, NodeId};
use anabranch_session::{
    AllowList, Attempts, CloseReason, Config, Event, Link, Refused, SessionCloseReason, StreamSpec,
    Undeliverable,
};
use anabranch_sim::{
    App, Context, World,
    apps::{Load, Receiver, Sender},
};

use crate::common::{link, world};

/// Node 0, which dials `peer` on `wires` links to node 1, and node 1, which accepts `allowed`.
fn dialling(peer: NodeId, wires: usize, allowed: AllowList, app: impl App + 'static) -> World {
    let mut world = World::new(anabranch_base::Seed(5));
    let sender = Sender::new(peer, vec![Load::bulk(1000)]);
    let a = world.add_node(Config::default(), AllowList::default(), sender);
    let b = world.add_node(Config::default(), allowed, app);
    let links: Vec<Link> = (0..wires)
        .map(|_| {
            let wire = world.add_wire(a, b, link(10, 20)).expect("a valid link");
            world.link(a, wire)
        })
        .collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world
}

fn listed() -> AllowList {
    AllowList::of([World::node_id(0)])
}

/// Runs until the sender's session is over, for 100 s at most; returns the reason and the time.
fn ended(world: &mut World) -> (SessionCloseReason, Instant) {
    world.run_while(Instant::from_secs(100), |w| {
        w.app::<Sender>(0).closed.is_none()
    });
    let at = world.now();
    let reason = world.app::<Sender>(0).closed.clone();
    (reason.expect("the session ends"), at)
}

fn attempts(reason: SessionCloseReason) -> Attempts {
    match reason {
        SessionCloseReason::Unreachable(attempts) => attempts,
        other => panic!("{other}"),
    }
}

#[test]
fn a_port_where_nothing_listens_ends_the_attempt_soon_but_not_at_once() {
    let mut world = dialling(World::node_id(1), 2, listed(), Receiver::new());
    world.set_refusing(1, Some(Undeliverable::Port));
    let (reason, at) = ended(&mut world);
    assert!(
        at >= Instant::from_millis(500) && at < Instant::from_secs(3),
        "{at}"
    );
    assert_eq!(
        attempts(reason).to_string(),
        "10.0.0.2:4433, 10.0.1.2:4433: refused, nothing listens on this port"
    );
}

#[test]
fn a_receiver_that_is_just_starting_is_reached() {
    let mut world = dialling(World::node_id(1), 1, listed(), Receiver::new());
    world.set_refusing(1, Some(Undeliverable::Port));
    world.schedule(Duration::from_millis(300), |w| w.set_refusing(1, None));
    world.run_until(Instant::from_secs(5));
    assert!(world.app::<Sender>(0).is_done());
    assert_eq!(world.app::<Sender>(0).closed, None);
}

#[test]
fn silence_lasts_for_the_time_of_an_attempt_and_names_the_addresses() {
    let mut world = dialling(World::node_id(1), 2, listed(), Receiver::new());
    for wire in [0, 1] {
        world.set_wire_up(wire, false);
    }
    world.run_until(Instant::from_secs(20));
    let now = world.now();
    let so_far = world.engine(0).attempts(now, World::node_id(1));
    assert_eq!(
        so_far.map(|attempts| attempts.to_string()).as_deref(),
        Some("no reply in 20 s from 10.0.0.2:4433, 10.0.1.2:4433")
    );
    let (reason, at) = ended(&mut world);
    assert_eq!(at, Instant::from_secs(30));
    assert_eq!(
        reason.to_string(),
        "no reply in 30 s from 10.0.0.2:4433, 10.0.1.2:4433"
    );
}

#[test]
fn one_address_that_refuses_and_one_that_is_silent_are_told_apart() {
    let mut world = dialling(World::node_id(1), 2, listed(), Receiver::new());
    world.set_wire_up(0, false);
    world.set_refusing(1, Some(Undeliverable::Port));
    let (reason, at) = ended(&mut world);
    assert_eq!(at, Instant::from_secs(30), "the silent one may be slow");
    assert_eq!(
        reason.to_string(),
        "no reply in 30 s from 10.0.0.2:4433; 10.0.1.2:4433: refused, nothing listens on this port"
    );
}

#[test]
fn another_node_at_the_address_is_named_at_once() {
    let mut world = dialling(World::node_id(7), 1, listed(), Receiver::new());
    let (reason, at) = ended(&mut world);
    assert!(at < Instant::from_secs(1), "{at}");
    let attempts = attempts(reason);
    let failure = Some(CloseReason::OtherNode(World::node_id(1)));
    assert_eq!(attempts.links[0].failure, failure);
}

/// Takes down who was refused.
#[derive(Default)]
struct Guard {
    strangers: Vec<NodeId>,
}

impl App for Guard {
    fn on_event(&mut self, _: &mut Context<'_>, event: Event) {
        if let Event::Stranger { peer, .. } = event {
            self.strangers.push(peer);
        }
    }
}

/// The other pair of addresses is silent: what the peer itself says counts more.
#[test]
fn a_stranger_is_refused_at_once_and_reported_where_it_knocked() {
    let nobody = AllowList::of([World::node_id(9)]);
    let mut world = dialling(World::node_id(1), 2, nobody, Guard::default());
    world.set_wire_up(0, false);
    let (reason, at) = ended(&mut world);
    assert!(at < Instant::from_secs(1), "{at}");
    assert_eq!(reason, SessionCloseReason::NotListed(World::node_id(0)));
    assert_eq!(world.app::<Guard>(1).strangers, [World::node_id(0)]);
    let refusals = world.engine(1).refusals();
    let counts = Refused::ALL.map(|cause| refusals.by(cause));
    assert_eq!(refusals.by(Refused::NotListed), 1);
    assert_eq!(counts.iter().sum::<u64>(), 1, "for no other cause");
}

/// Reports of the network are not authenticated.
#[test]
fn forged_reports_end_neither_a_session_nor_an_attempt_that_is_answered() {
    let mut world = world(
        5,
        vec![link(10, 40), link(10, 40)],
        vec![Load::bulk(8_000_000)],
    );
    let links = [world.link(0, 0), world.link(0, 1)];
    // One during the handshakes, and many later.
    let later = (0..200).map(|step| 300 + 10 * step);
    for at in std::iter::once(10).chain(later) {
        world.schedule(Duration::from_millis(at), move |w| {
            for link in links {
                w.report_undeliverable(0, link, Undeliverable::Port);
            }
        });
    }
    let mut fewest = usize::MAX;
    world.run_while(Instant::from_secs(100), |w| {
        let session = w.app::<Sender>(0).session();
        if w.now() > Instant::from_millis(400)
            && let Some(session) = session
            && let Ok(mut session) = w.engine(0).session(session)
        {
            fewest = fewest.min(session.channel_stats().len());
        }
        !w.app::<Sender>(0).is_done()
    });
    assert!(world.app::<Sender>(0).is_done());
    assert_eq!(fewest, 2, "no channel was lost");
}

/// Packets offered to a wire in the direction of the peer.
fn offered(world: &mut World, wire: usize) -> u64 {
    world.wire(wire).one_way(true).stats().offered.packets
}

fn channels(world: &mut World) -> usize {
    let session = world.app::<Sender>(0).session().expect("connected");
    let session = world.engine(0).session(session);
    session.expect("it is open").channel_stats().len()
}

#[test]
fn a_pair_that_never_answers_is_no_channel_and_is_tried_again_when_addresses_change() {
    let mut world = world(
        5,
        vec![link(10, 40), link(10, 40)],
        vec![Load::bulk(1 << 40)],
    );
    world.set_wire_up(1, false);
    for second in 1..=300 {
        world.run_until(Instant::from_secs(second));
        assert_eq!(channels(&mut world), 1, "at {second} s");
    }
    let tried = offered(&mut world, 1);
    assert!(tried < 150, "{tried} packets in 300 s");
    // The path opens unnoticed: the pair rests.
    world.set_wire_up(1, true);
    world.run_until(Instant::from_secs(400));
    assert_eq!(offered(&mut world, 1), tried, "it is tried no more");
    // A local address returns: routes may have changed.
    let first = world.link(0, 0).socket;
    world.with_node(0, |context| {
        let now = context.now();
        context.engine().socket_up(now, first);
    });
    world.run_until(Instant::from_secs(402));
    assert_eq!(channels(&mut world), 2);
}

#[test]
fn a_pair_that_rests_is_tried_when_the_session_has_no_channel() {
    let mut world = world(
        5,
        vec![link(10, 40), link(10, 40)],
        vec![Load::bulk(1 << 40)],
    );
    world.set_wire_up(1, false);
    world.run_until(Instant::from_secs(300));
    world.set_wire_up(1, true);
    world.set_wire_up(0, false);
    // The idle time-out of the first channel, and a moment.
    world.run_until(Instant::from_secs(335));
    assert_eq!(channels(&mut world), 1);
    let session = world.app::<Sender>(0).session().expect("connected");
    let stats = world
        .engine(0)
        .session(session)
        .map(|mut session| session.stats());
    assert_eq!(stats.expect("it is open").channels_active, 1);
}

/// Takes no stream, as a node that receives no files: it stops each, and resets its own direction.
struct Unwilling;

impl App for Unwilling {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        if let Event::StreamOpened {
            session, stream, ..
        } = event
            && let Ok(session) = context.engine().session(session)
        {
            let mut stream = session.stream(stream);
            stream.stop(7).expect("it is open");
            // It has no other direction if the peer only sends.
            let _ = stream.reset(7);
        }
    }
}

/// Opens a stream, sends one message, and notes when it is refused.
struct Asking {
    links: Vec<Link>,
    refused: Option<(Instant, u32)>,
}

impl App for Asking {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } => {
                let spec = StreamSpec::bulk("transfer");
                let stream = context.open(session, spec).expect("a valid spec");
                let hello = bytes::Bytes::from_static(b"hello");
                context.send(session, stream, hello).expect("there is room");
            }
            Event::Stopped { code, .. } => {
                self.refused.get_or_insert((context.now(), code));
            }
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        context.connect(World::node_id(1), std::mem::take(&mut self.links));
    }

    fn next_wake(&self) -> Option<Instant> {
        (!self.links.is_empty()).then_some(Instant::EPOCH)
    }
}

/// A refusal is reported within 3 s, over a satellite, too.
#[test]
fn a_stream_that_nobody_takes_is_refused_soon() {
    for rtt_ms in [1, 40, 250, 600] {
        let mut world = World::new(anabranch_base::Seed(5));
        let asking = Asking {
            links: Vec::new(),
            refused: None,
        };
        let a = world.add_node(Config::default(), AllowList::default(), asking);
        let b = world.add_node(Config::default(), listed(), Unwilling);
        let wire = link(10, rtt_ms);
        let wire = world.add_wire(a, b, wire).expect("a valid link");
        let link = world.link(a, wire);
        world.app::<Asking>(a).links.push(link);
        world.with_node(a, |_| ());
        world.run_while(Instant::from_secs(100), |w| {
            w.app::<Asking>(0).refused.is_none()
        });
        let (at, code) = world.app::<Asking>(0).refused.expect("it is refused");
        assert_eq!(code, 7);
        assert!(at < Instant::from_secs(3), "{rtt_ms} ms: {at}");
    }
}
