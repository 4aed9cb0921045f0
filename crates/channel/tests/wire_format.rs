//! Nodes whose wire formats have no number in common: the application protocol of the handshake is another one.

#[expect(dead_code, reason = "other tests use the rest")]
mod bare;

use std::{net::SocketAddr, num::NonZeroUsize};

use anabranch_base::{Instant, SocketId};
use anabranch_channel::{
    AllowList, CloseReason, Config, Endpoint, Event, Handled, Received, SecretKey,
};
use bytes::BytesMut;

use crate::bare::{Bare, Level};

const REMOTE: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    4433,
);
/// The alert no_application_protocol as a code of QUIC [RFC 9001 §4.8].
const NO_APPLICATION_PROTOCOL: u16 = 0x178;

fn node(seed: u8) -> Endpoint {
    let key = SecretKey::from_seed([seed; 32]);
    #[expect(
        clippy::disallowed_methods,
        reason = "one clock reading, on which nothing depends"
    )]
    let epoch = std::time::Instant::now();
    Endpoint::new(
        epoch,
        key,
        AllowList::everyone(),
        Config::default(),
        [seed; 32],
    )
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

#[test]
fn a_dialler_of_another_format_is_answered_with_the_reason() {
    for (alpn, code) in [
        (
            &b"anabranch/0"[..],
            Some(u64::from(NO_APPLICATION_PROTOCOL)),
        ),
        (b"anabranch/2", Some(u64::from(NO_APPLICATION_PROTOCOL))),
        (b"anabranch/1", None),
    ] {
        let (now, one) = (Instant::EPOCH, NonZeroUsize::MIN);
        let (mut buffer, mut response) = (Vec::new(), Vec::new());
        let mut node = node(1);
        let mut bare = Bare::dialler_of(alpn);
        let mut hello = bare.crypto_frame(Level::Initial);
        hello.resize(1200, 0);
        let hello = bare.packet(Level::Initial, 0, &hello);
        match node.handle_packet(now, packet(&hello), &mut response) {
            Handled::Accepted { channel: id, .. } => {
                let channel = node.channel(id).expect("accepted");
                while channel.poll_transmit(now, one, &mut buffer).is_some() {
                    bare.receive(&buffer);
                }
            }
            Handled::Respond(transmit) => bare.receive(&response[..transmit.size]),
            other => panic!("{other:?}"),
        }
        assert_eq!(bare.close_code(), code);
    }
}

#[test]
fn a_listener_of_another_format_is_reported_as_such() {
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
    let mut bare = Bare::listener();
    bare.receive(&buffer);
    let close = bare.packet(
        Level::Initial,
        0,
        &Bare::close_frame(NO_APPLICATION_PROTOCOL),
    );
    dialler.handle_packet(now, packet(&close), &mut response);
    let ended = dialler.channel(id).expect("open").poll_event();
    let Some(Event::Closed(reason)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(reason, CloseReason::WireFormat);
    let words = reason.to_string();
    assert!(words.contains("upgrade"), "{words}");
}
