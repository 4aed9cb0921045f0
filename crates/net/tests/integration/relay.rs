//! Relays on sockets of this machine.

mod circuits;
mod sessions;

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use anabranch_base::{NodeId, Rate};
use anabranch_net::relay::{
    Answer, CircuitId, Members, Open, Opened, Origin, Relay, RelayConfig, Request, Role,
};

/// Time-out of every wait; none needs a tenth of it.
const LIMIT: Duration = Duration::from_secs(30);

fn node(number: u8) -> NodeId {
    NodeId::from_public_key([number; 32])
}

/// Membership in which all nodes are members, at any address on loopback.
struct Loopback;

impl Members for Loopback {
    fn is_member(&self, _: NodeId) -> bool {
        true
    }

    fn is_at(&self, _: NodeId, address: SocketAddr, _: Role) -> bool {
        address.ip().is_loopback()
    }

    fn addresses(&self, _: NodeId) -> Vec<SocketAddr> {
        vec![SocketAddr::new(V4, 1), SocketAddr::new(V6, 1)]
    }
}

const V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

/// Address families of this machine.
fn families() -> Vec<IpAddr> {
    let has_v6 = UdpSocket::bind((V6, 0)).is_ok();
    if !has_v6 {
        eprintln!("no IPv6 on loopback here: only IPv4 is tested");
    }
    [V4, V6][..if has_v6 { 2 } else { 1 }].to_vec()
}

fn relay_with(change: impl FnOnce(&mut RelayConfig)) -> Relay {
    let mut config = RelayConfig::new(node(0), [V4, V6]);
    config.circuits.capacity = Rate::from_mbps(100_000);
    config.circuits.quota.rate = Rate::from_mbps(100_000);
    config.circuits.quota.circuits = 10_000;
    change(&mut config);
    Relay::start(config).unwrap()
}

fn relay() -> Relay {
    relay_with(|_| ())
}

fn socket(ip: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().unwrap()
}

/// Request for a circuit of node 1, at `from`, to node 2 at `towards`.
fn open(circuit: u64, from: SocketAddr, towards: SocketAddr) -> Open {
    Open {
        circuit: CircuitId(circuit),
        route: [1, 0, 2].map(node).to_vec(),
        origin: Origin::Exact(from),
        towards,
        rate: Rate::from_mbps(1_000),
        lifetime: Duration::from_secs(60),
    }
}

fn opened(relay: &Relay, from: SocketAddr, open: Open) -> Opened {
    let source = open.route[0];
    match relay.request(source, &[from], &Request::Open(open), &Loopback) {
        Answer::Opened(opened) => opened,
        other => panic!("{other:?}"),
    }
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 65_536];
    let (bytes, from) = socket.recv_from(&mut buffer).expect("a packet");
    (buffer[..bytes].to_vec(), from)
}

/// Waits until the condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + LIMIT;
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
