//! Packets with numbers far apart, which make acknowledgements long. If those of two of QUIC's packet number spaces do
//! not fit one packet, the library panics.

#[expect(dead_code, reason = "other tests use the rest")]
mod bare;

use std::{net::SocketAddr, num::NonZeroUsize};

use anabranch_base::{Instant, SocketId};
use anabranch_channel::{
    AllowList, CloseReason, Config, Endpoint, Event, Handled, Received, SecretKey,
};
use bytes::BytesMut;

use crate::bare::{Bare, Level, PINGS, STRIDE_MAX, overfilling_answers};

const REMOTE: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    4433,
);

fn node(seed: u8) -> Endpoint {
    let key = SecretKey::from_seed([seed; 32]);
    let config = Config::default();
    #[expect(
        clippy::disallowed_methods,
        reason = "one clock reading, on which nothing depends"
    )]
    let epoch = std::time::Instant::now();
    Endpoint::new(epoch, key, AllowList::everyone(), config, [seed; 32])
}

fn packet(data: &[u8]) -> Received {
    Received {
        socket: SocketId(0),
        remote: REMOTE,
        local_ip: None,
        ecn: None,
        data: BytesMut::from(data),
    }
}

/// A peer that answers at an address that a node dials needs no key for this. It used to end the node.
#[test]
fn whoever_is_dialled_ends_one_channel_at_most() {
    let (now, one) = (Instant::EPOCH, NonZeroUsize::MIN);
    let (mut buffer, mut response) = (Vec::new(), Vec::new());
    let mut dialler = node(1);
    let expected = SecretKey::from_seed([2; 32]).node_id();
    let id = dialler
        .connect(now, SocketId(0), REMOTE, expected, None)
        .expect("an address that can be dialled");
    let channel = dialler.channel(id).expect("open");
    channel
        .poll_transmit(now, one, &mut buffer)
        .expect("a first packet");
    for answer in overfilling_answers(&buffer) {
        dialler.handle_packet(now, packet(&answer), &mut response);
    }
    let channel = dialler.channel(id).expect("open");
    assert!(channel.poll_transmit(now, one, &mut buffer).is_none());
    let ended = channel.poll_event();
    assert!(
        matches!(ended, Some(Event::Closed(CloseReason::Fault(_)))),
        "{ended:?}"
    );
    assert!(channel.is_drained());
    assert!(channel.poll_timeout().is_some_and(|at| at <= now));
    channel.handle_timeout(now);
    // The next dial has the same handle, and is not affected.
    dialler.settle_channel(id);
    let next = dialler
        .connect(now, SocketId(0), REMOTE, expected, None)
        .expect("an address that can be dialled");
    dialler.settle_channel(id);
    dialler.abandon(id);
    assert!(dialler.channel(id).is_none());
    let channel = dialler.channel(next).expect("open");
    assert!(channel.poll_transmit(now, one, &mut buffer).is_some());
    let mut bare = Bare::listener();
    bare.receive(&buffer);
    let hello = bare.crypto_frame(Level::Initial);
    let hello = bare.packet(Level::Initial, 0, &hello);
    let handled = dialler.handle_packet(now, packet(&hello), &mut response);
    assert!(
        matches!(handled, Handled::Channel(id) if id == next),
        "{handled:?}"
    );
}

/// A stranger's dial that completes its handshake: by then its first packets are not acknowledged any more.
#[test]
fn whoever_dials_overfills_nothing() {
    let (now, one) = (Instant::EPOCH, NonZeroUsize::MIN);
    let (mut buffer, mut response) = (Vec::new(), Vec::new());
    let mut node = node(1);
    let mut bare = Bare::dialler();
    let mut hello = bare.crypto_frame(Level::Initial);
    hello.resize(1200, 0);
    let hello = bare.packet(Level::Initial, 0, &hello);
    let Handled::Accepted { channel: id, .. } =
        node.handle_packet(now, packet(&hello), &mut response)
    else {
        panic!("a dial is accepted");
    };
    let channel = node.channel(id).expect("accepted");
    while channel.poll_transmit(now, one, &mut buffer).is_some() {
        bare.receive(&buffer);
    }
    for k in 0..63 {
        let ping = bare.packet(Level::Handshake, k * STRIDE_MAX, &PINGS);
        node.handle_packet(now, packet(&ping), &mut response);
    }
    let finished = bare.crypto_frame(Level::Handshake);
    let finished = bare.packet(Level::Handshake, 63 * STRIDE_MAX, &finished);
    node.handle_packet(now, packet(&finished), &mut response);
    assert!(bare.has_keys(Level::Data));
    for k in 0..64 {
        let ping = bare.packet(Level::Data, k * STRIDE_MAX, &PINGS);
        node.handle_packet(now, packet(&ping), &mut response);
    }
    let channel = node.channel(id).expect("open");
    assert!(channel.is_connected());
    let mut sent = 0;
    while channel.poll_transmit(now, one, &mut buffer).is_some() {
        sent += 1;
        assert!(sent < 10, "no end");
    }
    assert!(sent > 0);
}
