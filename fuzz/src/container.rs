//! An authenticated peer that sends arbitrary containers.
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
    counter::Meter,
    peer::{Peer, listener},
};

/// Bytes of a reliable stream and of a session that may wait for the application: the smallest limit that the engine accepts.
const WINDOW_BYTES: u64 = (16 << 20) + 4096;

/// Memory of an idle session, and memory that it allocates and frees in one turn: tables, QUIC's state, packets.
const REST_BYTES: u64 = 1 << 20;
const TURN_BYTES: u64 = 64 << 10;
/// Bytes that the engine may allocate for each byte from the peer. The most expensive are those of an ADU that is handed out in
/// part, of which one byte arrived: 4 KiB of zeros for a fragment and a SKIP.
const BYTES_PER_BYTE: u64 = 640;

/// Behaviour of the engine's application.
#[derive(Clone, Copy)]
struct Habits {
    reads: bool,
    answers: bool,
}

/// The engine neither panics nor allocates more than its windows and the bytes from the peer allow; it ends the session when
/// the peer breaks the protocol.
///
/// The first byte selects the behaviour of the application and the size of the session's window. Each container follows: its
/// kind, its length (in units of four bytes with 0x40), and its bytes; 0x80 omits the head. A kind that ends in 0xf lets time
/// pass.
pub fn container(data: &[u8]) {
    let mut input = Input(data);
    let habits = input.byte();
    let session_window = match habits >> 2 & 3 {
        0 => WINDOW_BYTES,
        // Less than four thirds of the largest ADU, and more.
        1 => 20 << 20,
        2 => 32 << 20,
        _ => 64 << 20,
    };
    let config = Config {
        stream_window_bytes: WINDOW_BYTES,
        session_window_bytes: session_window,
        ..Config::default()
    };
    let mut engine = listener(config);
    let mut peer = Peer::connect(&mut engine);
    let habits = Habits {
        reads: habits & 1 == 0,
        answers: habits & 2 == 0,
    };
    introduce(&mut peer, &mut engine);
    peer.meter = Meter::default();
    let (mut sent_bytes, mut turns) = (0, 0);
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
        turns += 1;
        if kind & 0x0f == 0x0f {
            peer.wait(&mut engine, Duration::from_millis(length as u64 * 4));
        } else {
            let mut bytes = Vec::with_capacity(length + 1);
            if kind & 0x80 == 0 {
                bytes.push(0);
            }
            let unit = if kind & 0x40 == 0 { 1 } else { 4 };
            bytes.extend_from_slice(input.take(length * unit));
            sent_bytes += bytes.len() as u64;
            if !send_container(&mut peer, bytes) {
                break;
            }
            peer.exchange(&mut engine);
        }
        let goes_on = react(&mut peer, &mut engine, habits);
        check_meter(peer.meter, sent_bytes, turns, session_window);
        if !goes_on {
            break;
        }
        check(&mut engine, session, session_window);
    }
    if let Ok(session) = engine.session(session) {
        session.close(peer.now, 0, "the end");
    }
    react(&mut peer, &mut engine, habits);
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
    assert!(send_container(peer, container));
    peer.exchange(engine);
}

/// Lets the engine's application send, too.
fn answer(peer: &Peer, engine: &mut Engine, session: SessionId) {
    for spec in [StreamSpec::bulk("bulk"), StreamSpec::messages("messages")] {
        let stream = engine
            .session(session)
            .and_then(|mut session| session.open_stream(peer.now, spec))
            .expect("the session is open");
        let handle = engine.session(session).expect("the session is open");
        let _ = handle
            .stream(stream)
            .send(peer.now, Bytes::from(vec![7; 5000]));
    }
}

/// Puts a container on the channel; false when it is closed or the container too large.
fn send_container(peer: &mut Peer, container: Vec<u8>) -> bool {
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

/// One turn of the engine's application; false once the session is over.
fn react(peer: &mut Peer, engine: &mut Engine, habits: Habits) -> bool {
    let mut goes_on = true;
    while let Some(event) = peer.meter.run(|| engine.poll_event()) {
        match event {
            Event::Readable { session, stream } if habits.reads => {
                read(peer, engine, session, stream);
            }
            Event::StreamOpened {
                session,
                stream,
                spec,
            } if habits.answers && spec.duplex => {
                if let Ok(handle) = engine.session(session) {
                    let answer = Bytes::from_static(b"answer");
                    let _ = handle.stream(stream).send(peer.now, answer);
                }
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

fn read(peer: &mut Peer, engine: &mut Engine, session: SessionId, stream: StreamId) {
    loop {
        let is_read = peer.meter.run(|| {
            let adu = engine
                .session(session)
                .ok()
                .and_then(|session| session.stream(stream).receive())?;
            assert!(!adu.data.is_empty());
            Some(())
        });
        if is_read.is_none() {
            return;
        }
    }
}

/// Memory and work are in proportion to the bytes from the peer, and within the windows, as counted by the allocator.
fn check_meter(meter: Meter, sent_bytes: u64, turns: u64, session_window: u64) {
    // Reliable and unreliable streams have a window each; a part of it is reserved.
    let windows = 2 * session_window + session_window / 2;
    let earned = REST_BYTES + BYTES_PER_BYTE * sent_bytes;
    let held = earned.min(windows) + TURN_BYTES;
    assert!(
        meter.held <= held as i64,
        "{} bytes held after {sent_bytes} in {turns} containers",
        meter.held
    );
    assert!(
        meter.total <= earned + TURN_BYTES * turns,
        "{} bytes allocated after {sent_bytes} in {turns} containers",
        meter.total
    );
}

/// Memory is bounded by the windows, whatever the peer sends and whether or not the application reads.
fn check(engine: &mut Engine, session: SessionId, session_window: u64) {
    let Some(stats) = engine
        .session(session)
        .ok()
        .map(|mut session| session.stats())
    else {
        return;
    };
    assert!(
        stats.recv_held_bytes <= 2 * session_window,
        "{} bytes held for the application",
        stats.recv_held_bytes
    );
}
