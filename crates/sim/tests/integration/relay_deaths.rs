//! Paths over relays that die without a word, one after the other, with a promise in force: it is renewed, warned or withdrawn by its
//! rules, and what is known of a path passes to the relay that takes its place.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed, StreamId};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{
    AllowList, Config, Event, Explanation, Guarantee, Link, PromiseEvent, SessionEvent, StreamSpec,
};
use anabranch_sim::{
    App, Context, Hop, World,
    apps::{Load, Receiver, Sender},
};

/// Relays that die.
const DEATHS: usize = 100;
/// Time between two deaths.
const EVERY: Duration = Duration::from_secs(10);
/// Time that the overlay takes to find another relay, once a path is silent.
const REPLACED_AFTER: Duration = Duration::from_millis(300);

/// A sender that keeps account of what it is notified of.
struct Watched {
    sender: Sender,
    /// Whether a promise is in force, and whether it is warned, by the events.
    state: (bool, bool),
    /// Withdrawals without a warning before.
    sudden: u64,
    withdrawn: u64,
    suspected: u64,
}

impl App for Watched {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match &event {
            Event::Promise { event, .. } => {
                if let PromiseEvent::Withdrawn(_) = event {
                    self.withdrawn += 1;
                    self.sudden += u64::from(!self.state.1);
                }
                self.state = match event {
                    PromiseEvent::Promised(_) => (true, false),
                    PromiseEvent::Warned(_) => (true, true),
                    _ => (false, false),
                };
            }
            Event::Session {
                event: SessionEvent::ChannelSuspected { .. },
                ..
            } => self.suspected += 1,
            Event::Closed { .. } => panic!("{event:?}"),
            _ => {}
        }
        self.sender.on_event(context, event);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        self.sender.on_wake(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.sender.next_wake()
    }
}

/// A path over a relay.
struct Relayed {
    interface: &'static str,
    kbps: u64,
    wire: usize,
    link: Link,
}

/// A path over another relay, from this interface.
fn relayed(world: &mut World, interface: &'static str, kbps: u64) -> Relayed {
    let (rate, rtt) = (Rate::from_kbps(kbps), Duration::from_millis(60));
    let configs = Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(rate),
        delay: rtt / 2,
        queue: Queue::bdp(rate, rtt),
        ..LinkConfig::default()
    });
    let wire = world.add_trunk(configs).expect("a valid link");
    let route = world.add_route([0, 1], &[Hop::forward(wire)], &[Hop::backward(wire)]);
    let link = world.route_link(0, route);
    world.engine(0).set_socket_name(link.socket, interface);
    Relayed {
        interface,
        kbps,
        wire,
        link,
    }
}

fn explain(world: &mut World) -> Explanation {
    let session = world.app::<Watched>(0).sender.session();
    let session = world.engine(0).session(session.expect("connected"));
    let stream = session.expect("it is open").stream(StreamId::new(1, true));
    stream.explain().expect("it asked for a promise")
}

#[test]
fn promises_survive_a_hundred_relays() {
    let mut world = World::new(Seed(12));
    let guarantee = Guarantee::rate(Rate::from_kbps(400), 0.9).waiting();
    let live = Load {
        spec: StreamSpec {
            label: "live".to_owned(),
            guarantee: Some(Box::new(guarantee)),
            ..StreamSpec::default()
        },
        ..Load::messages(2_000, Duration::from_millis(40), u64::MAX)
    };
    let loads = vec![Load::bulk(1 << 40), live];
    let watched = Watched {
        sender: Sender::new(World::node_id(1), loads),
        state: (false, false),
        sudden: 0,
        withdrawn: 0,
        suspected: 0,
    };
    world.add_node(Config::default(), AllowList::default(), watched);
    let allowed = AllowList::of([World::node_id(0)]);
    world.add_node(Config::default(), allowed, Receiver::new());
    let mut paths = [("wlan0", 2_000), ("wwan0", 1_500)]
        .map(|(interface, kbps)| relayed(&mut world, interface, kbps));
    let links = paths.iter().map(|path| path.link).collect();
    let sender = &mut world.app::<Watched>(0).sender;
    sender.dial(Instant::EPOCH, links);
    world.with_node(0, |_| ());
    world.run_until(Instant::from_secs(60));
    assert!(explain(&mut world).term.is_some());
    let mut in_force = 0;
    for death in 0..DEATHS {
        let path = &mut paths[death % 2];
        world.set_wire_up(path.wire, false);
        let before = world.app::<Watched>(0).suspected;
        let until = world.now() + Duration::from_secs(2);
        world.run_while(until, |world| world.app::<Watched>(0).suspected == before);
        world.run_for(REPLACED_AFTER);
        let dead = path.link;
        *path = relayed(&mut world, path.interface, path.kbps);
        let session = world.app::<Watched>(0).sender.session().expect("open");
        let alive = path.link;
        let has_place = world.with_node(0, |context| {
            let now = context.now();
            let engine = context.engine();
            engine
                .session(session)
                .expect("open")
                .remove_link(now, &dead);
            engine.session(session).expect("open").add_link(now, alive)
        });
        assert!(has_place, "death {death}");
        world.run_for(EVERY);
        let explained = explain(&mut world);
        let state = world.app::<Watched>(0).state;
        assert_eq!(state.0, explained.term.is_some(), "death {death}");
        in_force += usize::from(state.0);
        let mut session = world.engine(0).session(session).expect("open");
        let channels = session.channel_stats().len();
        assert!(channels <= 3, "death {death}: {channels} channels");
    }
    let account = explain(&mut world).account;
    let watched = world.app::<Watched>(0);
    let (withdrawn, sudden) = (watched.withdrawn, watched.sudden);
    eprintln!("in force after {in_force} of {DEATHS}; {account:?}; {withdrawn} withdrawn");
    assert_eq!(sudden, 0, "a warning goes before a withdrawal");
    assert!(in_force >= DEATHS * 95 / 100, "{in_force}");
    let share = account.kept as f64 / (account.kept + account.broken) as f64;
    assert!(share >= 0.9, "{account:?}");
}
