//! Nodes that are suspended for a while, and nodes that restart without state.

use crate::common;

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_session::{AllowList, Config, SessionCloseReason};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

use common::{link, world};

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const BYTES: u64 = 8_000_000;

/// A bulk transfer of about 2.5 s over two paths.
fn transfer(seed: u64) -> World {
    world(seed, [link(20, 20), link(10, 60)], vec![Load::bulk(BYTES)])
}

fn allowed() -> AllowList {
    AllowList::of([World::node_id(SENDER)])
}

/// Suspends these nodes 1 s after the start for `pause`; returns the time at which everything had arrived.
fn suspend(seed: u64, nodes: &'static [usize], pause: Duration) -> Instant {
    let mut world = transfer(seed);
    for &node in nodes {
        world.schedule(Duration::from_secs(1), move |w| w.suspend(node));
        world.schedule(Duration::from_secs(1) + pause, move |w| w.resume(node));
    }
    let end = Instant::from_secs(1) + pause + Duration::from_secs(60);
    world.run_while(end, |w| !w.app::<Sender>(SENDER).is_done());
    assert!(
        world.app::<Sender>(SENDER).is_done(),
        "seed {seed}, nodes {nodes:?}, {pause:?}"
    );
    let closed = &world.app::<Sender>(SENDER).closed;
    assert_eq!(*closed, None, "the session lives on");
    let receiver = world.app::<Receiver>(RECEIVER);
    assert_eq!(receiver.sessions, 1, "one and the same session");
    let record = receiver.record("bulk");
    let expected: Vec<u64> = (0..BYTES.div_ceil(64 << 10)).collect();
    assert_eq!(record.numbers, expected, "all of it, in order, once");
    assert_eq!(record.corrupt, 0);
    world.now()
}

/// A machine that was suspended: for it, a minute passes in no time, and every timer is late at once.
#[test]
fn a_session_survives_the_suspension_of_either_end_or_both() {
    for seed in 1..=2 {
        for nodes in [&[SENDER][..], &[RECEIVER], &[SENDER, RECEIVER]] {
            for pause in [5, 60] {
                let pause = Duration::from_secs(pause);
                let done = suspend(seed, nodes, pause);
                // 2.1 s of data at full rate, 1 s of which was before the pause.
                let after = done.since(Instant::from_secs(1) + pause);
                assert!(
                    after < Duration::from_secs(6),
                    "seed {seed}, {nodes:?}, {pause:?}: {after:?}"
                );
            }
        }
    }
}

/// A node that was killed and started again reports it at once; no peer waits for a time-out.
#[test]
fn a_restarted_node_notifies_its_peer_that_the_session_is_gone() {
    for seed in 1..=3 {
        let mut world = transfer(seed);
        world.schedule(Duration::from_secs(1), |w| {
            w.restart(RECEIVER, Config::default(), allowed(), Receiver::new());
        });
        world.run_while(Instant::from_secs(60), |w| {
            w.app::<Sender>(SENDER).closed.is_none()
        });
        let closed = world.app::<Sender>(SENDER).closed.clone();
        assert!(
            matches!(closed, Some(SessionCloseReason::Forgotten)),
            "{closed:?}"
        );
        let after = world.now().since(Instant::from_secs(1));
        assert!(after < Duration::from_secs(1), "seed {seed}: {after:?}");
    }
}
