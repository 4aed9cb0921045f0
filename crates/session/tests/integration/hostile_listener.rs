//! Hostile listener: an address that a node dials answers without any key; one channel ends, and is dialled again later.

#[expect(dead_code, reason = "one attack of several")]
#[path = "../../../channel/tests/bare/mod.rs"]
mod bare;

use std::{net::SocketAddr, num::NonZeroUsize};

use anabranch_base::{Instant, SocketId};
use anabranch_session::{
    AllowList, CloseReason, Config, Engine, Event, Link, Received, SecretKey, SessionEvent, faults,
};
use bytes::BytesMut;

use bare::overfilling_answers;

const SOCKET: SocketId = SocketId(0);
const REMOTE: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    4433,
);

fn engine() -> Engine {
    #[expect(
        clippy::disallowed_methods,
        reason = "one reading, of which nothing depends"
    )]
    let epoch = std::time::Instant::now();
    let key = SecretKey::from_seed([1; 32]);
    Engine::new(epoch, key, AllowList::default(), Config::default(), [1; 32])
}

/// Packets that the engine has to send now.
fn packets(engine: &mut Engine, now: Instant) -> Vec<Vec<u8>> {
    let mut buffer = Vec::new();
    let mut packets = Vec::new();
    while let Some(transmit) = engine.poll_transmit(now, NonZeroUsize::MIN, &mut buffer) {
        packets.push(buffer[..transmit.size].to_vec());
        assert!(packets.len() < 100, "no end");
    }
    packets
}

fn overfill(engine: &mut Engine, now: Instant, first: &[u8]) {
    for answer in overfilling_answers(first) {
        let packet = Received {
            socket: SOCKET,
            remote: REMOTE,
            local_ip: None,
            ecn: None,
            data: BytesMut::from(answer.as_slice()),
        };
        engine.handle_packet(now, packet);
    }
}

#[test]
fn whoever_answers_ends_one_channel_at_most() {
    let mut engine = engine();
    let mut now = Instant::from_secs(1);
    let peer = SecretKey::from_seed([2; 32]).node_id();
    let link = Link {
        socket: SOCKET,
        remote: REMOTE,
    };
    engine
        .connect(now, peer, vec![link])
        .expect("an address that can be dialled");
    for round in 1..=3 {
        let first = packets(&mut engine, now).swap_remove(0);
        overfill(&mut engine, now, &first);
        assert_eq!(packets(&mut engine, now), Vec::<Vec<u8>>::new());
        assert_eq!(faults(), round, "the library may have learnt it");
        engine.handle_timeout(now);
        let ended = std::iter::from_fn(|| engine.poll_event()).any(|event| {
            matches!(
                event,
                Event::Session {
                    event: SessionEvent::ChannelClosed {
                        reason: CloseReason::Fault(_),
                        ..
                    },
                    ..
                }
            )
        });
        assert!(ended);
        assert_eq!(packets(&mut engine, now), Vec::<Vec<u8>>::new());
        let next = engine.poll_timeout().expect("it dials again");
        assert!(next > now, "nothing of the channel is left to be done");
        now = next;
        engine.handle_timeout(now);
    }
}
