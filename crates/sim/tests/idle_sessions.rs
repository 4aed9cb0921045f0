//! Cost of a session that has nothing to send, at a server of many: bytes counted by the allocator, and packets.
//!
//! This file has a single test, because the allocator counts for the whole process.

use std::{
    alloc::System,
    collections::{BTreeMap, VecDeque},
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    time::Duration,
};

use anabranch_base::{Instant, SocketId};
use anabranch_session::{AllowList, Config, Engine, Event, Link, Received, SecretKey};
use bytes::BytesMut;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Target of a session with one path.
const MOST_BYTES: i64 = 84_000;
/// Growth of a session that stays idle.
const MOST_GROWTH_BYTES: i64 = 1000;
/// Packets of the server in each idle session in a minute: keep-alives of both ends, each acknowledged.
const MOST_PACKETS: f64 = 6.5;
const MINUTE: Duration = Duration::from_secs(60);
const CLIENTS: u32 = 100;
/// The first allocate what does not depend on the number of sessions.
const WARM_UP: u32 = 20;
const BATCH: NonZeroUsize = NonZeroUsize::new(40).expect("not zero");
const DELAY: Duration = Duration::from_millis(10);
const SOCKET: SocketId = SocketId(0);

/// Bytes allocated and not freed.
fn held() -> i64 {
    let stats = ALLOCATOR.stats();
    // Bytes by which blocks grow and shrink in place are in both.
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

fn address(end: u32) -> SocketAddr {
    (Ipv4Addr::from(0x0a00_0001 + (end << 8)), 4433).into()
}

/// An engine, the bytes that it holds, by allocations and frees during its calls, and the packets that it has sent.
struct End {
    engine: Engine,
    held: i64,
    sent: u64,
}

impl End {
    fn new(end: u32, allowed: AllowList) -> Self {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&end.to_le_bytes());
        let key = SecretKey::from_seed(seed);
        let epoch = anabranch_sim::epoch::get();
        let before = held();
        let engine = Engine::new(epoch, key, allowed, Config::default(), seed);
        Self {
            engine,
            held: held() - before,
            sent: 0,
        }
    }

    fn charged<T>(&mut self, work: impl FnOnce(&mut Engine) -> T) -> T {
        let before = held();
        let result = work(&mut self.engine);
        self.held += held() - before;
        result
    }
}

/// A server, the first end, and its clients.
struct Hub {
    ends: Vec<End>,
    now: Instant,
    /// Packets on their way, by arrival: from, to, and data.
    flying: VecDeque<(Instant, u32, u32, Vec<u8>)>,
    by_address: BTreeMap<SocketAddr, u32>,
    /// Never grows in an engine's account.
    buffer: Vec<u8>,
    established: u32,
}

impl Hub {
    fn new() -> Self {
        Self {
            ends: vec![End::new(0, AllowList::everyone_listed())],
            now: Instant::from_secs(1),
            flying: VecDeque::new(),
            by_address: [(address(0), 0)].into(),
            buffer: Vec::with_capacity(1 << 20),
            established: 0,
        }
    }

    fn add_client(&mut self) {
        let client = self.ends.len() as u32;
        self.by_address.insert(address(client), client);
        let mut end = End::new(client, AllowList::default());
        let server = self.ends[0].engine.node_id();
        let link = Link {
            socket: SOCKET,
            remote: address(0),
        };
        end.engine
            .connect(self.now, server, vec![link])
            .expect("an address that can be dialled");
        self.ends.push(end);
        self.serve(client);
    }

    /// Sends what `end` has to send, and takes its events.
    fn serve(&mut self, end: u32) {
        let from = &mut self.ends[end as usize];
        let now = self.now;
        loop {
            let polled = from.charged(|engine| {
                let polled = engine.poll_transmit(now, BATCH, &mut self.buffer);
                polled.map(|transmit| (transmit.remote, transmit.size, transmit.segment_size))
            });
            let Some((remote, size, segment)) = polled else {
                break;
            };
            let to = self.by_address[&remote];
            for data in self.buffer[..size].chunks(segment.unwrap_or(size).max(1)) {
                from.sent += 1;
                self.flying.push_back((now + DELAY, end, to, data.to_vec()));
            }
        }
        while let Some(event) = from.charged(Engine::poll_event) {
            self.established += u32::from(end > 0 && matches!(event, Event::Connected { .. }));
        }
    }

    /// Advances to the next packet or timer; returns whether it was at `until` at the latest.
    fn step(&mut self, until: Instant) -> bool {
        let timers = self.ends.iter_mut().zip(0_u32..);
        let timer = timers
            .filter_map(|(end, n)| end.charged(Engine::poll_timeout).map(|at| (at, n)))
            .min();
        let packet = self.flying.front().map(|(at, ..)| *at);
        if timer.is_none_or(|(at, _)| packet.is_some_and(|packet| packet <= at)) {
            if packet.is_none_or(|packet| packet > until) {
                return false;
            }
            let Some((at, from, to, data)) = self.flying.pop_front() else {
                return false;
            };
            self.now = self.now.max(at);
            let now = self.now;
            self.ends[to as usize].charged(|engine| {
                let packet = Received {
                    socket: SOCKET,
                    remote: address(from),
                    local_ip: None,
                    ecn: None,
                    data: BytesMut::from(&data[..]),
                };
                engine.handle_packet(now, packet);
            });
            self.serve(to);
            return true;
        }
        let Some((at, end)) = timer.filter(|(at, _)| *at <= until) else {
            return false;
        };
        self.now = self.now.max(at);
        let now = self.now;
        self.ends[end as usize].charged(|engine| engine.handle_timeout(now));
        self.serve(end);
        true
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        let mut steps = 0;
        while self.step(until) {
            steps += 1;
            assert!(steps < 10_000_000, "no end");
        }
        self.now = until;
    }

    fn add_clients(&mut self, clients: u32) {
        for _ in 0..clients {
            self.add_client();
            self.run(Duration::from_millis(200));
        }
        assert_eq!(self.established as usize, self.ends.len() - 1);
    }
}

#[test]
fn an_idle_session_takes_less_than_its_share() {
    let mut hub = Hub::new();
    hub.add_clients(WARM_UP);
    hub.run(MINUTE);
    let (client, before) = (hub.ends[1].held, hub.ends[0].held);
    hub.add_clients(CLIENTS);
    let mut held = [0; 2];
    for (held, time) in held.iter_mut().zip([MINUTE, 30 * MINUTE]) {
        hub.run(time);
        *held = (hub.ends[0].held - before) / i64::from(CLIENTS);
    }
    let sent = hub.ends[0].sent;
    hub.run(10 * MINUTE);
    let sent = (hub.ends[0].sent - sent) as f64 / 10.0 / f64::from(CLIENTS + WARM_UP);
    let [new, old] = held;
    println!(
        "a session at the server: {new} bytes, {old} after half an hour, {sent:.1} packets a minute; \
         the engine of a client: {client} bytes"
    );
    assert!(new > 0 && new < MOST_BYTES, "{new}");
    assert!(old < new + MOST_GROWTH_BYTES, "{new}, later {old}");
    assert!(sent > 0.0 && sent <= MOST_PACKETS, "{sent}");
}
