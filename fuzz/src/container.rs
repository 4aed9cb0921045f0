//! An authenticated peer that says anything.
//!
//! The peer is written from `spec/wire.md` alone: it derives the session's token itself.

use std::time::Duration;

use anabranch_base::{SessionId, StreamId};
use anabranch_session::{
    Config, Engine, Event, SessionCloseReason, StreamSpec,
    wire::{Control, VERSION},
};
use bytes::Bytes;

use crate::{
    Input,
    peer::{Peer, listener},
};

/// Most bytes of a reliable stream and of a session that may wait for the application: the smallest that
/// the engine accepts.
const WINDOW_BYTES: u64 = (16 << 20) + 4096;

/// What the engine's application does.
#[derive(Clone, Copy)]
struct Habits {
    reads: bool,
    answers: bool,
}

/// The engine neither panics nor holds more memory than its windows allow; it ends the session when the
/// peer breaks the protocol.
pub fn container(data: &[u8]) {
    let mut input = Input(data);
    let config = Config {
        stream_window_bytes: WINDOW_BYTES,
        session_window_bytes: WINDOW_BYTES,
        ..Config::default()
    };
    let mut engine = listener(config);
    let mut peer = Peer::connect(&mut engine);
    let habits = input.byte();
    let habits = Habits {
        reads: habits & 1 == 0,
        answers: habits & 2 == 0,
    };
    introduce(&mut peer, &mut engine);
    let session = engine
        .session_ids()
        .first()
        .copied()
        .expect("the peer followed the specification");
    if habits.answers {
        answer(&peer, &mut engine, session);
    }
    while !input.is_empty() {
        let (kind, length) = (input.byte(), usize::from(input.byte()));
        if kind & 0x0f == 0x0f {
            peer.wait(&mut engine, Duration::from_millis(length as u64 * 4));
        } else {
            let mut bytes = Vec::with_capacity(length + 1);
            if kind & 0x80 == 0 {
                bytes.push(0);
            }
            bytes.extend_from_slice(input.take(length));
            if !say(&mut peer, bytes) {
                break;
            }
            peer.exchange(&mut engine);
        }
        if !react(&peer, &mut engine, habits) {
            break;
        }
        check(&engine, session);
    }
    engine.close(peer.now, session, 0, "the end");
    react(&peer, &mut engine, habits);
    peer.wait(&mut engine, Duration::from_secs(60));
    assert!(engine.session_ids().is_empty());
}

/// `spec/wire.md`: the first container of a channel begins with a join.
fn introduce(peer: &mut Peer, engine: &mut Engine) {
    let channel = peer.channel().expect("connected");
    let secret = channel
        .export_secret(b"EXPORTER anabranch session")
        .expect("the handshake is complete");
    let binding = channel
        .export_secret(b"EXPORTER anabranch join")
        .expect("the handshake is complete");
    let id = blake3::derive_key("anabranch 2026-11 session id", &secret);
    let key = blake3::derive_key("anabranch 2026-11 join key", &secret);
    let proof = blake3::keyed_hash(&key, &binding);
    let join = Control::Join {
        session: id[..16].try_into().expect("16 bytes"),
        proof: proof.as_bytes()[..16].try_into().expect("16 bytes"),
    };
    let hello = Control::Hello {
        version: VERSION,
        stream_window_bytes: WINDOW_BYTES,
        session_window_bytes: WINDOW_BYTES,
    };
    let mut container = vec![0];
    join.write(&mut container);
    hello.write(&mut container);
    assert!(say(peer, container));
    peer.exchange(engine);
}

/// The engine's application has something to say, too.
fn answer(peer: &Peer, engine: &mut Engine, session: SessionId) {
    for spec in [StreamSpec::bulk("bulk"), StreamSpec::messages("messages")] {
        let stream = engine
            .open_stream(peer.now, session, spec)
            .expect("the session is open");
        let _ = engine.send(peer.now, session, stream, Bytes::from(vec![7; 5000]));
    }
}

/// Puts a container on the channel; false when it is closed or the container too large.
fn say(peer: &mut Peer, container: Vec<u8>) -> bool {
    let Some(channel) = peer.channel() else {
        return false;
    };
    let fits = channel
        .container_bytes_max()
        .is_some_and(|limit| container.len() <= limit);
    if fits {
        channel.send(container);
    }
    fits
}

/// The engine's application does what it does; false once the session is over.
fn react(peer: &Peer, engine: &mut Engine, habits: Habits) -> bool {
    let mut goes_on = true;
    while let Some(event) = engine.poll_event() {
        match event {
            Event::Readable { session, stream } if habits.reads => {
                read(peer, engine, session, stream);
            }
            Event::StreamOpened {
                session,
                stream,
                spec,
            } if habits.answers && spec.duplex => {
                let _ = engine.send(peer.now, session, stream, Bytes::from_static(b"answer"));
            }
            Event::Closed { reason, .. } => {
                let is_known = matches!(
                    reason,
                    SessionCloseReason::Protocol(_)
                        | SessionCloseReason::Version(_)
                        | SessionCloseReason::Local
                        | SessionCloseReason::Peer { .. }
                        | SessionCloseReason::TimedOut(_)
                );
                assert!(is_known, "{reason:?}");
                goes_on = false;
            }
            _ => {}
        }
    }
    goes_on
}

fn read(peer: &Peer, engine: &mut Engine, session: SessionId, stream: StreamId) {
    while let Some(adu) = engine.receive(peer.now, session, stream) {
        assert!(!adu.data.is_empty());
    }
}

/// Memory is bounded by the windows, whatever the peer sends and whether or not anybody reads.
fn check(engine: &Engine, session: SessionId) {
    let Some(stats) = engine.session_stats(session) else {
        return;
    };
    assert!(
        stats.recv_held_bytes <= WINDOW_BYTES,
        "{} bytes held for the application",
        stats.recv_held_bytes
    );
}
