//! Two engines without a network in between.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use anabranch_base::{Instant, SocketId};
use anabranch_session::{AllowList, Config, Engine, Event, Link, Received, SecretKey, StreamSpec};
use bytes::{Bytes, BytesMut};

const BATCH: NonZeroUsize = NonZeroUsize::new(10).expect("not zero");

/// Two engines and one link for each socket, 10 ms each way.
struct Pair {
    ends: [Engine; 2],
    now: Instant,
    under_way: BTreeMap<(Instant, usize), (usize, SocketId, Vec<u8>)>,
    count: usize,
}

impl Pair {
    fn new() -> Self {
        let epoch = std::time::Instant::now();
        let end = |seed: u8, allowed| {
            let key = SecretKey::from_seed([seed; 32]);
            Engine::new(epoch, key, allowed, Config::default(), [seed; 32])
        };
        Self {
            ends: [
                end(1, AllowList::default()),
                end(2, AllowList::everyone_listed()),
            ],
            now: Instant::from_secs(1),
            under_way: BTreeMap::new(),
            count: 0,
        }
    }

    fn link(socket: u64) -> Link {
        Link {
            socket: SocketId(socket),
            remote: ([192, 0, 2, 1], 4433 + socket as u16).into(),
        }
    }

    /// Runs for `duration`; `delay` gives the delay of a packet from an end on a socket, or `None` to lose it.
    fn run(&mut self, duration: Duration, delay: impl Fn(usize, SocketId) -> Option<Duration>) {
        let end = self.now + duration;
        while self.now < end {
            self.now += Duration::from_millis(1);
            let now = self.now;
            while let Some(entry) = self.under_way.first_entry() {
                if entry.key().0 > now {
                    break;
                }
                let (to, socket, data) = entry.remove();
                let packet = Received {
                    socket,
                    remote: Self::link(socket.0).remote,
                    local_ip: None,
                    ecn: None,
                    data: BytesMut::from(&data[..]),
                };
                self.ends[to].handle_packet(now, packet);
            }
            let mut buffer = Vec::new();
            for from in 0..2 {
                self.ends[from].handle_timeout(now);
                while let Some(transmit) = self.ends[from].poll_transmit(now, BATCH, &mut buffer) {
                    // Answers leave from the socket whose remote address they go to.
                    let socket = SocketId(u64::from(transmit.remote.port() - 4433));
                    let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
                    for data in buffer[..transmit.size].chunks(segment) {
                        if let Some(delay) = delay(from, socket) {
                            self.count += 1;
                            self.under_way.insert(
                                (now + delay, self.count),
                                (1 - from, socket, data.to_vec()),
                            );
                        }
                    }
                }
            }
        }
    }
}

const DELAY: Duration = Duration::from_millis(10);

/// An ADU that expires before the peer knows its stream must not leave a gap in it.
#[test]
fn an_adu_that_expires_before_the_announcement_leaves_no_gap() {
    let mut pair = Pair::new();
    let peer = pair.ends[1].node_id();
    let session = pair.ends[0]
        .connect(pair.now, peer, vec![Pair::link(0)])
        .expect("an address that can be dialled");
    let spec = StreamSpec {
        lifetime: Some(Duration::from_millis(100)),
        ..StreamSpec::default()
    };
    let stream = pair.ends[0]
        .session(session)
        .and_then(|mut session| session.open_stream(pair.now, spec))
        .expect("the session exists");
    let now = pair.now;
    pair.ends[0]
        .session(session)
        .expect("it is open")
        .stream(stream)
        .send(now, Bytes::from_static(b"late"))
        .expect("the buffer has space");
    // No packet passes until the first ADU has exceeded its lifetime.
    pair.run(Duration::from_millis(300), |_, _| None);
    pair.run(Duration::from_millis(3000), |_, _| Some(DELAY));
    let now = pair.now;
    pair.ends[0]
        .session(session)
        .expect("it is open")
        .stream(stream)
        .send(now, Bytes::from_static(b"timely"))
        .expect("the buffer has space");
    pair.run(Duration::from_millis(1000), |_, _| Some(DELAY));
    let mut got = Vec::new();
    while let Some(event) = pair.ends[1].poll_event() {
        if let Event::Readable { session, stream } = event {
            while let Some(adu) = pair.ends[1]
                .session(session)
                .ok()
                .and_then(|session| session.stream(stream).receive())
            {
                got.push(adu.data);
            }
        }
    }
    assert_eq!(got, ["timely"]);
}

/// An initial channel whose acknowledgements arrive late must not leave the peer with two sessions instead of one.
#[test]
fn a_slow_initial_channel_does_not_split_the_session() {
    let mut pair = Pair::new();
    let peer = pair.ends[1].node_id();
    let session = pair.ends[0]
        .connect(pair.now, peer, vec![Pair::link(0), Pair::link(1)])
        .expect("an address that can be dialled");
    // Link 0 connects first, then answers only after 400 ms; link 1 connects a little later and works well.
    pair.run(Duration::from_millis(21), |_, socket| {
        Some(if socket.0 == 0 { DELAY } else { DELAY * 2 })
    });
    let slow = |from: usize, socket: SocketId| {
        Some(match (from, socket.0) {
            (1, 0) => Duration::from_millis(400),
            (_, 0) => DELAY,
            _ => DELAY * 2,
        })
    };
    pair.run(Duration::from_millis(1500), slow);
    let stream = pair.ends[0]
        .session(session)
        .and_then(|mut session| session.open_stream(pair.now, StreamSpec::default()))
        .expect("the session exists");
    for round in 0..200u64 {
        let data = Bytes::from(vec![round as u8; 4000]);
        let now = pair.now;
        pair.ends[0]
            .session(session)
            .expect("it is open")
            .stream(stream)
            .send(now, data)
            .expect("the buffer has space");
        pair.run(Duration::from_millis(5), |_, _| Some(DELAY));
    }
    pair.run(Duration::from_secs(3), |_, _| Some(DELAY));
    let (mut sessions, mut got) = (0, 0);
    while let Some(event) = pair.ends[1].poll_event() {
        match event {
            // Established on the slow channel; it continues on the other.
            Event::Connected { .. } => sessions += 1,
            Event::Closed { reason, .. } => panic!("{reason}"),
            Event::Readable { session, stream } => {
                while pair.ends[1]
                    .session(session)
                    .ok()
                    .and_then(|session| session.stream(stream).receive())
                    .is_some()
                {
                    got += 1;
                }
            }
            _ => {}
        }
    }
    assert_eq!((sessions, got), (1, 200));
}
