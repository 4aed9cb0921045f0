//! Models of channels in sessions that follow objectives, in virtual time.

use crate::common;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch_base::{Instant, Seed, SessionId};
use anabranch_link::{duplex::Configs, preset::cdma2000};
use anabranch_session::{
    AllowList, Config, Event, Policy, Priority, StreamEvent, StreamSpec,
    model::{Choice, Technology},
    objective::{Adu, Slot},
};
use anabranch_sim::{
    App, Context, World,
    apps::{Load, Receiver, Sender},
};

/// Application that sends, and records the round trip of each ADU's packet and their smoothed mean at that time.
struct Observer {
    sender: Sender,
    trips_ms: BTreeMap<u64, f64>,
    smoothed_ms: Arc<Mutex<Option<f64>>>,
}

impl App for Observer {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        if let Event::Stream {
            event: StreamEvent::Acked {
                adu, packet_rtt, ..
            },
            ..
        } = &event
        {
            let trip_ms = packet_rtt.as_secs_f64() * 1e3;
            self.trips_ms.insert(*adu, trip_ms);
            let mut smoothed = self.smoothed_ms.lock().expect("one thread");
            let before = smoothed.unwrap_or(trip_ms);
            *smoothed = Some(before + (trip_ms - before) / 8.0);
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

/// One message of 200 B every 50 ms, over these links.
fn world(model: Choice, links: Vec<Configs>) -> (World, SessionId) {
    let mut world = World::new(Seed(11));
    let load = Load {
        spec: StreamSpec {
            notify: true,
            reliable: false,
            priority: Priority::NORMAL,
            ..StreamSpec::messages("a")
        },
        adu_bytes: 200,
        every: Some(Duration::from_millis(50)),
        adus: 1_000_000,
        start: Instant::from_secs(2),
    };
    let observer = Observer {
        sender: Sender::new(World::node_id(1), vec![load]),
        trips_ms: BTreeMap::new(),
        smoothed_ms: Arc::default(),
    };
    let config = Config {
        model,
        ..Config::default()
    };
    let a = world.add_node(config, AllowList::default(), observer);
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let links: Vec<_> = (links.into_iter())
        .map(|configs| {
            let wire = world.add_wire(a, b, configs).expect("a valid link");
            world.link(a, wire)
        })
        .collect();
    world.app::<Observer>(a).sender.dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world.run_until(Instant::from_secs(2));
    let session = world.engine(0).session_ids()[0];
    (world, session)
}

/// Mean error, in milliseconds, of the latency predicted by the slots of ADUs, and of the smoothed round trip at the
/// time of sending, against the round trips of their packets, over the second half of `seconds`; and the technology
/// detected for the channel at the end.
fn errors_ms(model: Choice, link: Configs, seconds: u64) -> ([f64; 2], Option<Technology>) {
    let (mut world, session) = world(model, vec![link]);
    let smoothed = Arc::clone(&world.app::<Observer>(0).smoothed_ms);
    let expected: Arc<Mutex<BTreeMap<u64, [f64; 2]>>> = Arc::default();
    let record = Arc::clone(&expected);
    let callback = move |slot: &Slot, adus: &[Adu]| {
        let first = adus.first()?;
        let smoothed = smoothed.lock().expect("one thread");
        let guesses = [slot.predicted_ms, smoothed.unwrap_or(slot.predicted_ms)];
        let mut record = record.lock().expect("one thread");
        record.entry(first.sequence).or_insert(guesses);
        Some(0)
    };
    world
        .engine(0)
        .session(session)
        .map(|mut session| session.set_callback(Box::new(callback)))
        .expect("a session");
    world.run_for(Duration::from_secs(seconds));
    let report = world
        .engine(0)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default();
    let expected = expected.lock().expect("one thread").clone();
    let from = expected.len() as u64 / 2;
    let trips = &world.app::<Observer>(0).trips_ms;
    let errors: Vec<[f64; 2]> = (trips.range(from..))
        .filter_map(|(adu, trip)| Some(expected.get(adu)?.map(|guess| (trip - guess).abs())))
        .collect();
    assert!(errors.len() as u64 > 5 * seconds, "{}", errors.len());
    let mean = |of: usize| errors.iter().map(|e| e[of]).sum::<f64>() / errors.len() as f64;
    ([mean(0), mean(1)], report[0].model)
}

/// The saw-tooth of a supplemental channel that comes and goes is recognised, and its round trips are predicted better
/// than by averages.
#[test]
fn a_cdma2000_channel_is_recognised_and_predicted() {
    let errors = |model| errors_ms(model, cdma2000::stationary(), 240);
    let ([averages, _], generic) = errors(Choice::Fixed(Technology::Generic));
    let ([models, smoothed], recognised) = errors(Choice::Auto);
    assert_eq!(generic, Some(Technology::Generic));
    assert_eq!(recognised, Some(Technology::Cellular));
    assert!(
        models < 0.9 * averages && models < 0.9 * smoothed,
        "{models} ms, {averages} ms, {smoothed} ms"
    );
}

const LATENCY: &str =
    "objective { context { adu:x { stream_id >= 0 } } goal { expected(x::latency) <= 900 }
    utility { x { 900 - expected(x::latency) } } }";

/// Technology detected for each channel.
fn models(world: &mut World, session: SessionId) -> Vec<Option<Technology>> {
    let reports = world
        .engine(0)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default();
    reports.iter().map(|report| report.model).collect()
}

#[test]
fn models_are_there_while_the_policy_plans() {
    let links = vec![common::link(4, 20), common::link(4, 60)];
    let (mut world, session) = world(Choice::Fixed(Technology::Satellite), links);
    let second = Duration::from_secs(1);
    let satellites = [Some(Technology::Satellite); 2];
    assert_eq!(models(&mut world, session), [None; 2]);
    let set = |world: &mut World, policy| {
        world
            .engine(0)
            .session(session)
            .map(|mut session| session.set_policy(policy))
            .expect("a session");
        world.run_for(second);
    };
    set(&mut world, Policy::Assign);
    // Without an objective over ADUs the default policy is in effect.
    assert_eq!(models(&mut world, session), [None; 2]);
    let now = world.now();
    let injected = world
        .engine(0)
        .session(session)
        .unwrap()
        .inject_objectives(now, LATENCY);
    let ids = injected.expect("a good text").ids;
    world.run_for(second);
    assert_eq!(models(&mut world, session), satellites);
    set(&mut world, Policy::MinRtt);
    assert_eq!(models(&mut world, session), [None; 2]);
    set(&mut world, Policy::Assign);
    assert_eq!(models(&mut world, session), satellites);
    // A channel that is closed takes its model along; its replacement has its own.
    let socket = world
        .engine(0)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default()[0]
        .socket;
    let now = world.now();
    world.with_node(0, |context| context.engine().socket_down(now, socket));
    world.run_for(second);
    assert_eq!(models(&mut world, session), satellites[..1]);
    let now = world.now();
    world.with_node(0, |context| context.engine().socket_up(now, socket));
    world.run_for(2 * second);
    assert_eq!(models(&mut world, session), satellites);
    let now = world.now();
    let removed = world
        .engine(0)
        .session(session)
        .map(|mut session| session.remove_objective(now, ids[0]));
    assert_eq!(removed, Ok(true));
    world.run_for(second);
    assert_eq!(models(&mut world, session), [None; 2]);
}

/// A channel's technology decides on which channel ADUs are sent.
#[test]
fn objectives_know_the_technology() {
    let links = vec![common::link(4, 20)];
    for (model, is_sent) in [("cellular", false), ("satellite", true)] {
        let (mut world, session) = world(model.parse().expect("a name"), links.clone());
        let text = "hose 2
            objective no { context { adu:a { stream_id >= 0 } } goal { a::channel::technology == \"cellular\" } utility { a { -1 } } }";
        let now = world.now();
        let injected = world
            .engine(0)
            .session(session)
            .unwrap()
            .inject_objectives(now, text);
        injected.expect("a good text");
        let policy = world
            .engine(0)
            .session(session)
            .map(|mut session| session.set_policy(Policy::Assign));
        policy.expect("a session");
        world.run_for(Duration::from_secs(10));
        let acked = world.app::<Observer>(0).trips_ms.len();
        assert_eq!(acked > 150, is_sent, "{model}: {acked}");
        assert!(is_sent || acked < 3, "{model}: {acked}");
    }
}
