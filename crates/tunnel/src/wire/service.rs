//! Messages about the service of a class of packets, on its stream.

use std::time::Duration;

use anabranch::{Demand, Grade, Guarantee, base::Rate, daemon::PromiseState};
use bytes::{BufMut, Bytes, BytesMut};

use super::{Reader, WireError};

const ASK: u8 = 0x02;
const ANSWER: u8 = 0x03;

const RATE: u8 = 1;
const PACKETS: u8 = 2;
const LATE: u8 = 3;

/// Request of a class to the other side, for the packets of the way back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ask {
    /// Rate at which the packets of the class are sent at most.
    pub rate_max: Option<Rate>,
    /// The promise.
    pub guarantee: Option<Guarantee>,
}

/// Message on the stream of a class that carries no packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceMessage {
    /// Of the side that opened the stream, until it has an answer, and repeated later.
    Ask(Ask),
    /// Of the other side, for each: state of its promise, `None` if none was asked for.
    Answer(Option<PromiseState>),
}

fn state_number(state: Option<PromiseState>) -> u8 {
    match state {
        None => 0,
        Some(PromiseState::Promised) => 2,
        Some(PromiseState::Warned) => 3,
        Some(PromiseState::Withdrawn) => 4,
        Some(PromiseState::OverLimit) => 5,
        Some(_) => 1,
    }
}

/// Unknown states count as waiting.
fn state_of(number: u8) -> Option<PromiseState> {
    match number {
        0 => None,
        2 => Some(PromiseState::Promised),
        3 => Some(PromiseState::Warned),
        4 => Some(PromiseState::Withdrawn),
        5 => Some(PromiseState::OverLimit),
        _ => Some(PromiseState::Waiting),
    }
}

impl Reader<'_> {
    fn word(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    fn rate(&mut self) -> Result<Rate, WireError> {
        self.array()
            .map(|bytes| Rate::from_bps(u64::from_be_bytes(bytes)))
    }

    fn float(&mut self) -> Result<f64, WireError> {
        self.array().map(f64::from_be_bytes)
    }

    fn guarantee(&mut self) -> Result<Guarantee, WireError> {
        let demand = match self.byte()? {
            RATE => Demand::Rate {
                rate: self.rate()?,
                probability: self.float()?,
            },
            PACKETS => Demand::Packets {
                serve: self.word()?,
                of: self.word()?,
                packet_bytes: self.word()?,
                probability: self.float()?,
            },
            LATE => Demand::Late {
                rate: self.rate()?,
                packet_bytes: self.word()?,
                late_packets: self.float()?,
            },
            _ => return Err(WireError::Format),
        };
        let window = Duration::from_secs(self.byte()?.into());
        let term = Duration::from_millis(u16::from_be_bytes(self.array()?).into());
        let grade = match self.byte()? {
            0 => Grade::Best,
            1 => Grade::Durable,
            2 => Grade::Renewable,
            _ => return Err(WireError::Format),
        };
        let guarantee = Guarantee {
            window,
            term,
            grade,
            ..Guarantee::new(demand)
        };
        guarantee.validate().map_err(|_| WireError::Format)?;
        Ok(guarantee)
    }
}

fn put_guarantee(out: &mut BytesMut, guarantee: &Guarantee) {
    match guarantee.demand {
        Demand::Rate { rate, probability } => {
            out.put_u8(RATE);
            out.put_u64(rate.as_bps());
            out.put_f64(probability);
        }
        Demand::Packets {
            serve,
            of,
            packet_bytes,
            probability,
        } => {
            out.put_u8(PACKETS);
            out.put_u32(serve);
            out.put_u32(of);
            out.put_u32(packet_bytes);
            out.put_f64(probability);
        }
        Demand::Late {
            rate,
            packet_bytes,
            late_packets,
        } => {
            out.put_u8(LATE);
            out.put_u64(rate.as_bps());
            out.put_u32(packet_bytes);
            out.put_f64(late_packets);
        }
    }
    out.put_u8(guarantee.window.as_secs() as u8);
    // Of a valid guarantee, both are 10 s at most.
    out.put_u16(guarantee.term.as_millis() as u16);
    out.put_u8(match guarantee.grade {
        Grade::Best => 0,
        Grade::Durable => 1,
        Grade::Renewable => 2,
    });
}

impl ServiceMessage {
    /// The bytes of the message. Levels of a guarantee, and its reaction to a warning, are not part of it.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Ask(ask) => {
                out.put_u8(ASK);
                out.put_u8(ask.rate_max.is_some().into());
                if let Some(rate) = ask.rate_max {
                    out.put_u64(rate.as_bps());
                }
                out.put_u8(ask.guarantee.is_some().into());
                if let Some(guarantee) = &ask.guarantee {
                    put_guarantee(&mut out, guarantee);
                }
            }
            Self::Answer(state) => out.put_slice(&[ANSWER, state_number(*state)]),
        }
        out.freeze()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It does not follow the format, or asks for a guarantee that nothing could give.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader(bytes);
        let message = match reader.byte()? {
            ASK => {
                let rate_max = match reader.has()? {
                    true => Some(reader.rate()?),
                    false => None,
                };
                if rate_max == Some(Rate::ZERO) {
                    return Err(WireError::Format);
                }
                let guarantee = match reader.has()? {
                    true => Some(reader.guarantee()?),
                    false => None,
                };
                Self::Ask(Ask {
                    rate_max,
                    guarantee,
                })
            }
            ANSWER => Self::Answer(state_of(reader.byte()?)),
            _ => return Err(WireError::Format),
        };
        reader.end()?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn demands() -> [Demand; 3] {
        let rate = Rate::from_mbps(2);
        [
            Demand::Rate {
                rate,
                probability: 0.99,
            },
            Demand::Packets {
                serve: 8,
                of: 10,
                packet_bytes: 1200,
                probability: 0.9,
            },
            Demand::Late {
                rate,
                packet_bytes: 160,
                late_packets: 0.5,
            },
        ]
    }

    #[test]
    fn messages_round_trip() {
        for demand in demands() {
            let guarantee = Guarantee {
                grade: Grade::Renewable,
                window: Duration::from_secs(2),
                term: Duration::from_millis(4500),
                ..Guarantee::new(demand)
            };
            let ask = ServiceMessage::Ask(Ask {
                rate_max: Some(Rate::from_kbps(64)),
                guarantee: Some(guarantee),
            });
            let bytes = ask.encode();
            assert_eq!(ServiceMessage::decode(&bytes), Ok(ask));
            for end in 0..bytes.len() {
                assert!(ServiceMessage::decode(&bytes[..end]).is_err(), "{end}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(ServiceMessage::decode(&longer).is_err());
        }
        for number in 0..6 {
            let answer = ServiceMessage::Answer(state_of(number));
            assert_eq!(answer.encode()[..], [ANSWER, number]);
            assert_eq!(ServiceMessage::decode(&answer.encode()), Ok(answer));
        }
    }

    /// The bytes of `spec/tunnel.md`.
    #[test]
    fn a_question_has_the_bytes_of_the_specification() {
        let guarantee = Guarantee::rate(Rate::from_mbps(1), 0.5);
        let ask = ServiceMessage::Ask(Ask {
            rate_max: None,
            guarantee: Some(guarantee),
        });
        let bytes = [
            0x02, 0, 1, 1, 0, 0, 0, 0, 0, 0x0f, 0x42, 0x40, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0, 1, 0x27,
            0x10, 0,
        ];
        assert_eq!(ask.encode()[..], bytes);
    }

    #[test]
    fn guarantees_that_nothing_could_give_are_refused() {
        let ask = |guarantee| {
            ServiceMessage::Ask(Ask {
                rate_max: None,
                guarantee: Some(guarantee),
            })
        };
        for wrong in [
            Guarantee::rate(Rate::ZERO, 0.5),
            Guarantee::rate(Rate::from_mbps(1), 1.5),
            Guarantee::rate(Rate::from_mbps(1), f64::NAN),
        ] {
            let bytes = ask(wrong).encode();
            assert_eq!(ServiceMessage::decode(&bytes), Err(WireError::Format));
        }
        assert!(ServiceMessage::decode(&[ASK, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_to_the_same(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(message) = ServiceMessage::decode(&bytes) {
                prop_assert_eq!(ServiceMessage::decode(&message.encode()), Ok(message));
            }
        }
    }
}
