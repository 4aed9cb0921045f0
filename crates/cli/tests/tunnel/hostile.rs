//! A client that keeps to no rule: a node of the test's own, which sends what it likes on the streams of the tunnel.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use anabranch::{
    AllowList, Host, HostConfig, Order, Priority, Session, Stream, StreamSpec, Ticket,
    net::emulate::tun,
};
use anabranch_tunnel::wire::{
    HEADER_BYTES, HELLO, LABEL_CONTROL, LABEL_PACKETS, Message, PacketHeader, Wish,
};
use bytes::Bytes;

use crate::stage::{SERVER, Stage, TIMEOUT};

/// A UDP packet, without a checksum, to the server.
pub(crate) fn udp4(source: [u8; 4], port: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(source);
    packet.extend([10, 77, 0, 1]);
    let sum: u32 = packet
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet.extend([0x30, 0x39]);
    packet.extend(port.to_be_bytes());
    packet.extend([0, 12, 0, 0]);
    packet.extend(source);
    packet
}

fn udp6(source: &str) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
    packet.extend(source.parse::<std::net::Ipv6Addr>().unwrap().octets());
    packet.extend(
        "fd77:616e::1"
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets(),
    );
    packet.extend([0x30, 0x39, 0x1b, 0x5a, 0, 8, 0, 0]);
    packet
}

fn adu(sequence: u32, packet: &[u8]) -> Bytes {
    let mut data = vec![0; HEADER_BYTES];
    PacketHeader {
        bucket: 5,
        sequence,
    }
    .write(&mut data);
    data.extend(packet);
    data.into()
}

fn control() -> StreamSpec {
    StreamSpec {
        duplex: true,
        label: LABEL_CONTROL.to_owned(),
        ..StreamSpec::default()
    }
}

fn packets(priority: Priority) -> StreamSpec {
    StreamSpec {
        priority,
        order: Order::Unordered,
        // However busy the machine is.
        lifetime: Some(Duration::from_secs(30)),
        duplex: true,
        label: LABEL_PACKETS.to_owned(),
        ..StreamSpec::default()
    }
}

/// Joins the tunnel; returns the control stream, and those of packets, the urgent one last.
pub(crate) async fn join(session: &Session) -> (Stream, Stream, Stream) {
    let control = session.open_stream(control()).unwrap();
    let wish = Wish {
        mtu: 1400,
        v4: None,
        v6: None,
    };
    control.send(Message::Request(wish).encode()).await.unwrap();
    let answer = control.recv().await.unwrap().unwrap();
    assert!(matches!(
        Message::decode(&answer.data),
        Ok(Message::Lease(_))
    ));
    let urgent = session.open_stream(packets(Priority::URGENT)).unwrap();
    urgent.send(Bytes::from_static(HELLO)).await.unwrap();
    let rest = session.open_stream(packets(Priority::NORMAL)).unwrap();
    (control, rest, urgent)
}

/// Waits until the server ends a membership.
async fn ended(control: &Stream) {
    while let Ok(adu) = control.recv().await {
        let message = adu.map(|adu| Message::decode(&adu.data));
        assert_eq!(message, Some(Ok(Message::Ready)));
    }
}

/// Runs a client of the test's own in the client's namespace.
pub(crate) fn within(stage: &Stage, ticket: &str, work: impl AsyncFnOnce(Host, Session) + Send) {
    let ticket: Ticket = ticket.parse().unwrap();
    let key = stage.key("client.key");
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let config = HostConfig::new(key, AllowList::default());
            let host = Host::start(config).unwrap();
            let session = host.connect(ticket.node, &ticket.addresses).await.unwrap();
            work(host, session).await;
        });
    };
    tun::within(stage.client.name(), run).unwrap();
}

/// Keeps a node with each key in the tunnel of the server while `look` runs. Each joins again when the server is gone and back; `joined`
/// counts how often one has.
pub(crate) fn crowd(
    stage: &Stage,
    ticket: &str,
    keys: Vec<anabranch::SecretKey>,
    joined: &Arc<AtomicUsize>,
    look: impl FnOnce() + Send,
) {
    let ticket: Arc<Ticket> = Arc::new(ticket.parse().unwrap());
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        for key in keys {
            let (ticket, joined) = (ticket.clone(), joined.clone());
            runtime.spawn(async move {
                let host = Host::start(HostConfig::new(key, AllowList::default())).unwrap();
                loop {
                    if stay(&host, &ticket, &joined).await.is_none() {
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                }
            });
        }
        look();
        runtime.shutdown_timeout(Duration::from_secs(5));
    };
    tun::within(stage.client.name(), run).unwrap();
}

/// Joins once, and stays until the session ends; `None` if it could not join.
async fn stay(host: &Host, ticket: &Ticket, joined: &AtomicUsize) -> Option<()> {
    let session = host.connect(ticket.node, &ticket.addresses).await.ok()?;
    let control = session.open_stream(control()).ok()?;
    let wish = Wish {
        mtu: 1400,
        v4: None,
        v6: None,
    };
    control.send(Message::Request(wish).encode()).await.ok()?;
    control.recv().await.ok()??;
    let urgent = session.open_stream(packets(Priority::URGENT)).ok()?;
    urgent.send(Bytes::from_static(HELLO)).await.ok()?;
    let rest = session.open_stream(packets(Priority::NORMAL)).ok()?;
    rest.send(Bytes::from_static(HELLO)).await.ok()?;
    let ready = control.recv().await.ok()??;
    assert_eq!(Message::decode(&ready.data), Ok(Message::Ready));
    joined.fetch_add(1, Ordering::Relaxed);
    let _ = control.recv().await;
    Some(())
}

/// Keeps nodes with these keys in sessions with the server, and in its tunnel or not, idle, while `look` runs.
pub(crate) fn idle_clients(
    stage: &Stage,
    ticket: &str,
    (keys, is_joining): (Vec<anabranch::SecretKey>, bool),
    look: impl FnOnce() + Send,
) {
    let ticket: Ticket = ticket.parse().unwrap();
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut held = Vec::new();
            for key in keys {
                let config = HostConfig::new(key, AllowList::default());
                let host = Host::start(config).unwrap();
                let session = host.connect(ticket.node, &ticket.addresses).await.unwrap();
                let mut streams = None;
                if is_joining {
                    let (control, packets, urgent) = join(&session).await;
                    packets.send(Bytes::from_static(HELLO)).await.unwrap();
                    let ready = control.recv().await.unwrap().unwrap();
                    assert_eq!(Message::decode(&ready.data), Ok(Message::Ready));
                    streams = Some((control, packets, urgent));
                }
                held.push((host, session, streams));
            }
            tokio::time::sleep(Duration::from_secs(15)).await;
            look();
        });
    };
    tun::within(stage.client.name(), run).unwrap();
}

/// Datagrams that arrive at a port of the server's machine.
struct Arrived(Mutex<mpsc::Receiver<Vec<u8>>>);

impl Arrived {
    #[track_caller]
    fn wait(&self) -> Vec<u8> {
        let next = self.0.lock().unwrap().recv_timeout(TIMEOUT);
        next.expect("a datagram arrives")
    }

    fn all(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().try_iter().collect()
    }
}

fn listen(stage: &Stage) -> (u16, Arrived) {
    let socket = stage.server.run(|| {
        let any: SocketAddr = ([0, 0, 0, 0], 0).into();
        std::net::UdpSocket::bind(any).unwrap()
    });
    let port = socket.local_addr().unwrap().port();
    let (report, arrived) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((length, _)) = socket.recv_from(&mut buffer) {
            let _ = report.send(buffer[..length].to_vec());
        }
    });
    (port, Arrived(Mutex::new(arrived)))
}

#[test]
fn spoofed_and_malformed_packets_are_dropped_and_counted() {
    let Some(stage) = Stage::new() else { return };
    let (server, ticket) = stage.serve(&[]);
    let (port, arrived) = listen(&stage);
    within(&stage, &ticket, async |host, session| {
        let (_control, packets, _urgent) = join(&session).await;
        let own = udp4([10, 77, 0, 2], port);
        // That of another client, of the server, from outside; of IPv6; no IP; 0 bytes; cut; too long; a wrong version.
        let bad = [
            udp4([10, 77, 0, 3], port),
            udp4([10, 77, 0, 1], port),
            udp4([192, 0, 2, 1], port),
            udp6("fd77:616e::3"),
            udp6("2001:db8::1"),
            b"no packet".to_vec(),
            Vec::new(),
            own[..25].to_vec(),
            [&own[..], &[0; 65_000]].concat(),
            vec![0x10; 40],
        ];
        for (sequence, packet) in bad.iter().enumerate() {
            packets.send(adu(sequence as u32, packet)).await.unwrap();
        }
        // Its own, again and again: a packet may be lost.
        for sequence in 0..20 {
            let number = bad.len() as u32 + sequence;
            packets.send(adu(number, &own)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let first = arrived.wait();
        assert_eq!(first, [10, 77, 0, 2]);
        // The last of them may have come by the slower path, and be in a later report.
        let dropped = || ["source", "malformed"].map(|reason| server.dropped(reason));
        let start = Instant::now();
        while dropped().iter().sum::<u64>() < 10 && start.elapsed() < TIMEOUT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(dropped(), [5, 5], "{:?}", server.events("dropped"));
        for more in arrived.all() {
            assert_eq!(more, [10, 77, 0, 2], "nothing else arrived");
        }
        host.shutdown().await;
    });
}

/// A UDP packet of the client to the server with so many bytes in all, whose checksums are right, and this word about fragments.
fn sized4(port: u16, bytes: usize, fragment: u16) -> Vec<u8> {
    let mut packet = udp4([10, 77, 0, 2], port);
    packet.resize(bytes, 7);
    packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[24..26].copy_from_slice(&((bytes - 20) as u16).to_be_bytes());
    packet[10..12].fill(0);
    let pairs = packet[..20].chunks(2);
    let sum: u32 = pairs
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// A UDP packet of the client over IPv6 behind extension headers, the first of which has this number.
fn extended6(first: u8, extensions: &[u8]) -> Vec<u8> {
    let mut packet = udp6("fd77:616e::2");
    let length = extensions.len() as u16 + 8;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet[6] = first;
    packet.splice(40..40, extensions.iter().copied());
    packet
}

/// Packets that are well formed, and unusual: they are the kernel's to judge, and the tunnel goes on.
#[test]
fn packets_of_any_size_with_any_headers_harm_nothing() {
    let Some(stage) = Stage::new() else { return };
    let (mut server, ticket) = stage.serve(&[]);
    let (port, arrived) = listen(&stage);
    within(&stage, &ticket, async |host, session| {
        let (_control, packets, _urgent) = join(&session).await;
        let padding = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
        let many: Vec<u8> = (0..100).flat_map(|_| padding(60)).collect();
        // Larger than the tunnel carries, up to the largest there is; parts of packets; extension headers, one of which sends the packet
        // on to another host, and one of which goes on behind the end; a packet in a packet.
        let unusual = [
            sized4(port, 1401, 0),
            sized4(port, 9000, 0x4000),
            sized4(port, 65_535, 0),
            sized4(port, 60, 0x2000),
            sized4(port, 60, 0x1fff),
            sized4(port, 65_535, 0x1fff),
            extended6(0, &padding(17)),
            extended6(60, &[padding(60), padding(17)].concat()),
            extended6(60, &[&many[..], &padding(17)].concat()),
            extended6(43, &[&[17, 2, 0, 1, 0, 0, 0, 0], &[0x20; 16][..]].concat()),
            extended6(44, &[17, 0, 0xff, 0xf9, 0, 0, 0, 1]),
            extended6(60, &[17, 255, 1, 4, 0, 0, 0, 0]),
            extended6(59, &[]),
        ];
        for (sequence, packet) in unusual.iter().enumerate() {
            packets.send(adu(sequence as u32, packet)).await.unwrap();
        }
        for sequence in 0..20 {
            let number = unusual.len() as u32 + sequence;
            let own = udp4([10, 77, 0, 2], port);
            packets.send(adu(number, &own)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        while arrived.wait() != [10, 77, 0, 2] {}
        server.wait("dropped", 1);
        // Only the one whose headers are longer than itself.
        assert_eq!(server.dropped("malformed"), 1);
        assert!(server.process.is_running());
        host.shutdown().await;
    });
}

#[test]
fn only_one_stream_of_packets_counts_and_only_while_its_membership_does() {
    let Some(stage) = Stage::new() else { return };
    let (_server, ticket) = stage.serve(&[]);
    let (port, arrived) = listen(&stage);
    within(&stage, &ticket, async |host, session| {
        let own = udp4([10, 77, 0, 2], port);
        // Before it has joined.
        let early = session.open_stream(packets(Priority::NORMAL)).unwrap();
        early.send(adu(0, &own)).await.unwrap();
        assert!(early.recv().await.is_err());
        let (control, first, _urgent) = join(&session).await;
        first.send(adu(0, &own)).await.unwrap();
        arrived.wait();
        // A second one.
        let second = session.open_stream(packets(Priority::NORMAL)).unwrap();
        second.send(adu(0, &own)).await.unwrap();
        assert!(second.recv().await.is_err());
        // The same node joins in another session: the first has nothing any more.
        let ticket: Ticket = ticket.parse().unwrap();
        let later = host.connect(ticket.node, &ticket.addresses).await.unwrap();
        let (_later_control, later_packets, _later_urgent) = join(&later).await;
        ended(&control).await;
        assert!(first.recv().await.is_err());
        arrived.all();
        let _ = first.send(adu(1, &own)).await;
        session.close(0, "over");
        // The end of the earlier session takes nothing from the later one.
        for sequence in 0..20 {
            later_packets.send(adu(sequence, &own)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        arrived.wait();
        // Packets for it arrive in the later session.
        stage.server.run(|| {
            let socket = std::net::UdpSocket::bind((SERVER, 0)).unwrap();
            for _ in 0..20 {
                socket.send_to(b"back", "10.77.0.2:9").unwrap();
            }
        });
        let back = tokio::time::timeout(TIMEOUT, later_packets.recv()).await;
        let back = back.unwrap().unwrap().unwrap();
        assert!(back.data.ends_with(b"back"));
        host.shutdown().await;
    });
}

#[test]
fn messages_out_of_place_end_the_membership() {
    let Some(stage) = Stage::new() else { return };
    let (_server, ticket) = stage.serve(&[]);
    within(&stage, &ticket, async |host, session| {
        for first in [
            &b""[..],
            b"\x01\x02\x05\x78\x00\x00",
            b"rubbish",
            &[0; 5000],
        ] {
            let stream = session.open_stream(control()).unwrap();
            let first = if first.is_empty() { b"\x00" } else { first };
            stream.send(Bytes::copy_from_slice(first)).await.unwrap();
            // A refusal of the version, or the end.
            match stream.recv().await {
                Ok(Some(adu)) => assert!(matches!(
                    Message::decode(&adu.data),
                    Ok(Message::Refuse(..))
                )),
                Ok(None) => panic!("an end without a reason"),
                Err(_) => {}
            }
        }
        let (control, packets, _urgent) = join(&session).await;
        packets
            .send(Bytes::from_static(b"\x07no header"))
            .await
            .unwrap();
        ended(&control).await;
        let (control, _packets, _urgent) = join(&session).await;
        control.send(Bytes::from_static(b"\x02")).await.unwrap();
        ended(&control).await;
        host.shutdown().await;
    });
}
