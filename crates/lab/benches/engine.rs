//! Cost of the engine: `cargo bench -p anabranch-lab`.
//!
//! Prints one JSON object in the lab's shape. Times are wall-clock times of one thread, the median of
//! several runs with the smallest and the largest; quote ratios, and never across machines.

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{Instant, Rate, Seed, SocketId, StreamId};
use anabranch_lab::{Outcome, Row};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{
    AllowList, Config, Controller, Engine, Event, Link, Received, SecretKey, StreamSpec,
};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};
use bytes::{Bytes, BytesMut};
use serde_json::json;

const RUNS: usize = 3;

fn world(links: &[(u64, u64)], config: &Config, loads: Vec<Load>) -> World {
    let mut world = World::new(Seed(1));
    let a = world.add_node(
        config.clone(),
        AllowList::default(),
        Sender::new(World::node_id(1), loads),
    );
    let b = world.add_node(
        config.clone(),
        AllowList::of([World::node_id(0)]),
        Receiver::new(),
    );
    let links = links
        .iter()
        .map(|&(mbps, rtt_ms)| {
            let rate = Rate::from_mbps(mbps);
            let rtt = Duration::from_millis(rtt_ms);
            let wire = world
                .add_wire(
                    a,
                    b,
                    Configs::symmetric(LinkConfig {
                        rate: RateSource::Constant(rate),
                        delay: rtt / 2,
                        queue: Queue::bdp(rate, rtt),
                        ..LinkConfig::default()
                    }),
                )
                .expect("a valid link");
            world.link(a, wire)
        })
        .collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world
}

/// Wall time of a transfer, and packets delivered in both directions.
fn transfer(links: &[(u64, u64)], config: &Config, bytes: u64) -> (Duration, u64, f64) {
    let mut world = world(links, config, vec![Load::bulk(bytes)]);
    let start = Clock::now();
    world.run_while(Instant::from_secs(600), |w| {
        !w.app::<Receiver>(1)
            .records
            .get("bulk")
            .is_some_and(|record| record.finished)
    });
    let elapsed = start.elapsed();
    (elapsed, world.packets_delivered, world.now().as_secs_f64())
}

fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    ]
}

fn row(name: &str, unit: &str, [low, median, high]: [f64; 3]) -> Row {
    let mut row = Row::new();
    row.insert("bench".into(), json!(name));
    for (suffix, value) in [("median", median), ("min", low), ("max", high)] {
        row.insert(
            format!("{unit}_{suffix}"),
            json!((value * 1000.0).round() / 1000.0),
        );
    }
    row.insert("runs".into(), json!(RUNS));
    row
}

/// Two engines joined by memory: time that each spends on full-size packets of one channel, including encryption,
/// acknowledgements and the application's calls. A turn is a millisecond of virtual time, in which about 85 packets leave, as
/// on a host under load.
struct Direct {
    engines: [Engine; 2],
    now: Instant,
    spent: [Duration; 2],
    packets: [u64; 2],
    batch: Vec<u8>,
    sockets: [SocketAddr; 2],
}

impl Direct {
    fn new() -> Self {
        let keys = [1_u8, 2].map(|seed| SecretKey::from_seed([seed; 32]));
        let mut config = Config::default();
        config.channel.controller = Controller::Fixed(Rate::from_mbps(1000));
        let ids = [keys[0].node_id(), keys[1].node_id()];
        let epoch = Clock::now();
        let mut index = 0_u8;
        let engines = keys.map(|key| {
            index += 1;
            let peer = ids[usize::from(2 - index)];
            Engine::new(
                epoch,
                key,
                AllowList::of([peer]),
                config.clone(),
                [index; 32],
            )
        });
        Self {
            engines,
            now: Instant::EPOCH,
            spent: [Duration::ZERO; 2],
            packets: [0; 2],
            batch: Vec::new(),
            sockets: [
                SocketAddr::from(([10, 0, 0, 1], 1)),
                SocketAddr::from(([10, 0, 0, 2], 2)),
            ],
        }
    }

    /// Runs one side for a turn: handles the packets it received, and returns those it sends.
    fn turn(&mut self, side: usize, packets: Vec<BytesMut>) -> Vec<BytesMut> {
        let received: Vec<Received> = packets
            .into_iter()
            .map(|data| Received {
                socket: SocketId(0),
                remote: self.sockets[1 - side],
                local_ip: None,
                ecn: None,
                data,
            })
            .collect();
        let mut sent = Vec::new();
        let engine = &mut self.engines[side];
        let most = NonZeroUsize::new(40).expect("not zero");
        let mut begin = Clock::now();
        for packet in received {
            engine.handle_packet(self.now, packet);
        }
        if engine.poll_timeout().is_some_and(|at| at <= self.now) {
            engine.handle_timeout(self.now);
        }
        while let Some(transmit) = engine.poll_transmit(self.now, most, &mut self.batch) {
            self.spent[side] += begin.elapsed();
            self.packets[side] += transmit.packets() as u64;
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            sent.extend(
                self.batch[..transmit.size]
                    .chunks(segment)
                    .map(BytesMut::from),
            );
            begin = Clock::now();
        }
        self.spent[side] += begin.elapsed();
        sent
    }

    /// Sends `bytes` over `streams` streams that always have data to send, in ADUs of `adu_bytes`; returns microseconds per
    /// data packet at the sender and the receiver.
    fn run(mut self, bytes: usize, streams: usize, adu_bytes: usize) -> [f64; 2] {
        let peer = self.engines[1].node_id();
        let link = Link {
            socket: SocketId(0),
            remote: self.sockets[1],
        };
        let session = self.engines[0]
            .connect(self.now, peer, vec![link])
            .expect("a valid address");
        let streams: Vec<StreamId> = (0..streams)
            .map(|_| {
                self.engines[0]
                    .session(session)
                    .and_then(|mut session| {
                        session.open_stream(self.now, StreamSpec::bulk("bench"))
                    })
                    .expect("a valid spec")
            })
            .collect();
        // Data for 10 ms, or one ADU.
        let enough = (1_250_000 / streams.len()).max(1);
        let adu = Bytes::from(vec![7; adu_bytes]);
        let mut incoming = Vec::new();
        let (mut queued, mut taken) = (0, 0);
        let mut on_the_way = Vec::new();
        while taken < bytes {
            self.now += Duration::from_millis(1);
            let begin = Clock::now();
            for &stream in &streams {
                let mut held = 0;
                while queued < bytes && held < enough {
                    let handle = self.engines[0].session(session).expect("it is open");
                    let sent = handle.stream(stream).send(self.now, adu.clone());
                    if sent.is_err() {
                        break;
                    }
                    queued += adu_bytes;
                    held += adu_bytes;
                }
            }
            while self.engines[0].poll_event().is_some() {}
            self.spent[0] += begin.elapsed();
            let forward = self.turn(0, std::mem::take(&mut on_the_way));
            let begin = Clock::now();
            while let Some(event) = self.engines[1].poll_event() {
                if let Event::StreamOpened {
                    session, stream, ..
                } = event
                {
                    incoming.push((session, stream));
                }
            }
            for &(session, stream) in &incoming {
                let handle = self.engines[1].session(session).expect("it is open");
                let mut stream = handle.stream(stream);
                while let Some(adu) = stream.receive() {
                    taken += adu.data.len();
                }
            }
            self.spent[1] += begin.elapsed();
            on_the_way = self.turn(1, forward);
        }
        let packets = self.packets[0] as f64;
        self.spent.map(|spent| spent.as_secs_f64() * 1e6 / packets)
    }
}

fn each_side() -> [Row; 2] {
    let runs: Vec<[f64; 2]> = (0..RUNS)
        .map(|_| Direct::new().run(200_000_000, 1, 64 << 10))
        .collect();
    let side = |index: usize| spread(runs.iter().map(|run| run[index]).collect());
    [
        row("send_one_packet", "us", side(0)),
        row("receive_one_packet", "us", side(1)),
    ]
}

/// The same with 1,000 streams sending at once: 1,000 bytes of each at a time.
fn many_streams() -> Row {
    let runs = (0..RUNS).map(|_| Direct::new().run(10_000_000, 1_000, 1_000)[0]);
    row(
        "send_one_packet_of_1000_streams",
        "us",
        spread(runs.collect()),
    )
}

/// One channel, full-size packets, both ends and the simulator: an upper bound on the cost of sending and receiving one packet.
fn per_packet() -> Row {
    let mut config = Config::default();
    config.channel.controller = Controller::Fixed(Rate::from_mbps(2000));
    let values = (0..RUNS)
        .map(|_| {
            let bytes = 200_000_000;
            let (elapsed, ..) = transfer(&[(10_000, 1)], &config, bytes);
            elapsed.as_secs_f64() * 1e6 / (bytes as f64 / 1430.0)
        })
        .collect();
    row(
        "send_and_receive_one_packet_with_simulator",
        "us",
        spread(values),
    )
}

/// Virtual over real time of a 50 Mbit/s session on two paths.
fn simulator_speed() -> Row {
    let values = (0..RUNS)
        .map(|_| {
            let (elapsed, _, virtual_s) =
                transfer(&[(30, 20), (20, 60)], &Config::default(), 60_000_000);
            virtual_s / elapsed.as_secs_f64()
        })
        .collect();
    row(
        "simulator_50_mbps_two_paths",
        "times_real_time",
        spread(values),
    )
}

fn main() {
    // `cargo test --benches` runs this, too; measuring there would only cost time.
    if std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions) {
        return;
    }
    let outcome = Outcome {
        experiment: "engine",
        version: env!("CARGO_PKG_VERSION"),
        seed: 1,
        traces: Vec::new(),
        rows: each_side()
            .into_iter()
            .chain([many_streams(), per_packet(), simulator_speed()])
            .collect(),
    };
    let text = serde_json::to_string_pretty(&outcome).expect("rows are JSON");
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!("{text}");
    }
}
