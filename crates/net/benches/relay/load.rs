//! Load of packets through a relay, or a baseline, and back.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anabranch_base::{NodeId, Rate};
use anabranch_net::relay::{
    Answer, CircuitId, Members, Open, Origin, Relay, RelayConfig, Request, Role,
};
use noq_udp::{RecvMeta, Transmit, UdpSocketState};

const RUN: Duration = Duration::from_millis(700);
/// Packets in flight at most. They fit into the sockets' buffers.
const WINDOW: u64 = 2_048;
/// Time without a packet after which those in flight count as lost.
const LOST_AFTER: Duration = Duration::from_millis(50);

/// Source of packets, and the address from which they are forwarded to the sink.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) source: Socket,
    pub(crate) entrance: SocketAddr,
}

/// A socket with segmentation offload.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) io: UdpSocket,
    pub(crate) state: UdpSocketState,
}

impl Socket {
    pub(crate) fn bind() -> Self {
        let io = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let state = UdpSocketState::new((&io).into()).expect("a UDP socket");
        let _ = state.set_recv_buffer_size((&io).into(), 8 << 20);
        let _ = state.set_send_buffer_size((&io).into(), 8 << 20);
        Self { io, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.io.local_addr().expect("bound")
    }
}

/// Sources with a common destination.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) ends: Vec<Ends>,
    pub(crate) sink: Socket,
}

/// Membership in which all nodes are members, at any address.
pub(crate) struct Anywhere;

impl Members for Anywhere {
    fn is_member(&self, _: NodeId) -> bool {
        true
    }

    fn is_at(&self, _: NodeId, _: SocketAddr, _: Role) -> bool {
        true
    }

    fn addresses(&self, _: NodeId) -> Vec<SocketAddr> {
        Vec::new()
    }
}

pub(crate) fn node(number: u8) -> NodeId {
    NodeId::from_public_key([number; 32])
}

/// Starts a relay with quotas beyond these loads.
pub(crate) fn relay(circuits: usize) -> Relay {
    let mut config = RelayConfig::new(node(0), [Ipv4Addr::LOCALHOST.into()]);
    config.circuits.capacity = Rate::from_mbps(100_000_000);
    config.circuits.quota.rate = Rate::from_mbps(100_000);
    config.circuits.quota.circuits = u32::MAX;
    config.circuits.circuits_max = circuits.max(1);
    config.circuits.ports_max = (2 * circuits).clamp(1, 1 << 15);
    Relay::start(config).expect("the config is in range")
}

pub(crate) fn open(
    relay: &Relay,
    circuit: usize,
    from: SocketAddr,
    towards: SocketAddr,
) -> SocketAddr {
    let open = Open {
        circuit: CircuitId(circuit as u64),
        route: [1, 0, 2].map(node).to_vec(),
        origin: Origin::Exact(from),
        towards,
        rate: Rate::from_mbps(100_000),
        lifetime: Duration::from_secs(60),
    };
    match relay.request(node(1), &[from], &Request::Open(open), &Anywhere) {
        Answer::Opened(opened) => opened.near,
        other => panic!("{other:?}"),
    }
}

/// A relay with circuits on which the destination has replied.
#[derive(Debug)]
pub(crate) struct Circuits {
    pub(crate) relay: Relay,
    pub(crate) ends: Lines,
    /// Address to which the destination replies on the last circuit.
    pub(crate) back: SocketAddr,
}

impl std::ops::Deref for Lines {
    type Target = Vec<Ends>;

    fn deref(&self) -> &Self::Target {
        &self.ends
    }
}

impl Circuits {
    pub(crate) fn open(circuits: usize) -> Self {
        let relay = relay(circuits);
        let sink = Socket::bind();
        let ends: Vec<Ends> = (0..circuits)
            .map(|circuit| {
                let source = Socket::bind();
                let entrance = open(&relay, circuit, source.address(), sink.address());
                Ends { source, entrance }
            })
            .collect();
        let mut back = sink.address();
        for circuit in relay.report().circuits {
            back = circuit.far;
            sink.io.send_to(b"yes?", circuit.far).expect("sent");
        }
        while relay.totals().account.back.packets < circuits as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut greeting = [0; 8];
        for end in &ends {
            while end.source.io.recv(&mut greeting).is_err() {}
        }
        Self {
            relay,
            ends: Lines { ends, sink },
            back,
        }
    }
}

/// Load: sizes and numbers of the packets to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) packet_bytes: usize,
    /// Packets in one call to the kernel.
    train: usize,
    pub(crate) circuits: usize,
    /// Threads that send as fast as they can, without a window.
    pushers: usize,
}

/// Result of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) wall_s: f64,
    /// CPU time of the forwarding thread.
    pub(crate) busy_s: f64,
}

impl Run {
    pub(crate) fn packets_per_core_s(&self) -> f64 {
        self.packets as f64 / self.busy_s
    }
}

impl Load {
    /// Trains, as from a host with much data to send.
    pub(crate) fn trains(packet_bytes: usize, train: usize) -> Self {
        Self {
            packet_bytes,
            train,
            circuits: 1,
            pushers: 0,
        }
    }

    /// Single packets, on the circuits in turn.
    pub(crate) fn singles(packet_bytes: usize, circuits: usize) -> Self {
        Self {
            packet_bytes,
            train: 1,
            circuits,
            pushers: 0,
        }
    }

    /// More packets than can be forwarded: those that arrive while the forwarder is busy wait, and are received together.
    pub(crate) fn overload(packet_bytes: usize, circuits: usize) -> Self {
        Self {
            pushers: 2,
            ..Self::singles(packet_bytes, circuits)
        }
    }

    /// Runs the load for [`RUN`]; `thread` is the name of the forwarding thread.
    pub(crate) fn run(&self, lines: &Lines, thread: &str) -> Run {
        match self.pushers {
            0 => self.run_window(lines, thread),
            _ => self.run_overload(lines, thread),
        }
    }

    fn run_overload(&self, lines: &Lines, thread: &str) -> Run {
        let contents = vec![7; self.packet_bytes];
        let sent = AtomicU64::new(0);
        let mut sink = Sink::new(self.packet_bytes);
        let begin = Instant::now();
        let busy = busy_s(thread);
        std::thread::scope(|scope| {
            for _ in 0..self.pushers {
                scope.spawn(|| {
                    while begin.elapsed() < RUN {
                        for ends in lines.iter() {
                            self.send(ends, &contents);
                        }
                        sent.fetch_add(lines.len() as u64, Ordering::Relaxed);
                    }
                });
            }
            while begin.elapsed() < RUN {
                sink.take(&lines.sink);
            }
        });
        let busy_s = busy_s(thread) - busy;
        Run {
            packets: sink.packets,
            lost: sent.into_inner() - sink.packets,
            wall_s: begin.elapsed().as_secs_f64(),
            busy_s,
        }
    }

    fn run_window(&self, lines: &Lines, thread: &str) -> Run {
        let contents = vec![7; self.packet_bytes * self.train];
        let mut sink = Sink::new(self.packet_bytes);
        let (mut sent, mut lost) = (0, 0);
        let begin = Instant::now();
        let busy = busy_s(thread);
        let mut turn = 0;
        let mut last_received_at = begin;
        loop {
            let now = Instant::now();
            if now - begin >= RUN {
                break;
            }
            // A quarter of the window at a time, so that the other side can receive batches.
            if sent - lost - sink.packets <= WINDOW * 3 / 4 {
                for _ in 0..(WINDOW / 4).div_ceil(self.train as u64) {
                    let ends = &lines[turn % lines.len()];
                    turn += 1;
                    self.send(ends, &contents);
                    sent += self.train as u64;
                }
            }
            if sink.take(&lines.sink) > 0 {
                last_received_at = now;
            } else if now - last_received_at > LOST_AFTER {
                lost = sent - sink.packets;
                last_received_at = now;
            }
        }
        Run {
            packets: sink.packets,
            lost,
            wall_s: begin.elapsed().as_secs_f64(),
            busy_s: busy_s(thread) - busy,
        }
    }

    fn send(&self, ends: &Ends, contents: &[u8]) {
        let transmit = Transmit {
            destination: ends.entrance,
            ecn: None,
            contents,
            segment_size: (self.train > 1).then_some(self.packet_bytes),
            src_ip: None,
        };
        let source = &ends.source;
        // Packets for which the kernel has no space are lost, and counted as such.
        let _ = source.state.try_send((&source.io).into(), &transmit);
    }
}

struct Sink {
    packet_bytes: usize,
    packets: u64,
    buffers: Vec<Vec<u8>>,
}

impl Sink {
    fn new(packet_bytes: usize) -> Self {
        Self {
            packet_bytes,
            packets: 0,
            buffers: vec![vec![0; 64 << 10]; noq_udp::BATCH_SIZE],
        }
    }

    fn take(&mut self, socket: &Socket) -> u64 {
        let mut metas = [RecvMeta::default(); noq_udp::BATCH_SIZE];
        let mut slices: Vec<_> = self
            .buffers
            .iter_mut()
            .map(|buffer| std::io::IoSliceMut::new(buffer))
            .collect();
        let filled = socket
            .state
            .recv((&socket.io).into(), &mut slices, &mut metas)
            .unwrap_or(0);
        let bytes: usize = metas[..filled].iter().map(|meta| meta.len).sum();
        let packets = (bytes / self.packet_bytes) as u64;
        self.packets += packets;
        packets
    }
}

/// RTT in seconds, measured with one packet at a time: the median of `rounds`.
pub(crate) fn round_trip_s(lines: &Lines, back: SocketAddr, rounds: usize) -> f64 {
    let (source, sink) = (&lines[0].source.io, &lines.sink.io);
    let blocking = |is_blocking: bool| {
        for socket in [source, sink] {
            socket.set_nonblocking(!is_blocking).expect("a socket");
            let limit = Some(Duration::from_secs(1));
            socket.set_read_timeout(limit).expect("a socket");
        }
    };
    blocking(true);
    let mut buffer = [0; 200];
    let mut times: Vec<f64> = (0..rounds)
        .filter_map(|_| {
            let begin = Instant::now();
            source.send_to(&[7; 100], lines[0].entrance).ok()?;
            sink.recv(&mut buffer).ok()?;
            sink.send_to(&[7; 100], back).ok()?;
            source.recv(&mut buffer).ok()?;
            Some(begin.elapsed().as_secs_f64())
        })
        .collect();
    blocking(false);
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Sends packets from an unknown address to a port, as fast as the kernel accepts them.
pub(crate) fn shoot(port: SocketAddr, packets: usize) {
    let socket = Socket::bind();
    for n in 0..packets {
        let _ = socket.io.send_to(&[7; 100], port);
        if n % 512 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    std::thread::sleep(Duration::from_millis(50));
}

/// CPU time of the threads with this name in seconds, as reported by Linux.
pub(crate) fn busy_s(name: &str) -> f64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return f64::NAN;
    };
    tasks
        .flatten()
        .filter(|task| {
            let comm = fs::read_to_string(task.path().join("comm"));
            comm.is_ok_and(|comm| comm.trim() == name)
        })
        .filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        })
        .sum::<f64>()
        / 1e9
}
