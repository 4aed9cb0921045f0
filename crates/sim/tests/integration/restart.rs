//! Nodes that are suspended for a while, and nodes that restart without state.

use crate::common;

use std::time::Duration;

use anabranch_base::{Instant, Seed, SessionId};
use anabranch_session::{AllowList, Config, Event, Link, SessionCloseReason};
use anabranch_sim::{
    App, Context, Hop, World,
    apps::{Load, Receiver, Sender},
};

use common::{link, world};

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const BYTES: u64 = 8_000_000;

/// A bulk transfer of about 2.5 s over two paths.
fn transfer(seed: u64) -> World {
    world(seed, [link(20, 20), link(10, 60)], vec![Load::bulk(BYTES)])
}

fn allowed() -> AllowList {
    AllowList::of([World::node_id(SENDER)])
}

/// Suspends these nodes 1 s after the start for `pause`; returns the time at which everything had arrived.
fn suspend(seed: u64, nodes: &'static [usize], pause: Duration) -> Instant {
    let mut world = transfer(seed);
    for &node in nodes {
        world.schedule(Duration::from_secs(1), move |w| w.suspend(node));
        world.schedule(Duration::from_secs(1) + pause, move |w| w.resume(node));
    }
    let end = Instant::from_secs(1) + pause + Duration::from_secs(60);
    world.run_while(end, |w| !w.app::<Sender>(SENDER).is_done());
    assert!(
        world.app::<Sender>(SENDER).is_done(),
        "seed {seed}, nodes {nodes:?}, {pause:?}"
    );
    let closed = &world.app::<Sender>(SENDER).closed;
    assert_eq!(*closed, None, "the session lives on");
    let receiver = world.app::<Receiver>(RECEIVER);
    assert_eq!(receiver.sessions, 1, "one and the same session");
    let record = receiver.record("bulk");
    let expected: Vec<u64> = (0..BYTES.div_ceil(64 << 10)).collect();
    assert_eq!(record.numbers, expected, "all of it, in order, once");
    assert_eq!(record.corrupt, 0);
    world.now()
}

/// A machine that was suspended: for it, a minute passes in no time, and every timer is late at once.
#[test]
fn a_session_survives_the_suspension_of_either_end_or_both() {
    for seed in 1..=2 {
        for nodes in [&[SENDER][..], &[RECEIVER], &[SENDER, RECEIVER]] {
            for pause in [5, 60] {
                let pause = Duration::from_secs(pause);
                let done = suspend(seed, nodes, pause);
                // 2.1 s of data at full rate, 1 s of which was before the pause.
                let after = done.since(Instant::from_secs(1) + pause);
                assert!(
                    after < Duration::from_secs(6),
                    "seed {seed}, {nodes:?}, {pause:?}: {after:?}"
                );
            }
        }
    }
}

/// A node that was killed and started again reports it at once; no peer waits for a time-out.
#[test]
fn a_restarted_node_notifies_its_peer_that_the_session_is_gone() {
    for seed in 1..=3 {
        let mut world = transfer(seed);
        world.schedule(Duration::from_secs(1), |w| {
            w.restart(RECEIVER, Config::default(), allowed(), Receiver::new());
        });
        world.run_while(Instant::from_secs(60), |w| {
            w.app::<Sender>(SENDER).closed.is_none()
        });
        let closed = world.app::<Sender>(SENDER).closed.clone();
        assert!(
            matches!(closed, Some(SessionCloseReason::Forgotten)),
            "{closed:?}"
        );
        let after = world.now().since(Instant::from_secs(1));
        assert!(after < Duration::from_secs(1), "seed {seed}: {after:?}");
    }
}

/// Data that was acknowledged can be read, whether its sender was killed for good or comes back without its state.
#[test]
fn what_had_arrived_outlasts_the_node_that_sent_it() {
    for comes_back in [true, false] {
        let mut world = world(1, [link(20, 20)], vec![Load::bulk(16 * 65_536)]);
        world.app::<Receiver>(RECEIVER).deaf = true;
        world.schedule(Duration::from_secs(2), move |w| match comes_back {
            true => w.restart(
                SENDER,
                Config::default(),
                AllowList::default(),
                Receiver::new(),
            ),
            false => w.suspend(SENDER),
        });
        world.run_until(Instant::from_millis(1_900));
        assert!(world.app::<Sender>(SENDER).is_done(), "acknowledged");
        world.run_until(Instant::from_secs(400));
        let receiver = world.app::<Receiver>(RECEIVER);
        assert!(
            matches!(
                receiver.closed[..],
                [SessionCloseReason::TimedOut(_) | SessionCloseReason::Forgotten]
            ),
            "{:?}",
            receiver.closed
        );
        assert_eq!(receiver.left, 16, "{:?}", receiver.closed);
    }
}

/// Clients of a server that send nothing, as those of a tunnel at night.
const CLIENTS: usize = 1_000;
/// Pause before a client calls again.
const PAUSE: Duration = Duration::from_millis(250);

/// A client, which calls the server again when its session is over.
struct Idle {
    server: usize,
    link: Option<Link>,
    call_at: Instant,
    session: Option<SessionId>,
    joins: u32,
}

impl App for Idle {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { .. } => self.joins += 1,
            Event::Closed { .. } => {
                self.session = None;
                self.call_at = context.now() + PAUSE;
            }
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if self.session.is_none() && self.call_at <= context.now() {
            let links = self.link.into_iter().collect();
            self.session = Some(context.connect(World::node_id(self.server), links));
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.session.is_none().then_some(self.call_at)
    }
}

/// Each client learns of the restart when it next sends, which is a keep-alive within ten seconds. None has to wait for its turn beyond
/// that, and all calls are answered.
#[test]
fn a_thousand_idle_clients_are_back_soon_after_their_server_restarted() {
    let mut world = World::new(Seed(5));
    let clients: Vec<_> = (1..=CLIENTS).map(World::node_id).collect();
    let allowed = AllowList::of(clients);
    let server = world.add_node(Config::default(), allowed.clone(), Receiver::new());
    let mut first = None;
    for number in 0..CLIENTS {
        let idle = Idle {
            server,
            link: None,
            call_at: Instant::EPOCH + Duration::from_millis(20) * number as u32,
            session: None,
            joins: 0,
        };
        let client = world.add_node(Config::default(), AllowList::default(), idle);
        let wire = world.add_trunk(link(20, 20)).expect("a valid link");
        let (there, back) = ([Hop::forward(wire)], [Hop::backward(wire)]);
        let route = match first {
            Some(first) => world.add_route_beside([server, client], first, &back, &there),
            None => world.add_route([server, client], &back, &there),
        };
        first.get_or_insert(route);
        world.app::<Idle>(client).link = Some(world.route_link(client, route));
        world.with_node(client, |_| ());
    }
    let all_in = |world: &mut World, times: u32| {
        (1..=CLIENTS).all(|client| world.app::<Idle>(client).joins == times)
    };
    world.run_until(Instant::from_secs(60));
    assert!(all_in(&mut world, 1));
    let start = world.now();
    world.restart(server, Config::default(), allowed, Receiver::new());
    while !all_in(&mut world, 2) && world.now() < start + Duration::from_secs(90) {
        world.run_for(Duration::from_millis(100));
    }
    let after = world.now().since(start);
    eprintln!("all back after {after:?}");
    assert!(all_in(&mut world, 2), "after {after:?}");
    assert!(after <= Duration::from_secs(12), "{after:?}");
}
