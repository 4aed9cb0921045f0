//! Frames: their format, encoding and decoding.
//!
//! ```text
//! Fragment {
//!   type       8 bits   0b0100_LFO0
//!   stream     varint
//!   sequence   varint   number of the ADU in its stream, from 0
//!   offset     varint   only with O; otherwise 0
//!   length     varint   only with L; otherwise the payload ends with the container
//!   payload    bytes    with F: the last byte of the ADU
//! }
//! Control    { type 8 bits, fields as listed at [`Control`] }
//! ```

use std::time::Duration;

use anabranch_base::{Rate, StreamId};
use anabranch_spec::{LABEL_BYTES_MAX, Order, Preferences, Priority, StreamSpec};
use bytes::{Buf, Bytes};

use super::{
    DecodeError,
    promised::{self, Promised},
    varint,
};

const FRAGMENT: u8 = 0x40;
const FLAG_OFFSET: u8 = 0x02;
const FLAG_FINAL: u8 = 0x04;
const FLAG_LENGTH: u8 = 0x08;

/// Most bytes that a fragment takes beside its payload: type, stream, sequence, offset, length.
pub const FRAGMENT_HEADER_BYTES_MAX: usize = 1 + 8 + 8 + 4 + 2;
/// Length of a session id and of a join proof.
pub const TOKEN_BYTES: usize = 16;

/// Part of an ADU.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    /// The stream.
    pub stream: StreamId,
    /// The ADU's number in its stream.
    pub sequence: u64,
    /// Position in the ADU at which the payload begins, in bytes.
    pub offset: usize,
    /// True if the payload ends with the ADU's last byte.
    pub is_final: bool,
    /// The bytes.
    pub payload: Bytes,
}

/// Messages between the two ends of a session. All of them state facts rather than steps, so that
/// one that is repeated or overtaken does no harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    /// 0x01: the sender's version and the credit it grants at first.
    Hello {
        /// Wire format version.
        version: u64,
        /// Bytes that each stream may send before further credit.
        stream_window_bytes: u64,
        /// Bytes that all reliable streams together may send before further credit.
        session_window_bytes: u64,
    },
    /// 0x02: this channel belongs to the session `session`; `proof` shows that the sender knows it.
    Join {
        /// First half of the secret that both ends derived from the session's initial channel.
        session: [u8; TOKEN_BYTES],
        /// Keyed hash of this channel's own secret.
        proof: [u8; TOKEN_BYTES],
    },
    /// 0x03: a stream exists.
    Open {
        /// The stream.
        stream: StreamId,
        /// Its spec. `pinned`, `paths`, `redundant`, `notify`, `notify_fragments`, `guarantee`, `cap` and `drop` stay with the sender.
        spec: Box<StreamSpec>,
    },
    /// 0x04: bytes that the stream may send in all.
    StreamCredit {
        /// The stream.
        stream: StreamId,
        /// Total since the stream opened.
        bytes: u64,
    },
    /// 0x05: bytes that all reliable streams may send in all.
    SessionCredit {
        /// Total since the session began.
        bytes: u64,
    },
    /// 0x06: no ADU numbered `end` or above will follow on the stream.
    Finish {
        /// The stream.
        stream: StreamId,
        /// Number of ADUs sent.
        end: u64,
    },
    /// 0x07: the sender resets the stream; nothing more will be delivered.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        code: u32,
        /// Credit that the stream has used, so that the receiver can return it to the session.
        charged_bytes: u64,
    },
    /// 0x08: the receiver wants no more of the stream.
    Stop {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        code: u32,
    },
    /// 0x09: the ADU expired at the sender, or part of it is lost permanently; do not wait for it.
    Skip {
        /// The stream.
        stream: StreamId,
        /// The ADU.
        sequence: u64,
        /// Credit that it has used.
        charged_bytes: u64,
    },
    /// 0x0a: packets that arrived on this channel during the last report period.
    Report {
        /// Packets.
        packets: u64,
        /// Container bytes.
        bytes: u64,
        /// Smallest one-way delay above the smallest ever seen on the channel.
        delay_min: Duration,
        /// Mean one-way delay above the smallest ever seen.
        delay_mean: Duration,
        /// Largest one-way delay above the smallest ever seen.
        delay_max: Duration,
    },
    /// 0x0b: the session that the JOIN before this frame names had that id on an earlier initial channel.
    Replace {
        /// The earlier id.
        session: [u8; TOKEN_BYTES],
    },
    /// 0x0c: promises in force that this channel serves; replaces the last list.
    Promised(Vec<Promised>),
    /// 0x0d: other sessions of the receiver on the interface at which this channel ends; replaces the last such statement.
    Beside {
        /// The interface: the same number for all channels that end there.
        interface: u64,
        /// Rate at which the others' data arrives.
        rate: Rate,
        /// Number of those whose data arrives.
        busy: u64,
        /// Promises to others there.
        promised: Vec<Promised>,
    },
    /// 0x0e: the sender has other sessions; it wants to know what the receiver promises.
    Neighbours,
}

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Part of an ADU.
    Fragment(Fragment),
    /// A message between the ends.
    Control(Control),
}

/// Position of a fragment, without its payload; the sender writes and keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The stream.
    pub stream: StreamId,
    /// The ADU.
    pub sequence: u64,
    /// Offset in the ADU.
    pub offset: usize,
}

/// Bytes that a fragment at `place` takes beside its payload, with or without an explicit length.
pub fn fragment_overhead(place: Place, with_length: bool) -> usize {
    let offset = if place.offset > 0 {
        varint::size(place.offset as u64)
    } else {
        0
    };
    let length = if with_length { 2 } else { 0 };
    1 + varint::size(place.stream.0) + varint::size(place.sequence) + offset + length
}

/// Appends a fragment. Without `with_length` nothing may follow it in the container.
pub fn write_fragment(
    out: &mut Vec<u8>,
    place: Place,
    is_final: bool,
    with_length: bool,
    payload: &[u8],
) {
    let mut kind = FRAGMENT;
    if place.offset > 0 {
        kind |= FLAG_OFFSET;
    }
    if is_final {
        kind |= FLAG_FINAL;
    }
    if with_length {
        kind |= FLAG_LENGTH;
    }
    out.push(kind);
    varint::write(out, place.stream.0);
    varint::write(out, place.sequence);
    if place.offset > 0 {
        varint::write(out, place.offset as u64);
    }
    if with_length {
        varint::write(out, payload.len() as u64);
    }
    out.extend_from_slice(payload);
}

impl Control {
    /// Most bytes any control frame takes.
    pub const BYTES_MAX: usize = 24 + LABEL_BYTES_MAX;

    /// The sender's stream that the frame refers to, which the receiver must know first.
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Self::Finish { stream, .. }
            | Self::Reset { stream, .. }
            | Self::Skip { stream, .. } => Some(*stream),
            _ => None,
        }
    }

    /// An upper bound of the frame's size, in bytes.
    pub fn size_bound(&self) -> usize {
        match self {
            Self::Open { spec, .. } => 24 + spec.label.len(),
            Self::Promised(_) => 1 + promised::BYTES_MAX,
            Self::Beside { .. } => 25 + promised::BYTES_MAX,
            _ => 42,
        }
    }

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let micros = |d: &Duration| u64::try_from(d.as_micros()).unwrap_or(0).min(varint::MAX);
        match self {
            Self::Hello {
                version,
                stream_window_bytes,
                session_window_bytes,
            } => {
                out.push(0x01);
                varint::write(out, *version);
                varint::write(out, *stream_window_bytes);
                varint::write(out, *session_window_bytes);
            }
            Self::Join { session, proof } => {
                out.push(0x02);
                out.extend_from_slice(session);
                out.extend_from_slice(proof);
            }
            Self::Open { stream, spec } => {
                out.push(0x03);
                varint::write(out, stream.0);
                out.push(
                    u8::from(spec.reliable)
                        | u8::from(spec.order == Order::Ordered) << 1
                        | u8::from(spec.duplex) << 2
                        | u8::from(spec.partial) << 3,
                );
                varint::write(out, spec.lifetime.as_ref().map_or(0, micros));
                out.push(spec.priority.0);
                varint::write(out, u64::from(spec.weight));
                varint::write(out, spec.label.len() as u64);
                out.extend_from_slice(spec.label.as_bytes());
            }
            Self::StreamCredit { stream, bytes } => {
                out.push(0x04);
                varint::write(out, stream.0);
                varint::write(out, *bytes);
            }
            Self::SessionCredit { bytes } => {
                out.push(0x05);
                varint::write(out, *bytes);
            }
            Self::Finish { stream, end } => {
                out.push(0x06);
                varint::write(out, stream.0);
                varint::write(out, *end);
            }
            Self::Reset {
                stream,
                code,
                charged_bytes,
            } => {
                out.push(0x07);
                varint::write(out, stream.0);
                varint::write(out, u64::from(*code));
                varint::write(out, *charged_bytes);
            }
            Self::Stop { stream, code } => {
                out.push(0x08);
                varint::write(out, stream.0);
                varint::write(out, u64::from(*code));
            }
            Self::Skip {
                stream,
                sequence,
                charged_bytes,
            } => {
                out.push(0x09);
                varint::write(out, stream.0);
                varint::write(out, *sequence);
                varint::write(out, *charged_bytes);
            }
            Self::Report {
                packets,
                bytes,
                delay_min,
                delay_mean,
                delay_max,
            } => {
                out.push(0x0a);
                varint::write(out, *packets);
                varint::write(out, *bytes);
                varint::write(out, micros(delay_min));
                varint::write(out, micros(delay_mean));
                varint::write(out, micros(delay_max));
            }
            Self::Replace { session } => {
                out.push(0x0b);
                out.extend_from_slice(session);
            }
            Self::Promised(list) => {
                out.push(0x0c);
                promised::write(list, out);
            }
            Self::Beside {
                interface,
                rate,
                busy,
                promised,
            } => {
                out.push(0x0d);
                varint::write(out, *interface);
                varint::write(out, rate.as_bps().min(varint::MAX));
                varint::write(out, *busy);
                promised::write(promised, out);
            }
            Self::Neighbours => out.push(0x0e),
        }
    }

    fn read(kind: u8, input: &mut Bytes) -> Result<Self, DecodeError> {
        Ok(match kind {
            0x01 => Self::Hello {
                version: varint::read(input)?,
                stream_window_bytes: varint::read(input)?,
                session_window_bytes: varint::read(input)?,
            },
            0x02 => Self::Join {
                session: read_token(input)?,
                proof: read_token(input)?,
            },
            0x03 => Self::Open {
                stream: read_stream(input)?,
                spec: Box::new(read_spec(input)?),
            },
            0x04 => Self::StreamCredit {
                stream: read_stream(input)?,
                bytes: varint::read(input)?,
            },
            0x05 => Self::SessionCredit {
                bytes: varint::read(input)?,
            },
            0x06 => Self::Finish {
                stream: read_stream(input)?,
                end: varint::read(input)?,
            },
            0x07 => Self::Reset {
                stream: read_stream(input)?,
                code: read_code(input)?,
                charged_bytes: varint::read(input)?,
            },
            0x08 => Self::Stop {
                stream: read_stream(input)?,
                code: read_code(input)?,
            },
            0x09 => Self::Skip {
                stream: read_stream(input)?,
                sequence: varint::read(input)?,
                charged_bytes: varint::read(input)?,
            },
            0x0a => Self::Report {
                packets: varint::read(input)?,
                bytes: varint::read(input)?,
                delay_min: read_micros(input)?,
                delay_mean: read_micros(input)?,
                delay_max: read_micros(input)?,
            },
            0x0b => Self::Replace {
                session: read_token(input)?,
            },
            0x0c => Self::Promised(promised::read(input)?),
            0x0d => Self::Beside {
                interface: varint::read(input)?,
                rate: Rate::from_bps(varint::read(input)?),
                busy: varint::read(input)?,
                promised: promised::read(input)?,
            },
            0x0e => Self::Neighbours,
            other => return Err(DecodeError::UnknownType(other)),
        })
    }
}

pub(super) fn read_u8(input: &mut Bytes) -> Result<u8, DecodeError> {
    if input.is_empty() {
        return Err(DecodeError::Truncated);
    }
    Ok(input.get_u8())
}

fn read_stream(input: &mut Bytes) -> Result<StreamId, DecodeError> {
    varint::read(input).map(StreamId)
}

pub(super) fn read_length(input: &mut Bytes) -> Result<usize, DecodeError> {
    usize::try_from(varint::read(input)?).map_err(|_| DecodeError::Truncated)
}

fn read_code(input: &mut Bytes) -> Result<u32, DecodeError> {
    u32::try_from(varint::read(input)?).map_err(|_| DecodeError::Range("code"))
}

fn read_micros(input: &mut Bytes) -> Result<Duration, DecodeError> {
    varint::read(input).map(Duration::from_micros)
}

fn read_token(input: &mut Bytes) -> Result<[u8; TOKEN_BYTES], DecodeError> {
    if input.len() < TOKEN_BYTES {
        return Err(DecodeError::Truncated);
    }
    let mut token = [0; TOKEN_BYTES];
    input.copy_to_slice(&mut token);
    Ok(token)
}

fn read_spec(input: &mut Bytes) -> Result<StreamSpec, DecodeError> {
    let flags = read_u8(input)?;
    if flags & !0x0f != 0 {
        return Err(DecodeError::Range("stream flags"));
    }
    let lifetime = read_micros(input)?;
    let priority = Priority(read_u8(input)?);
    let weight = u32::try_from(varint::read(input)?).map_err(|_| DecodeError::Range("weight"))?;
    let length = read_length(input)?;
    if length > LABEL_BYTES_MAX {
        return Err(DecodeError::Range("label"));
    }
    if input.len() < length {
        return Err(DecodeError::Truncated);
    }
    let label = String::from_utf8(input.split_to(length).to_vec())
        .map_err(|_| DecodeError::Range("label"))?;
    let spec = StreamSpec {
        reliable: flags & 1 != 0,
        order: if flags & 2 != 0 {
            Order::Ordered
        } else {
            Order::Unordered
        },
        lifetime: (!lifetime.is_zero()).then_some(lifetime),
        priority,
        weight,
        cap: None,
        tenant: None,
        drop: None,
        pinned: None,
        paths: Preferences::default(),
        redundant: false,
        guarantee: None,
        may_split: true,
        duplex: flags & 4 != 0,
        partial: flags & 8 != 0,
        notify: false,
        notify_fragments: false,
        label,
    };
    spec.validate()
        .map_err(|_| DecodeError::Range("stream spec"))?;
    Ok(spec)
}

/// Takes the frames out of a container, one after the other, without copying payloads.
#[derive(Debug)]
pub struct Reader(Bytes);

impl Reader {
    /// Reads the frames that [`super::read_header`] left.
    pub fn new(frames: Bytes) -> Self {
        Self(frames)
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// The container does not follow the format; what follows the error is undefined.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let kind = self.0.get_u8();
        if kind & !(FLAG_OFFSET | FLAG_FINAL | FLAG_LENGTH) == FRAGMENT {
            return self.read_fragment(kind).map(Some);
        }
        Control::read(kind, &mut self.0).map(|control| Some(Frame::Control(control)))
    }

    fn read_fragment(&mut self, kind: u8) -> Result<Frame, DecodeError> {
        let input = &mut self.0;
        let stream = read_stream(input)?;
        let sequence = varint::read(input)?;
        let offset = if kind & FLAG_OFFSET != 0 {
            varint::read(input)?
        } else {
            0
        };
        let length = if kind & FLAG_LENGTH != 0 {
            read_length(input)?
        } else {
            input.len()
        };
        if input.len() < length {
            return Err(DecodeError::Truncated);
        }
        if length == 0 {
            return Err(DecodeError::Range("fragment length"));
        }
        let end = offset.saturating_add(length as u64);
        if end > anabranch_spec::ADU_BYTES_MAX as u64 {
            return Err(DecodeError::Range("fragment offset"));
        }
        Ok(Frame::Fragment(Fragment {
            stream,
            sequence,
            offset: offset as usize,
            is_final: kind & FLAG_FINAL != 0,
            payload: input.split_to(length),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_spec() -> impl Strategy<Value = StreamSpec> {
        (
            any::<[bool; 4]>(),
            prop::option::of(1_000u64..3_600_000_000),
            any::<u8>(),
            1u32..=10_000,
            "[a-z ]{0,40}",
        )
            .prop_map(|(flags, lifetime, priority, weight, label)| StreamSpec {
                reliable: flags[0],
                order: if flags[1] {
                    Order::Ordered
                } else {
                    Order::Unordered
                },
                duplex: flags[2],
                partial: flags[3] && !flags[0],
                lifetime: lifetime.map(Duration::from_micros),
                priority: Priority(priority),
                weight,
                label,
                ..StreamSpec::default()
            })
    }

    fn any_promised() -> impl Strategy<Value = Vec<Promised>> {
        let one = (any::<bool>(), 0..1_u64 << 40, 0..=varint::MAX);
        let one = one.prop_map(|(is_durable, age_ms, bps)| Promised {
            is_durable,
            age: Duration::from_millis(age_ms),
            rate: Rate::from_bps(bps),
        });
        prop::collection::vec(one, 0..=promised::PROMISED_MAX)
    }

    fn any_control() -> impl Strategy<Value = Control> {
        let number = 0..=varint::MAX;
        let micros = (0u64..1 << 40).prop_map(Duration::from_micros);
        let stream = number.clone().prop_map(StreamId);
        prop_oneof![
            (number.clone(), number.clone(), number.clone()).prop_map(|(a, b, c)| {
                Control::Hello {
                    version: a,
                    stream_window_bytes: b,
                    session_window_bytes: c,
                }
            }),
            any::<([u8; 16], [u8; 16])>()
                .prop_map(|(session, proof)| Control::Join { session, proof }),
            any::<[u8; 16]>().prop_map(|session| Control::Replace { session }),
            any_promised().prop_map(Control::Promised),
            Just(Control::Neighbours),
            (
                [number.clone(), number.clone(), number.clone()],
                any_promised()
            )
                .prop_map(|([interface, bps, busy], promised)| Control::Beside {
                    interface,
                    rate: Rate::from_bps(bps),
                    busy,
                    promised,
                }),
            (stream.clone(), any_spec().prop_map(Box::new))
                .prop_map(|(stream, spec)| Control::Open { stream, spec }),
            (stream.clone(), number.clone())
                .prop_map(|(stream, bytes)| Control::StreamCredit { stream, bytes }),
            number
                .clone()
                .prop_map(|bytes| Control::SessionCredit { bytes }),
            (stream.clone(), number.clone())
                .prop_map(|(stream, end)| Control::Finish { stream, end }),
            (stream.clone(), any::<u32>(), number.clone()).prop_map(
                |(stream, code, charged_bytes)| Control::Reset {
                    stream,
                    code,
                    charged_bytes
                }
            ),
            (stream.clone(), any::<u32>())
                .prop_map(|(stream, code)| Control::Stop { stream, code }),
            (stream, number.clone(), number.clone()).prop_map(
                |(stream, sequence, charged_bytes)| Control::Skip {
                    stream,
                    sequence,
                    charged_bytes
                }
            ),
            (
                number.clone(),
                number,
                micros.clone(),
                micros.clone(),
                micros
            )
                .prop_map(|(packets, bytes, delay_min, delay_mean, delay_max)| {
                    Control::Report {
                        packets,
                        bytes,
                        delay_min,
                        delay_mean,
                        delay_max,
                    }
                }),
        ]
    }

    proptest! {
        #[test]
        fn controls_round_trip(controls in prop::collection::vec(any_control(), 0..6)) {
            let mut out = Vec::new();
            for control in &controls {
                let before = out.len();
                control.write(&mut out);
                prop_assert!(out.len() - before <= control.size_bound());
                prop_assert!(control.size_bound() <= Control::BYTES_MAX);
            }
            let mut reader = Reader::new(Bytes::from(out));
            for control in controls {
                prop_assert_eq!(reader.next_frame(), Ok(Some(Frame::Control(control))));
            }
            prop_assert_eq!(reader.next_frame(), Ok(None));
        }

        #[test]
        fn fragments_round_trip(
            stream in 0..=varint::MAX,
            sequence in 0..=varint::MAX,
            offset in 0usize..1 << 20,
            is_final: bool,
            payload in prop::collection::vec(any::<u8>(), 1..200),
            with_length: bool,
        ) {
            let place = Place { stream: StreamId(stream), sequence, offset };
            let mut out = Vec::new();
            write_fragment(&mut out, place, is_final, with_length, &payload);
            prop_assert!(out.len() <= payload.len() + fragment_overhead(place, with_length));
            prop_assert!(fragment_overhead(place, with_length) <= FRAGMENT_HEADER_BYTES_MAX);
            let mut reader = Reader::new(Bytes::from(out));
            let expected = Fragment {
                stream: StreamId(stream),
                sequence,
                offset,
                is_final,
                payload: Bytes::from(payload),
            };
            prop_assert_eq!(reader.next_frame(), Ok(Some(Frame::Fragment(expected))));
            prop_assert_eq!(reader.next_frame(), Ok(None));
        }

        /// Decoding ends without a panic, whatever the bytes.
        #[test]
        fn garbage_is_an_error_or_a_frame(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = Reader::new(Bytes::from(bytes));
            for _ in 0..301 {
                match reader.next_frame() {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return Ok(()),
                }
            }
            prop_assert!(false, "more frames than bytes");
        }
    }
}
