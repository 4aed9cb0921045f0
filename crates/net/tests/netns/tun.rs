//! TUN emulator with the traffic of unmodified programs, here the kernel's UDP and TCP.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anabranch_base::{Rate, Seed};
use anabranch_link::{Config, Queue, RateSource, duplex::Configs};
use anabranch_net::{
    Host, HostConfig,
    emulate::tun::{End, TunEmulator, TunSpec, within},
    session::AllowList,
};

use crate::{
    namespace::{Namespace, namespaces_with_tun},
    node::key,
};

const DELAY: Duration = Duration::from_millis(20);
const ADDRESS: &str = "10.93.1.2:7007";

/// Creates two namespaces joined by an emulated link.
fn emulated(mbps: u64) -> Option<([Namespace; 2], TunEmulator)> {
    let both = namespaces_with_tun()?;
    let end = |index: usize, address: &str| End {
        namespace: Some(both[index].name().to_owned()),
        device: "anab0".to_owned(),
        address: address.to_owned(),
    };
    let spec = TunSpec {
        name: "link".to_owned(),
        first: end(0, "10.93.1.1/24"),
        second: end(1, "10.93.1.2/24"),
        links: Configs::symmetric(Config {
            rate: RateSource::Constant(Rate::from_mbps(mbps)),
            delay: DELAY,
            queue: Queue::bytes(100_000),
            ..Config::default()
        }),
    };
    let emulator = TunEmulator::start(vec![spec], Seed(1)).unwrap();
    Some((both, emulator))
}

/// Echo server, which returns every datagram until dropped.
struct Echo {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start(namespace: &Namespace) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = is_over.clone();
        let thread = namespace.run(|| {
            let socket = UdpSocket::bind(ADDRESS).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(20)))
                .unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 2000];
                while !until.load(Ordering::Relaxed) {
                    if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                        socket.send_to(&buffer[..length], from).unwrap();
                    }
                }
            })
        });
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Sends `length` bytes to be returned. Returns the RTT, or `None` after the time-out.
fn ask(socket: &UdpSocket, number: u8, length: usize, timeout: Duration) -> Option<Duration> {
    socket.set_read_timeout(Some(timeout)).unwrap();
    let start = Instant::now();
    socket.send_to(&vec![number; length], ADDRESS).unwrap();
    let mut buffer = [0; 2000];
    while let Ok(read) = socket.recv(&mut buffer) {
        // A reply to an earlier datagram does not count.
        if buffer[..read] == vec![number; length][..] {
            return Some(start.elapsed());
        }
    }
    None
}

fn client(namespace: &Namespace) -> UdpSocket {
    namespace.run(|| UdpSocket::bind("10.93.1.1:0").unwrap())
}

#[test]
fn datagrams_meet_the_delay_and_the_cut() {
    let Some(([left, right], emulator)) = emulated(10) else {
        return;
    };
    let _echo = Echo::start(&right);
    let socket = client(&left);
    let timeout = Duration::from_secs(5);
    for number in 0..5 {
        let took = ask(&socket, number, 100, timeout).expect("an answer");
        assert!(took >= 2 * DELAY, "{took:?}");
    }
    let path = &emulator.paths()[0];
    path.set_up(false);
    for number in 10..13 {
        let answer = ask(&socket, number, 100, Duration::from_millis(150));
        assert_eq!(answer, None, "a link that is down carries nothing");
    }
    assert!(path.stats().0.down.packets >= 3);
    path.set_up(true);
    let took = ask(&socket, 20, 100, timeout).expect("an answer after the cut");
    assert!(took >= 2 * DELAY, "{took:?}");
}

/// Twenty packets sent at once are serialised: the last waits for those before it.
#[test]
fn datagrams_meet_the_rate() {
    let Some(([left, right], _emulator)) = emulated(1) else {
        return;
    };
    let _echo = Echo::start(&right);
    let socket = client(&left);
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let start = Instant::now();
    for number in 0..20u8 {
        socket.send_to(&[number; 972], ADDRESS).unwrap();
    }
    let mut buffer = [0; 2000];
    for number in 0..20u8 {
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], [number; 972]);
    }
    // 20 packets of 1000 bytes at 1 Mbit/s: 160 ms in the forward direction; the replies return at the same time.
    let least = Duration::from_millis(168) + 2 * DELAY;
    assert!(start.elapsed() >= least, "{:?}", start.elapsed());
}

#[test]
fn the_kernels_tcp_arrives_whole() {
    let Some(([left, right], _emulator)) = emulated(50) else {
        return;
    };
    let content: Vec<u8> = (0..1_000_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    let address: SocketAddr = ADDRESS.parse().unwrap();
    let listener = right.run(|| TcpListener::bind(address).unwrap());
    let reading = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).unwrap();
        read
    });
    left.run(|| {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap();
        stream
            .set_write_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(&content).unwrap();
    });
    assert!(reading.join().unwrap() == content, "the same bytes");
}

/// A node that was started within a namespace stays in it, wherever it is used.
#[test]
fn nodes_started_within_namespaces_meet_over_the_link() {
    let Some(([left, right], emulator)) = emulated(10) else {
        return;
    };
    let start = |namespace: &Namespace, [own, peer]: [u8; 2], address: [u8; 4]| {
        let allowed = AllowList::of([key(peer).node_id()]);
        let config = HostConfig::new(key(own), allowed);
        let config = config.bind([SocketAddr::from((address, 0))]);
        let started = within(namespace.name(), || Host::start(config));
        started.unwrap().unwrap()
    };
    let near = start(&left, [1, 2], [10, 93, 1, 1]);
    let far = start(&right, [2, 1], [10, 93, 1, 2]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let addresses = far.addresses();
        let meeting = async { tokio::join!(near.connect(far.node_id(), &addresses), far.accept()) };
        let met = tokio::time::timeout(Duration::from_secs(20), meeting).await;
        let (outgoing, incoming) = met.expect("they meet");
        assert_eq!(outgoing.unwrap().peer(), far.node_id());
        assert_eq!(incoming.unwrap().peer(), near.node_id());
        near.shutdown().await;
        far.shutdown().await;
    });
    let (forward, backward) = emulator.paths()[0].stats();
    assert!(forward.delivered.packets > 0 && backward.delivered.packets > 0);
}
