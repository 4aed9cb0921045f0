//! Objectives in a session, in virtual time.

use crate::common;

use std::time::Duration;

use anabranch_base::{Instant, Seed, SessionId, StreamId};
use anabranch_session::{
    AllowList, Attribute, Config, Event, FieldValue, LocalDescription, Policy, Priority,
    PromiseEvent, SessionEvent, StreamEvent, StreamSpec, Walk,
    hose::{Limits, Objectives, json::JsonSchedule},
    metering::{Meter, Model, Period},
    objective::Faults,
};
use anabranch_sim::{
    App, Context, World,
    apps::{Load, Receiver, Sender},
};
use bytes::Bytes;

const QUICK: u64 = 0;
const SLOW: u64 = 1;

/// Application that sends and records the events it receives.
struct Observer {
    sender: Sender,
    observed: Vec<Event>,
}

impl App for Observer {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        if !matches!(
            event,
            Event::Stream {
                event: StreamEvent::Acked { .. },
                ..
            }
        ) {
            self.observed.push(event.clone());
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

fn observed_world(seed: u64, loads: Vec<Load>) -> World {
    let mut world = World::new(Seed(seed));
    let sender = Sender::new(World::node_id(1), loads);
    let observer = Observer {
        sender,
        observed: Vec::new(),
    };
    let a = world.add_node(Config::default(), AllowList::default(), observer);
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let links = [common::link(4, 20), common::link(4, 200)].map(|configs| {
        let wire = world.add_wire(a, b, configs).expect("a valid link");
        world.link(a, wire)
    });
    world
        .app::<Observer>(a)
        .sender
        .dial(Instant::EPOCH, links.to_vec());
    world.with_node(a, |_| ());
    world
}

/// Two links, of 20 and 200 ms; two streams that together need half of their capacity.
fn world(seed: u64, policy: Policy) -> (World, SessionId) {
    world_of(seed, policy, &["a", "b"])
}

/// The same with these streams, each of a quarter of the capacity.
fn world_of(seed: u64, policy: Policy, labels: &[&str]) -> (World, SessionId) {
    let load = |label: &str| Load {
        spec: StreamSpec {
            notify: true,
            // A higher priority would keep the quick channel's queue short.
            priority: Priority::NORMAL,
            ..StreamSpec::messages(label)
        },
        adu_bytes: 1_000,
        every: Some(Duration::from_millis(4)),
        adus: 1_000_000,
        start: Instant::from_millis(600),
    };
    let mut world = observed_world(seed, labels.iter().map(|label| load(label)).collect());
    world.run_until(Instant::from_millis(500));
    let session = world.engine(0).session_ids()[0];
    world
        .engine(0)
        .session(session)
        .map(|mut session| session.set_policy(policy))
        .expect("a session");
    (world, session)
}

fn inject(
    world: &mut World,
    session: SessionId,
    text: &str,
) -> Vec<anabranch_session::ObjectiveId> {
    let now = world.now();
    let injected = world
        .engine(0)
        .session(session)
        .expect("it is open")
        .inject_objectives(now, text);
    injected.expect("a good text").ids
}

/// Application bytes carried by each channel within `time`.
fn carried(world: &mut World, session: SessionId, time: Duration) -> [u64; 2] {
    let sent = |world: &mut World| {
        let stats = world
            .engine(0)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        [QUICK, SLOW].map(|id| {
            let of = stats.iter().find(|report| report.channel.0 == id);
            of.map_or(0, |report| report.payload_sent_bytes)
        })
    };
    let before = sent(world);
    world.run_for(time);
    let after = sent(world);
    [0, 1].map(|at| after[at] - before[at])
}

#[test]
fn do_not_send_on_a_channel_empties_it_until_the_objective_is_removed() {
    let (mut world, session) = world(1, Policy::Assign);
    let [quick, _] = carried(&mut world, session, Duration::from_secs(5));
    assert!(quick > 500_000, "{quick}");
    let ids = inject(
        &mut world,
        session,
        "hose 2
        objective not_there { context { adu:a { stream_id >= 0 } } goal { a::channel::id == 0 } utility { a { -1 } } }",
    );
    world.run_for(Duration::from_millis(500));
    let [quick, slow] = carried(&mut world, session, Duration::from_secs(5));
    assert_eq!(quick, 0);
    assert!(slow > 1_000_000, "{slow}");
    let now = world.now();
    assert_eq!(
        world
            .engine(0)
            .session(session)
            .map(|mut session| session.remove_objective(now, ids[0])),
        Ok(true)
    );
    world.run_for(Duration::from_millis(500));
    let [quick, _] = carried(&mut world, session, Duration::from_secs(5));
    assert!(quick > 500_000, "{quick}");
}

/// Bytes of data that the quick channel carries in 5 s, under an objective against slots with `property`, where its local socket
/// is described in this way.
fn carried_against(property: &str, description: LocalDescription) -> u64 {
    let (mut world, _) = world(1, Policy::Assign);
    // For channels that connect from now on: both are closed, and dialled again.
    let links = [0, 1].map(|wire| world.link(0, wire).socket);
    world.engine(0).describe_socket(links[0], description);
    world.with_node(0, |context| {
        let now = context.now();
        for socket in links {
            context.engine().socket_down(now, socket);
        }
        for socket in links {
            context.engine().socket_up(now, socket);
        }
    });
    world.run_for(Duration::from_secs(1));
    let session = world.engine(0).session_ids()[0];
    let text = format!(
        "hose 2\nobjective away {{ context {{ adu:a {{ stream_id >= 0 }} }} goal {{ {property} }} utility {{ a {{ -1 }} }} }}"
    );
    inject(&mut world, session, &text);
    world.run_for(Duration::from_millis(500));
    let sent = |world: &mut World| {
        let stats = (world.engine(0).session(session))
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        let of = stats.iter().find(|report| report.socket == links[0]);
        of.map_or(0, |report| report.payload_sent_bytes)
    };
    let before = sent(&mut world);
    world.run_for(Duration::from_secs(5));
    sent(&mut world) - before
}

/// A channel has the name, technology and attributes of its local socket: on a real host, of the interface.
#[test]
fn objectives_know_a_channel_by_the_description_of_its_socket() {
    let described = || LocalDescription {
        name: Some("wwan0".into()),
        technology: Some("lte".into()),
        attributes: vec![
            ("price_class".into(), Attribute::Number(3.0)),
            ("operator".into(), Attribute::Text("A".into())),
        ],
    };
    for property in [
        "a::channel::name == \"wwan0\"",
        "a::channel::technology == \"lte\"",
        "a::channel::price_class > 2",
        "a::channel::operator == \"A\"",
    ] {
        assert_eq!(carried_against(property, described()), 0, "{property}");
        let bare = carried_against(property, LocalDescription::default());
        assert!(bare > 500_000, "{property}, not described: {bare}");
    }
}

/// The price of the next byte decides: while the quota lasts, bytes are free where they are metered.
#[test]
fn a_cost_is_known_as_soon_as_it_applies() {
    let (mut world, session) = world(2, Policy::Assign);
    let socket = world.link(0, 0).socket;
    let model: Model = "3 MB then 0.01/MB".parse().expect("a price list");
    let (now, meter) = (world.now(), Meter::new(model, Period(1), 0));
    world.engine(0).set_meter(now, socket, Some(meter));
    inject(
        &mut world,
        session,
        "hose 2
        objective cheap { context { adu:a { stream_id >= 0 } } goal { cost(a) > 0 } utility { a { -1 } } }",
    );
    let [quick, _] = carried(&mut world, session, Duration::from_secs(4));
    assert!(quick > 500_000, "free so far: {quick}");
    world.run_for(Duration::from_secs(20));
    let [quick, slow] = carried(&mut world, session, Duration::from_secs(5));
    assert_eq!(quick, 0, "paid for");
    assert!(slow > 1_000_000, "{slow}");
    inject(
        &mut world,
        session,
        "hose 2
        objective dear { context { adu:a { stream_id >= 0 } } goal { a::channel::metered } utility { a { 2 } } }",
    );
    world.run_for(Duration::from_millis(500));
    let [quick, _] = carried(&mut world, session, Duration::from_secs(5));
    assert!(quick > 500_000, "metered, and wanted: {quick}");
}

/// Mean delay of each stream's ADUs in milliseconds, and the part of them that took the quick channel.
fn delays(policy: Policy, text: &str) -> ([f64; 2], f64) {
    let (mut world, session) = world(7, policy);
    inject(&mut world, session, text);
    world.run_for(Duration::from_secs(2));
    let begun = ["a", "b"].map(|label| world.app::<Receiver>(1).record(label).delays.len());
    let [quick, slow] = carried(&mut world, session, Duration::from_secs(15));
    let mut mean = |label: &str, from: usize| {
        let record = world.app::<Receiver>(1).record(label);
        let delays = &record.delays[from..];
        assert!(delays.len() > 3_000, "{policy}, {label}: {}", delays.len());
        1e3 * delays.iter().map(Duration::as_secs_f64).sum::<f64>() / delays.len() as f64
    };
    let means = [mean("a", begun[0]), mean("b", begun[1])];
    (means, quick as f64 / (quick + slow) as f64)
}

const QUICKLY: &str =
    "objective { context { adu:x { stream_id == 2 } } goal { expected(x::latency) <= 700 }
    utility { x { 700 - expected(x::latency) } } }";

/// The published search moves ADUs in the right direction, and assignment takes nothing from the others for it: they
/// fill what is left of the quick channel, so that it has a queue.
#[test]
fn low_latency_streams_get_the_quick_channel() {
    let ([_, random], _) = delays(Policy::RandomRoundRobin, QUICKLY);
    let ([walk_others, walk], _) = delays(Policy::RandomWalk(Walk::PUBLISHED), QUICKLY);
    let ([others, assign], share) = delays(Policy::Assign, QUICKLY);
    // Half a round trip each, 10 and 100 ms, and a queue.
    assert!(
        walk < 30.0 && assign < 30.0 && random > 50.0,
        "{walk}, {assign}, {random}"
    );
    assert!(
        others < walk_others && share > 0.8,
        "{others} ms, {walk_others} ms, {share}"
    );
}

/// A stream's label is as good as its id, and no other label is.
#[test]
fn objectives_find_streams_by_their_labels() {
    let by = |label: &str| {
        let text = QUICKLY.replace("stream_id == 2", &format!("label == \"{label}\""));
        delays(
            Policy::Assign,
            &format!("hose 2\n{}", text.replace("objective", "objective quick")),
        )
    };
    assert_eq!(by("b"), delays(Policy::Assign, QUICKLY));
    let ([_, unwanted], _) = by("c");
    let ([_, wanted], _) = by("b");
    assert!(wanted < unwanted, "{wanted}, {unwanted}");
}

/// A stream variable that is bound by label stands for the open streams with that label, which are measured.
#[test]
fn stream_variables_are_bound_by_label() {
    let with = |label: &str| {
        let text = format!(
            "hose 2
            objective quick {{
                context {{ adu:x {{ label == \"b\" }} stream:s {{ label == \"{label}\" }} }}
                goal {{ (expected(x::latency) <= 700) && (s::latency_ave > 0) && (s::loss_rate < 50) }}
                utility {{ x {{ 700 - expected(x::latency) }} }}
            }}"
        );
        let ([_, mean], _) = delays(Policy::Assign, &text);
        mean
    };
    let (present, absent) = (with("b"), with("c"));
    assert!(present < 30.0 && absent > present, "{present}, {absent}");
}

/// Tallies count each ADU once, in the slot that it took; what the planner looked at besides does not count.
#[test]
fn tallies_count_what_was_sent() {
    let (mut world, session) = world(8, Policy::Assign);
    world.run_for(Duration::from_millis(200));
    let text = "hose 2
        objective by_quick { context { adu:a { label == \"b\" } } goal { a::channel::id == 0 } utility { a { 2 } } }
        objective twice { context { adu:a { label == \"b\" } adu:b { (label == \"b\") && (stream_seq == a::stream_seq + 1) } }
            goal { a::channel::id == b::channel::id } utility { a { 1 } } }
        objective voice { context { stream:s { label == \"b\" } } goal { s::latency_ave > 0 } utility { s { 1 } } }
        objective unknown { context { adu:a { label == \"b\" } } goal { a::channel::colour == 3 } utility { a { 1 } } }";
    inject(&mut world, session, text);
    let sent = |world: &mut World| {
        let engine = world.engine(0);
        let stats = engine
            .session(session)
            .map(|mut session| session.stream_stats());
        let stats = stats.unwrap_or_default();
        let of = stats.iter().find(|stats| stats.spec.label == "b");
        of.map_or(0, |stats| stats.acked_adus)
    };
    let before = sent(&mut world);
    world.run_for(Duration::from_secs(5));
    let sent = sent(&mut world) - before;
    let now = world.now();
    let tallies = world
        .engine(0)
        .session(session)
        .map(|mut session| session.tallies(now))
        .expect("it is open");
    let [(_, quick), (_, twice), (_, voice), (_, unknown)] = tallies[..] else {
        panic!("{tallies:?}");
    };
    // Some are under way.
    let near = |contexts: u64| contexts.abs_diff(sent) <= 60;
    assert!(sent > 1_000 && near(quick.contexts), "{sent}, {quick:?}");
    assert!(quick.contexts_met > sent / 2, "{quick:?}");
    assert_eq!(quick.utility, 2.0 * quick.contexts_met as f64);
    assert!(near(twice.contexts), "{sent}, {twice:?}");
    assert!(
        (4..=6).contains(&voice.contexts) && voice.contexts_met > 0,
        "{voice:?}"
    );
    assert!(
        near(unknown.contexts) && unknown.contexts_met == 0,
        "{unknown:?}"
    );
    assert_eq!(
        (unknown.contexts_faulty, unknown.faults),
        (unknown.contexts, Faults::UNKNOWN)
    );
    let later = now + Duration::from_secs(61);
    let session = world.engine(0).session(session);
    let forgotten = session
        .map(|mut session| session.tallies(later))
        .expect("it is open");
    assert!(forgotten.iter().all(|(_, tally)| tally.contexts == 0));
}

/// An ADU that waits alone can only be placed beside its predecessor while the history knows where that was sent.
#[test]
fn an_objective_over_two_adus_knows_where_the_first_was_sent() {
    let share = |goal: &str| {
        let (mut world, session) = world_of(5, Policy::Assign, &["a"]);
        let text = format!(
            "hose 2
            objective pair {{
                context {{
                    adu:one {{ stream_id >= 0 }}
                    adu:two {{ (stream_id == one::stream_id) && (stream_seq == one::stream_seq + 1) }}
                }}
                goal {{ one::channel::id {goal} two::channel::id }}
                utility {{ two {{ 10 }} }}
            }}"
        );
        inject(&mut world, session, &text);
        world.run_for(Duration::from_millis(500));
        let [quick, slow] = carried(&mut world, session, Duration::from_secs(2));
        quick as f64 / (quick + slow) as f64
    };
    let (same, other) = (share("=="), share("!="));
    assert!(!(0.01..0.99).contains(&same), "{same}, {other}");
    assert!((0.49..0.51).contains(&other), "{same}, {other}");
}

#[test]
fn header_fields_decide_for_single_adus_and_may_change() {
    let (mut world, session) = world(3, Policy::Assign);
    let text = "objective { context { adu:x { frame_type == \"I\" } } goal { expected(x::latency) >= 0 } utility { x { -1 } } }";
    inject(&mut world, session, text);
    let stream = world.with_node(0, |context| {
        let spec = StreamSpec {
            notify: true,
            ..StreamSpec::messages("frames")
        };
        let stream = context.open(session, spec).expect("a stream");
        for frame in ["P", "I", "P", "I"] {
            let now = context.now();
            let fields = [("frame_type", FieldValue::Text(frame))];
            let data = Bytes::from_static(&[7; 200]);
            let handle = context.engine().session(session).unwrap();
            let sent = handle
                .stream(stream)
                .send_with_fields(now, data, 0, &fields);
            sent.expect("capacity");
        }
        stream
    });
    world.run_for(Duration::from_secs(1));
    let acked = |world: &mut World| {
        let stats = world
            .engine(0)
            .session(session)
            .map(|mut session| session.stream_stats())
            .unwrap_or_default();
        let of = stats.iter().find(|stats| stats.stream == stream);
        of.map_or(0, |stats| stats.acked_adus)
    };
    // The utility of sending an I frame is negative.
    assert_eq!(acked(&mut world), 2);
    let fields = [("frame_type", FieldValue::Text("P"))];
    let engine = world.engine(0);
    assert_eq!(
        engine
            .session(session)
            .unwrap()
            .stream(stream)
            .update_fields(1, &fields),
        Ok(true)
    );
    assert_eq!(
        engine
            .session(session)
            .unwrap()
            .stream(stream)
            .update_fields(0, &fields),
        Ok(false),
        "it has arrived"
    );
    let wrong = [("frame_type", FieldValue::Number(1.0))];
    assert!(
        engine
            .session(session)
            .unwrap()
            .stream(stream)
            .update_fields(3, &wrong)
            .is_err()
    );
    world.run_for(Duration::from_secs(1));
    assert_eq!(acked(&mut world), 3);
}

#[test]
fn errors_change_nothing_and_faults_and_refusals_are_reported_once() {
    let (mut world, session) = world(5, Policy::Assign);
    let now = world.now();
    let refused = |world: &mut World, text: &str| {
        let error = world
            .engine(0)
            .session(session)
            .unwrap()
            .inject_objectives(now, text);
        error.expect_err("a bad text").to_string()
    };
    let error = refused(&mut world, "objective { context { adu:a { x } }");
    assert!(error.contains("1:"), "{error}");
    let good =
        "objective { context { adu:a { stream_id == 0 } } goal { 1 < 2 } utility { a { 1 } } }";
    let short = format!(
        "hose 2\n{good}\nrate telemetry {{ context {{ stream:s {{ stream_id == 0 }} }} at_least {{ 1000000 }} probability {{ 95 }} window {{ 500 }} }}"
    );
    let error = refused(&mut world, &short);
    assert!(error.starts_with("3:"), "{error}");
    assert_eq!(
        world
            .engine(0)
            .session(session)
            .map(|mut session| session.objectives())
            .unwrap_or_default(),
        []
    );

    let text = "hose 2
        objective mad { context { adu:a { stream_id == 0 } } goal { 1 / (a::stream_seq - a::stream_seq) > 0 } utility { a { 1 } } }
        rate video { context { stream:s { stream_id == 2 } } at_least { 1000000 } probability { 95 } }";
    let ids = inject(&mut world, session, text);
    world.run_for(Duration::from_secs(2));
    let observed = &world.app::<Observer>(0).observed;
    let faults: Vec<_> = (observed.iter())
        .filter_map(|event| match event {
            Event::Session {
                event: SessionEvent::ObjectiveFault { objective, faults },
                ..
            } => Some((*objective, *faults)),
            _ => None,
        })
        .collect();
    assert_eq!(faults, [(ids[0], Faults::DIVISION_BY_ZERO)]);
    let refusals: Vec<_> = (observed.iter())
        .filter_map(|event| match event {
            Event::Session {
                event:
                    SessionEvent::ObjectiveRefused {
                        objective, stream, ..
                    },
                ..
            } => Some((*objective, *stream)),
            _ => None,
        })
        .collect();
    assert_eq!(
        refusals,
        [(ids[1], StreamId(2))],
        "too little is known as yet"
    );
    // It waits, and is granted when enough is known.
    world.run_for(Duration::from_secs(40));
    let is_promised = |event: &Event| {
        matches!(
            event,
            Event::Promise {
                stream: StreamId(2),
                event: PromiseEvent::Promised(_),
                ..
            }
        )
    };
    assert!(world.app::<Observer>(0).observed.iter().any(is_promised));
    let kinds: Vec<_> = (world
        .engine(0)
        .session(session)
        .map(|mut session| session.objectives())
        .unwrap_or_default()
        .iter())
    .map(|entry| (entry.name.clone(), entry.kind.name()))
    .collect();
    assert_eq!(
        kinds,
        [
            (Some("mad".into()), "single"),
            (Some("video".into()), "rate")
        ]
    );
    let now = world.now();
    assert_eq!(
        world
            .engine(0)
            .session(session)
            .map(|mut session| session.remove_objective(now, ids[1])),
        Ok(true)
    );
    assert_eq!(
        world
            .engine(0)
            .session(session)
            .map(|mut session| session.remove_objective(now, ids[1])),
        Ok(false)
    );
    assert!(
        world
            .engine(0)
            .session(session)
            .ok()
            .and_then(|session| session.stream(StreamId(2)).explain())
            .is_none(),
        "released"
    );
}

/// Two `rate` items for one stream: the last one applies, and the first one after the last is removed.
#[test]
fn an_earlier_rate_applies_again_when_a_later_one_is_removed() {
    for stream in ["stream_id == 2", "label == \"b\""] {
        check_earlier_rate(stream);
    }
}

fn check_earlier_rate(stream: &str) {
    let (mut world, session) = world(5, Policy::Assign);
    // Its streams are open.
    world.run_for(Duration::from_millis(200));
    let item = |name: &str, rate: u64| {
        format!(
            "hose 2\nrate {name} {{ context {{ stream:s {{ {stream} }} }} at_least {{ {rate} }} probability {{ 95 }} }}"
        )
    };
    let ids = [("low", 1_000_000), ("mid", 1_500_000), ("high", 2_000_000)]
        .map(|(name, rate)| inject(&mut world, session, &item(name, rate))[0]);
    let asked = |world: &mut World| {
        let explanation = world
            .engine(0)
            .session(session)
            .ok()
            .and_then(|session| session.stream(StreamId(2)).explain());
        explanation.map(|found| found.guarantee.required().as_bps())
    };
    assert_eq!(asked(&mut world), Some(2_000_000));
    for (id, left) in [
        (ids[1], Some(2_000_000)),
        (ids[2], Some(1_000_000)),
        (ids[0], None),
    ] {
        let now = world.now();
        let removed = world
            .engine(0)
            .session(session)
            .map(|mut session| session.remove_objective(now, id));
        assert_eq!((removed, asked(&mut world)), (Ok(true), left));
    }
}

/// A `rate` item applies to data that this side sends on a stream that the peer opens later.
#[test]
fn a_rate_is_asked_for_when_the_peer_opens_the_stream() {
    for stream in ["stream_id == 4", "label == \"talk\""] {
        check_rate_of_peer(stream);
    }
}

fn check_rate_of_peer(selected: &str) {
    let (mut world, session) = world(6, Policy::Assign);
    world.run_for(Duration::from_millis(200));
    let back = world.engine(1).session_ids()[0];
    let now = world.now();
    let text = format!(
        "hose 2\nrate answers {{ context {{ stream:s {{ {selected} }} }} at_least {{ 1000000 }} probability {{ 95 }} }}"
    );
    let injected = world
        .engine(1)
        .session(back)
        .unwrap()
        .inject_objectives(now, &text);
    injected.expect("a good text");
    let spec = StreamSpec {
        duplex: true,
        ..StreamSpec::messages("talk")
    };
    let stream = world.with_node(0, |context| {
        let stream = context.open(session, spec).expect("a stream");
        let said = context.send(session, stream, Bytes::from_static(b"well?"));
        said.expect("capacity");
        stream
    });
    assert_eq!(stream, StreamId(4));
    world.run_for(Duration::from_secs(1));
    let explanation = world
        .engine(1)
        .session(back)
        .ok()
        .and_then(|session| session.stream(stream).explain())
        .expect("it was asked");
    assert_eq!(explanation.guarantee.required().as_bps(), 1_000_000);
}

#[test]
fn a_file_flows_as_fast_with_objectives_about_others_as_without() {
    let [with, without] = [QUICKLY, ""].map(|text| {
        let loads = vec![
            Load::bulk(3_000_000),
            Load::messages(200, Duration::from_millis(20), 1_000),
        ];
        let mut world = observed_world(9, loads);
        world.run_until(Instant::from_millis(100));
        let session = world.engine(0).session_ids()[0];
        world
            .engine(0)
            .session(session)
            .map(|mut session| session.set_policy(Policy::Assign))
            .expect("a session");
        inject(&mut world, session, text);
        let mut done_at = None;
        world.run_while(Instant::from_secs(60), |world| {
            let record = world.app::<Receiver>(1).record("bulk");
            done_at = record.finished.then(|| world.now());
            done_at.is_none()
        });
        done_at.expect("it arrives").as_secs_f64()
    });
    assert!(
        with < 1.25 * without,
        "{with} s with objectives, {without} s without"
    );
}

/// Captures a plan with so many ADUs that wait, and reads it as `anabranch hose eval` does.
fn captured(world: &mut World, session: SessionId, least: usize) -> (Objectives, JsonSchedule) {
    let capture = |world: &mut World| {
        let mut session = world.engine(0).session(session).expect("it is open");
        assert!(session.capture_cycle(least));
    };
    capture(world);
    let mut taken = None;
    for _ in 0..5_000 {
        world.run_for(Duration::from_millis(1));
        let mut session = world.engine(0).session(session).expect("it is open");
        taken = session.take_cycle();
        if taken.is_some() {
            break;
        }
    }
    let document = taken.expect("a plan");
    let vocabulary = document.vocabulary().expect("good names");
    let mut objectives = Objectives::new(Limits::default(), vocabulary);
    for text in &document.objectives {
        objectives.inject(text).expect("a good text");
    }
    let schedule = JsonSchedule::new(document, objectives.vocabulary());
    (objectives, schedule.expect("a schedule"))
}

const EARLY: &str = r#"
    hose 2
    objective early {
      context { adu:v { label == "voice" } }
      goal { expected(v::latency) < 500 }
      utility { v { 500 - expected(v::latency) } }
    }"#;

#[test]
fn a_captured_plan_shows_that_no_other_slot_is_worth_more() {
    let (mut world, session) = world_of(7, Policy::Assign, &["voice", "bulk"]);
    inject(&mut world, session, EARLY);
    world.run_for(Duration::from_secs(5));
    let (mut objectives, mut schedule) = captured(&mut world, session, 1);
    let document = schedule.document().clone();
    assert_eq!(document.channels.len(), 2);
    assert_eq!(document.objectives.len(), 1);
    let waiting: Vec<_> = document
        .adus
        .iter()
        .filter(|adu| adu.is_waiting())
        .collect();
    assert!(!waiting.is_empty() && waiting.len() == document.adus.len());
    let labels = waiting.iter().map(|adu| adu.label.as_deref());
    assert!(
        labels
            .clone()
            .all(|label| label == Some("voice") || label == Some("bulk"))
    );
    assert!(document.slots.iter().any(|slot| slot.is_phantom()));
    let all = schedule.alternatives(&mut objectives, usize::MAX);
    assert_eq!(all.len(), waiting.len());
    for of in &all {
        for choice in &of.choices {
            assert!(choice.difference <= 1e-6, "{of:?}");
        }
    }
    // Taken once.
    let mut session = world.engine(0).session(session).expect("it is open");
    assert_eq!(session.take_cycle(), None);
}

#[test]
fn a_captured_plan_holds_what_was_sent_before_and_how_losses_go_together() {
    let (mut world, session) = world_of(8, Policy::Assign, &["voice"]);
    let text = r#"
        hose 2
        field weight: numeric
        objective apart {
          context { adu:a { label == "voice" } adu:b { label == "voice" } }
          goal { (a::stream_seq + 1 == b::stream_seq) && (correlated_loss(a, b) < 50) }
          utility { b { 10 } }
        }"#;
    inject(&mut world, session, text);
    world.run_for(Duration::from_secs(3));
    let (objectives, schedule) = captured(&mut world, session, 1);
    let document = schedule.document();
    let sent: Vec<_> = document.adus.iter().filter(|adu| adu.sent).collect();
    assert!(!sent.is_empty());
    // Each has a slot of its own, beyond those that can be used.
    assert!(sent.iter().all(|adu| adu.slot.is_some()));
    assert!(!document.correlated_loss.is_empty());
    let explanation = objectives.explain(&schedule, 1);
    assert!(explanation.objectives[0].contexts > 0);
    assert_eq!(document.fields.len(), 1);
}

#[test]
fn nothing_is_captured_where_nothing_is_planned() {
    let capture = |world: &mut World, session| {
        let mut session = world.engine(0).session(session).expect("it is open");
        session.capture_cycle(1)
    };
    let (mut world, session) = world_of(9, Policy::Default, &["voice"]);
    inject(&mut world, session, EARLY);
    assert!(!capture(&mut world, session));
    let (mut world, session) = world_of(9, Policy::Assign, &["voice"]);
    assert!(!capture(&mut world, session), "without objectives");
    // A plan that is not due is none: the next one is captured.
    let (mut world, session) = world_of(9, Policy::RandomWalk(Walk::PUBLISHED), &["voice"]);
    inject(&mut world, session, EARLY);
    let (objectives, schedule) = captured(&mut world, session, 1);
    assert!(objectives.explain(&schedule, 0).utility > 0.0);
}
