//! Allocation of streams: shares, caps and drop orders, in virtual time.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, Seed, SessionId, StreamId};
use anabranch_link::describe::parse_both;
use anabranch_session::{
    AllowList, Config, DropOrder, Event, Order, Priority, StreamEvent, StreamParameters, StreamSpec,
};
use anabranch_sim::{
    App, Context, World,
    apps::{Load, Receiver, Sender, StreamRecord},
};

/// A [`Sender`] that records the events of its streams.
#[derive(Debug)]
struct Observer {
    sender: Sender,
    throttles: Vec<(Instant, StreamId, Rate)>,
    dropped: BTreeMap<StreamId, Vec<u64>>,
    writable: u64,
}

impl App for Observer {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match &event {
            Event::Stream {
                stream,
                event: StreamEvent::Throttle { rate },
                ..
            } => {
                self.throttles.push((context.now(), *stream, *rate));
            }
            Event::Stream {
                stream,
                event: StreamEvent::Dropped { adu },
                ..
            } => {
                self.dropped.entry(*stream).or_default().push(*adu);
            }
            Event::Writable { .. } => self.writable += 1,
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

impl Observer {
    /// Last rate reported for the stream.
    fn reported_mbps(&self, stream: u64) -> f64 {
        let of = |throttle: &&(Instant, StreamId, Rate)| throttle.1 == StreamId(stream);
        let last = self.throttles.iter().rev().find(of);
        last.expect("the stream was notified").2.as_bps() as f64 / 1e6
    }
}

/// Streams on one path of `mbps` Mbit/s with a queue of 100 ms; the n-th load is stream 2 · n.
fn world(mbps: u64, loads: Vec<Load>) -> World {
    world_of(&[mbps], loads)
}

/// A world whose paths have these rates.
fn world_of(mbps: &[u64], loads: Vec<Load>) -> World {
    let mut world = World::new(Seed(1));
    let observer = Observer {
        sender: Sender::new(World::node_id(1), loads),
        throttles: Vec::new(),
        dropped: BTreeMap::new(),
        writable: 0,
    };
    let a = world.add_node(Config::default(), AllowList::default(), observer);
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let mut links = Vec::new();
    for mbps in mbps {
        let text = format!("rate={mbps} Mbit/s, delay=20 ms, queue=100 ms");
        let path = parse_both(&text, &mut |_| Err("no traces here".to_owned())).expect("a path");
        let wire = world.add_wire(a, b, path).expect("a valid link");
        links.push(world.link(a, wire));
    }
    let observer = world.app::<Observer>(a);
    observer.sender.dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world
}

fn bulk(label: &str, change: impl FnOnce(&mut StreamSpec)) -> Load {
    let mut spec = StreamSpec::bulk(label);
    change(&mut spec);
    Load {
        spec,
        ..Load::bulk(1 << 40)
    }
}

/// `kbps` in ADUs of 1000 bytes at equal intervals, for 20 s.
fn live(label: &str, kbps: u64, change: impl FnOnce(&mut StreamSpec)) -> Load {
    let mut spec = StreamSpec {
        reliable: false,
        order: Order::Unordered,
        notify: true,
        label: label.to_owned(),
        ..StreamSpec::default()
    };
    change(&mut spec);
    Load {
        spec,
        adu_bytes: 1000,
        every: Some(Duration::from_nanos(8_000_000_000 / kbps)),
        adus: kbps * 20 / 8,
        start: Instant::EPOCH,
    }
}

fn record(world: &mut World, label: &str) -> StreamRecord {
    world.app::<Receiver>(1).record(label)
}

/// Mbit/s read between two times, in tenths of a second.
fn mbps(record: &StreamRecord, from: usize, to: usize) -> f64 {
    let bytes: u64 = record.per_100ms[from..to].iter().sum();
    bytes as f64 * 8.0 / 1e5 / (to - from) as f64
}

fn session(world: &mut World) -> SessionId {
    world.app::<Observer>(0).sender.session().expect("it is up")
}

fn adjust(world: &mut World, stream: u64, parameters: StreamParameters) {
    let id = session(world);
    world.with_node(0, |context| {
        let engine = context.engine();
        engine
            .session(id)
            .expect("it is open")
            .stream(StreamId(stream))
            .adjust(parameters)
            .expect("in range");
    });
}

/// A cap holds with and without spare capacity; cap and weight can change while the stream runs.
#[test]
fn caps_and_weights_hold_and_may_change() {
    let capped = bulk("capped", |spec| spec.cap = Some(Rate::from_mbps(2)));
    let mut world = world(10, vec![capped, bulk("free", |_| ())]);
    world.run_until(Instant::from_secs(10));
    adjust(
        &mut world,
        0,
        StreamParameters {
            cap: Some(None),
            ..StreamParameters::default()
        },
    );
    world.run_until(Instant::from_secs(20));
    adjust(
        &mut world,
        0,
        StreamParameters {
            weight: Some(300),
            ..StreamParameters::default()
        },
    );
    world.run_until(Instant::from_secs(30));
    let (capped, free) = (record(&mut world, "capped"), record(&mut world, "free"));
    // In every second: the cap, its 50 ms of burst, and ADUs of 64 KiB, which are read whole.
    let adu_mbit = 65_536.0 * 8.0 / 1e6;
    for from in 10..90 {
        let got = mbps(&capped, from, from + 10);
        assert!(got <= 2.1 + adu_mbit, "{got} Mbit/s from {from}");
    }
    let whole = mbps(&capped, 20, 100);
    assert!((1.85..2.05).contains(&whole), "{whole}");
    for (from, to, share) in [(30, 100, 0.2), (120, 200, 0.5), (220, 300, 0.75)] {
        let (own, other) = (mbps(&capped, from, to), mbps(&free, from, to));
        assert!(own + other > 9.0, "{own} and {other} Mbit/s of 10");
        let is = own / (own + other);
        assert!((is - share).abs() < 0.03, "{is} from {from}, not {share}");
    }
}

/// A priority that is changed holds from the next packet on, for what already waits, too.
#[test]
fn a_changed_priority_applies_at_once() {
    let mut world = world(10, vec![bulk("one", |_| ()), bulk("other", |_| ())]);
    let priority = |priority| StreamParameters {
        priority: Some(priority),
        ..StreamParameters::default()
    };
    world.run_until(Instant::from_secs(10));
    adjust(&mut world, 0, priority(Priority::NORMAL));
    world.run_until(Instant::from_secs(20));
    adjust(&mut world, 0, priority(Priority::SCAVENGER));
    world.run_until(Instant::from_secs(30));
    let (one, other) = (record(&mut world, "one"), record(&mut world, "other"));
    // A record ends with the last data that arrived.
    let mbps = |record: &StreamRecord, from: usize, to: usize| {
        let bytes: u64 = record.per_100ms.iter().take(to).skip(from).sum();
        bytes as f64 * 8.0 / 1e5 / (to - from) as f64
    };
    // Half a second is left to what was in flight and in the queue of the path.
    for (from, to, least, most) in [
        (30, 100, 0.45, 0.55),
        (105, 200, 0.97, 1.0),
        (205, 300, 0.0, 0.03),
    ] {
        let (own, rest) = (mbps(&one, from, to), mbps(&other, from, to));
        assert!(own + rest > 9.0, "{own} and {rest} Mbit/s of 10");
        let is = own / (own + rest);
        assert!((least..=most).contains(&is), "{is} from {from}");
    }
}

/// A lifetime that is set while data waits applies to what is handed over from then on.
#[test]
fn a_changed_lifetime_drops_what_is_late_from_then_on() {
    // Twice what the path carries.
    let live = live("live", 4_000, |spec| spec.reliable = true);
    let mut world = world(2, vec![live]);
    world.run_until(Instant::from_secs(5));
    let expired = |world: &mut World| {
        let id = session(world);
        world.with_node(0, |context| {
            let engine = context.engine();
            let mut session = engine.session(id).expect("it is open");
            session.stream_stats()[0].expired_adus
        })
    };
    assert_eq!(expired(&mut world), 0);
    let lifetime = StreamParameters {
        lifetime: Some(Some(Duration::from_millis(300))),
        ..StreamParameters::default()
    };
    adjust(&mut world, 0, lifetime);
    world.run_until(Instant::from_millis(5_250));
    assert_eq!(expired(&mut world), 0, "what waited has no lifetime");
    world.run_until(Instant::from_secs(10));
    assert!(expired(&mut world) > 500, "{}", expired(&mut world));
}

/// A stream that is pinned to another channel, or to none, while it sends uses that one from then on.
#[test]
fn a_changed_pin_moves_a_stream() {
    let bulk = bulk("bulk", |spec| spec.pinned = Some(ChannelId(0)));
    let mut world = world_of(&[10, 20], vec![bulk]);
    let pin = |pinned| StreamParameters {
        pinned: Some(pinned),
        ..StreamParameters::default()
    };
    world.run_until(Instant::from_secs(10));
    adjust(&mut world, 0, pin(Some(ChannelId(1))));
    world.run_until(Instant::from_secs(20));
    adjust(&mut world, 0, pin(None));
    world.run_until(Instant::from_secs(30));
    let record = record(&mut world, "bulk");
    for (from, to, least, most) in [
        (30, 100, 9.0, 10.0),
        (120, 200, 18.0, 20.0),
        (220, 300, 27.0, 30.0),
    ] {
        let got = mbps(&record, from, to);
        assert!((least..=most).contains(&got), "{got} Mbit/s from {from}");
    }
}

/// Streams are notified of their max–min rates: the light one of what it could have, the heavy ones of what it leaves,
/// by weight.
#[test]
fn throttle_events_state_the_shares() {
    let light = live("light", 1_000, |_| ());
    let heavy = bulk("heavy", |spec| spec.weight = 300);
    let other = bulk("other", |_| ());
    let mut world = world(10, vec![light, heavy, other]);
    world.run_until(Instant::from_secs(15));
    let observer = world.app::<Observer>(0);
    let [light, heavy, other] = [0, 2, 4].map(|stream| observer.reported_mbps(stream));
    // It has priority: it could have all.
    assert!((8.0..11.0).contains(&light), "{light}");
    // An event comes with a change of a quarter.
    assert!((2.2..4.6).contains(&(heavy / other)), "{heavy}, {other}");
    assert!((6.5..11.0).contains(&(heavy + other)), "{heavy}, {other}");
    let count = observer.throttles.len();
    assert!(count < 60, "{count} events in 15 s");
    // One of the two ends: the other is notified.
    let id = session(&mut world);
    world.with_node(0, |context| {
        let reset = context
            .engine()
            .session(id)
            .and_then(|session| session.stream(StreamId(2)).reset(0));
        reset.expect("it is open");
    });
    world.run_until(Instant::from_secs(18));
    let alone = world.app::<Observer>(0).reported_mbps(4);
    assert!((6.5..11.0).contains(&alone), "{alone}");
}

/// With three times the capacity of the path, the excess is dropped in the stream's order, each ADU has one outcome,
/// the application is not blocked, and the data that arrives of a stream that drops the oldest is recent.
#[test]
fn beyond_its_share_a_stream_drops_in_its_order() {
    // The backlog is half a second at 4 Mbit/s. Where the oldest are dropped, an ADU leaves it after the time to fill it, at
    // 12 Mbit/s; where the newest are dropped, those accepted wait for all of it.
    for (order, wait_ms) in [(DropOrder::Oldest, 167), (DropOrder::Newest, 500)] {
        let load = live("live", 12_000, |spec| spec.drop = Some(order));
        let mut world = world(4, vec![load]);
        world.run_until(Instant::from_secs(30));
        let record = record(&mut world, "live");
        let observer = world.app::<Observer>(0);
        let dropped = observer.dropped.remove(&StreamId(0)).unwrap_or_default();
        let (sent, acked, lost, expired) = observer.sender.outcomes("live").expect("it ran");
        assert_eq!(observer.writable, 0, "never blocked");
        assert_eq!((sent, expired), (30_000, 0));
        assert_eq!(
            sent,
            acked + lost + dropped.len() as u64,
            "one outcome each"
        );
        assert!(dropped.iter().all(|adu| !record.numbers.contains(adu)));
        let share = acked as f64 / sent as f64;
        assert!((0.28..0.36).contains(&share), "{share} of a third");
        // The path takes 20 ms, and up to 100 ms in its queue.
        let middle = record.delay_quantile(0.5).as_millis() as u64;
        let range = wait_ms - 30..wait_ms + 150;
        assert!(range.contains(&middle), "{middle} ms, not {range:?}");
        let last = record.numbers.iter().max().expect("some arrive");
        assert!(*last == 29_999 || order == DropOrder::Newest, "{last}");
    }
}

/// Beside other streams the share counts, not the capacity of the path; a light stream loses nothing.
#[test]
fn a_stream_within_its_share_loses_nothing() {
    let drop = |spec: &mut StreamSpec| {
        spec.drop = Some(DropOrder::Oldest);
        spec.priority = Priority::BULK;
    };
    let light = live("light", 1_000, drop);
    let heavy = live("heavy", 9_000, drop);
    let mut world = world(6, vec![light, heavy, bulk("file", |_| ())]);
    world.run_until(Instant::from_secs(30));
    let (heavy, file) = (record(&mut world, "heavy"), record(&mut world, "file"));
    let observer = world.app::<Observer>(0);
    assert_eq!(observer.dropped.get(&StreamId(0)), None);
    assert!(observer.dropped[&StreamId(2)].len() > 5_000);
    // 5 Mbit/s for two.
    let (heavy, file) = (mbps(&heavy, 30, 200), mbps(&file, 30, 200));
    assert!((heavy - file).abs() < 0.3, "{heavy} and {file} Mbit/s");
}

/// Without a drop order the application is blocked, and nothing is dropped.
#[test]
fn without_a_drop_order_there_is_back_pressure() {
    // 20 s at 12 Mbit/s are 30 MB; the buffer holds 8.
    let load = live("live", 12_000, |_| ());
    let mut world = world(4, vec![load]);
    world.run_until(Instant::from_secs(40));
    let observer = world.app::<Observer>(0);
    assert!(observer.dropped.is_empty());
    assert!(observer.writable > 0);
}

/// An application that keeps its own queue hands over what can leave soon, and is notified of every space: the path stays full.
#[test]
fn a_limit_on_what_waits_unsent_keeps_the_path_full() {
    let load = live("live", 12_000, |_| ());
    let mut world = world(8, vec![load]);
    world.run_until(Instant::from_millis(200));
    let limit = StreamParameters {
        unsent_max: Some(std::num::NonZeroU32::new(20_000)),
        ..StreamParameters::default()
    };
    adjust(&mut world, 0, limit);
    let id = session(&mut world);
    // What was handed over before has left by then.
    for tenth in 20..150 {
        world.run_until(Instant::from_millis(tenth * 100));
        let session = world.engine(0).session(id);
        let stats = session.expect("it is open").stream_stats();
        let waiting = stats[0].backlog_bytes;
        assert!(waiting < 20_000 + 1_000, "{waiting} bytes wait");
    }
    let record = record(&mut world, "live");
    let got = mbps(&record, 50, 140);
    assert!(got > 7.0, "{got} Mbit/s of 8");
    assert!(world.app::<Observer>(0).writable > 100);
}
