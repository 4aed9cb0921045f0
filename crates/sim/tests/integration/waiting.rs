//! Data that waits in a channel when the channel ends: it moves to another.

use crate::common;

use std::{num::NonZeroUsize, time::Duration};

use anabranch_base::Instant;
use anabranch_session::StreamSpec;
use bytes::Bytes;

use common::{link, world};

/// The host could take one packet (its socket was full), and then the interface failed: the containers that were filled
/// already exist only in the channel.
#[test]
fn containers_not_sent_move_to_another_channel() {
    let mut world = world(1, [link(20, 20), link(10, 60)], Vec::new());
    world.run_until(Instant::from_secs(1));
    let socket = world.link(0, 0).socket;
    let session = world.engine(0).session_ids()[0];
    let now = world.now();
    let engine = world.engine(0);
    let stream = engine
        .session(session)
        .and_then(|mut session| session.open_stream(now, StreamSpec::messages("m")));
    let stream = stream.expect("a stream");
    for _ in 0..8 {
        let mut handle = engine.session(session).unwrap().stream(stream);
        let sent = handle.send(now, Bytes::from_static(&[7; 1_000]));
        sent.expect("capacity");
    }
    let mut packet = Vec::new();
    let transmit = engine.poll_transmit(now, NonZeroUsize::MIN, &mut packet);
    assert_eq!(transmit.expect("a packet").socket, socket, "the nearest");
    assert!(engine.has_work(), "others wait");
    engine.socket_down(now, socket);
    world.with_node(0, |_| ());
    world.run_for(Duration::from_secs(5));
    let stats = world
        .engine(0)
        .session(session)
        .map(|mut session| session.stream_stats())
        .unwrap_or_default();
    let sent = stats.iter().find(|stats| stats.stream == stream);
    assert_eq!(
        sent.map(|stats| (stats.sent_adus, stats.acked_adus)),
        Some((8, 8))
    );
}
