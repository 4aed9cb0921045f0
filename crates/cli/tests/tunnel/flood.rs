//! Segments that no honest kernel sends, into a client that splits TCP: it goes on, and holds no more for it.

use std::{
    io::Read,
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener},
};

use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    programs::{self, Download, peer, serve},
    stage::{CLIENT, HOST, Running, Stage, TIMEOUT, until},
};

const SPLIT: [&str; 2] = ["--default-route", "--split-tcp"];
const ANY: [&str; 2] = ["--to", "any"];
/// Address that nobody answers at, behind the server's machine.
const SILENT: [u8; 4] = [203, 0, 113, 7];
const OWN: [u8; 4] = [10, 77, 0, 2];
const OWN_V6: &str = "fd77:616e::2";
const HOST_V6: &str = "2001:db8:9::1";
const PORT: u16 = 7030;
const SYN: u8 = 0x02;

/// A TCP segment without its checksum, which the other half's kernel would check.
fn segment(ports: [u16; 2], flags: u8, data: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(ports[0].to_be_bytes());
    segment.extend(ports[1].to_be_bytes());
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(data);
    segment
}

/// A packet around it; fields are those of the last part of an IPv4 header that says something about fragments.
fn packet4(to: [u8; 4], fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, 6, 0, 0]);
    packet.extend(OWN);
    packet.extend(to);
    packet.extend(payload);
    packet
}

/// The same over IPv6, behind these extension headers, of which the first has this number.
fn packet6(first: u8, extensions: &[u8], segment: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(((extensions.len() + segment.len()) as u16).to_be_bytes());
    packet.extend([first, 64]);
    let addresses = [OWN_V6, HOST_V6].map(|text| text.parse::<Ipv6Addr>().unwrap());
    packet.extend(addresses.iter().flat_map(Ipv6Addr::octets));
    packet.extend(extensions);
    packet.extend(segment);
    // The checksum of the segment is that of a kernel, because a kernel is to accept it.
    let at = packet.len() - segment.len();
    let mut sum = 6 + segment.len() as u32;
    for bytes in [&packet[8..40], &packet[at..]] {
        let pairs = bytes
            .chunks(2)
            .map(|pair| [pair[0], pair.get(1).copied().unwrap_or(0)]);
        sum += pairs
            .map(|pair| u32::from(u16::from_be_bytes(pair)))
            .sum::<u32>();
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[at + 16..at + 18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// Sender of packets from the client's machine, as its kernel would.
struct Raw([Socket; 2]);

impl Raw {
    fn new(stage: &Stage) -> Self {
        Self(stage.client.run(|| {
            let raw = Some(Protocol::from(255));
            let sockets = [Domain::IPV4, Domain::IPV6];
            let sockets = sockets.map(|domain| Socket::new(domain, Type::RAW, raw).unwrap());
            sockets[0].set_header_included_v4(true).unwrap();
            sockets[1].set_header_included_v6(true).unwrap();
            sockets
        }))
    }

    /// False if the queue of the device was full, or the kernel does not send such a packet.
    fn send(&self, packet: &[u8]) -> bool {
        let is_v4 = packet[0] >> 4 == 4;
        let to: IpAddr = match is_v4 {
            true => <[u8; 4]>::try_from(&packet[16..20]).unwrap().into(),
            false => <[u8; 16]>::try_from(&packet[24..40]).unwrap().into(),
        };
        let socket = &self.0[usize::from(!is_v4)];
        socket
            .send_to(packet, &SocketAddr::new(to, 0).into())
            .is_ok()
    }
}

/// Memory of a process, in kB.
fn memory(running: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.process.id()));
    let status = status.unwrap();
    let row = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = row.unwrap().split_whitespace();
    words.clone().nth(1).unwrap().parse().unwrap()
}

/// The server's machine with a host behind it that answers nothing, and one over IPv6.
fn stage() -> Option<(Stage, Running, Running)> {
    let stage = Stage::new()?;
    serve(&stage.server);
    stage
        .server
        .ip(&format!("address add {HOST_V6}/128 dev lo nodad"));
    stage
        .server
        .ip("link add silent0 type veth peer name silent1");
    stage.server.ip("address add 203.0.113.1/24 dev silent0");
    for device in ["silent0", "silent1"] {
        stage.server.ip(&format!("link set {device} up"));
    }
    stage
        .server
        .ip("neighbour add 203.0.113.7 lladdr 02:00:00:00:00:07 dev silent0");
    let (server, ticket) = stage.serve(&ANY);
    let client = stage.join(&ticket, &SPLIT);
    Some((stage, server, client))
}

/// More openings than connections there may be, from ever other ports.
#[test]
fn openings_to_a_target_that_does_not_answer_are_bounded() {
    let Some((stage, server, client)) = stage() else {
        return;
    };
    let raw = Raw::new(&stage);
    let mut after = Vec::new();
    for round in 0..10_u16 {
        for port in 0..20_000_u16 {
            raw.send(&packet4(
                SILENT,
                0x4000,
                &segment([1024 + port, 1000 + round], SYN, b""),
            ));
        }
        // Their places are free again when the target had its time.
        assert_eq!(peer(&stage.client, HOST), HOST, "made by the server");
        after.push([memory(&client), memory(&server)]);
    }
    println!("{after:?} kB");
    // 8 kB at the client and 5 kB at the server for each of the connections that there may be.
    assert!(
        after
            .iter()
            .all(|[client, server]| *client < 300_000 && *server < 200_000),
        "{after:?} kB"
    );
    assert!(client.events("warning").is_empty());
    Download::start(&stage.client, HOST, 3_000_000).ended();
}

#[test]
fn openings_behind_extension_headers_are_made() {
    let Some((stage, _server, _client)) = stage() else {
        return;
    };
    let any: Ipv6Addr = "::".parse().unwrap();
    let listener = stage.server.run(|| TcpListener::bind((any, PORT)).unwrap());
    listener.set_nonblocking(true).unwrap();
    let raw = Raw::new(&stage);
    const DESTINATION: u8 = 60;
    // Options that fill their header; two headers; and one of a packet that is its only fragment.
    let padding = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    for (number, (first, extensions)) in [
        (DESTINATION, padding(6).to_vec()),
        (DESTINATION, [padding(DESTINATION), padding(6)].concat()),
        (44, vec![6, 0, 0, 0, 0, 0, 0, 9]),
    ]
    .into_iter()
    .enumerate()
    {
        let opening = segment([5000 + number as u16, PORT], SYN, b"");
        let opening = packet6(first, &extensions, &opening);
        // Sent again as a kernel does: the first one may come before the session can be used.
        let mut accepted = None;
        until("the connection is made", || {
            raw.send(&opening);
            std::thread::sleep(std::time::Duration::from_millis(200));
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        let (mut accepted, from) = accepted.unwrap();
        accepted.set_nonblocking(false).unwrap();
        assert_eq!(
            from.ip(),
            HOST_V6.parse::<IpAddr>().unwrap(),
            "made by the server"
        );
        // No program has this port: its kernel resets the connection.
        accepted.set_read_timeout(Some(TIMEOUT)).unwrap();
        assert!(accepted.read(&mut [0]).is_err());
    }
}

/// Fragments, headers that are cut or contradict themselves, and everything at random: honest connections go on.
#[test]
fn segments_that_no_kernel_sends_harm_no_connection() {
    let Some((stage, _server, mut client)) = stage() else {
        return;
    };
    let mut download = Download::start(&stage.client, HOST, 6_000_000);
    download.goes_on(100_000);
    let raw = Raw::new(&stage);
    let host = HOST.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let server = [10, 77, 0, 1];
    // An opening in two fragments, the first of which ends within the TCP header; then in the other order, and only a part.
    let opening = segment([6000, 7002], SYN, b"");
    let parts = [
        packet4(host, 0x2000, &opening[..8]),
        packet4(host, 1, &opening[8..]),
    ];
    let mut packets: Vec<Vec<u8>> = parts.iter().chain(parts.iter().rev()).cloned().collect();
    packets.push(parts[1].clone());
    for to in [host, server, OWN, SILENT] {
        for flags in 0..=255 {
            packets.push(packet4(to, 0x4000, &segment([0, 0], flags, b"")));
            packets.push(packet4(to, 0x4000, &segment([7002, 7002], flags, b"data")));
        }
        let mut offset = segment([6001, 7002], SYN, b"");
        offset[12] = 0xf0;
        packets.push(packet4(to, 0x4000, &offset));
        for length in 0..20 {
            packets.push(packet4(to, 0x4000, &opening[..length]));
        }
    }
    let mut random = 0x9e37_79b9_u32;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        random
    };
    for _ in 0..4_000 {
        let mut bytes = segment([next() as u16, next() as u16], next() as u8, b"some data");
        let place = next() as usize % bytes.len();
        bytes[place] ^= next() as u8;
        let fragment = [0x4000, 0x2000, 5][next() as usize % 3];
        packets.push(packet4(
            [host, server, SILENT][next() as usize % 3],
            fragment,
            &bytes,
        ));
    }
    for packet in &packets {
        raw.send(packet);
    }
    download.ended();
    assert!(client.process.is_running());
    assert_eq!(peer(&stage.client, HOST), HOST);
    // To the tunnel's own network, connections are packets.
    assert_eq!(peer(&stage.client, "10.77.0.1"), CLIENT);
    until("places are free", || {
        let to: SocketAddr = format!("{HOST}:9").parse().unwrap();
        let error = stage.client.run(|| programs::connect(to)).unwrap_err();
        error.kind() == std::io::ErrorKind::ConnectionRefused
    });
}
