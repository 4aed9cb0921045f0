//! ADUs that wait are discarded in favour of something newer.

use std::time::Duration;

use anabranch_base::{Instant, StreamId};
use anabranch_session::{
    Discarded, StreamError, StreamMut, StreamParameters, StreamSpec, StreamStats,
};
use anabranch_sim::{
    World,
    apps::{Receiver, StreamRecord, make_adu},
};

use crate::common::{link, world};

/// ADUs handed over at once: data for four seconds.
const OLD: u64 = 100;
const ADU_BYTES: usize = 10_000;
/// Time at which there is something newer.
const TURN: Instant = Instant::from_secs(2);

fn with<R>(world: &mut World, stream: StreamId, act: impl FnOnce(StreamMut<'_>) -> R) -> R {
    let session = world.engine(0).session_ids()[0];
    let done = act(world.engine(0).session(session).unwrap().stream(stream));
    world.with_node(0, |_| ());
    done
}

/// Hands over what is old, then a newer ADU; before it, what waits is discarded if `is_discarded`.
fn turn(spec: StreamSpec, is_discarded: bool) -> (Discarded, StreamRecord, StreamStats) {
    let mut world = world(5, [link(1, 40), link(1, 80)], Vec::new());
    world.run_until(Instant::from_secs(1));
    let now = world.now();
    let session = world.engine(0).session_ids()[0];
    let spec = StreamSpec {
        label: "view".to_owned(),
        ..spec
    };
    let opened = world.engine(0).session(session).unwrap();
    let stream = { opened }.open_stream(now, spec).unwrap();
    for number in 0..OLD {
        let adu = make_adu(now, number, ADU_BYTES);
        with(&mut world, stream, |mut stream| stream.send(now, adu)).unwrap();
    }
    world.run_until(TURN);
    let discarded = match is_discarded {
        true => with(&mut world, stream, |mut stream| stream.discard(TURN)).unwrap(),
        false => Discarded::default(),
    };
    let newer = make_adu(TURN, OLD, ADU_BYTES);
    with(&mut world, stream, |mut stream| stream.send(TURN, newer)).unwrap();
    world.run_for(Duration::from_secs(10));
    let stats = world.engine(0).session(session).unwrap().stream_stats();
    let stats = stats.into_iter().find(|stats| stats.stream == stream);
    let record = world.app::<Receiver>(1).record("view");
    (discarded, record, stats.unwrap())
}

fn unreliable() -> StreamSpec {
    StreamSpec {
        reliable: false,
        ..StreamSpec::default()
    }
}

/// Reliable, as long as an ADU is of use.
fn lasting() -> StreamSpec {
    StreamSpec {
        lifetime: Some(Duration::from_secs(20)),
        ..StreamSpec::default()
    }
}

#[test]
fn the_newer_adu_comes_at_once_and_what_was_discarded_never() {
    for spec in [unreliable(), lasting()] {
        let (_, patient, _) = turn(spec.clone(), false);
        assert_eq!(patient.numbers.last(), Some(&OLD));
        assert!(patient.delays.last().unwrap() > &Duration::from_secs(2));
        let (discarded, record, stats) = turn(spec, true);
        assert!(discarded.adus > OLD / 2, "{discarded:?}");
        assert_eq!(discarded.bytes, discarded.adus * ADU_BYTES as u64);
        // What was sent completely before comes, in order, each once; then the newer one.
        let sent = OLD - discarded.adus;
        let lost = stats.lost_adus;
        assert!(record.numbers.is_sorted_by(|a, b| a < b), "{record:?}");
        let (newest, before) = record.numbers.split_last().unwrap();
        assert!(*newest == OLD && before.iter().all(|number| *number < sent));
        assert_eq!(before.len() as u64, sent - lost);
        let delay = record.delays.last().unwrap();
        assert!(*delay < Duration::from_millis(400), "{delay:?}");
        let outcomes = (stats.sent_adus, stats.acked_adus, stats.shed_adus);
        assert_eq!(outcomes, (OLD + 1, sent + 1 - lost, discarded.adus));
        assert_eq!((stats.expired_adus, stats.backlog_bytes), (0, 0));
    }
}

#[test]
fn nothing_of_a_reliable_stream_without_a_lifetime_is_discarded() {
    let mut world = world(5, [link(1, 40)], Vec::new());
    world.run_until(Instant::from_secs(1));
    let now = world.now();
    let session = world.engine(0).session_ids()[0];
    let opened = world.engine(0).session(session).unwrap();
    let stream = { opened }
        .open_stream(now, StreamSpec::messages("all"))
        .unwrap();
    let send = |world: &mut World, numbers: std::ops::Range<u64>| {
        for number in numbers {
            let adu = make_adu(now, number, ADU_BYTES);
            with(world, stream, |mut stream| stream.send(now, adu)).unwrap();
        }
    };
    send(&mut world, 0..10);
    let refused = with(&mut world, stream, |mut stream| stream.discard(now));
    assert_eq!(refused, Err(StreamError::Reliable(stream)));
    // Even if what comes later has one.
    let parameters = StreamParameters {
        lifetime: Some(Some(Duration::from_secs(20))),
        ..StreamParameters::default()
    };
    with(&mut world, stream, |mut stream| stream.adjust(parameters)).unwrap();
    send(&mut world, 10..20);
    let discarded = with(&mut world, stream, |mut stream| stream.discard(now));
    assert_eq!(discarded.map(|discarded| discarded.adus), Ok(10));
    world.run_for(Duration::from_secs(10));
    let mut numbers = world.app::<Receiver>(1).record("all").numbers;
    numbers.sort_unstable();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    let unknown = StreamId(stream.0 + 8);
    let refused = with(&mut world, unknown, |mut stream| stream.discard(now));
    assert_eq!(refused, Err(StreamError::UnknownStream(unknown)));
}
