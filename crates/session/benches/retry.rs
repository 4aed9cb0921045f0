//! Cost of a first packet that is answered with Retry, relative to an ordinary packet of data, in one run:
//! `cargo bench -p anabranch-session --bench retry`.
//!
//! Prints one JSON object in the lab's format. Times are wall-clock times of one thread, the median of several runs with the
//! smallest and the largest; quote the ratio, and never across machines. The target is a ratio of 10 at most.

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{Instant, SessionId, SocketId, StreamId};
use anabranch_channel::{Config as ChannelConfig, Endpoint, gate};
use anabranch_session::{AllowList, Config, Engine, Event, Link, Received, SecretKey, StreamSpec};
use bytes::{Bytes, BytesMut};

const RUNS: usize = 7;
/// First packets in a run.
const INITIALS: usize = 2_000;
/// Steps of half a round trip in a run of data packets.
const STEPS: usize = 200;
/// ADUs of 16 KiB in each step.
const ADUS_PER_STEP: usize = 16;
const SOCKET: SocketId = SocketId(0);
const BATCH: NonZeroUsize = NonZeroUsize::new(40).expect("not zero");
const DELAY: Duration = Duration::from_millis(5);

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32])
}

fn engine(epoch: Clock, seed: u8) -> Engine {
    let allowed = AllowList::everyone_listed();
    Engine::new(epoch, key(seed), allowed, Config::default(), [seed; 32])
}

fn address(number: u32) -> SocketAddr {
    SocketAddr::from((std::net::Ipv4Addr::from(0x0a00_0001 + number), 4433))
}

fn received(from: SocketAddr, data: &[u8]) -> Received {
    Received {
        socket: SOCKET,
        remote: from,
        local_ip: None,
        ecn: None,
        data: BytesMut::from(data),
    }
}

#[allow(clippy::disallowed_methods)] // A bench measures time.
fn clock() -> Clock {
    Clock::now()
}

fn initials(epoch: Clock, engine: &Engine, now: Instant) -> Vec<Vec<u8>> {
    let config = ChannelConfig::default();
    let mut crowd = Endpoint::new(epoch, key(9), AllowList::default(), config, [9; 32]);
    let mut buffer = Vec::new();
    let mut first = |_| {
        let id = crowd
            .connect(now, SOCKET, address(0), engine.node_id(), None)
            .expect("an address that can be dialled");
        let channel = crowd.channel(id).expect("just opened");
        let sent = channel.poll_transmit(now, NonZeroUsize::MIN, &mut buffer);
        buffer[..sent.expect("a first packet").size].to_vec()
    };
    (0..INITIALS + gate::UNPROVED_MAX).map(&mut first).collect()
}

/// Nanoseconds for each first packet, the response included.
fn retries(epoch: Clock) -> Vec<f64> {
    let now = Instant::from_secs(1);
    let mut victim = engine(epoch, 1);
    let mut buffer = Vec::new();
    let mut packets = initials(epoch, &victim, now).into_iter();
    for (number, packet) in packets.by_ref().take(gate::UNPROVED_MAX).enumerate() {
        victim.handle_packet(now, received(address(number as u32), &packet));
    }
    while victim.poll_transmit(now, BATCH, &mut buffer).is_some() {}
    let packets: Vec<_> = packets.collect();
    let run = |_| {
        let inputs: Vec<Received> = packets
            .iter()
            .enumerate()
            .map(|(number, packet)| received(address(1_000 + number as u32), packet))
            .collect();
        let mut answers = 0;
        let start = clock();
        for input in inputs {
            victim.handle_packet(now, input);
            while victim.poll_transmit(now, BATCH, &mut buffer).is_some() {
                answers += 1;
            }
        }
        let spent = start.elapsed().as_secs_f64();
        assert_eq!(answers, INITIALS, "each is answered with Retry");
        spent * 1e9 / INITIALS as f64
    };
    (0..RUNS).map(run).collect()
}

/// Two engines with a stream from the first to the second.
struct Pair {
    now: Instant,
    ends: [Engine; 2],
    session: [Option<SessionId>; 2],
    stream: Option<StreamId>,
}

impl Pair {
    fn new(epoch: Clock) -> Self {
        let mut ends = [engine(epoch, 2), engine(epoch, 3)];
        let (now, peer) = (Instant::from_secs(1), ends[1].node_id());
        let link = Link {
            socket: SOCKET,
            remote: address(1),
        };
        let session = ends[0].connect(now, peer, vec![link]).ok();
        Self {
            now,
            ends,
            session: [session, None],
            stream: None,
        }
    }

    /// Seconds that the second end spent on packets, and how many there were.
    fn step(&mut self) -> (f64, usize) {
        let (mut spent, mut count) = (0.0, 0);
        if let (Some(session), Some(stream)) = (self.session[0], self.stream) {
            let data = Bytes::from(vec![1; 16 << 10]);
            // A path without losses sets no limit of its own.
            for _ in 0..ADUS_PER_STEP {
                if let Ok(session) = self.ends[0].session(session) {
                    let _ = session.stream(stream).send(self.now, data.clone());
                }
            }
        }
        let mut buffer = Vec::new();
        for at in 0..2 {
            let mut packets = Vec::new();
            self.ends[at].handle_timeout(self.now);
            while let Some(transmit) = self.ends[at].poll_transmit(self.now, BATCH, &mut buffer) {
                let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
                let all = buffer[..transmit.size].chunks(segment);
                packets.extend(all.map(|packet| received(address(at as u32), packet)));
            }
            let number = packets.len();
            let start = clock();
            for packet in packets {
                self.ends[1 - at].handle_packet(self.now, packet);
            }
            if at == 0 {
                spent += start.elapsed().as_secs_f64();
                count += number;
            }
            while let Some(event) = self.ends[at].poll_event() {
                match event {
                    Event::Connected { session, .. } => self.session[at] = Some(session),
                    Event::Readable { session, stream } => {
                        while self.ends[at]
                            .session(session)
                            .ok()
                            .and_then(|session| session.stream(stream).receive())
                            .is_some()
                        {}
                    }
                    _ => {}
                }
            }
            self.now += DELAY;
        }
        (spent, count)
    }
}

/// Nanoseconds for each packet of data.
fn honest(epoch: Clock) -> Vec<f64> {
    let mut pair = Pair::new(epoch);
    for _ in 0..10 {
        pair.step();
    }
    let session = pair.session[0].expect("just opened");
    let stream = pair.ends[0]
        .session(session)
        .and_then(|mut session| session.open_stream(pair.now, StreamSpec::bulk("bulk")));
    pair.stream = stream.ok();
    for _ in 0..100 {
        pair.step();
    }
    let run = |_| {
        let (mut spent, mut count) = (0.0, 0);
        for _ in 0..STEPS {
            let (seconds, packets) = pair.step();
            spent += seconds;
            count += packets;
        }
        assert!(count > STEPS, "data flows");
        spent * 1e9 / count as f64
    };
    (0..RUNS).map(run).collect()
}

fn row(name: &str, mut nanos: Vec<f64>) -> (String, f64) {
    nanos.sort_by(f64::total_cmp);
    let (median, min, max) = (nanos[RUNS / 2], nanos[0], nanos[RUNS - 1]);
    let text = format!(
        r#"{{"bench": "{name}", "ns_median": {median:.1}, "ns_min": {min:.1}, "ns_max": {max:.1}, "runs": {RUNS}}}"#
    );
    (text, median)
}

fn main() {
    // `cargo test --benches` runs this, too; measuring there would only cost time.
    if std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions) {
        return;
    }
    let epoch = clock();
    let (honest, honest_ns) = row("honest_packet", honest(epoch));
    let (retry, retry_ns) = row("first_packet_answered_with_retry", retries(epoch));
    let ratio = retry_ns / honest_ns;
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!(
            "{{\"experiment\": \"session_retry\", \"version\": \"{}\", \"rows\": [\n  {honest},\n  {retry},\n  \
             {{\"bench\": \"ratio\", \"value\": {ratio:.2}, \"most\": 10}}\n]}}",
            env!("CARGO_PKG_VERSION"),
        );
    }
}
