//! The session is founded on one path of several, whatever overtakes what.

mod common;

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_sim::apps::{Load, Receiver, Sender};

use common::{link, world};

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const BYTES: u64 = 1_000_000;

/// The JOIN on the first home is under way for two seconds. Meanwhile the session is founded on another path, which says
/// REPLACE. What arrives late founds no second session.
#[test]
fn a_join_that_was_overtaken_by_its_replacement_founds_nothing() {
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
    let founded = world.engine(RECEIVER).session_ids();
    assert_eq!(founded.len(), 1, "on the other path");

    world.run_until(Instant::from_secs(10));
    assert!(world.app::<Sender>(SENDER).is_done());
    assert_eq!(world.engine(RECEIVER).session_ids(), founded);
    let receiver = world.app::<Receiver>(RECEIVER);
    assert_eq!(receiver.sessions, 1, "nobody heard of another one");
    assert_eq!(receiver.record("bulk").corrupt, 0);
}
