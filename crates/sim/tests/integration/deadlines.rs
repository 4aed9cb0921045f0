//! Streams with deadlines beside a file, over the demo's three recorded paths, in virtual time.

use std::{path::Path, sync::Arc, time::Duration};

use anabranch_base::{Instant, Seed};
use anabranch_link::{Trace, describe::parse_both, duplex::Configs};
use anabranch_session::{AllowList, Config, Order, Priority, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender, StreamRecord},
};

const PATHS: [&str; 3] = [
    r#"rate=trace "hsdpa-bus.csv", delay=45 ms, queue=300 ms, jitter=4 ms"#,
    r#"rate=trace "starlink-up.csv", delay=30 ms, queue=120 ms, jitter=3 ms, loss=0.2 %"#,
    r#"rate=trace "fixed.csv", delay=12 ms, queue=150 ms"#,
];
const CONTROL_LIFETIME: Duration = Duration::from_millis(150);
/// Approximate capacity left by the other streams in 18 s while one of the paths is cut.
const FILE_BYTES: u64 = 40_000_000;
const VIDEO_LIFETIME: Duration = Duration::from_millis(400);

#[allow(clippy::disallowed_methods)] // A test may read the recorded paths.
fn path(text: &str) -> Configs {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let mut load = |name: &str| {
        let bytes = std::fs::read(data.join(name)).map_err(|error| error.to_string())?;
        let trace = Trace::parse(name, &bytes).map_err(|error| error.to_string())?;
        Ok(Arc::new(trace))
    };
    parse_both(text, &mut load).expect("a path of the demo")
}

fn live(label: &str, lifetime: Duration, priority: Priority, bytes: usize, ms: u64) -> Load {
    let every = Duration::from_millis(ms);
    Load {
        spec: StreamSpec {
            order: Order::Unordered,
            lifetime: Some(lifetime),
            priority,
            notify: true,
            label: label.to_owned(),
            ..StreamSpec::default()
        },
        adu_bytes: bytes,
        every: Some(every),
        adus: 20_000 / ms,
        start: Instant::from_millis(500),
    }
}

fn world(seed: u64, paths: impl IntoIterator<Item = Configs>, loads: Vec<Load>) -> World {
    let mut world = World::new(Seed(seed));
    let sender = Sender::new(World::node_id(1), loads);
    let a = world.add_node(Config::default(), AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let mut links = Vec::new();
    for configs in paths {
        let wire = world.add_wire(a, b, configs).expect("a valid link");
        links.push(world.link(a, wire));
    }
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world
}

fn demo(seed: u64, cut: bool) -> World {
    let loads = vec![
        live("control", CONTROL_LIFETIME, Priority::URGENT, 200, 20),
        live("video", VIDEO_LIFETIME, Priority(160), 7_500, 40),
        Load {
            start: Instant::from_millis(500),
            spec: StreamSpec::bulk("file"),
            ..Load::bulk(FILE_BYTES)
        },
    ];
    let mut world = world(seed, PATHS.map(path), loads);
    if cut {
        world.schedule(Duration::from_millis(8_500), |w| w.set_wire_up(1, false));
        world.schedule(Duration::from_millis(12_500), |w| w.set_wire_up(1, true));
    }
    world
}

fn in_time(record: &StreamRecord, lifetime: Duration) -> usize {
    record
        .delays
        .iter()
        .filter(|&&delay| delay <= lifetime)
        .count()
}

/// Messages within 150 ms and frames within 400 ms keep their deadlines beside a file that fills every path, even while
/// the widest path is silent for four seconds; and the file gets the rest.
#[test]
fn live_streams_keep_their_deadlines_beside_a_file() {
    for seed in 1..=4 {
        for cut in [true, false] {
            let mut world = demo(seed, cut);
            world.run_until(Instant::from_millis(21_500));
            let receiver = world.app::<Receiver>(1);
            let [control, video, file] = ["control", "video", "file"].map(|l| receiver.record(l));
            let words = format!(
                "seed {seed}, cut {cut}: control {}, video {}, file {} bytes",
                in_time(&control, CONTROL_LIFETIME),
                in_time(&video, VIDEO_LIFETIME),
                file.bytes
            );
            assert!(in_time(&control, CONTROL_LIFETIME) >= 995, "{words}");
            assert!(in_time(&video, VIDEO_LIFETIME) >= 495, "{words}");
            assert!(file.bytes >= FILE_BYTES && file.corrupt == 0, "{words}");
        }
    }
}

/// Beyond the capacity of the path, the excess is dropped before it is sent, and the rest is in time.
#[test]
fn an_overloaded_live_stream_keeps_what_fits() {
    let lifetime = Duration::from_millis(200);
    let paths = [path("rate=10 Mbit/s, delay=20 ms, queue=100 ms")];
    // 12.5 Mbit/s in frames of 12,500 bytes.
    let video = live("video", lifetime, Priority::NORMAL, 12_500, 8);
    let mut world = world(1, paths, vec![video]);
    world.run_until(Instant::from_millis(21_500));
    let record = world.app::<Receiver>(1).record("video");
    // The path's share of 2,500 frames is 1,900.
    let count = in_time(&record, lifetime);
    assert!(
        count >= 1_860,
        "{count} in time, {} in all",
        record.numbers.len()
    );
}

/// Data on a path that falls silent is copied to the other before the loss of the path is certain.
#[test]
fn a_cut_path_costs_no_deadline_that_a_copy_can_keep() {
    let lifetime = Duration::from_millis(200);
    let paths = [
        path("rate=10 Mbit/s, delay=20 ms, queue=100 ms"),
        path("rate=10 Mbit/s, delay=30 ms, queue=100 ms"),
    ];
    let frames = live("frames", lifetime, Priority::NORMAL, 1_000, 5);
    let mut world = world(1, paths, vec![frames, Load::bulk(100_000_000)]);
    for second in [5, 10, 15] {
        world.schedule(Duration::from_secs(second), |w| w.set_wire_up(0, false));
        world.schedule(Duration::from_secs(second + 1), |w| w.set_wire_up(0, true));
    }
    world.run_until(Instant::from_millis(21_500));
    let record = world.app::<Receiver>(1).record("frames");
    let count = in_time(&record, lifetime);
    assert!(count >= 3_990, "{count} of 4000 in time");
}

/// An ADU is refused if the stream's backlog already makes it late.
#[test]
fn an_adu_behind_a_long_backlog_would_miss() {
    let paths = [path("rate=10 Mbit/s, delay=20 ms, queue=100 ms")];
    let start = Load::messages(1_000, Duration::from_millis(1), 500);
    let mut world = world(1, paths, vec![start]);
    world.run_until(Instant::from_secs(1));
    let now = world.now();
    let session = world.app::<Sender>(0).session().expect("it connected");
    let spec = StreamSpec {
        lifetime: Some(Duration::from_millis(120)),
        ..StreamSpec::default()
    };
    let engine = world.engine(0);
    let stream = engine
        .session(session)
        .and_then(|mut session| session.open_stream(now, spec))
        .expect("open");
    let adu = bytes::Bytes::from(vec![0; 10_000]);
    let accepted = (0..100)
        .take_while(|_| {
            engine
                .session(session)
                .unwrap()
                .stream(stream)
                .send_if_timely(now, adu.clone())
                .is_ok()
        })
        .count();
    // 100 ms of 10 Mbit/s, less the overhead of QUIC and IP.
    assert!((8..=12).contains(&accepted), "{accepted}");
}
