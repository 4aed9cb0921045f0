//! Encoding of requests and answers. The normative text is `spec/relay.md`.
//!
//! Fields have fixed widths, big endian; no bytes may follow a message. A decoded message encodes to the same bytes.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anabranch_base::{NodeId, Rate};

use super::{
    account::{Account, Dropped, Flow, Reason},
    message::{Answer, CircuitId, Open, Opened, Origin, ROUTE_NODES_MAX, Refusal, Request},
};

/// Length of the longest message: [`Request::Open`] with the longest route and two IPv6 addresses.
pub const MESSAGE_BYTES_MAX: usize = 1 + 8 + 8 + 4 + 2 * 20 + 1 + 32 * ROUTE_NODES_MAX;

const OPEN: u8 = 0x01;
const REFRESH: u8 = 0x02;
const CLOSE: u8 = 0x03;
const OPENED: u8 = 0x81;
const CLOSED: u8 = 0x82;
const REFUSED: u8 = 0x83;

const KNOWN: u8 = 0;
const V4: u8 = 4;
const V6: u8 = 6;

/// Highest rate that can be encoded, far beyond any link: 1 Pbit/s.
const RATE_BPS_MAX: u64 = 1_000_000_000_000_000;

/// Error in the encoding of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends too early.
    #[error("the message ends too early")]
    Truncated,
    /// Bytes follow the message.
    #[error("{0} bytes follow the message")]
    Trailing(usize),
    /// A type that this version does not know.
    #[error("unknown message type {0:#04x}")]
    UnknownType(u8),
    /// A value outside its range.
    #[error("{0} is out of range")]
    Range(&'static str),
}

impl Request {
    /// Appends the message. Rates are written up to 1 Pbit/s, durations in whole milliseconds up to 2³² − 1, and routes
    /// up to [`ROUTE_NODES_MAX`] nodes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open(open) => {
                out.push(OPEN);
                number(out, open.circuit.0);
                number(out, open.rate.as_bps().min(RATE_BPS_MAX));
                millis(out, open.lifetime);
                match open.origin {
                    Origin::Known => out.push(KNOWN),
                    Origin::Host(ip) => address(out, SocketAddr::new(ip, 0)),
                    Origin::Exact(exact) => address(out, exact),
                }
                address(out, open.towards);
                let nodes = &open.route[..open.route.len().min(ROUTE_NODES_MAX)];
                out.push(nodes.len() as u8);
                for node in nodes {
                    out.extend_from_slice(node.public_key());
                }
            }
            Self::Refresh {
                circuit,
                lifetime,
                relearn,
            } => {
                out.push(REFRESH);
                number(out, circuit.0);
                millis(out, *lifetime);
                out.push((*relearn).into());
            }
            Self::Close { circuit } => {
                out.push(CLOSE);
                number(out, circuit.0);
            }
        }
    }

    /// Reads one message, which is all of `bytes`.
    ///
    /// # Errors
    /// It does not follow `spec/relay.md`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input(bytes);
        let kind = input.byte()?;
        let request = match kind {
            OPEN => {
                let circuit = CircuitId(input.u64()?);
                let rate = input.rate()?;
                let lifetime = input.millis()?;
                let origin = input.origin()?;
                let towards = input.address()?;
                let nodes = usize::from(input.byte()?);
                if nodes > ROUTE_NODES_MAX {
                    return Err(DecodeError::Range("the number of nodes"));
                }
                let node = |_| Ok(NodeId::from_public_key(input.array()?));
                let route = (0..nodes).map(node).collect::<Result<_, _>>()?;
                Self::Open(Open {
                    circuit,
                    route,
                    origin,
                    towards,
                    rate,
                    lifetime,
                })
            }
            REFRESH => Self::Refresh {
                circuit: CircuitId(input.u64()?),
                lifetime: input.millis()?,
                relearn: match input.byte()? {
                    0 => false,
                    1 => true,
                    _ => return Err(DecodeError::Range("flags")),
                },
            },
            CLOSE => Self::Close {
                circuit: CircuitId(input.u64()?),
            },
            other => return Err(DecodeError::UnknownType(other)),
        };
        input.end()?;
        Ok(request)
    }
}

impl Answer {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Opened(opened) => {
                out.push(OPENED);
                number(out, opened.circuit.0);
                number(out, opened.rate.as_bps().min(RATE_BPS_MAX));
                millis(out, opened.lifetime);
                address(out, opened.near);
                address(out, opened.far);
                number(out, opened.bytes_left);
            }
            Self::Closed { circuit, account } => {
                out.push(CLOSED);
                number(out, circuit.0);
                for flow in [account.outward, account.back] {
                    number(out, flow.packets);
                    number(out, flow.bytes);
                }
                for reason in Reason::ALL {
                    number(out, account.dropped.by(reason));
                }
            }
            Self::Refused { circuit, refusal } => {
                out.push(REFUSED);
                number(out, circuit.0);
                out.push(*refusal as u8);
            }
        }
    }

    /// Reads one message, which is all of `bytes`.
    ///
    /// # Errors
    /// It does not follow `spec/relay.md`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input(bytes);
        let kind = input.byte()?;
        if !matches!(kind, OPENED | CLOSED | REFUSED) {
            return Err(DecodeError::UnknownType(kind));
        }
        let circuit = CircuitId(input.u64()?);
        let answer = match kind {
            OPENED => {
                let rate = input.rate()?;
                let lifetime = input.millis()?;
                let (near, far) = (input.address()?, input.address()?);
                if near.port() == 0 || far.port() == 0 {
                    return Err(DecodeError::Range("a port"));
                }
                Self::Opened(Opened {
                    circuit,
                    near,
                    far,
                    lifetime,
                    rate,
                    bytes_left: input.u64()?,
                })
            }
            CLOSED => {
                let mut account = Account::default();
                for flow in [&mut account.outward, &mut account.back] {
                    *flow = Flow {
                        packets: input.u64()?,
                        bytes: input.u64()?,
                    };
                }
                let mut dropped = Dropped::default();
                for reason in Reason::ALL {
                    dropped.add(reason, input.u64()?);
                }
                account.dropped = dropped;
                Self::Closed { circuit, account }
            }
            _ => {
                let code = input.byte()?;
                let refusal = Refusal::ALL.into_iter().find(|known| *known as u8 == code);
                let refusal = refusal.ok_or(DecodeError::Range("the reason"))?;
                Self::Refused { circuit, refusal }
            }
        };
        input.end()?;
        Ok(answer)
    }
}

fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn millis(out: &mut Vec<u8>, duration: Duration) {
    let millis = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
    out.extend_from_slice(&millis.to_be_bytes());
}

fn address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(V4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(V6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn rate(&mut self) -> Result<Rate, DecodeError> {
        match self.u64()? {
            bps @ 0..=RATE_BPS_MAX => Ok(Rate::from_bps(bps)),
            _ => Err(DecodeError::Range("the rate")),
        }
    }

    fn millis(&mut self) -> Result<Duration, DecodeError> {
        let millis = u32::from_be_bytes(self.array()?);
        Ok(Duration::from_millis(millis.into()))
    }

    fn address(&mut self) -> Result<SocketAddr, DecodeError> {
        let family = self.byte()?;
        self.address_of(family)
    }

    fn address_of(&mut self, family: u8) -> Result<SocketAddr, DecodeError> {
        let ip = match family {
            V4 => Ipv4Addr::from(self.array::<4>()?).into(),
            V6 => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return Err(DecodeError::Range("the address family")),
        };
        let port = u16::from_be_bytes(self.array()?);
        Ok(SocketAddr::new(ip, port))
    }

    fn origin(&mut self) -> Result<Origin, DecodeError> {
        let family = self.byte()?;
        if family == KNOWN {
            return Ok(Origin::Known);
        }
        let address = self.address_of(family)?;
        Ok(match address.port() {
            0 => Origin::Host(address.ip()),
            _ => Origin::Exact(address),
        })
    }

    fn end(&self) -> Result<(), DecodeError> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(DecodeError::Trailing(more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node() -> impl Strategy<Value = NodeId> {
        any::<[u8; 32]>().prop_map(NodeId::from_public_key)
    }

    fn any_ip() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(IpAddr::from)
        ]
    }

    fn any_address() -> impl Strategy<Value = SocketAddr> {
        (any_ip(), 1u16..).prop_map(SocketAddr::from)
    }

    fn any_millis() -> impl Strategy<Value = Duration> {
        any::<u32>().prop_map(|millis| Duration::from_millis(millis.into()))
    }

    fn any_rate() -> impl Strategy<Value = Rate> {
        (0..=RATE_BPS_MAX).prop_map(Rate::from_bps)
    }

    fn any_circuit() -> impl Strategy<Value = CircuitId> {
        any::<u64>().prop_map(CircuitId)
    }

    fn any_origin() -> impl Strategy<Value = Origin> {
        prop_oneof![
            Just(Origin::Known),
            any_ip().prop_map(Origin::Host),
            any_address().prop_map(Origin::Exact)
        ]
    }

    fn any_request() -> impl Strategy<Value = Request> {
        let route = prop::collection::vec(node(), 0..=ROUTE_NODES_MAX);
        let open = (
            any_circuit(),
            route,
            any_origin(),
            any_address(),
            any_rate(),
            any_millis(),
        )
            .prop_map(|(circuit, route, origin, towards, rate, lifetime)| {
                Request::Open(Open {
                    circuit,
                    route,
                    origin,
                    towards,
                    rate,
                    lifetime,
                })
            });
        let refresh = (any_circuit(), any_millis(), any::<bool>()).prop_map(
            |(circuit, lifetime, relearn)| Request::Refresh {
                circuit,
                lifetime,
                relearn,
            },
        );
        let close = any_circuit().prop_map(|circuit| Request::Close { circuit });
        prop_oneof![open, refresh, close]
    }

    fn any_answer() -> impl Strategy<Value = Answer> {
        let opened = (
            any_circuit(),
            any_rate(),
            any_millis(),
            any_address(),
            any_address(),
            any::<u64>(),
        )
            .prop_map(|(circuit, rate, lifetime, near, far, bytes_left)| {
                Answer::Opened(Opened {
                    circuit,
                    near,
                    far,
                    lifetime,
                    rate,
                    bytes_left,
                })
            });
        let closed = (any_circuit(), any::<[u64; 4]>(), any::<[u64; 7]>()).prop_map(
            |(circuit, n, drops)| {
                let flow = |packets, bytes| Flow { packets, bytes };
                let mut dropped = Dropped::default();
                for (reason, packets) in Reason::ALL.into_iter().zip(drops) {
                    dropped.add(reason, packets);
                }
                let account = Account {
                    outward: flow(n[0], n[1]),
                    back: flow(n[2], n[3]),
                    dropped,
                };
                Answer::Closed { circuit, account }
            },
        );
        let refused = (any_circuit(), prop::sample::select(&Refusal::ALL[..]))
            .prop_map(|(circuit, refusal)| Answer::Refused { circuit, refusal });
        prop_oneof![opened, closed, refused]
    }

    proptest! {
        #[test]
        fn requests_round_trip(request in any_request()) {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            prop_assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            prop_assert_eq!(Request::decode(&bytes), Ok(request));
            bytes.push(0);
            prop_assert!(Request::decode(&bytes).is_err());
            bytes.truncate(bytes.len() - 2);
            prop_assert_eq!(Request::decode(&bytes), Err(DecodeError::Truncated));
        }

        #[test]
        fn answers_round_trip(answer in any_answer()) {
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            prop_assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            prop_assert_eq!(Answer::decode(&bytes), Ok(answer));
            bytes.push(0);
            prop_assert!(Answer::decode(&bytes).is_err());
            bytes.truncate(bytes.len() - 2);
            prop_assert_eq!(Answer::decode(&bytes), Err(DecodeError::Truncated));
        }

        #[test]
        fn noise_decodes_to_itself_or_not_at_all(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut again = Vec::new();
            if let Ok(request) = Request::decode(&bytes) {
                request.encode(&mut again);
                prop_assert_eq!(&again, &bytes);
            }
            if let Ok(answer) = Answer::decode(&bytes) {
                again.clear();
                answer.encode(&mut again);
                prop_assert_eq!(&again, &bytes);
            }
        }
    }

    /// The example of `spec/relay.md`.
    #[test]
    fn a_refresh_is_these_bytes() {
        let refresh = Request::Refresh {
            circuit: CircuitId(7),
            lifetime: Duration::from_secs(60),
            relearn: true,
        };
        let mut bytes = Vec::new();
        refresh.encode(&mut bytes);
        assert_eq!(
            bytes,
            [0x02, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0xea, 0x60, 0x01]
        );
    }

    #[test]
    fn errors_are_specific() {
        assert_eq!(Request::decode(&[]), Err(DecodeError::Truncated));
        assert_eq!(
            Request::decode(&[0x7f]),
            Err(DecodeError::UnknownType(0x7f))
        );
        let close = [0x03, 0, 0, 0, 0, 0, 0, 0, 1, 9, 9];
        assert_eq!(Request::decode(&close), Err(DecodeError::Trailing(2)));
    }
}
