//! Cost of the account of promises that the sessions of a node share: `cargo bench -p anabranch-session --bench node`.
//!
//! One node with ten sessions over the same two uplinks, 100 promised streams in each, and a little elastic data. Prints one JSON
//! object in the lab's format: the cost of a step of 10 ms over all sessions (timers and pump) in which a window of 200 ms ends, of one
//! in which a window of a second ends and all promises are reviewed, and of one in which nothing ends; and of one admission. Times are
//! wall-clock times of one thread, medians with the smallest and the largest; quote ratios, and never across machines.

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{Instant, Rate, SessionId, SocketId, StreamId};
use anabranch_session::{
    AllowList, Config, Engine, Event, Guarantee, Link, Received, SecretKey, StreamSpec,
};
use bytes::{Bytes, BytesMut};

const SESSIONS: usize = 10;
const STREAMS: usize = 100;
const SOCKETS: u64 = 2;
/// Rate of a promised stream.
const RATE: Rate = Rate::from_kbps(1);
const PROBABILITY: f64 = 0.9;
/// Bytes of elastic data that each session is handed in each step: about 1 Mbit/s.
const ELASTIC: usize = 1_200;
const BATCH: NonZeroUsize = NonZeroUsize::new(40).expect("not zero");
const DELAY: Duration = Duration::from_millis(5);
/// Steps in a second.
const STEPS: usize = 100;
/// Windows of 200 ms in a second.
const WINDOWS: usize = 5;
/// Seconds of data before the streams open, and seconds that are measured.
const BEFORE: usize = 40;
const MEASURED: usize = 20;

fn engine(epoch: Clock, seed: u8) -> Engine {
    let allowed = AllowList::everyone_listed();
    let config = Config {
        policy: "pgos".parse().expect("a policy"),
        ..Config::default()
    };
    let key = SecretKey::from_seed([seed; 32]);
    Engine::new(epoch, key, allowed, config, [seed; 32])
}

fn address(number: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number as u8], 4433))
}

#[allow(clippy::disallowed_methods)] // A bench measures time.
fn clock() -> Clock {
    Clock::now()
}

/// A node and its peer.
struct Pair {
    now: Instant,
    ends: [Engine; 2],
    sessions: Vec<SessionId>,
    elastic: Vec<StreamId>,
    connected: usize,
}

impl Pair {
    fn new(epoch: Clock) -> Self {
        let mut ends = [engine(epoch, 2), engine(epoch, 3)];
        let (now, peer) = (Instant::from_secs(1), ends[1].node_id());
        let link = |socket: u64| Link {
            socket: SocketId(socket),
            remote: address(10 + socket),
        };
        let links: Vec<Link> = (0..SOCKETS).map(link).collect();
        let sessions = (0..SESSIONS).map(|_| ends[0].connect(now, peer, links.clone()));
        let sessions = sessions.map(|session| session.expect("a peer that may be dialled"));
        Self {
            now,
            sessions: sessions.collect(),
            ends,
            elastic: Vec::new(),
            connected: 0,
        }
    }

    fn open(&mut self, session: SessionId, spec: StreamSpec) -> StreamId {
        let open = self.ends[0].session(session);
        let opened = open.and_then(|mut session| session.open_stream(self.now, spec));
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Nanoseconds that the first end spent on timers and the pump.
    fn step(&mut self) -> f64 {
        for (&session, &stream) in self.sessions.iter().zip(&self.elastic) {
            let data = Bytes::from(vec![1; ELASTIC]);
            if let Ok(session) = self.ends[0].session(session) {
                let _ = session.stream(stream).send(self.now, data);
            }
        }
        let (mut buffer, mut nanos) = (Vec::new(), 0.0);
        for at in 0..2 {
            let mut packets = Vec::new();
            let start = clock();
            self.ends[at].handle_timeout(self.now);
            while let Some(transmit) = self.ends[at].poll_transmit(self.now, BATCH, &mut buffer) {
                let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
                let all = buffer[..transmit.size].chunks(segment);
                packets.extend(all.map(|packet| Received {
                    socket: transmit.socket,
                    remote: address(10 * (1 - at as u64) + transmit.socket.0),
                    local_ip: None,
                    ecn: None,
                    data: BytesMut::from(packet),
                }));
            }
            if at == 0 {
                nanos = start.elapsed().as_secs_f64() * 1e9;
            }
            self.now += DELAY;
            for packet in packets {
                let from = address(10 * at as u64 + packet.socket.0);
                let packet = Received {
                    remote: from,
                    ..packet
                };
                self.ends[1 - at].handle_packet(self.now, packet);
            }
            for end in 0..2 {
                while let Some(event) = self.ends[end].poll_event() {
                    self.note(end, &event);
                }
            }
        }
        nanos
    }

    fn note(&mut self, end: usize, event: &Event) {
        match event {
            Event::Connected { .. } => self.connected += 1 - end,
            Event::Readable { session, stream } => {
                while self.ends[end]
                    .session(*session)
                    .ok()
                    .and_then(|session| session.stream(*stream).receive())
                    .is_some()
                {}
            }
            _ => {}
        }
    }
}

fn promised() -> StreamSpec {
    StreamSpec::default().with_guarantee(Guarantee::rate(RATE, PROBABILITY))
}

fn row(name: &str, mut nanos: Vec<f64>) -> String {
    nanos.sort_by(f64::total_cmp);
    let (median, min, max) = (nanos[nanos.len() / 2], nanos[0], nanos[nanos.len() - 1]);
    format!(
        r#"{{"bench": "{name}", "sessions": {SESSIONS}, "streams_each": {STREAMS}, "us_median": {:.1}, "us_min": {:.1}, "us_max": {:.1}, "runs": {}}}"#,
        median / 1e3,
        min / 1e3,
        max / 1e3,
        nanos.len()
    )
}

fn main() {
    // `cargo test --benches` runs this, too; measuring there would only cost time.
    if std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions) {
        return;
    }
    let mut pair = Pair::new(clock());
    for _ in 0..STEPS {
        pair.step();
    }
    assert_eq!(pair.connected, SESSIONS, "all are connected");
    for session in pair.sessions.clone() {
        let stream = pair.open(session, StreamSpec::bulk("elastic"));
        pair.elastic.push(stream);
    }
    for _ in 0..BEFORE * STEPS {
        pair.step();
    }
    for session in pair.sessions.clone() {
        for _ in 0..STREAMS {
            pair.open(session, promised());
        }
    }
    for _ in 0..2 * STEPS {
        pair.step();
    }
    // By place of the step in a second, which is the same for the windows of all sessions.
    let mut steps = vec![Vec::new(); STEPS];
    let mut admissions = Vec::new();
    for second in 0..MEASURED {
        for place in &mut steps {
            place.push(pair.step());
        }
        let session = pair.sessions[second % SESSIONS];
        let start = clock();
        let answer = pair.ends[0]
            .session(session)
            .and_then(|mut session| session.admit(pair.now, &promised()));
        admissions.push(start.elapsed().as_secs_f64() * 1e9);
        assert!(answer.is_ok(), "{answer:?}");
    }
    let median = |nanos: &[f64]| {
        let mut sorted = nanos.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    // All windows end with the same step: one step of a second costs most, and those 200, 400, 600 and 800 ms later come next.
    let medians: Vec<f64> = steps.iter().map(|place| median(place)).collect();
    let dearest = (0..STEPS).max_by(|&a, &b| medians[a].total_cmp(&medians[b]));
    let review = dearest.unwrap_or(0);
    let is_window = |place: usize| (place + STEPS - review).is_multiple_of(STEPS / WINDOWS);
    let (mut windows, mut quiet) = (Vec::new(), Vec::new());
    for place in (0..STEPS).filter(|&place| place != review) {
        let steps = &steps[place];
        if is_window(place) {
            windows.extend_from_slice(steps);
        } else {
            quiet.extend_from_slice(steps);
        }
    }
    let reviews = std::mem::take(&mut steps[review]);
    for session in pair.sessions.clone() {
        let promises = pair.ends[0]
            .session(session)
            .map(|mut session| session.promises())
            .unwrap_or_default();
        let in_force = promises.iter().filter(|(_, one)| one.term.is_some());
        assert_eq!(in_force.count(), STREAMS, "all promises are in force");
    }
    let rows = [
        row("step_with_window", windows),
        row("step_with_review", reviews),
        row("step_between", quiet),
        row("admission", admissions),
    ];
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!(
            "{{\"experiment\": \"session_node\", \"version\": \"{}\", \"rows\": [\n  {}\n]}}",
            env!("CARGO_PKG_VERSION"),
            rows.join(",\n  ")
        );
    }
}
