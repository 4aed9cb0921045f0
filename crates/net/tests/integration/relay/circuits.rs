//! Packets through circuits.

use anabranch_net::relay::{Quota, Reason, Refusal, RelayedPath, RelayedPathSpec};

use super::*;

/// Opens a circuit and returns it with its ends, after it has carried a packet in each direction.
fn pair(relay: &Relay, circuit: u64, ip: IpAddr) -> (UdpSocket, UdpSocket, Opened) {
    let (source, destination) = (socket(ip), socket(ip));
    let (from, towards) = (address(&source), address(&destination));
    let opened = opened(relay, from, open(circuit, from, towards));
    greet(&source, &destination, opened);
    (source, destination, opened)
}

fn greet(source: &UdpSocket, destination: &UdpSocket, opened: Opened) {
    source.send_to(b"there", opened.near).unwrap();
    assert_eq!(receive(destination), (b"there".to_vec(), opened.far));
    destination.send_to(b"back", opened.far).unwrap();
    assert_eq!(receive(source), (b"back".to_vec(), opened.near));
}

#[test]
fn a_circuit_carries_packets_of_any_size_both_ways_unchanged() {
    for ip in families() {
        let relay = relay();
        let (source, destination, opened) = pair(&relay, 1, ip);
        let sizes = [
            1, 2, 1_199, 1_200, 1_400, 1_472, 3_000, 9_000, 1_400, 1_400, 700,
        ];
        for (n, size) in sizes.into_iter().enumerate() {
            let packet: Vec<u8> = (0..size).map(|i| (i * 7 + n) as u8).collect();
            source.send_to(&packet, opened.near).unwrap();
            assert_eq!(receive(&destination), (packet.clone(), opened.far));
            destination.send_to(&packet, opened.far).unwrap();
            assert_eq!(receive(&source), (packet, opened.near));
        }
        let account = relay.report().circuits[0].account;
        assert_eq!(account.outward.packets, 1 + sizes.len() as u64);
        assert_eq!(account.back.packets, account.outward.packets);
        assert_eq!(account.dropped.packets(), 0);
    }
}

#[test]
fn a_circuit_leads_from_one_family_to_the_other() {
    if families().len() < 2 {
        return;
    }
    let relay = relay();
    let (source, destination) = (socket(V4), socket(V6));
    let (from, towards) = (address(&source), address(&destination));
    let opened = opened(&relay, from, open(1, from, towards));
    assert!(opened.near.is_ipv4() && opened.far.is_ipv6());
    greet(&source, &destination, opened);
}

#[test]
fn many_packets_stay_in_order_and_none_is_lost_or_doubled() {
    let relay = relay();
    let (source, destination, opened) = pair(&relay, 1, V4);
    // In parts that fit into the sockets' buffers; sizes differ, so that batches end at all positions.
    let mut next = 0u32;
    let mut expected = 0u32;
    for _ in 0..100 {
        for _ in 0..40 {
            let mut packet = vec![0; 100 + (next as usize / 7 % 3) * 50];
            packet[..4].copy_from_slice(&next.to_be_bytes());
            source.send_to(&packet, opened.near).unwrap();
            next += 1;
        }
        while expected < next {
            let (packet, _) = receive(&destination);
            assert_eq!(packet[..4], expected.to_be_bytes());
            assert_eq!(packet.len(), 100 + (expected as usize / 7 % 3) * 50);
            expected += 1;
        }
    }
    assert_eq!(relay.totals().account.outward.packets, 4_001);
}

/// A packet that exceeds the MTU of the path is neither truncated nor fragmented, but dropped and counted.
#[test]
fn what_does_not_fit_the_next_link_is_dropped() {
    if families().len() < 2 {
        return;
    }
    let relay = relay();
    let (source, destination) = (socket(V4), socket(V6));
    let (from, towards) = (address(&source), address(&destination));
    let opened = opened(&relay, from, open(1, from, towards));
    greet(&source, &destination, opened);
    // Loopback carries 65,536 bytes; the header of IPv6 takes 20 more of them.
    source.send_to(&[7; 65_500], opened.near).unwrap();
    until("dropped", || {
        let account = relay.totals().account;
        account.dropped.by(Reason::Unsendable) == 1 && account.outward.packets == 1
    });
    greet(&source, &destination, opened);
}

#[test]
fn marks_of_congestion_are_carried_through() {
    use noq_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
    for ip in families() {
        let relay = relay();
        let (source, destination, opened) = pair(&relay, 1, ip);
        let sending = UdpSocketState::new((&source).into()).unwrap();
        let receiving = UdpSocketState::new((&destination).into()).unwrap();
        let marks = [
            None,
            Some(EcnCodepoint::Ect0),
            Some(EcnCodepoint::Ce),
            Some(EcnCodepoint::Ect1),
        ];
        for ecn in marks {
            let transmit = Transmit {
                destination: opened.near,
                ecn,
                contents: b"marked",
                segment_size: None,
                src_ip: None,
            };
            sending.try_send((&source).into(), &transmit).unwrap();
            let mut buffer = [0; 2_000];
            let mut metas = [RecvMeta::default()];
            until("received", || {
                let mut slices = [std::io::IoSliceMut::new(&mut buffer)];
                receiving
                    .recv((&destination).into(), &mut slices, &mut metas)
                    .is_ok()
            });
            assert_eq!((metas[0].len, metas[0].ecn), (6, ecn));
        }
    }
}

#[test]
fn packets_of_strangers_are_dropped_and_counted() {
    let relay = relay();
    let (source, destination, opened) = pair(&relay, 1, V4);
    let stranger = socket(V4);
    for port in [opened.near, opened.far] {
        for _ in 0..10 {
            stranger.send_to(b"let me in", port).unwrap();
        }
    }
    until("strangers seen", || relay.totals().foreign_packets == 20);
    // The next packet received is the legitimate one.
    greet(&source, &destination, opened);
    assert_eq!(relay.totals().account.dropped.packets(), 0);
}

#[test]
fn behind_a_translator_the_first_packet_settles_the_port() {
    let relay = relay();
    let (source, destination, thief) = (socket(V4), socket(V4), socket(V4));
    let seen = SocketAddr::new(V4, 9);
    let request = Open {
        origin: Origin::Known,
        ..open(1, seen, address(&destination))
    };
    let opened = opened(&relay, seen, request);
    greet(&source, &destination, opened);
    thief.send_to(b"mine", opened.near).unwrap();
    until("the thief seen", || relay.totals().foreign_packets == 1);
    greet(&source, &destination, opened);
    let refresh = Request::Refresh {
        circuit: CircuitId(1),
        lifetime: LIMIT,
        relearn: true,
    };
    let answer = relay.request(node(1), &[seen], &refresh, &Loopback);
    assert!(matches!(answer, Answer::Opened(_)), "{answer:?}");
    let moved = socket(V4);
    greet(&moved, &destination, opened);
}

#[test]
fn a_quota_bounds_what_goes_through() {
    let relay = relay();
    let (source, destination, opened) = pair(&relay, 1, V4);
    let small = Quota {
        circuits: 1,
        rate: Rate::from_mbps(1),
        bytes_per_period: 100_009,
    };
    relay.set_quota(node(1), small);
    for _ in 0..150 {
        source.send_to(&[7; 1_000], opened.near).unwrap();
    }
    until("all seen", || {
        let account = relay.totals().account;
        account.outward.packets + account.dropped.packets() == 151
    });
    let account = relay.totals().account;
    let dropped = account.dropped;
    assert!(dropped.packets() >= 50, "{account:?}");
    assert_eq!(
        dropped.by(Reason::PeerRate) + dropped.by(Reason::PeerBytes),
        dropped.packets(),
        "{account:?}"
    );
    for _ in 1..account.outward.packets {
        assert_eq!(receive(&destination).0.len(), 1_000);
    }
    let from = address(&source);
    let second = Request::Open(open(2, from, address(&destination)));
    let answer = relay.request(node(1), &[from], &second, &Loopback);
    let Answer::Refused { refusal, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(refusal, Refusal::Circuits);
}

#[test]
fn what_is_not_refreshed_expires_and_its_port_closes() {
    let relay = relay();
    let (source, destination) = (socket(V4), socket(V4));
    let from = address(&source);
    let short = Open {
        lifetime: Duration::from_millis(300),
        ..open(1, from, address(&destination))
    };
    let opened = opened(&relay, from, short);
    source.send_to(b"there", opened.near).unwrap();
    receive(&destination);
    until("expired", || relay.totals().expired == 1);
    until("closed", || relay.report().ports == 0);
    // The port is available to others.
    drop(UdpSocket::bind(opened.near).unwrap());
}

#[test]
fn what_is_closed_carries_nothing_more() {
    let relay = relay();
    let (source, destination, opened) = pair(&relay, 1, V4);
    let (_, other_destination, other) = pair(&relay, 2, V4);
    assert_eq!(other.near, opened.near, "they share a port");
    let mut request = Vec::new();
    Request::Close {
        circuit: CircuitId(1),
    }
    .encode(&mut request);
    let answer = relay.serve(node(1), &[], &request, &Loopback).unwrap();
    let Ok(Answer::Closed { account, .. }) = Answer::decode(&answer) else {
        panic!("{answer:?}");
    };
    assert_eq!((account.outward.bytes, account.back.bytes), (5, 4));
    source.send_to(b"anyone?", opened.near).unwrap();
    until("dropped", || relay.totals().foreign_packets == 1);
    assert!(relay.serve(node(1), &[], b"\x7f", &Loopback).is_err());
    relay.close_all(node(1));
    assert_eq!(relay.report().ports, 0);
    drop((destination, other_destination));
}

#[test]
fn a_circuit_over_two_relays_carries_both_ways() {
    let (first, second) = (relay(), relay_with(|config| config.circuits.node = node(5)));
    let (source, destination) = (socket(V4), socket(V4));
    let mut chain = RelayedPath::new(RelayedPathSpec {
        circuit: CircuitId(1),
        source: node(1),
        relays: [0, 5].map(node).to_vec(),
        first: V4,
        destination: node(2),
        towards: address(&destination),
        origin: Origin::Exact(address(&source)),
        rate: Rate::from_mbps(100),
        lifetime: Duration::from_secs(60),
    })
    .unwrap();
    let now = anabranch_base::Instant::EPOCH;
    while let Some((relay, request)) = chain.next(now) {
        let at = if relay == node(0) { &first } else { &second };
        let answer = at.request(node(1), &[address(&source)], &request, &Loopback);
        chain.answer(now, relay, &answer);
    }
    let entrance = chain.entrance().expect("it stands");
    source.send_to(b"there", entrance).unwrap();
    let (words, last) = receive(&destination);
    assert_eq!(words, b"there");
    destination.send_to(b"back", last).unwrap();
    assert_eq!(receive(&source), (b"back".to_vec(), entrance));
    let first_hop = first.report().circuits[0].clone();
    let at_second = &second.report().circuits[0];
    assert_eq!(at_second.origin, Some(first_hop.far));
    assert_eq!((first_hop.near, at_second.far), (entrance, last));
}

/// A thousand circuits between 20 sources and 20 destinations: at most 60 of one address, so that 60 ports suffice.
#[test]
fn a_thousand_circuits_share_sixty_ports_and_keep_apart() {
    let relay = relay();
    let of = |first: u8| -> Vec<UdpSocket> {
        let ip = |n| IpAddr::from([127, 0, first, n]);
        (1..=20).map(|n| socket(ip(n))).collect()
    };
    let (sources, destinations) = (of(1), of(2));
    let mut circuits = Vec::new();
    for n in 0..1_000usize {
        // Every pair two or three times.
        let (source, destination) = (&sources[n % 20], &destinations[n / 20 % 20]);
        let from = address(source);
        let opened = opened(&relay, from, open(n as u64, from, address(destination)));
        circuits.push((source, destination, opened));
    }
    let report = relay.report();
    assert_eq!(
        (report.circuits.len(), report.totals.opened),
        (1_000, 1_000)
    );
    assert_eq!(report.ports, 60);
    for (n, (source, destination, opened)) in circuits.iter().enumerate() {
        let word = format!("{n}").into_bytes();
        source.send_to(&word, opened.near).unwrap();
        assert_eq!(receive(destination), (word.clone(), opened.far));
        destination.send_to(&word, opened.far).unwrap();
        assert_eq!(receive(source), (word, opened.near));
    }
    for circuit in relay.report().circuits {
        assert_eq!(circuit.account.outward.packets, 1);
        assert_eq!(circuit.account.back.packets, 1);
    }
    assert_eq!(relay.totals().foreign_packets, 0);
}

#[test]
fn a_range_of_ports_is_kept_to() {
    let free = socket(V4);
    let number = address(&free).port();
    drop(free);
    let relay = relay_with(|config| config.ports = Some(number..=number));
    let (source, destination) = (socket(V4), socket(V4));
    let from = address(&source);
    let first = opened(&relay, from, open(1, from, address(&destination)));
    assert_eq!(first.near.port(), number);
    let second = Request::Open(open(2, from, address(&destination)));
    let answer = relay.request(node(1), &[from], &second, &Loopback);
    let Answer::Refused { refusal, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(refusal, Refusal::Ports);
}

#[test]
fn other_ports_are_for_circuits_that_begin_from_then_on() {
    let relay = relay();
    let (source, destination, first) = pair(&relay, 1, V4);
    // Below the ports that the system assigns by itself, one of which another test could get meanwhile.
    let begin = 21_000 + (std::process::id() % 900 * 10) as u16;
    let mut numbers = begin..begin + 1_000;
    let free = numbers.find(|&port| UdpSocket::bind((V4, port)).is_ok());
    let free = free.unwrap();
    let of = |ports| {
        let mut config = RelayConfig::new(node(0), [V4]);
        config.ports = Some(ports);
        config.public = vec![[127, 0, 0, 2].into()];
        config
    };
    relay.check(&of(free..=free)).unwrap();
    relay.configure(of(free..=free)).unwrap();
    greet(&source, &destination, first);
    let (third, fourth) = (socket(V4), socket(V4));
    let (from, towards) = (address(&third), address(&fourth));
    let second = opened(&relay, from, open(2, from, towards));
    let expected = SocketAddr::from(([127, 0, 0, 2], free));
    assert_eq!((second.near, second.far), (expected, expected));
    assert_eq!(relay.report().ports, 2);
    let circuit = CircuitId(1);
    let close = Request::Close { circuit };
    relay.request(node(1), &[address(&source)], &close, &Loopback);
    assert_eq!(relay.report().ports, 1);
    // Its own port is usable, another program's is not.
    relay.check(&of(free..=free)).unwrap();
    let taken = UdpSocket::bind((V4, 0)).unwrap();
    let number = address(&taken).port();
    let error = relay.check(&of(number..=number)).unwrap_err().to_string();
    let range = format!("{number}-{number}");
    assert!(
        error.contains(&range) && error.contains("ss -ulnp"),
        "{error}"
    );
    let error = Relay::start(of(number..=number)).unwrap_err().to_string();
    assert!(error.contains(&range), "{error}");
}
