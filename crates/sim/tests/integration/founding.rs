//! Establishment of a session on one path of several, in whatever order packets arrive.

use crate::common;

use std::time::Duration;

use anabranch_base::Instant;
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
