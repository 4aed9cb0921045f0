use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::relay::{
    account::Reason,
    message::{Origin, Request},
};

mod properties;

/// Key of a node: 0 is the relay, 9 is on no list.
fn node(number: u8) -> NodeId {
    NodeId::from_public_key([number; 32])
}

/// Node `n` is at 192.0.2.n, as a destination at port 4433.
struct Sites;

impl Members for Sites {
    fn is_member(&self, node: NodeId) -> bool {
        node.public_key()[0] < 9
    }

    fn is_at(&self, node: NodeId, address: SocketAddr, role: Role) -> bool {
        let is_site = address.ip() == site(node.public_key()[0]).ip();
        is_site && (role == Role::Relay || address.port() == 4433)
    }

    fn addresses(&self, node: NodeId) -> Vec<SocketAddr> {
        vec![site(node.public_key()[0])]
    }
}

fn site(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 4433))
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

const NOW: Instant = Instant::from_secs(1_000);
const RATE: Rate = Rate::from_mbps(10);

/// A relay with a host that can always open a port.
struct Relay {
    circuits: CircuitTable,
    opened: u16,
    ports: BTreeMap<PortId, SocketAddr>,
}

impl Relay {
    fn new(config: Config) -> Self {
        Self {
            circuits: CircuitTable::new(NOW, config).unwrap(),
            opened: 0,
            ports: BTreeMap::new(),
        }
    }

    fn ask_as(&mut self, now: Instant, from: u8, seen: &[SocketAddr], request: &Request) -> Answer {
        let answer = loop {
            match self
                .circuits
                .request(now, node(from), seen, request, &Sites)
            {
                Outcome::Answer(answer) => break answer,
                Outcome::NeedsPort(family) => {
                    self.opened += 1;
                    let ip = match family {
                        Family::V4 => IpAddr::from([198, 51, 100, 1]),
                        Family::V6 => "2001:db8::1".parse().unwrap(),
                    };
                    let address = SocketAddr::new(ip, 10_000 + self.opened);
                    let id = self.circuits.add_port(address);
                    assert_eq!(self.ports.insert(id, address), None, "a port twice");
                }
            }
        };
        self.close_unused();
        answer
    }

    fn ask(&mut self, now: Instant, from: u8, request: &Request) -> Answer {
        self.ask_as(now, from, &[site(from)], request)
    }

    fn close_unused(&mut self) {
        while let Some(id) = self.circuits.unused_port() {
            assert!(self.ports.remove(&id).is_some(), "closed twice");
        }
        assert_eq!(self.ports.len(), self.circuits.ports_len());
    }

    fn port(&self, address: SocketAddr) -> PortId {
        let found = self.ports.iter().find(|(_, open)| **open == address);
        *found.expect("open").0
    }

    fn send(&mut self, now: Instant, from: SocketAddr, to: SocketAddr, bytes: usize) -> Verdict {
        let train = Train {
            remote: from,
            local_ip: None,
            bytes,
            packet_bytes: bytes.min(1_000),
        };
        self.circuits.admit(now, self.port(to), train)
    }
}

fn open(circuit: u64, source: u8, destination: u8) -> Open {
    Open {
        circuit: CircuitId(circuit),
        route: [source, 0, destination].map(node).to_vec(),
        origin: Origin::Exact(site(source)),
        towards: site(destination),
        rate: RATE,
        lifetime: Duration::from_secs(60),
    }
}

fn opened(answer: Answer) -> Opened {
    match answer {
        Answer::Opened(opened) => opened,
        other => panic!("{other:?}"),
    }
}

fn refused(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused { refusal, .. } => refusal,
        other => panic!("{other:?}"),
    }
}

fn forwarded(verdict: Verdict) -> Forward {
    match verdict {
        Verdict::Forward(forward) => forward,
        Verdict::Drop => panic!("dropped"),
    }
}

fn relay() -> Relay {
    Relay::new(Config::new(node(0)))
}

#[test]
fn a_circuit_carries_both_directions_and_nothing_else() {
    let mut relay = relay();
    let answer = opened(relay.ask(NOW, 1, &Request::Open(open(5, 1, 2))));
    assert_eq!(answer.circuit, CircuitId(5));
    assert_eq!(answer.rate, RATE);
    assert_eq!(answer.lifetime, Duration::from_secs(60));
    // Two peers with different addresses need one port.
    assert_eq!(answer.near, answer.far);

    let out = forwarded(relay.send(NOW, site(1), answer.near, 2_500));
    assert_eq!((out.remote, out.packets), (site(2), 3));
    assert_eq!(out.port, relay.port(answer.far));
    let back = forwarded(relay.send(NOW, site(2), answer.far, 500));
    assert_eq!((back.remote, back.packets), (site(1), 1));
    assert_eq!(
        relay.send(NOW, at("192.0.2.1:9"), answer.near, 100),
        Verdict::Drop
    );
    assert_eq!(
        relay.send(NOW, at("192.0.2.9:4433"), answer.far, 100),
        Verdict::Drop
    );
    assert_eq!(relay.circuits.totals().foreign_packets, 2);

    let close = Request::Close {
        circuit: CircuitId(5),
    };
    let Answer::Closed { account, .. } = relay.ask(NOW, 1, &close) else {
        panic!("not closed");
    };
    assert_eq!((account.outward.packets, account.outward.bytes), (3, 2_500));
    assert_eq!((account.back.packets, account.back.bytes), (1, 500));
    assert_eq!(account.dropped.packets(), 0);
    assert_eq!(relay.circuits.ports_len(), 0);
    assert_eq!(refused(relay.ask(NOW, 1, &close)), Refusal::Unknown);
}

#[test]
fn circuits_of_two_sources_to_one_destination_share_the_near_port_only() {
    let mut relay = relay();
    let one = opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 3))));
    let two = opened(relay.ask(NOW, 2, &Request::Open(open(1, 2, 3))));
    assert_eq!(one.near, two.near);
    assert_ne!(one.far, two.far);
    assert_eq!(relay.circuits.ports_len(), 2);
    forwarded(relay.send(NOW, site(1), one.near, 100));
    forwarded(relay.send(NOW, site(2), two.near, 100));
    assert_eq!(
        forwarded(relay.send(NOW, site(3), one.far, 100)).remote,
        site(1)
    );
    assert_eq!(
        forwarded(relay.send(NOW, site(3), two.far, 100)).remote,
        site(2)
    );
}

#[test]
fn behind_a_translator_the_first_packet_determines_the_port() {
    let mut relay = relay();
    let request = Open {
        origin: Origin::Known,
        ..open(1, 1, 2)
    };
    // Two modems, and an unused address of the other family.
    let seen = ["192.0.2.77:1024", "192.0.2.88:1024", "[2001:db8::7]:1024"].map(at);
    let answer = opened(relay.ask_as(NOW, 1, &seen, &Request::Open(request)));
    // The destination of answers is not known yet.
    assert_eq!(
        relay.send(NOW, site(2), answer.far, 100),
        Verdict::Drop,
        "{answer:?}"
    );
    let dropped = relay.circuits.totals().account.dropped;
    assert_eq!(dropped.by(Reason::NotLearnt), 1);
    forwarded(relay.send(NOW, at("192.0.2.77:5555"), answer.near, 100));
    let back = forwarded(relay.send(NOW, site(2), answer.far, 100));
    assert_eq!(back.remote, at("192.0.2.77:5555"));
    for other in ["192.0.2.77:5556", "192.0.2.88:5555"].map(at) {
        assert_eq!(
            relay.send(NOW, other, answer.near, 100),
            Verdict::Drop,
            "{other}"
        );
    }
    // The translator has lost its mapping; the source notices the silence and asks to relearn.
    let refresh = Request::Refresh {
        circuit: CircuitId(1),
        lifetime: Duration::from_secs(60),
        relearn: true,
    };
    opened(relay.ask(NOW, 1, &refresh));
    forwarded(relay.send(NOW, at("192.0.2.88:5556"), answer.near, 100));
    let back = forwarded(relay.send(NOW, site(2), answer.far, 100));
    assert_eq!(back.remote, at("192.0.2.88:5556"));
    assert_eq!(
        relay.send(NOW, at("192.0.2.77:5555"), answer.near, 100),
        Verdict::Drop
    );
}

#[test]
fn a_second_relay_takes_packets_from_the_first_only() {
    // 1 → 0 → 5 → 2, opened at relay 5 first: relay 0 sends to its near port.
    let mut config = Config::new(node(5));
    config.capacity = Rate::from_mbps(100);
    let (mut first, mut second) = (relay(), Relay::new(config));
    let route = [1, 0, 5, 2].map(node).to_vec();
    let at_second = Open {
        route: route.clone(),
        origin: Origin::Host([192, 0, 2, 0].into()),
        ..open(1, 1, 2)
    };
    let second_hop = opened(second.ask(NOW, 1, &Request::Open(at_second.clone())));
    let at_first = Open {
        route,
        towards: at("192.0.2.5:7000"),
        ..open(1, 1, 2)
    };
    let first_hop = opened(first.ask(NOW, 1, &Request::Open(at_first)));
    let out = forwarded(first.send(NOW, site(1), first_hop.near, 100));
    assert_eq!(out.remote, at("192.0.2.5:7000"));
    // Relay 0 is at 192.0.2.0; packets directly from the source are foreign.
    assert_eq!(
        second.send(NOW, site(1), second_hop.near, 100),
        Verdict::Drop
    );
    let out = forwarded(second.send(NOW, at("192.0.2.0:10001"), second_hop.near, 100));
    assert_eq!(out.remote, site(2));
    // The source need not specify the address of the first relay.
    let known = Open {
        origin: Origin::Known,
        circuit: CircuitId(2),
        ..at_second.clone()
    };
    let by_known = opened(second.ask(NOW, 1, &Request::Open(known)));
    let out = forwarded(second.send(NOW, at("192.0.2.0:10002"), by_known.near, 100));
    assert_eq!(out.remote, site(2));
    let elsewhere = Open {
        origin: Origin::Host([192, 0, 2, 3].into()),
        circuit: CircuitId(3),
        ..at_second
    };
    assert_eq!(
        refused(second.ask(NOW, 1, &Request::Open(elsewhere))),
        Refusal::Origin
    );
}

#[test]
fn a_route_that_leads_nowhere_or_back_is_refused() {
    let route = |nodes: &[u8]| Open {
        route: nodes.iter().copied().map(node).collect(),
        ..open(1, 1, 2)
    };
    let towards = |address: &str| Open {
        towards: at(address),
        ..open(1, 1, 2)
    };
    let cases = [
        (route(&[]), Refusal::Route),
        (route(&[1, 2]), Refusal::Route),
        (route(&[3, 0, 2]), Refusal::Route),
        (route(&[1, 3, 2]), Refusal::Route),
        (route(&[1, 2, 0]), Refusal::Route),
        (route(&[1, 0, 2, 3, 4, 5, 6, 7, 8]), Refusal::Route),
        (route(&[1, 0, 2, 0]), Refusal::Loop),
        (route(&[1, 0, 1]), Refusal::Loop),
        (route(&[1, 0, 3, 4, 3, 2]), Refusal::Loop),
        (towards("192.0.2.1:4433"), Refusal::Loop),
        (towards("192.0.2.2:53"), Refusal::Towards),
        (towards("192.0.2.3:4433"), Refusal::Towards),
        (open(1, 1, 9), Refusal::Towards),
        (towards("192.0.2.2:0"), Refusal::Address),
        (towards("0.0.0.0:53"), Refusal::Towards),
        (towards("[::]:4433"), Refusal::Towards),
        (towards("224.0.0.1:4433"), Refusal::Address),
        (towards("255.255.255.255:4433"), Refusal::Address),
        (towards("[fe80::1]:4433"), Refusal::Address),
        (towards("[::ffff:192.0.2.2]:4433"), Refusal::Address),
        (
            Open {
                origin: Origin::Exact(at("192.0.2.3:1")),
                ..open(1, 1, 2)
            },
            Refusal::Origin,
        ),
    ];
    let mut relay = relay();
    for (open, why) in cases {
        let words = format!("{open:?}");
        let answer = relay.ask(NOW, 1, &Request::Open(open));
        assert_eq!(refused(answer), why, "{words}");
        assert_eq!(relay.circuits.ports_len(), 0);
    }
    assert_eq!(
        refused(relay.ask(NOW, 9, &Request::Open(open(1, 9, 2)))),
        Refusal::NotMember
    );
    let unseen = Open {
        origin: Origin::Known,
        ..open(1, 1, 2)
    };
    assert_eq!(
        refused(relay.ask_as(NOW, 1, &[], &Request::Open(unseen))),
        Refusal::Origin
    );
    // One of the relay's own ports, given as that of another relay.
    opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    let own = Open {
        towards: at("198.51.100.1:10001"),
        ..open(2, 1, 2)
    };
    let anywhere = |relay: &mut Relay| {
        struct Anywhere;
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
        let request = Request::Open(own);
        relay
            .circuits
            .request(NOW, node(1), &[site(1)], &request, &Anywhere)
    };
    let Outcome::Answer(answer) = anywhere(&mut relay) else {
        panic!("no answer");
    };
    assert_eq!(refused(answer), Refusal::Loop);
}

#[test]
fn a_repeated_request_changes_nothing_and_another_is_a_conflict() {
    let mut relay = relay();
    let first = opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    let later = NOW + Duration::from_secs(30);
    let again = opened(relay.ask(later, 1, &Request::Open(open(1, 1, 2))));
    assert_eq!(again, first);
    assert_eq!(relay.circuits.circuits_len(), 1);
    let other = Request::Open(open(1, 1, 3));
    assert_eq!(refused(relay.ask(later, 1, &other)), Refusal::Conflict);
    // Each source has its own numbers.
    opened(relay.ask(later, 2, &Request::Open(open(1, 2, 3))));
}

#[test]
fn a_circuit_ends_when_it_is_not_refreshed() {
    let mut relay = relay();
    let answer = opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    let refresh = Request::Refresh {
        circuit: CircuitId(1),
        lifetime: Duration::from_secs(3_600),
        relearn: false,
    };
    let later = NOW + Duration::from_secs(59);
    let refreshed = opened(relay.ask(later, 1, &refresh));
    assert_eq!(refreshed.lifetime, Duration::from_secs(60), "the most");
    let last = NOW + Duration::from_nanos(118_999_999_999);
    forwarded(relay.send(last, site(1), answer.near, 100));
    let over = NOW + Duration::from_secs(119);
    assert_eq!(relay.circuits.next_expiry(), Some(over));
    // This holds even if the host calls `expire` late.
    assert_eq!(relay.send(over, site(1), answer.near, 100), Verdict::Drop);
    relay.circuits.expire(over);
    relay.close_unused();
    assert_eq!(relay.circuits.totals().expired, 1);
    assert_eq!(
        (relay.circuits.circuits_len(), relay.circuits.ports_len()),
        (0, 0)
    );
    assert_eq!(refused(relay.ask(over, 1, &refresh)), Refusal::Unknown);
}

#[test]
fn quotas_are_kept() {
    let mut config = Config::new(node(0));
    config.quota = Quota {
        circuits: 2,
        rate: Rate::from_mbps(8),
        bytes_per_period: 200_000,
    };
    let mut relay = Relay::new(config);
    let answer = opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    assert_eq!(answer.rate, Rate::from_mbps(8), "no more than the source's");
    opened(relay.ask(NOW, 1, &Request::Open(open(2, 1, 3))));
    assert_eq!(
        refused(relay.ask(NOW, 1, &Request::Open(open(3, 1, 4)))),
        Refusal::Circuits
    );
    // 8 Mbit/s for 100 ms are 100 kB of burst.
    forwarded(relay.send(NOW, site(1), answer.near, 100));
    forwarded(relay.send(NOW, site(2), answer.far, 100));
    let burst = forwarded(relay.send(NOW, site(1), answer.near, 150_000));
    assert_eq!(burst.packets, 99);
    let dropped = relay.circuits.totals().account.dropped;
    assert_eq!(dropped.by(Reason::CircuitRate), 51);
    // A second circuit does not help: the source's bucket is empty, too.
    let other = relay.circuits.circuits(NOW).nth(1).unwrap();
    assert_eq!(
        relay.send(NOW, site(1), other.near, 1_000),
        Verdict::Drop,
        "{other:?}"
    );
    let dropped = relay.circuits.totals().account.dropped;
    assert_eq!(dropped.by(Reason::PeerRate), 1);
    // 99,200 bytes of 200,000 are used.
    let later = NOW + Duration::from_secs(1);
    let rest = forwarded(relay.send(later, site(1), answer.near, 100_000));
    assert_eq!(rest.packets, 100);
    let much_later = NOW + Duration::from_secs(2);
    assert_eq!(
        relay.send(much_later, site(1), answer.near, 1_000),
        Verdict::Drop
    );
    let dropped = relay.circuits.totals().account.dropped;
    assert_eq!(dropped.by(Reason::PeerBytes), 1);
    let peer = relay.circuits.peers().next().unwrap();
    assert_eq!((peer.circuits, peer.bytes_in_period), (2, 199_200));
    // What is left carries no handshake through another circuit.
    let close = Request::Close {
        circuit: CircuitId(2),
    };
    relay.ask(much_later, 1, &close);
    let again = Request::Open(open(3, 1, 4));
    assert_eq!(refused(relay.ask(much_later, 1, &again)), Refusal::Bytes);
    let tomorrow = NOW + Duration::from_secs(24 * 3_600);
    opened(relay.ask(tomorrow, 1, &Request::Open(open(4, 1, 4))));
}

#[test]
fn a_quota_can_be_changed() {
    let mut relay = relay();
    let answer = opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    opened(relay.ask(NOW, 1, &Request::Open(open(2, 1, 3))));
    let less = Quota {
        circuits: 1,
        rate: Rate::from_kbps(64),
        bytes_per_period: 1_000,
    };
    relay.circuits.set_quota(NOW, node(1), less);
    forwarded(relay.send(NOW, site(1), answer.near, 1_000));
    assert_eq!(
        relay.send(NOW, site(1), answer.near, 1_000),
        Verdict::Drop,
        "more than the period's bytes"
    );
    let refresh = Request::Refresh {
        circuit: CircuitId(1),
        lifetime: Duration::from_secs(60),
        relearn: false,
    };
    assert_eq!(refused(relay.ask(NOW, 1, &refresh)), Refusal::Circuits);
    relay.circuits.close_all(node(1));
    relay.close_unused();
    assert_eq!(
        (relay.circuits.circuits_len(), relay.circuits.ports_len()),
        (0, 0)
    );
}

#[test]
fn another_configuration_leaves_circuits_as_they_are() {
    let mut relay = relay();
    let first = opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    let own = Quota {
        circuits: 3,
        ..Quota::default()
    };
    relay.circuits.set_quota(NOW, node(2), own);
    let mut less = relay.circuits.config().clone();
    less.capacity = Rate::from_mbps(1);
    less.overbooking = 1.0;
    less.quota.circuits = 1;
    relay.circuits.configure(NOW, less.clone()).unwrap();
    let mut wrong = less.clone();
    wrong.rate_min = Rate::from_mbps(2);
    relay.circuits.configure(NOW, wrong).unwrap_err();
    assert_eq!(*relay.circuits.config(), less);
    let quotas: Vec<u32> = (relay.circuits.peers())
        .map(|peer| peer.quota.circuits)
        .collect();
    assert_eq!(quotas, [1, 3]);
    relay.circuits.reset_quota(NOW, node(2));
    assert!(relay.circuits.peers().all(|peer| peer.quota == less.quota));
    forwarded(relay.send(NOW, site(1), first.near, 1_000));
    assert_eq!(relay.circuits.headroom(NOW), Rate::ZERO);
    let request = Request::Open(open(1, 3, 2));
    assert_eq!(refused(relay.ask(NOW, 3, &request)), Refusal::Rate);
    // A retired port goes with its circuits.
    less.capacity = Rate::from_mbps(100);
    relay.circuits.configure(NOW, less).unwrap();
    let port = relay.port(first.near);
    relay.circuits.set_retired(port, true);
    let second = opened(relay.ask(NOW, 3, &request));
    assert_ne!(second.near, first.near);
    forwarded(relay.send(NOW, site(1), first.near, 1_000));
    relay.circuits.close_all(node(1));
    relay.close_unused();
    assert!(!relay.ports.contains_key(&port));
}

#[test]
fn a_next_hop_that_never_answers_is_not_flooded() {
    let mut relay = relay();
    let answer = opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    let mut sent = 0;
    for second in 0..50 {
        let now = NOW + Duration::from_secs(second);
        if let Verdict::Forward(forward) = relay.send(now, site(1), answer.near, 10_000) {
            sent += forward.packets * 1_000;
        }
    }
    assert_eq!(sent, 65_000);
    let now = NOW + Duration::from_secs(50);
    forwarded(relay.send(now, site(2), answer.far, 100));
    forwarded(relay.send(now, site(1), answer.near, 10_000));
}

#[test]
fn undelivered_packets_are_not_counted_as_sent() {
    let mut relay = relay();
    let answer = opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    let out = forwarded(relay.send(NOW, site(1), answer.near, 3_000));
    relay
        .circuits
        .undelivered(out.flow, 2, 2_000, Reason::Congested);
    let peer = relay.circuits.peers().next().unwrap();
    assert_eq!(peer.bytes_in_period, 1_000);
    let circuit = relay.circuits.circuits(NOW).next().unwrap();
    for account in [
        relay.circuits.totals().account,
        peer.account,
        circuit.account,
    ] {
        assert_eq!((account.outward.packets, account.outward.bytes), (1, 1_000));
        assert_eq!(account.dropped.by(Reason::Congested), 2);
    }
}

#[test]
fn ports_run_out_with_a_clear_answer() {
    let mut config = Config::new(node(0));
    config.ports_max = 2;
    let mut relay = Relay::new(config);
    // Three circuits of one address need three near ports.
    opened(relay.ask(NOW, 1, &Request::Open(open(1, 1, 2))));
    opened(relay.ask(NOW, 1, &Request::Open(open(2, 1, 2))));
    let third = Request::Open(open(3, 1, 3));
    assert_eq!(refused(relay.ask(NOW, 1, &third)), Refusal::Ports);
    // Another source still fits on the same ports.
    opened(relay.ask(NOW, 3, &Request::Open(open(1, 3, 4))));
    let close = Request::Close {
        circuit: CircuitId(1),
    };
    relay.ask(NOW, 1, &close);
    opened(relay.ask(NOW, 1, &third));
}

#[test]
fn headroom_counts_what_was_granted_until_use_is_known() {
    let mut config = Config::new(node(0));
    config.capacity = Rate::from_mbps(100);
    config.overbooking = 1.0;
    let mut relay = Relay::new(config);
    assert_eq!(relay.circuits.headroom(NOW), Rate::from_mbps(100));
    let wants = |circuit, mbps| Open {
        rate: Rate::from_mbps(mbps),
        ..open(circuit, 1, 2)
    };
    let answer = opened(relay.ask(NOW, 1, &Request::Open(wants(1, 60))));
    assert_eq!(relay.circuits.headroom(NOW), Rate::from_mbps(40));
    // The rest is granted, and then nothing.
    let rest = opened(relay.ask(NOW, 1, &Request::Open(wants(2, 60))));
    assert_eq!(rest.rate, Rate::from_mbps(40));
    assert_eq!(
        refused(relay.ask(NOW, 1, &Request::Open(wants(3, 60)))),
        Refusal::Rate
    );
    relay.circuits.close_all(node(1));
    assert_eq!(relay.circuits.headroom(NOW), Rate::from_mbps(100));
    assert!(relay.circuits.unused_port().is_some());
    let _ = answer;
}

#[test]
fn a_grown_circuit_counts_with_its_use() {
    let mut config = Config::new(node(0));
    config.capacity = Rate::from_mbps(100);
    config.lifetime_max = Duration::from_secs(600);
    let mut relay = Relay::new(config);
    let request = Open {
        rate: Rate::from_mbps(60),
        lifetime: Duration::from_secs(600),
        ..open(1, 1, 2)
    };
    let answer = opened(relay.ask(NOW, 1, &Request::Open(request)));
    forwarded(relay.send(NOW, site(1), answer.near, 100));
    forwarded(relay.send(NOW, site(2), answer.far, 100));
    // 8 Mbit/s for two minutes.
    for decisecond in 1..=1_200 {
        let now = NOW + Duration::from_millis(decisecond * 100);
        forwarded(relay.send(now, site(1), answer.near, 100_000));
    }
    let now = NOW + Duration::from_secs(120);
    assert_eq!(relay.circuits.headroom(now), Rate::from_mbps(92));
}

/// Asks for a circuit between two nodes behind translators at these addresses.
fn between(relay: &mut Relay, near: (u8, SocketAddr), far: (u8, SocketAddr)) -> Answer {
    let (near_seen, far_seen) = ([near.1], [far.1]);
    let seen = |number, seen| Seen {
        node: node(number),
        seen,
    };
    let between = Between {
        circuit: CircuitId(1),
        near: seen(near.0, &near_seen[..]),
        far: seen(far.0, &far_seen[..]),
        rate: RATE,
        lifetime: Duration::from_secs(60),
    };
    loop {
        match relay.circuits.open_between(NOW, &between) {
            Outcome::Answer(answer) => break answer,
            Outcome::NeedsPort(_) => {
                relay.opened += 1;
                let address = SocketAddr::from(([198, 51, 100, 1], 10_000 + relay.opened));
                let id = relay.circuits.add_port(address);
                relay.ports.insert(id, address);
            }
        }
    }
}

/// Both ends are behind translators that give packets to the circuit another port than those to the relay's session.
#[test]
fn between_two_translators_both_addresses_are_learnt() {
    let mut relay = Relay::new(Config::new(node(0)));
    let answer = between(
        &mut relay,
        (1, at("192.0.2.1:7000")),
        (2, at("192.0.2.2:8000")),
    );
    let circuit = opened(answer);
    let (near, far) = (at("192.0.2.1:7001"), at("192.0.2.2:8001"));
    // The first packet of either side has no receiver yet.
    assert_eq!(relay.send(NOW, near, circuit.near, 100), Verdict::Drop);
    let back = forwarded(relay.send(NOW, far, circuit.far, 100));
    assert_eq!(back.remote, near);
    let out = forwarded(relay.send(NOW, near, circuit.near, 100));
    assert_eq!(out.remote, far);
    // Neither another port of either, nor anybody else.
    for (from, to) in [
        ("192.0.2.1:9", circuit.near),
        ("192.0.2.2:9", circuit.far),
        ("192.0.2.3:1", circuit.near),
        ("192.0.2.3:1", circuit.far),
    ] {
        assert_eq!(relay.send(NOW, at(from), to, 100), Verdict::Drop, "{from}");
    }
}

/// Two machines behind one translator have one address at the relay, and so two ports there.
#[test]
fn between_two_nodes_behind_one_translator_are_two_ports() {
    let mut relay = Relay::new(Config::new(node(0)));
    let answer = between(
        &mut relay,
        (1, at("192.0.2.1:7000")),
        (2, at("192.0.2.1:8000")),
    );
    let circuit = opened(answer);
    assert_ne!(circuit.near, circuit.far);
    relay.send(NOW, at("192.0.2.1:7000"), circuit.near, 100);
    let back = forwarded(relay.send(NOW, at("192.0.2.1:8000"), circuit.far, 100));
    assert_eq!(back.remote, at("192.0.2.1:7000"));
    assert!(
        relay.circuits.open_between(
            NOW,
            &Between {
                circuit: CircuitId(2),
                near: Seen {
                    node: node(1),
                    seen: &[]
                },
                far: Seen {
                    node: node(2),
                    seen: &[at("192.0.2.2:1")]
                },
                rate: RATE,
                lifetime: Duration::from_secs(60),
            }
        ) == Outcome::Answer(Answer::Refused {
            circuit: CircuitId(2),
            refusal: Refusal::Origin
        })
    );
}
