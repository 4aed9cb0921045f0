use proptest::prelude::*;

use super::*;
use crate::relay::{CircuitTable, Config, Family, Members, Outcome, Role, Train, Verdict};

fn node(number: u8) -> NodeId {
    NodeId::from_public_key([number; 32])
}

fn ip(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

/// Node `n` is at 192.0.2.n.
struct Sites;

impl Members for Sites {
    fn is_member(&self, _: NodeId) -> bool {
        true
    }

    fn is_at(&self, node: NodeId, address: SocketAddr, _: Role) -> bool {
        address.ip() == ip(node.public_key()[0])
    }

    fn addresses(&self, node: NodeId) -> Vec<SocketAddr> {
        vec![SocketAddr::new(ip(node.public_key()[0]), 4433)]
    }
}

/// Addresses as node `.0` sees them: each link has a network of its own, so a node has another address for each of its
/// neighbours.
struct Links(u8);

impl Links {
    fn address(&self, other: u8) -> SocketAddr {
        let link = 10 * self.0.min(other) + self.0.max(other);
        SocketAddr::from(([10, 9, link, other], 4433))
    }
}

impl Members for Links {
    fn is_member(&self, _: NodeId) -> bool {
        true
    }

    fn is_at(&self, node: NodeId, address: SocketAddr, _: Role) -> bool {
        address.ip() == self.address(node.public_key()[0]).ip()
    }

    fn addresses(&self, node: NodeId) -> Vec<SocketAddr> {
        vec![self.address(node.public_key()[0])]
    }
}

const NOW: Instant = Instant::from_secs(100);
const SOURCE: u8 = 1;
const DESTINATION: u8 = 9;

fn spec(relays: &[u8]) -> RelayedPathSpec {
    RelayedPathSpec {
        circuit: CircuitId(7),
        source: node(SOURCE),
        relays: relays.iter().copied().map(node).collect(),
        first: relays.first().map_or(ip(0), |&first| ip(first)),
        destination: node(DESTINATION),
        towards: SocketAddr::new(ip(DESTINATION), 4433),
        origin: Origin::Exact(SocketAddr::new(ip(SOURCE), 4433)),
        rate: Rate::from_mbps(10),
        lifetime: Duration::from_secs(60),
    }
}

/// A relay `number` that reports an unspecified address, which stands for the one at which it is reached.
fn circuits(number: u8) -> CircuitTable {
    CircuitTable::new(NOW, Config::new(node(number))).unwrap()
}

fn ask(circuits: &mut CircuitTable, now: Instant, request: &Request) -> Answer {
    ask_where(
        circuits,
        now,
        SocketAddr::new(ip(SOURCE), 4433),
        request,
        &Sites,
    )
}

fn ask_where(
    circuits: &mut CircuitTable,
    now: Instant,
    seen: SocketAddr,
    request: &Request,
    members: &dyn Members,
) -> Answer {
    loop {
        match circuits.request(now, node(SOURCE), &[seen], request, members) {
            Outcome::Answer(answer) => return answer,
            Outcome::NeedsPort(family) => {
                assert_eq!(family, Family::V4);
                let port = 5_000 + circuits.ports_len() as u16;
                circuits.add_port(SocketAddr::from(([0, 0, 0, 0], port)));
            }
        }
    }
}

/// Sends all requests that are due to relays 2, 3, …, and handles the answers. Returns the relays in the order of
/// requests.
fn settle(
    relayed_path: &mut RelayedPath,
    circuits: &mut [CircuitTable],
    now: Instant,
) -> Vec<NodeId> {
    let mut asked = Vec::new();
    while let Some((relay, request)) = relayed_path.next(now) {
        let circuits = circuits
            .iter_mut()
            .find(|circuits| circuits.config().node == relay);
        let answer = ask(circuits.expect("a relay"), now, &request);
        relayed_path.answer(now, relay, &answer);
        asked.push(relay);
    }
    asked
}

#[test]
fn the_last_relay_is_asked_first_and_packets_arrive() {
    let mut circuits: Vec<CircuitTable> = (2..5).map(circuits).collect();
    let mut relayed_path = RelayedPath::new(spec(&[2, 3, 4])).unwrap();
    assert_eq!(relayed_path.entrance(), None);
    assert_eq!(
        settle(&mut relayed_path, &mut circuits, NOW),
        [node(4), node(3), node(2)]
    );
    let entrance = relayed_path.entrance().unwrap();
    assert_eq!(entrance.ip(), ip(2));
    assert_eq!(relayed_path.rate(), Some(Rate::from_mbps(10)));

    // Hop by hop: destination and source address of the packet.
    let (mut to, mut from) = (entrance, SocketAddr::new(ip(SOURCE), 4433));
    for (number, circuits) in (2..).zip(&mut circuits) {
        assert_eq!(to.ip(), ip(number));
        let report = circuits.circuits(NOW).next().unwrap();
        assert_eq!(report.near.port(), to.port());
        // Each relay has only one port, because all its peers differ.
        assert_eq!((report.near, circuits.ports_len()), (report.far, 1));
        let port = crate::relay::PortId::from_bits(1 << 32);
        let train = Train {
            remote: from,
            local_ip: None,
            bytes: 100,
            packet_bytes: 100,
        };
        let Verdict::Forward(forward) = circuits.admit(NOW, port, train) else {
            panic!("dropped at {number}");
        };
        (from, to) = (
            SocketAddr::new(ip(number), report.far.port()),
            forward.remote,
        );
    }
    assert_eq!(to, SocketAddr::new(ip(DESTINATION), 4433));
}

/// The source does not know the addresses that its relays have for each other, nor do they know those that it has for
/// them.
#[test]
fn neighbours_use_the_addresses_they_know() {
    let mut circuits: Vec<CircuitTable> = (2..5).map(circuits).collect();
    let mut relayed_path = RelayedPath::new(RelayedPathSpec {
        first: Links(SOURCE).address(2).ip(),
        towards: SocketAddr::from(([0, 0, 0, 0], 0)),
        origin: Origin::Known,
        ..spec(&[2, 3, 4])
    })
    .unwrap();
    while let Some((relay, request)) = relayed_path.next(NOW) {
        let number = relay.public_key()[0];
        let (members, seen) = (Links(number), Links(number).address(SOURCE));
        let circuits = &mut circuits[usize::from(number - 2)];
        let answer = ask_where(circuits, NOW, seen, &request, &members);
        relayed_path.answer(NOW, relay, &answer);
    }
    assert_eq!(relayed_path.broken(), None);
    let (mut to, mut before) = (relayed_path.entrance().unwrap(), SOURCE);
    for (number, circuits) in (2..).zip(&mut circuits) {
        assert_eq!(to.ip(), Links(before).address(number).ip());
        let port = crate::relay::PortId::from_bits(1 << 32);
        let train = Train {
            remote: SocketAddr::new(Links(number).address(before).ip(), 6_000),
            local_ip: None,
            bytes: 100,
            packet_bytes: 100,
        };
        let Verdict::Forward(forward) = circuits.admit(NOW, port, train) else {
            panic!("dropped at {number}");
        };
        (to, before) = (forward.remote, number);
    }
    assert_eq!(to, Links(4).address(DESTINATION));
}

#[test]
fn a_path_lives_as_long_as_it_is_refreshed() {
    let mut circuits: Vec<CircuitTable> = (2..4).map(circuits).collect();
    let mut relayed_path = RelayedPath::new(spec(&[2, 3])).unwrap();
    settle(&mut relayed_path, &mut circuits, NOW);
    let mut now = NOW;
    for _ in 0..20 {
        now = relayed_path.timeout().unwrap();
        assert_eq!(settle(&mut relayed_path, &mut circuits, now).len(), 2);
        assert!(relayed_path.entrance().is_some());
    }
    assert_eq!(now, NOW + Duration::from_secs(600));
    for circuits in &mut circuits {
        circuits.expire(now);
        assert_eq!(circuits.circuits_len(), 1);
    }
    relayed_path.close();
    assert_eq!(
        (relayed_path.entrance(), relayed_path.is_over()),
        (None, false)
    );
    assert_eq!(settle(&mut relayed_path, &mut circuits, now).len(), 2);
    assert!(relayed_path.is_over());
    assert!(circuits.iter().all(|circuits| circuits.circuits_len() == 0));
}

#[test]
fn a_relay_that_refuses_or_is_lost_breaks_the_path_and_the_others_are_closed() {
    let mut circuits: Vec<CircuitTable> = (2..5).map(circuits).collect();
    // Relay 3 has a quota without any rate.
    let none = crate::relay::Quota {
        rate: Rate::ZERO,
        ..crate::relay::Quota::default()
    };
    circuits[1].set_quota(NOW, node(SOURCE), none);
    let mut relayed_path = RelayedPath::new(spec(&[2, 3, 4])).unwrap();
    let asked = settle(&mut relayed_path, &mut circuits, NOW);
    assert_eq!(asked, [node(4), node(3), node(4)]);
    let refused = Broken::Refused {
        relay: node(3),
        refusal: Refusal::Rate,
    };
    assert_eq!(
        (relayed_path.broken(), relayed_path.is_over()),
        (Some(refused), true)
    );
    assert!(circuits.iter().all(|circuits| circuits.circuits_len() == 0));

    let mut relayed_path = RelayedPath::new(spec(&[2, 4])).unwrap();
    settle(&mut relayed_path, &mut circuits, NOW);
    relayed_path.lost(node(4));
    assert_eq!(relayed_path.entrance(), None);
    assert_eq!(settle(&mut relayed_path, &mut circuits, NOW), [node(2)]);
    assert_eq!(relayed_path.broken(), Some(Broken::Lost { relay: node(4) }));
    assert!(relayed_path.is_over());
}

#[test]
fn a_relay_that_does_not_answer_is_lost() {
    let mut relayed_path = RelayedPath::new(spec(&[2, 3])).unwrap();
    let (relay, _) = relayed_path.next(NOW).unwrap();
    assert_eq!((relay, relayed_path.next(NOW)), (node(3), None));
    let until = relayed_path.timeout().unwrap();
    assert_eq!(until, NOW + ANSWER_WITHIN);
    // The circuit may have been opened nevertheless.
    let close = Request::Close {
        circuit: CircuitId(7),
    };
    assert_eq!(relayed_path.next(until), Some((node(3), close)));
    assert_eq!(relayed_path.broken(), Some(Broken::Lost { relay: node(3) }));
    assert!(relayed_path.is_over());
}

#[test]
fn the_source_can_be_learnt_anew() {
    let mut circuits: Vec<CircuitTable> = (2..4).map(circuits).collect();
    let mut seen = spec(&[2, 3]);
    seen.origin = Origin::Known;
    let mut relayed_path = RelayedPath::new(seen).unwrap();
    settle(&mut relayed_path, &mut circuits, NOW);
    relayed_path.relearn(NOW);
    let (relay, request) = relayed_path.next(NOW).unwrap();
    assert_eq!(relay, node(2));
    assert!(matches!(request, Request::Refresh { relearn: true, .. }));
    let answer = ask(&mut circuits[0], NOW, &request);
    relayed_path.answer(NOW, relay, &answer);
    assert_eq!(relayed_path.next(NOW), None);
    assert!(relayed_path.entrance().is_some());
}

#[test]
fn a_relearn_is_sent_after_a_pending_request() {
    let mut circuits: Vec<CircuitTable> = (2..3).map(circuits).collect();
    let mut seen = spec(&[2]);
    seen.origin = Origin::Known;
    let mut relayed_path = RelayedPath::new(seen).unwrap();
    settle(&mut relayed_path, &mut circuits, NOW);
    let due = relayed_path.timeout().unwrap();
    let (relay, request) = relayed_path.next(due).unwrap();
    assert!(matches!(request, Request::Refresh { relearn: false, .. }));
    relayed_path.relearn(due);
    assert_eq!(relayed_path.next(due), None);
    let answer = ask(&mut circuits[0], due, &request);
    relayed_path.answer(due, relay, &answer);
    let (_, request) = relayed_path.next(due).unwrap();
    assert!(matches!(request, Request::Refresh { relearn: true, .. }));
    let answer = ask(&mut circuits[0], due, &request);
    relayed_path.answer(due, relay, &answer);
    assert_eq!(relayed_path.next(due), None);
}

#[test]
fn an_invalid_path_is_refused() {
    for relays in [
        &[][..],
        &[2, 3, 4, 5, 6, 7, 8],
        &[2, 3, 2],
        &[SOURCE],
        &[DESTINATION],
    ] {
        assert_eq!(RelayedPath::new(spec(relays)).err(), Some(Broken::Route));
    }
}

proptest! {
    /// For any answers and any loss of relays: circuits are refreshed in time or closed, the path ends with no circuit
    /// left, and a broken path stays broken.
    #[test]
    fn nothing_is_left_behind(
        steps in prop::collection::vec((0u8..7, 2u8..6, 0u64..40_000), 1..60),
    ) {
        let mut circuits: Vec<CircuitTable> = (2..6).map(circuits).collect();
        let mut relayed_path = RelayedPath::new(spec(&[2, 3, 4, 5])).unwrap();
        let mut now = NOW;
        let mut unanswered: Vec<(NodeId, Answer)> = Vec::new();
        let mut lost = Vec::new();
        for (what, number, millis) in steps {
            let was_broken = relayed_path.broken();
            match what {
                0 => now += Duration::from_millis(millis),
                1 if millis < 4_000 => {
                    relayed_path.lost(node(number));
                    lost.push(node(number));
                }
                2 if millis < 2_000 => relayed_path.close(),
                3 => relayed_path.relearn(now),
                4 => {
                    let other = Answer::Refused { circuit: CircuitId(8), refusal: Refusal::Full };
                    relayed_path.answer(now, node(number), &other);
                }
                _ => {
                    for (relay, answer) in unanswered.drain(..) {
                        relayed_path.answer(now, relay, &answer);
                    }
                }
            }
            while let Some((relay, request)) = relayed_path.next(now) {
                if !lost.contains(&relay) {
                    let circuits = circuits.iter_mut().find(|circuits| circuits.config().node == relay);
                    unanswered.push((relay, ask(circuits.unwrap(), now, &request)));
                }
            }
            if was_broken.is_some() {
                prop_assert_eq!(relayed_path.broken(), was_broken);
                prop_assert_eq!(relayed_path.entrance(), None);
            }
            if relayed_path.is_over() {
                let stands = |circuits: &CircuitTable| {
                    circuits.circuits_len() > 0 && !lost.contains(&circuits.config().node)
                };
                prop_assert!(!circuits.iter().any(stands));
            }
        }
        relayed_path.close();
        settle(&mut relayed_path, &mut circuits, now);
        prop_assert!(relayed_path.is_over());
        for circuits in &mut circuits {
            circuits.expire(now + Duration::from_secs(61));
            prop_assert_eq!(circuits.circuits_len(), 0);
        }
    }
}
