//! Paths that their user takes out of use and in again, while data and promises are on them.

use crate::common::{self, link};

use std::{sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_session::{ChannelReport, Guarantee, PathError, StreamSpec, TakenOut};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

const SENDER: usize = 0;
const RECEIVER: usize = 1;

fn channels(world: &mut World) -> Vec<ChannelReport> {
    let session = world.app::<Sender>(SENDER).session().expect("it is up");
    let mut session = world.engine(SENDER).session(session).expect("it is open");
    session.channel_stats()
}

/// The channel on a wire.
fn on(world: &mut World, wire: usize) -> ChannelReport {
    let link = world.link(SENDER, wire);
    let mut all = channels(world).into_iter();
    let found = all.find(|channel| channel.socket == link.socket && channel.remote == link.remote);
    found.expect("the path is up")
}

fn take_out(
    world: &mut World,
    channel: ChannelId,
    time: Option<Duration>,
    is_forced: bool,
) -> Result<(), PathError> {
    let session = world.app::<Sender>(SENDER).session().expect("it is up");
    world.with_node(SENDER, |context| {
        let now = context.now();
        let order = TakenOut {
            by: Arc::from("a test"),
            until: time.map(|time| now + time),
        };
        let mut session = context.engine().session(session).expect("it is open");
        session.take_out(now, channel, order, is_forced)
    })
}

fn take_in(world: &mut World, channel: ChannelId) -> Result<(), PathError> {
    let session = world.app::<Sender>(SENDER).session().expect("it is up");
    world.with_node(SENDER, |context| {
        let mut session = context.engine().session(session).expect("it is open");
        session.take_in(channel)
    })
}

fn assert_whole(world: &mut World, label: &str, adus: u64) {
    let mut numbers = world.app::<Receiver>(RECEIVER).record(label).numbers;
    numbers.sort_unstable();
    assert_eq!(numbers, (0..adus).collect::<Vec<u64>>(), "each once");
    assert_eq!(world.audit(), Vec::<String>::new());
}

/// Whatever path goes out and in, and when: not a byte of streams is sent on it meanwhile, it stays alive, and all data arrives once.
#[test]
fn nothing_is_lost_and_nothing_is_sent_on_a_path_that_is_out() {
    for seed in 0..8_u64 {
        let load = Load::bulk(24_000_000);
        let adus = load.adus;
        let mut world = common::world(seed, [link(20, 20), link(10, 60)], vec![load]);
        world.run_until(Instant::from_millis(700 + 170 * seed));
        for round in 0..3_u64 {
            let wire = ((seed + round) % 2) as usize;
            let channel = on(&mut world, wire);
            assert!(channel.payload_sent_bytes > 0 && channel.taken_out.is_none());
            take_out(&mut world, channel.channel, None, false).unwrap();
            let other = on(&mut world, 1 - wire).payload_sent_bytes;
            let before = on(&mut world, wire).payload_sent_bytes;
            world.run_until(world.now() + Duration::from_millis(900 + 110 * seed));
            let out = on(&mut world, wire);
            assert_eq!(out.payload_sent_bytes, before, "seed {seed}, round {round}");
            assert_eq!(&*out.taken_out.expect("it is out").by, "a test");
            assert!(on(&mut world, 1 - wire).payload_sent_bytes > other + 500_000);
            take_in(&mut world, channel.channel).unwrap();
            let again = world.now() + Duration::from_millis(300);
            world.run_until(again);
            let back = on(&mut world, wire);
            assert_eq!(back.channel, channel.channel, "it has stayed alive");
            assert!(back.payload_sent_bytes > before, "it carries data again");
        }
        world.run_while(Instant::from_secs(90), |world| {
            !world.app::<Sender>(SENDER).is_done()
        });
        assert_whole(&mut world, "bulk", adus);
    }
}

#[test]
fn an_order_ends_by_itself_and_holds_for_the_next_channel_of_the_link() {
    let mut world = common::world(3, [link(20, 20), link(10, 60)], vec![Load::bulk(1 << 40)]);
    world.run_until(Instant::from_secs(2));
    let first = on(&mut world, 1).channel;
    take_out(&mut world, first, Some(Duration::from_secs(60)), false).unwrap();
    // The link is lost for so long that its channel ends, and another one is opened.
    world.set_wire_up(1, false);
    world.run_until(Instant::from_secs(40));
    world.set_wire_up(1, true);
    world.run_until(Instant::from_secs(61));
    let next = on(&mut world, 1);
    assert_ne!(next.channel, first);
    assert!(next.taken_out.is_some());
    assert_eq!(next.payload_sent_bytes, 0);
    world.run_until(Instant::from_secs(63));
    let back = on(&mut world, 1);
    assert!(back.taken_out.is_none() && back.payload_sent_bytes > 500_000);
}

#[test]
fn the_last_path_is_taken_out_by_force_only() {
    let load = Load::bulk(12_000_000);
    let adus = load.adus;
    let mut world = common::world(4, [link(20, 20), link(10, 60)], vec![load]);
    world.run_until(Instant::from_secs(1));
    let [first, second] = [0, 1].map(|wire| on(&mut world, wire).channel);
    assert_eq!(take_in(&mut world, first), Err(PathError::NotOut(first)));
    let none = ChannelId(77);
    assert_eq!(
        take_out(&mut world, none, None, true),
        Err(PathError::Unknown(none))
    );
    take_out(&mut world, first, None, false).unwrap();
    let refused = take_out(&mut world, second, None, false);
    assert_eq!(refused, Err(PathError::Last(second)));
    take_out(&mut world, second, None, true).unwrap();
    let sent = |world: &mut World| -> u64 {
        let all = channels(world);
        all.iter().map(|channel| channel.payload_sent_bytes).sum()
    };
    let before = sent(&mut world);
    world.run_until(Instant::from_secs(20));
    assert_eq!(sent(&mut world), before, "all data waits");
    assert_eq!(channels(&mut world).len(), 2, "and the paths are alive");
    take_in(&mut world, second).unwrap();
    world.run_while(Instant::from_secs(90), |world| {
        !world.app::<Sender>(SENDER).is_done()
    });
    assert_whole(&mut world, "bulk", adus);
}

/// A promise moves to the path that is left if that holds it; one that it does not hold is withdrawn after a warning, with the cause.
#[test]
fn promises_are_placed_on_the_paths_that_are_left() {
    let load = |label: &str, kbps: u64| {
        let spec = StreamSpec::messages(label)
            .with_guarantee(Guarantee::rate(Rate::from_kbps(kbps), 0.9).waiting());
        let bytes = (kbps * 20 / 8) as usize;
        Load {
            spec,
            ..Load::messages(bytes, Duration::from_millis(20), u64::MAX)
        }
    };
    let loads = vec![
        Load::bulk(1 << 40),
        load("small", 3_000),
        load("large", 14_000),
    ];
    let mut world = common::world(5, [link(20, 30), link(10, 60)], loads);
    let explain = |world: &mut World, stream: u64| {
        let session = world.app::<Sender>(SENDER).session().expect("it is up");
        let session = world.engine(SENDER).session(session).expect("it is open");
        session
            .stream(StreamId::new(stream, true))
            .explain()
            .expect("it has a guarantee")
    };
    world.run_until(Instant::from_secs(90));
    for stream in [1, 2] {
        let explained = explain(&mut world, stream);
        assert!(explained.term.is_some(), "{explained:#?}");
    }
    let fast = on(&mut world, 0).channel;
    let is_on_fast =
        |shares: &[(ChannelId, Rate)]| shares.iter().any(|(channel, _)| *channel == fast);
    let was_on_fast = is_on_fast(&explain(&mut world, 1).shares);
    take_out(&mut world, fast, None, false).unwrap();
    world.run_until(Instant::from_secs(92));
    let small = explain(&mut world, 1);
    assert!(!is_on_fast(&small.shares), "{small:#?}");
    world.run_until(Instant::from_secs(130));
    let small = explain(&mut world, 1);
    assert!(small.term.is_some(), "{small:#?}");
    assert_eq!(small.account.withdrawn, 0);
    let cause = format!("{fast} was taken out of use by a test");
    let is_named = small.notes.iter().any(|note| note.text.contains(&cause));
    assert_eq!(is_named, was_on_fast, "{small:#?}");
    let large = explain(&mut world, 2);
    assert_eq!(large.term, None, "{large:#?}");
    let place = |word: &str| {
        let mut notes = large.notes.iter();
        notes.position(|note| note.text.starts_with(word))
    };
    let [out, warned, withdrawn] = ["", "warned: ", "withdrawn: "]
        .map(|word| format!("{word}{cause}"))
        .map(|words| place(&words));
    assert!(
        out.is_some() && out < warned && warned < withdrawn,
        "{large:#?}"
    );
    take_in(&mut world, fast).unwrap();
    world.run_until(Instant::from_secs(260));
    let large = explain(&mut world, 2);
    assert!(large.term.is_some(), "{large:#?}");
}
