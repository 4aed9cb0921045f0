//! Addresses that change faster than the peer notices.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_sim::apps::{Load, Receiver, Sender};

use crate::common::{link, world};

/// The channels on earlier addresses cannot be closed: the peer has 32 of them before the first has been silent for long.
#[test]
fn a_session_survives_more_addresses_than_it_may_have_channels() {
    let mut world = world(
        21,
        vec![link(4, 30), link(4, 30)],
        vec![Load::bulk(1 << 40)],
    );
    world.run_until(Instant::from_secs(2));
    let session = world.app::<Sender>(0).session().expect("connected");
    // The second link stays.
    let mut wire = 0;
    for number in 0..80 {
        let lost = world.link(0, wire).socket;
        world.set_wire_up(wire, false);
        world.with_node(0, |context| {
            let now = context.now();
            context.engine().socket_down(now, lost);
        });
        wire = world.add_wire(0, 1, link(4, 30)).expect("a valid link");
        let new = world.link(0, wire);
        let has_space = world.with_node(0, |context| {
            let now = context.now();
            let session = context.engine().session(session);
            session.expect("it is open").add_link(now, new)
        });
        assert!(has_space, "address {number}");
        world.run_for(Duration::from_millis(150));
    }
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.app::<Receiver>(1).closed, []);
    let before = world.app::<Receiver>(1).record("bulk").bytes;
    world.run_for(Duration::from_secs(4));
    let rate = (world.app::<Receiver>(1).record("bulk").bytes - before) * 8 / 4;
    assert!(rate > 6_500_000, "both paths carry data: {rate} bit/s");
    world.run_for(Duration::from_secs(40));
    let channels = world.engine(1).channel_count();
    assert_eq!(channels, 2, "silent channels end");
}
