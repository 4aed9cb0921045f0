//! Establishment of a session on one path of several, in whatever order packets arrive.

use crate::common;

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_session::StreamSpec;
use anabranch_sim::apps::{Load, Receiver, Sender};

use common::{link, world};

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const BYTES: u64 = 1_000_000;

/// The JOIN on the first initial channel is in transit for two seconds. Meanwhile the session is established on another
/// path, which sends REPLACE. The late arrival establishes no second session.
#[test]
fn a_join_that_was_overtaken_by_its_replacement_establishes_nothing() {
    let mut world = world(1, [link(20, 40), link(10, 60)], vec![Load::bulk(BYTES)]);
    let slow = Duration::from_secs(2);
    world.schedule(Duration::from_millis(35), move |w| {
        let forward = &mut w.wire(0).duplex.forward;
        forward.set_delay(slow).expect("within range");
    });
    world.schedule(Duration::from_millis(50), |w| {
        let now = w.now();
        let socket = w.link(SENDER, 0).socket;
        w.engine(SENDER).socket_down(now, socket);
        w.nudge(SENDER);
    });
    world.run_until(Instant::from_secs(1));
    let established = world.engine(RECEIVER).session_ids();
    assert_eq!(established.len(), 1, "on the other path");

    world.run_until(Instant::from_secs(10));
    assert!(world.app::<Sender>(SENDER).is_done());
    assert_eq!(world.engine(RECEIVER).session_ids(), established);
    let receiver = world.app::<Receiver>(RECEIVER);
    assert_eq!(receiver.sessions, 1, "no second session");
    assert_eq!(receiver.record("bulk").corrupt, 0);
}

/// The responder knows the session by its first initial channel, and its application has sent already, when the
/// initiator, which receives no acknowledgement, establishes the session on another path.
#[test]
fn a_session_continues_on_another_initial_channel() {
    let mut world = world(
        1,
        [link(20, 20), link(10, 60)],
        vec![Load::bulk(16 * 65_536)],
    );
    world.schedule(Duration::from_millis(50), |w| {
        let backward = &mut w.wire(0).duplex.backward;
        backward
            .set_delay(Duration::from_secs(2))
            .expect("within range");
    });
    world.run_until(Instant::from_millis(70));
    let [established] = world.engine(RECEIVER).session_ids()[..] else {
        panic!("one session");
    };
    let now = world.now();
    let session = world.engine(RECEIVER).session(established);
    let mut session = session.expect("just listed");
    let greeting = session.open_stream(now, StreamSpec::default());
    let greeting = greeting.expect("streams are free");
    let mut stream = session.stream(greeting);
    stream.send(now, "welcome".into()).expect("room");
    stream.finish().expect("open");
    world.nudge(RECEIVER);

    world.run_until(Instant::from_secs(10));
    let receiver = world.app::<Receiver>(RECEIVER);
    assert_eq!(receiver.sessions, 1, "the application notices nothing");
    assert!(receiver.closed.is_empty(), "{:?}", receiver.closed);
    let numbers = receiver.record("bulk").numbers;
    assert!(
        numbers.iter().copied().eq(0..16),
        "nothing lost, nothing twice"
    );
    assert_eq!(world.engine(RECEIVER).session_ids(), [established]);
    let sender = world.app::<Sender>(SENDER);
    assert!(sender.is_done());
    let session = sender.session().expect("it sent");
    let session = world.engine(SENDER).session(session);
    let received = session.expect("it continues").stream(greeting).receive();
    assert_eq!(received.expect("sent again").data, "welcome");
}
