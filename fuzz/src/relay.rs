//! A relay, from authenticated members with arbitrary requests and a network with arbitrary packets.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{Instant, NodeId};
use anabranch_overlay::relay::{
    Answer, CircuitTable, Config, Family, Members, Origin, Outcome, PortId, Refusal, Request, Role,
    Train, Verdict,
};

use crate::Input;

/// An address table in which every node is a member, and at every address but one.
struct Anywhere;

impl Members for Anywhere {
    fn is_member(&self, node: NodeId) -> bool {
        node.public_key()[0] != 0xee
    }

    fn is_at(&self, _: NodeId, address: SocketAddr, _: Role) -> bool {
        address.port() != 0xeeee
    }

    fn addresses(&self, node: NodeId) -> Vec<SocketAddr> {
        let number = node.public_key()[0];
        let known = [
            SocketAddr::from(([192, 0, 2, number], 4433)),
            SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()], 4433)),
        ];
        known.into_iter().take(usize::from(number % 3)).collect()
    }
}

/// The input is a list of steps: a request preceded by its length, packets, or time. Whatever decodes encodes to the same
/// bytes; a relay stays within its bounds whatever the requests, forwards only the packets of circuits, and gives every port
/// back.
pub fn relay(data: &[u8]) {
    let mut config = Config::new(NodeId::from_public_key([0; 32]));
    (config.circuits_max, config.ports_max) = (16, 8);
    let mut circuits = CircuitTable::new(Instant::EPOCH, config).expect("in range");
    let mut now = Instant::EPOCH;
    let mut ports: Vec<(PortId, SocketAddr)> = Vec::new();
    let mut input = Input(data);
    while !input.is_empty() {
        match input.byte() % 4 {
            0 => now += Duration::from_millis(u64::from(input.byte()) * 100),
            1 => packets(&mut circuits, now, &ports, &mut input),
            _ => request(&mut circuits, now, &mut ports, &mut input),
        }
        while let Some(id) = circuits.unused_port() {
            let before = ports.len();
            ports.retain(|(open, _)| *open != id);
            assert_eq!(ports.len() + 1, before, "closed a port that was not open");
        }
        assert_eq!(ports.len(), circuits.ports_len());
        assert!(circuits.ports_len() <= 8 && circuits.circuits_len() <= 16);
    }
    circuits.expire(Instant::FAR_FUTURE);
    while circuits.unused_port().is_some() {}
    assert_eq!((circuits.ports_len(), circuits.circuits_len()), (0, 0));
}

fn request(
    circuits: &mut CircuitTable,
    now: Instant,
    ports: &mut Vec<(PortId, SocketAddr)>,
    input: &mut Input<'_>,
) {
    let source = input.byte() % 4;
    let length = usize::from(input.byte());
    let bytes = input.take(length);
    if let Ok(answer) = Answer::decode(bytes) {
        assert_eq!(encoded(|out| answer.encode(out)), bytes);
    }
    let Ok(request) = Request::decode(bytes) else {
        return;
    };
    assert_eq!(encoded(|out| request.encode(out)), bytes);
    let from = NodeId::from_public_key([source; 32]);
    let seen = [SocketAddr::from(([192, 0, 2, source], 4433))];
    let answer = loop {
        match circuits.request(now, from, &seen, &request, &Anywhere) {
            Outcome::Answer(answer) => break answer,
            Outcome::NeedsPort(_) if ports.len() >= 8 => {
                break circuits.refuse(request.circuit(), Refusal::Ports);
            }
            Outcome::NeedsPort(family) => {
                let number = 1 + ports.iter().map(|(_, open)| open.port()).max().unwrap_or(0);
                let address = match family {
                    Family::V4 => SocketAddr::from(([198, 51, 100, 1], number)),
                    Family::V6 => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], number)),
                };
                ports.push((circuits.add_port(address), address));
            }
        }
    };
    let bytes = encoded(|out| answer.encode(out));
    assert_eq!(Answer::decode(&bytes), Ok(answer));
    if let (Answer::Opened(opened), Request::Open(open)) = (answer, request) {
        assert!(opened.near != opened.far || open.origin != Origin::Exact(open.towards));
        assert!(ports.iter().any(|(_, port)| *port == opened.near));
        assert!(ports.iter().any(|(_, port)| *port == opened.far));
    }
}

fn packets(
    circuits: &mut CircuitTable,
    now: Instant,
    ports: &[(PortId, SocketAddr)],
    input: &mut Input<'_>,
) {
    let to = usize::from(input.byte());
    let from = SocketAddr::from(([192, 0, 2, input.byte() % 8], 4433));
    let packet_bytes = 1 + 5 * usize::from(input.byte());
    let train = Train {
        remote: from,
        local_ip: None,
        bytes: packet_bytes * (1 + usize::from(input.byte() % 40)),
        packet_bytes,
    };
    let Some((port, _)) = ports.get(to % ports.len().max(1)) else {
        return;
    };
    if let Verdict::Forward(forward) = circuits.admit(now, *port, train) {
        assert!((1..=40).contains(&forward.packets));
        assert_ne!(forward.remote.port(), 0);
        let leaves_from = ports.iter().find(|(open, _)| *open == forward.port);
        let (_, address) = leaves_from.expect("an open port");
        assert_eq!(address.is_ipv4(), forward.remote.is_ipv4());
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}
