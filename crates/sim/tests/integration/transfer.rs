//! A session over simulated links.

use crate::common;

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_session::{AllowList, Config, SessionCloseReason};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

use common::{link, world};

#[test]
fn a_transfer_over_two_paths_arrives_whole_and_in_order() {
    let mut world = world(
        1,
        vec![link(50, 20), link(20, 60)],
        vec![Load::bulk(4_000_000)],
    );
    world.run_while(Instant::from_secs(20), |w| !w.app::<Sender>(0).is_done());
    assert!(world.app::<Sender>(0).is_done());
    let record = world.app::<Receiver>(1).record("bulk");
    assert_eq!(record.corrupt, 0);
    assert!(record.finished);
    let expected: Vec<u64> = (0..record.numbers.len() as u64).collect();
    assert_eq!(record.numbers, expected);
}

#[test]
fn same_seed_same_log() {
    let run = |seed| {
        let mut world = world(
            seed,
            vec![link(20, 20), link(10, 60)],
            vec![Load::bulk(300_000)],
        );
        world.record();
        world.run_until(Instant::from_secs(3));
        world.log().expect("recorded").text().to_owned()
    };
    let log = run(7);
    assert!(log.lines().count() > 300, "{}", log.lines().count());
    assert_eq!(log, run(7));
}

/// A path falls silent for five seconds: its outstanding data moves to others at once, and it is used again as soon as
/// it is back.
#[test]
fn a_silent_path_is_left_at_once_and_used_again_at_once() {
    let mut world = world(
        1,
        vec![link(20, 20), link(10, 60)],
        vec![Load::bulk(24_000_000)],
    );
    world.schedule(Duration::from_secs(2), |w| w.set_wire_up(0, false));
    world.schedule(Duration::from_secs(5), |w| w.set_wire_up(0, true));
    world.run_while(Instant::from_secs(30), |w| !w.app::<Sender>(0).is_done());
    let record = world.app::<Receiver>(1).record("bulk");
    assert!(record.finished && record.corrupt == 0);
    assert_eq!(record.numbers.len(), 24_000_000usize.div_ceil(64 << 10));
    assert!(
        record.gap_max < Duration::from_millis(250),
        "{:?}",
        record.gap_max
    );
    let mbps = |from: usize, to: usize| {
        record.per_100ms[from..to].iter().sum::<u64>() as f64 * 8.0 / 1e5 / (to - from) as f64
    };
    assert!(
        mbps(25, 45) > 9.0,
        "the other path goes on: {}",
        mbps(25, 45)
    );
    assert!(
        mbps(53, 63) > 27.0,
        "both again after 300 ms: {}",
        mbps(53, 63)
    );
}

/// Small urgent messages meet a short queue although a bulk transfer fills both paths.
#[test]
fn urgent_messages_meet_short_queues() {
    let messages = Load {
        start: Instant::from_millis(500),
        ..Load::messages(1200, Duration::from_millis(10), 300)
    };
    let mut world = world(
        1,
        vec![link(20, 20), link(10, 60)],
        vec![Load::bulk(12_000_000), messages],
    );
    world.run_while(Instant::from_secs(30), |w| !w.app::<Sender>(0).is_done());
    let record = world.app::<Receiver>(1).record("messages");
    assert_eq!(record.numbers.len(), 300);
    let (p50, p99) = (record.delay_quantile(0.5), record.delay_quantile(0.99));
    // 10 ms of delay, 0.6 ms to send a packet, and the queue that batched acknowledgements need.
    assert!(p50 < Duration::from_millis(18), "{p50:?}");
    assert!(p99 < Duration::from_millis(25), "{p99:?}");
}

/// A slow reader cannot grow the receiver's memory, and loses nothing.
#[test]
fn a_reader_that_does_not_read_blocks_the_sender() {
    let mut world = world(1, vec![link(50, 10)], vec![Load::bulk(60_000_000)]);
    world.app::<Receiver>(1).deaf = true;
    world.run_until(Instant::from_secs(20));
    let session = world.engine(1).session_ids()[0];
    let held = world
        .engine(1)
        .session(session)
        .ok()
        .map(|mut session| session.stats())
        .expect("open")
        .recv_held_bytes;
    let window = Config::default().stream_window_bytes;
    assert!(held <= window, "{held} bytes held, window {window}");
    assert!(held > window / 2, "the window is used");
}

/// An unknown key is refused, and both sides keep their state.
#[test]
fn a_stranger_is_refused() {
    let mut world = World::new(Seed(1));
    let a = world.add_node(
        Config::default(),
        AllowList::default(),
        Sender::new(World::node_id(1), vec![Load::bulk(1000)]),
    );
    let allowed = AllowList::of([World::node_id(7)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let wire = world.add_wire(a, b, link(10, 20)).expect("a valid link");
    let to_b = world.link(a, wire);
    world.app::<Sender>(a).dial(Instant::EPOCH, vec![to_b]);
    world.with_node(a, |_| ());
    world.run_until(Instant::from_secs(5));
    let closed = world.app::<Sender>(a).closed.clone();
    assert!(
        matches!(
            closed,
            Some(SessionCloseReason::NotListed(node)) if node == World::node_id(0)
        ),
        "{closed:?}"
    );
    assert_eq!(world.app::<Receiver>(b).sessions, 0);
}

/// All paths fail for a minute: the session waits and resumes.
#[test]
fn a_session_survives_without_any_path_and_resumes() {
    let mut world = world(
        1,
        vec![link(20, 20), link(10, 60)],
        vec![Load::bulk(8_000_000)],
    );
    for wire in [0, 1] {
        world.schedule(Duration::from_secs(1), move |w| w.set_wire_up(wire, false));
        world.schedule(Duration::from_secs(61), move |w| w.set_wire_up(wire, true));
    }
    world.run_while(Instant::from_secs(120), |w| !w.app::<Sender>(0).is_done());
    let receiver = world.app::<Receiver>(1);
    assert_eq!(receiver.sessions, 1);
    let record = receiver.record("bulk");
    assert!(record.finished && record.corrupt == 0);
    assert!(world.app::<Sender>(0).is_done(), "at {}", world.now());
}
