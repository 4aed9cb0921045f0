//! A network that mangles, repeats, drops and invents packets.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, SessionId};
use anabranch_session::{AllowList, Config, Engine, Event, Link, SecretKey, StreamSpec};
use bytes::Bytes;

use crate::{
    Input,
    peer::{DELAY, SOCKET, epoch, listener, packets_of, received, remote},
};

/// Limit on the packets in flight; further ones are dropped, as by any queue.
const UNDER_WAY_MAX: usize = 256;
/// Message that is sent through the network.
const MESSAGE: [u8; 3000] = [0x5a; 3000];

/// Whatever the network does, neither end panics, and the message arrives unchanged and once.
pub fn packet(data: &[u8]) {
    let mut input = Input(data);
    let faults = anabranch_channel::faults();
    let server = listener(Config::default());
    let key = SecretKey::from_seed([3; 32]);
    let client = Engine::new(
        epoch(),
        key,
        AllowList::default(),
        Config::default(),
        [3; 32],
    );
    let mut ends = [client, server];
    let mut now = Instant::from_secs(1);
    let link = Link {
        socket: SOCKET,
        remote: remote(),
    };
    let peer = ends[1].node_id();
    let session = ends[0]
        .connect(now, peer, vec![link])
        .expect("an address that can be dialled");
    let mut delivered = 0;
    let mut under_way: VecDeque<(usize, Vec<u8>)> = VecDeque::new();
    // Three seconds after its last fault the network behaves.
    let mut quiet = 0;
    while quiet < 300 {
        quiet += usize::from(input.is_empty());
        #[expect(clippy::needless_range_loop, reason = "it names the other end, too")]
        for from in 0..2 {
            for packet in packets_of(&mut ends[from], now) {
                if under_way.len() < UNDER_WAY_MAX {
                    under_way.push_back((1 - from, packet));
                }
            }
        }
        now += DELAY;
        for _ in 0..under_way.len() {
            let (to, packet) = under_way.pop_front().expect("counted");
            deliver(&mut ends[to], now, packet, &mut input, |packet| {
                under_way.push_back((to, packet));
            });
        }
        for end in 0..2 {
            ends[end].handle_timeout(now);
            delivered += events(&mut ends, end, now, session);
        }
        assert!(delivered <= 1, "delivered {delivered} times");
        if under_way.is_empty() {
            now += Duration::from_millis(5);
            if !input.is_empty() {
                // Faults apply to packets: without any, time moves on.
                let next = ends.iter_mut().filter_map(Engine::poll_timeout).min();
                let Some(next) = next else {
                    break;
                };
                now = now.max(next);
            }
        }
    }
    assert!(
        !data.is_empty() || delivered == 1,
        "nothing arrives on a network without faults"
    );
    let faults = anabranch_channel::faults() - faults;
    assert_eq!(faults, 0, "the QUIC library panicked");
}

/// Delivers a packet as the input specifies.
fn deliver(
    end: &mut Engine,
    now: Instant,
    mut packet: Vec<u8>,
    input: &mut Input<'_>,
    mut later: impl FnMut(Vec<u8>),
) {
    match input.byte() & 0x0f {
        1 => return,
        2 => later(packet.clone()),
        3 => return later(packet),
        4 => {
            let at = usize::from(input.byte()) << 2 | usize::from(input.byte() & 3);
            let bits = input.byte();
            if let Some(byte) = packet.get_mut(at) {
                *byte ^= bits;
            }
        }
        5 => packet.truncate(usize::from(input.byte()) * 6),
        6 => {
            let length = usize::from(input.byte());
            end.handle_packet(now, received(input.take(length)));
        }
        7 => {
            let length = usize::from(input.byte());
            packet.extend_from_slice(input.take(length));
        }
        _ => {}
    }
    end.handle_packet(now, received(&packet));
}

/// Runs the applications: the dialler sends one message, the listener reads it. Returns the number of messages read.
fn events(ends: &mut [Engine; 2], end: usize, now: Instant, session: SessionId) -> usize {
    let mut read = 0;
    while let Some(event) = ends[end].poll_event() {
        match event {
            Event::Connected {
                incoming: false, ..
            } => {
                let spec = StreamSpec::messages("message");
                let mut handle = ends[end].session(session).expect("it is connected");
                let stream = handle.open_stream(now, spec).expect("the session is open");
                let data = Bytes::from_static(&MESSAGE);
                handle
                    .stream(stream)
                    .send(now, data)
                    .expect("the buffer is empty");
            }
            Event::Readable { session, stream } => {
                let Ok(handle) = ends[end].session(session) else {
                    continue;
                };
                let mut stream = handle.stream(stream);
                while let Some(adu) = stream.receive() {
                    assert_eq!(adu.data, MESSAGE.as_slice());
                    read += 1;
                }
            }
            _ => {}
        }
    }
    read
}
