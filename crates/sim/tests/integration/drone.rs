//! The first example of the guide to objectives in virtual time: its objectives over its links, and the service that each stream gets.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Seed, SessionId, StreamId};
use anabranch_link::describe::parse_both;
use anabranch_session::{
    AllowList, Config, FieldValue, LocalDescription, Order, Policy, Priority, StreamSpec,
};
use anabranch_sim::{
    World,
    apps::{Receiver, make_adu},
};

const GUIDE: &str = include_str!("../../../../docs/hose.md");
const DRONE: usize = 0;
const GROUND: usize = 1;
/// Frames of a flight, 30 a second; other messages are sent at 20 a second.
const FRAMES: u64 = 1_800;

/// Content of the file with this name in the guide.
fn file(name: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(&format!(" {name}\n")).expect(name);
    rest.split("```").next().unwrap_or_default()
}

/// Name and properties of each link of the guide.
fn links() -> Vec<(&'static str, &'static str)> {
    let lines = GUIDE
        .lines()
        .filter(|line| line.starts_with("$ anabranch emulate"));
    let link = |line: &'static str| line.split('\'').rev().nth(1)?.split_once(": ");
    lines.filter_map(link).collect()
}

/// Service of one flight.
#[derive(Debug)]
struct Service {
    /// Fractions of key frames and of other frames that arrived in time.
    keys: f64,
    others: f64,
    /// Mean one-way delays in milliseconds.
    others_ms: f64,
    commands_ms: f64,
    telemetry_ms: f64,
}

struct Flight {
    world: World,
    session: SessionId,
}

impl Flight {
    fn begin(seed: u64, objectives: Option<&str>) -> Self {
        let mut world = World::new(Seed(seed));
        let config = Config {
            policy: Policy::Assign,
            objectives: objectives.map(Arc::from),
            ..Config::default()
        };
        world.add_node(config.clone(), AllowList::default(), Receiver::new());
        let allowed = AllowList::of([World::node_id(DRONE)]);
        world.add_node(config, allowed, Receiver::new());
        let described: Vec<_> = links()
            .into_iter()
            .map(|(technology, link)| {
                let configs = parse_both(link, &mut |name| Err(format!("no trace {name}")));
                let wire = world.add_wire(DRONE, GROUND, configs.expect(link));
                let wire = wire.expect("a valid link");
                (technology, world.link(DRONE, wire))
            })
            .collect();
        assert_eq!(described.len(), 2);
        for (technology, link) in &described {
            let description = LocalDescription {
                technology: Some((*technology).into()),
                ..LocalDescription::default()
            };
            world
                .engine(DRONE)
                .describe_socket(link.socket, description);
        }
        let links = described.into_iter().map(|(_, link)| link).collect();
        let peer = World::node_id(GROUND);
        let session = world.with_node(DRONE, |context| context.connect(peer, links));
        world.run_for(Duration::from_secs(2));
        Self { world, session }
    }

    fn open(&mut self, node: usize, spec: StreamSpec) -> (SessionId, StreamId) {
        let session = match node {
            DRONE => self.session,
            node => self.world.engine(node).session_ids()[0],
        };
        let stream = self
            .world
            .with_node(node, |context| context.open(session, spec));
        (session, stream.expect("a stream"))
    }

    fn send(
        &mut self,
        node: usize,
        (session, stream): (SessionId, StreamId),
        number: u64,
        bytes: usize,
        frame: Option<&str>,
    ) {
        self.world.with_node(node, |context| {
            let now = context.now();
            let fields: Vec<_> = frame
                .map(|frame| ("frame", FieldValue::Text(frame)))
                .into_iter()
                .collect();
            let handle = context.engine().session(session).expect("it is open");
            let sent = handle.stream(stream).send_with_fields(
                now,
                make_adu(now, number, bytes),
                0,
                &fields,
            );
            sent.expect("capacity");
        });
    }
}

fn fly(seed: u64, objectives: Option<&str>) -> Service {
    let mut flight = Flight::begin(seed, objectives);
    let video = flight.open(
        DRONE,
        StreamSpec {
            reliable: false,
            order: Order::Unordered,
            ..StreamSpec::live("video", Duration::from_millis(500))
        },
    );
    let telemetry = flight.open(DRONE, StreamSpec::messages("telemetry"));
    let commands = flight.open(
        GROUND,
        StreamSpec {
            priority: Priority::URGENT,
            ..StreamSpec::messages("commands")
        },
    );
    let begin = flight.world.now();
    let (mut frame, mut message) = (0, 0);
    while frame < FRAMES {
        let due = [frame * 1_000 / 30, message * 50];
        let at = due[0].min(due[1]);
        flight.world.run_until(begin + Duration::from_millis(at));
        if due[0] == at {
            let (kind, bytes) = if frame % 10 == 0 {
                ("I", 6_000)
            } else {
                ("P", 2_000)
            };
            flight.send(DRONE, video, frame, bytes, Some(kind));
            frame += 1;
        } else {
            flight.send(DRONE, telemetry, message, 100, None);
            flight.send(GROUND, commands, message, 40, None);
            message += 1;
        }
    }
    flight.world.run_for(Duration::from_secs(5));

    let mut received = |node: usize, label: &str| {
        let record = flight.world.app::<Receiver>(node).record(label);
        let arrived = record
            .numbers
            .iter()
            .copied()
            .zip(record.delays.iter().copied());
        arrived.collect::<Vec<(u64, Duration)>>()
    };
    let mean = |all: &[(u64, Duration)]| {
        1e3 * all
            .iter()
            .map(|(_, delay)| delay.as_secs_f64())
            .sum::<f64>()
            / all.len() as f64
    };
    let (keys, others): (Vec<_>, Vec<_>) = (received(GROUND, "video").into_iter())
        .filter(|(_, delay)| *delay <= Duration::from_millis(500))
        .partition(|(number, _)| number % 10 == 0);
    let telemetry = received(GROUND, "telemetry");
    let commands = received(DRONE, "commands");
    assert_eq!([telemetry.len(), commands.len()], [message as usize; 2]);
    Service {
        keys: keys.len() as f64 / (FRAMES / 10) as f64,
        others: others.len() as f64 / (FRAMES - FRAMES / 10) as f64,
        others_ms: mean(&others),
        commands_ms: mean(&commands),
        telemetry_ms: mean(&telemetry),
    }
}

/// With the objectives, key frames arrive although LTE loses packets, commands take LTE, and telemetry leaves it.
#[test]
fn each_stream_gets_what_its_objective_values() {
    let objectives = file("drone.hose");
    for seed in [1, 2] {
        let with = fly(seed, Some(objectives));
        let without = fly(seed, None);
        let both = format!("{with:.3?} {without:.3?}");
        assert!(with.keys > 0.99 && without.keys < 0.9, "{both}");
        assert!(with.others > without.others - 0.01, "{both}");
        // On LTE, one way takes 20 ms, by satellite 150 ms.
        assert!(with.commands_ms < without.commands_ms.min(27.0), "{both}");
        assert!(with.others_ms < without.others_ms, "{both}");
        assert!((150.0..170.0).contains(&with.telemetry_ms), "{both}");
        assert!(without.telemetry_ms < 60.0, "{both}");
    }
}
