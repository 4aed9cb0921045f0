//! Cost of an open stream that has nothing to send: 100,000 of them, counted by the allocator.
//!
//! Every stream carries one message first, so that both ends know it and are done with it. This file has a single test,
//! because the allocator counts for the whole process.

use std::{alloc::System, num::NonZeroUsize, time::Duration};

use anabranch_base::{Instant, SocketId, StreamId};
use anabranch_session::{
    AllowList, Config, Engine, Event, Link, Received, SecretKey, SendError, StreamSpec,
};
use bytes::{Bytes, BytesMut};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of streams of each kind in a run of all tests. [`a_hundred_thousand`] takes minutes without optimisation.
const STREAMS: usize = 10_000;
/// Target.
const MOST_BYTES: f64 = 1024.0;
const BATCH: NonZeroUsize = NonZeroUsize::new(40).expect("not zero");

/// Bytes allocated and not freed.
fn held() -> i64 {
    let stats = ALLOCATOR.stats();
    // Bytes by which blocks grow and shrink in place are in both.
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

/// An engine and the bytes it holds, by allocations and frees during its calls.
struct End {
    engine: Engine,
    held: i64,
    read: usize,
}

impl End {
    fn new(seed: u8, allowed: AllowList) -> Self {
        let key = SecretKey::from_seed([seed; 32]);
        let epoch = anabranch_sim::epoch::get();
        Self {
            engine: Engine::new(epoch, key, allowed, Config::default(), [seed; 32]),
            held: 0,
            read: 0,
        }
    }

    fn charged<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = held();
        let result = work(self);
        self.held += held() - before;
        result
    }

    /// Reads all data available.
    fn read_all(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            if let Event::Readable { session, stream } = event {
                while self
                    .engine
                    .session(session)
                    .ok()
                    .and_then(|session| session.stream(stream).receive())
                    .is_some()
                {
                    self.read += 1;
                }
            }
        }
    }
}

/// Two ends with 1 ms between them.
struct Pair {
    ends: [End; 2],
    now: Instant,
}

const LINK: Link = Link {
    socket: SocketId(0),
    remote: std::net::SocketAddr::V4(std::net::SocketAddrV4::new(
        std::net::Ipv4Addr::new(192, 0, 2, 1),
        4433,
    )),
};

impl Pair {
    fn new() -> Self {
        Self {
            ends: [
                End::new(1, AllowList::default()),
                End::new(2, AllowList::everyone_listed()),
            ],
            now: Instant::from_secs(1),
        }
    }

    /// Advances by one millisecond: packets, timers, the application.
    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        let mut packets = Vec::new();
        // Large enough never to grow in an engine's account.
        let mut buffer = Vec::with_capacity(1 << 20);
        for (from, end) in self.ends.iter_mut().enumerate() {
            end.charged(|end| {
                if end.engine.poll_timeout().is_some_and(|at| at <= now) {
                    end.engine.handle_timeout(now);
                }
            });
            loop {
                let polled = end.charged(|end| {
                    let polled = end.engine.poll_transmit(now, BATCH, &mut buffer);
                    polled.map(|transmit| (transmit.size, transmit.segment_size))
                });
                let Some((size, segment)) = polled else { break };
                for data in buffer[..size].chunks(segment.unwrap_or(size).max(1)) {
                    packets.push((1 - from, data.to_vec()));
                }
            }
        }
        for (to, data) in packets {
            self.ends[to].charged(|end| {
                let packet = Received {
                    socket: LINK.socket,
                    remote: LINK.remote,
                    local_ip: None,
                    ecn: None,
                    data: BytesMut::from(&data[..]),
                };
                end.engine.handle_packet(now, packet);
                end.read_all();
            });
        }
        for end in &mut self.ends {
            end.charged(|end| end.read_all());
        }
    }
}

/// Bytes per stream at the dialler and at the acceptor, for streams like `spec`.
fn per_stream(spec: &StreamSpec, streams: usize) -> [f64; 2] {
    let mut pair = Pair::new();
    let peer = pair.ends[1].engine.node_id();
    let session = pair.ends[0].charged(|end| {
        end.engine
            .connect(Instant::from_secs(1), peer, vec![LINK])
            .expect("an address that can be dialled")
    });
    for _ in 0..200 {
        pair.step();
    }
    // The first thousand allocate what does not depend on the number of streams.
    const WARM_UP: usize = 1000;
    let mut opened: Vec<StreamId> = Vec::with_capacity(streams + WARM_UP);
    let mut base = [0; 2];
    while opened.len() < streams + WARM_UP {
        let now = pair.now;
        pair.ends[0].charged(|end| {
            for _ in 0..100 {
                let stream = end
                    .engine
                    .session(session)
                    .expect("it is open")
                    .open_stream(now, spec.clone());
                let stream = stream.expect("fewer than the most");
                opened.push(stream);
                let sent = end
                    .engine
                    .session(session)
                    .expect("it is open")
                    .stream(stream)
                    .send(now, Bytes::from_static(b"hello"));
                assert!(!matches!(sent, Err(SendError::Closed)), "{sent:?}");
            }
        });
        for _ in 0..5 {
            pair.step();
        }
        if opened.len() == WARM_UP {
            settle(&mut pair, WARM_UP);
            base = [pair.ends[0].held, pair.ends[1].held];
        }
    }
    settle(&mut pair, opened.len());
    [0, 1].map(|end| (pair.ends[end].held - base[end]) as f64 / streams as f64)
}

/// Runs until everything was read, and a second more.
#[track_caller]
fn settle(pair: &mut Pair, streams: usize) {
    let mut steps = 0;
    while pair.ends[1].read < streams {
        assert!(steps < 20_000, "{} of {streams}", pair.ends[1].read);
        pair.step();
        steps += 1;
    }
    for _ in 0..1000 {
        pair.step();
    }
}

fn check(streams: usize) {
    let simplex = StreamSpec::default();
    let duplex = StreamSpec {
        duplex: true,
        label: "sixteen bytes ok".to_owned(),
        ..StreamSpec::default()
    };
    for (name, spec) in [("one way", simplex), ("both ways, labelled", duplex)] {
        let [dialler, acceptor] = per_stream(&spec, streams);
        #[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
        {
            println!("{name}: {dialler:.0} bytes at the dialler, {acceptor:.0} at the acceptor");
        }
        assert!(dialler > 0.0 && acceptor > 0.0, "something is counted");
        assert!(dialler < MOST_BYTES && acceptor < MOST_BYTES);
    }
}

#[test]
fn an_idle_stream_takes_less_than_a_kibibyte() {
    check(STREAMS);
}

#[test]
#[ignore = "takes minutes; cargo test --release -p anabranch-sim --test idle_streams -- --ignored --nocapture"]
fn a_hundred_thousand() {
    check(50_000);
}
