//! Frames of the local interface as bytes (`spec/local.md` §2): encoder and decoder for both directions, without a socket.
//!
//! The decoder hands out the payload of a large ADU as a part of the buffer that was read into, without a copy. Its buffer grows
//! with the bytes that have arrived, never with the length that a frame announces.

use std::ops::Range;

use anabranch_session::Adu;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Largest application data unit, in bytes.
pub const ADU_BYTES_MAX: usize = anabranch_session::ADU_BYTES_MAX;
/// Longest text of the header fields of an ADU.
pub const FIELDS_BYTES_MAX: usize = 16 << 10;
/// Longest body of a frame in JSON: a text of objectives of 1 MiB, as a string.
pub const JSON_BYTES_MAX: usize = 3 << 20;
/// Longest body of a frame before the versions are agreed on.
pub const GREETING_BYTES_MAX: usize = 4 << 10;
/// Most missing ranges of a partial ADU in one frame. The ADU is longer than twice as many bytes.
const RANGES_MAX: usize = 32 << 10;
/// Bytes of a frame before its body: the length and the type.
pub const HEAD_BYTES: usize = 5;
/// Longest body of a frame.
const BODY_BYTES_MAX: usize = ADU_BYTES_MAX + 32 + 8 * RANGES_MAX;
/// Bytes that are read at a time, at least.
const READ_BYTES: usize = 256 << 10;
/// Least part of a buffer that a payload takes up if it is not copied out of it: a small payload must not keep a large buffer.
const SHARE_OF_BUFFER: usize = 4;

/// Type byte of each frame.
mod kind {
    pub(super) const HELLO: u8 = 0x01;
    pub(super) const WELCOME: u8 = 0x02;
    pub(super) const BYE: u8 = 0x03;
    pub(super) const REQUEST: u8 = 0x10;
    pub(super) const ANSWER: u8 = 0x11;
    pub(super) const EVENT: u8 = 0x12;
    pub(super) const SEND: u8 = 0x20;
    pub(super) const ADU: u8 = 0x21;
    pub(super) const CREDIT: u8 = 0x22;
    pub(super) const END: u8 = 0x23;
    /// First type of those that a receiver ignores if it does not know them.
    pub(super) const IGNORED: u8 = 0x80;
}

/// Bits of the flags of SEND.
const FIELDS: u8 = 0x01;
const CONFIRM: u8 = 0x02;
/// Bits of the flags of ADU.
const MISSING: u8 = 0x01;
const CUT: u8 = 0x02;

/// A frame. Bodies in JSON are texts that were not looked at yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// First frame of an application: the versions that it supports.
    Hello(Bytes),
    /// First frame of the node: the version that both use from here on.
    Welcome(Bytes),
    /// Last frame of either side, with the reason.
    Bye(Bytes),
    /// Request of the application.
    Request(Bytes),
    /// Answer of the node.
    Answer(Bytes),
    /// Event of a stream, a session or a service.
    Event(Bytes),
    /// ADU from the application.
    Send(SendFrame),
    /// ADU to the application.
    Adu(AduFrame),
    /// Permission to send more.
    Credit {
        /// The stream; 0: all streams of the connection.
        stream: u32,
        /// Bytes, in addition to those that were permitted before.
        bytes: u32,
    },
    /// End of a direction of a stream.
    End {
        /// The stream.
        stream: u32,
        /// Kind of the end.
        end: End,
    },
    /// A frame that this version does not know and may ignore.
    Ignored(u8),
}

/// End of a direction of a stream, or of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// No ADU follows.
    Finish,
    /// The sender gives up what has not been delivered.
    Reset(u32),
    /// The receiver wants no more.
    Stop(u32),
    /// The application uses the stream no more; its handle is free.
    Close,
    /// Everything that was sent has arrived at the peer's node.
    Delivered,
}

/// ADU from the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFrame {
    /// The stream.
    pub stream: u32,
    /// The node reports when it has taken the ADU.
    pub confirm: bool,
    /// Importance for streams that drop the least important ADUs first.
    pub importance: u8,
    /// Header fields as JSON; empty: none.
    pub fields: Bytes,
    /// The ADU.
    pub data: Bytes,
    /// Credit that the frame takes: the length of its body.
    pub cost: u32,
}

/// ADU to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AduFrame {
    /// The stream.
    pub stream: u32,
    /// The ADU, with its number and its missing parts.
    pub adu: Adu,
    /// Credit that the frame takes: the length of its body.
    pub cost: u32,
}

/// Bytes that are not frames of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A frame is longer than its type permits.
    #[error("a frame of type {kind:#04x} with {bytes} bytes; at most {max} are permitted")]
    TooLong {
        /// Its type.
        kind: u8,
        /// Its length.
        bytes: usize,
        /// The longest that is permitted.
        max: usize,
    },
    /// A frame of a type that does not exist, or that only the other side sends.
    #[error("a frame of type {0:#04x}, which this side does not take")]
    Kind(u8),
    /// A frame that is shorter than its fields, or has a value that does not exist.
    #[error("a damaged frame of type {0:#04x}")]
    Damaged(u8),
}

/// Side that reads, which determines the frames that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The node.
    Node,
    /// The application.
    Application,
}

/// Decoder of the frames that one side receives.
#[derive(Debug)]
pub struct Decoder {
    side: Side,
    buffer: BytesMut,
    /// Size of the allocation that `buffer` is a part of, as far as known.
    allocated: usize,
    /// The versions are agreed on.
    is_greeted: bool,
}

impl Decoder {
    /// Creates a decoder for what this side receives.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            buffer: BytesMut::new(),
            allocated: 0,
            is_greeted: false,
        }
    }

    /// Space to read into.
    pub fn space(&mut self) -> &mut BytesMut {
        let announced = self.head().map_or(0, |(_, bytes)| HEAD_BYTES - 1 + bytes);
        let missing = announced.saturating_sub(self.buffer.len());
        let before = self.buffer.capacity();
        let spare = before - self.buffer.len();
        let needed = if missing == 0 { usize::MAX } else { missing };
        if spare < needed.min(READ_BYTES / 4) {
            // A frame that only announces its bytes gets no more space than it has filled.
            let wanted = missing.clamp(READ_BYTES, self.buffer.len().max(READ_BYTES));
            self.buffer.reserve(wanted);
            if self.buffer.capacity() > before {
                self.allocated = self.buffer.capacity();
            }
        }
        &mut self.buffer
    }

    /// Bytes that have arrived and are not in a frame that was handed out.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Type and length of the frame at the front.
    fn head(&self) -> Option<(u8, usize)> {
        let (length, rest) = self.buffer.split_at_checked(4)?;
        let length = u32::from_be_bytes(length.try_into().expect("4 bytes"));
        Some((*rest.first()?, length as usize))
    }

    /// The next frame that is complete; `None`: more bytes are needed.
    ///
    /// # Errors
    /// The bytes are no frames; the connection cannot be used any more.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((kind, length)) = self.head() else {
            return Ok(None);
        };
        let bytes = length.saturating_sub(1);
        let max = self.longest(kind)?;
        if length == 0 {
            return Err(FrameError::Damaged(kind));
        }
        if bytes > max {
            return Err(FrameError::TooLong { kind, bytes, max });
        }
        if self.buffer.len() < HEAD_BYTES + bytes {
            return Ok(None);
        }
        self.buffer.advance(HEAD_BYTES);
        let body = self.buffer.split_to(bytes);
        let shares = bytes.saturating_mul(SHARE_OF_BUFFER) >= self.allocated;
        let body = if shares {
            body.freeze()
        } else {
            Bytes::copy_from_slice(&body)
        };
        let frame = parse(kind, body).ok_or(FrameError::Damaged(kind))?;
        self.is_greeted |= matches!(frame, Frame::Hello(_) | Frame::Welcome(_));
        Ok(Some(frame))
    }

    /// Longest body of a frame of this type.
    fn longest(&self, kind: u8) -> Result<usize, FrameError> {
        if !self.is_greeted {
            let expected = match self.side {
                Side::Node => kind::HELLO,
                Side::Application => kind::WELCOME,
            };
            return if kind == expected || kind == kind::BYE {
                Ok(GREETING_BYTES_MAX)
            } else {
                Err(FrameError::Kind(kind))
            };
        }
        match (kind, self.side) {
            (kind::BYE, _) => Ok(GREETING_BYTES_MAX),
            (kind::REQUEST, Side::Node) | (kind::ANSWER | kind::EVENT, Side::Application) => {
                Ok(JSON_BYTES_MAX)
            }
            (kind::SEND, Side::Node) => Ok(ADU_BYTES_MAX + FIELDS_BYTES_MAX + 8),
            (kind::ADU, Side::Application) => Ok(BODY_BYTES_MAX),
            (kind::CREDIT, _) => Ok(8),
            (kind::END, _) => Ok(9),
            (kind::IGNORED.., _) => Ok(JSON_BYTES_MAX),
            _ => Err(FrameError::Kind(kind)),
        }
    }
}

fn parse(kind: u8, mut body: Bytes) -> Option<Frame> {
    let cost = u32::try_from(body.len()).ok()?;
    Some(match kind {
        kind::HELLO => Frame::Hello(body),
        kind::WELCOME => Frame::Welcome(body),
        kind::BYE => Frame::Bye(body),
        kind::REQUEST => Frame::Request(body),
        kind::ANSWER => Frame::Answer(body),
        kind::EVENT => Frame::Event(body),
        kind::SEND => Frame::Send(parse_send(body, cost)?),
        kind::ADU => Frame::Adu(parse_adu(body, cost)?),
        kind::CREDIT => {
            let frame = Frame::Credit {
                stream: body.try_get_u32().ok()?,
                bytes: body.try_get_u32().ok()?,
            };
            return body.is_empty().then_some(frame);
        }
        kind::END => {
            let stream = body.try_get_u32().ok()?;
            let (end, code) = (body.try_get_u8().ok()?, body.try_get_u32().ok()?);
            let end = match end {
                1 => End::Finish,
                2 => End::Reset(code),
                3 => End::Stop(code),
                4 => End::Close,
                5 => End::Delivered,
                _ => return None,
            };
            return body.is_empty().then_some(Frame::End { stream, end });
        }
        other => Frame::Ignored(other),
    })
}

fn parse_send(mut body: Bytes, cost: u32) -> Option<SendFrame> {
    let stream = body.try_get_u32().ok()?;
    let flags = body.try_get_u8().ok()?;
    let importance = body.try_get_u8().ok()?;
    let mut fields = Bytes::new();
    if flags & FIELDS != 0 {
        let length = usize::from(body.try_get_u16().ok()?);
        if !(1..=FIELDS_BYTES_MAX).contains(&length) || length > body.len() {
            return None;
        }
        fields = body.split_to(length);
    }
    let is_whole = flags & !(FIELDS | CONFIRM) == 0 && (1..=ADU_BYTES_MAX).contains(&body.len());
    is_whole.then_some(SendFrame {
        stream,
        confirm: flags & CONFIRM != 0,
        importance,
        fields,
        data: body,
        cost,
    })
}

fn parse_adu(mut body: Bytes, cost: u32) -> Option<AduFrame> {
    let stream = body.try_get_u32().ok()?;
    let flags = body.try_get_u8().ok()?;
    let sequence = body.try_get_u64().ok()?;
    let mut ranges = Vec::new();
    if flags & MISSING != 0 {
        let count = body.try_get_u32().ok()? as usize;
        if !(1..=RANGES_MAX).contains(&count) || count.checked_mul(8)? > body.len() {
            return None;
        }
        ranges.reserve_exact(count);
        for _ in 0..count {
            let range = u64::from(body.get_u32())..u64::from(body.get_u32());
            ranges.push(range);
        }
    }
    let length = body.len();
    let is_within = |range: &Range<u64>| range.start < range.end && range.end <= length as u64;
    let ascends = ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
    let is_whole = flags & !(MISSING | CUT) == 0 && length <= ADU_BYTES_MAX;
    if !is_whole || !ascends || !ranges.iter().all(is_within) {
        return None;
    }
    let missing = anabranch_session::Missing {
        ranges,
        is_cut: flags & CUT != 0,
    };
    let adu = Adu {
        sequence,
        data: body,
        missing,
    };
    Some(AduFrame { stream, adu, cost })
}

/// Credit that an ADU from the application takes: the length of the body of its frame.
pub fn send_cost(data: usize, fields: usize) -> u32 {
    let fields = if fields == 0 { 0 } else { 2 + fields };
    u32::try_from(6 + fields + data).unwrap_or(u32::MAX)
}

/// Writes the frame but for its payload, which is to follow, and returns the payload.
pub fn encode(frame: &Frame, into: &mut impl BufMut) -> Bytes {
    let json = |kind: u8, body: &Bytes, into: &mut dyn BufMut| {
        head(kind, body.len(), into);
        body.clone()
    };
    match frame {
        Frame::Hello(body) => json(kind::HELLO, body, into),
        Frame::Welcome(body) => json(kind::WELCOME, body, into),
        Frame::Bye(body) => json(kind::BYE, body, into),
        Frame::Request(body) => json(kind::REQUEST, body, into),
        Frame::Answer(body) => json(kind::ANSWER, body, into),
        Frame::Event(body) => json(kind::EVENT, body, into),
        Frame::Ignored(kind) => json(*kind, &Bytes::new(), into),
        Frame::Send(send) => {
            let cost = send_cost(send.data.len(), send.fields.len());
            head(kind::SEND, cost as usize, into);
            into.put_u32(send.stream);
            let has_fields = !send.fields.is_empty();
            let flags = if has_fields { FIELDS } else { 0 };
            into.put_u8(flags | if send.confirm { CONFIRM } else { 0 });
            into.put_u8(send.importance);
            if has_fields {
                into.put_u16(send.fields.len() as u16);
                into.put_slice(&send.fields);
            }
            send.data.clone()
        }
        Frame::Adu(AduFrame { stream, adu, .. }) => {
            let ranges = adu.missing.ranges.len().min(RANGES_MAX);
            head(kind::ADU, adu_cost(adu) as usize, into);
            into.put_u32(*stream);
            let flags = if ranges > 0 { MISSING } else { 0 };
            into.put_u8(flags | if adu.missing.is_cut { CUT } else { 0 });
            into.put_u64(adu.sequence);
            if ranges > 0 {
                into.put_u32(ranges as u32);
                for range in &adu.missing.ranges[..ranges] {
                    into.put_u32(range.start as u32);
                    into.put_u32(range.end as u32);
                }
            }
            adu.data.clone()
        }
        Frame::Credit { stream, bytes } => {
            head(kind::CREDIT, 8, into);
            into.put_u32(*stream);
            into.put_u32(*bytes);
            Bytes::new()
        }
        Frame::End { stream, end } => {
            head(kind::END, 9, into);
            into.put_u32(*stream);
            let (end, code) = match *end {
                End::Finish => (1, 0),
                End::Reset(code) => (2, code),
                End::Stop(code) => (3, code),
                End::Close => (4, 0),
                End::Delivered => (5, 0),
            };
            into.put_u8(end);
            into.put_u32(code);
            Bytes::new()
        }
    }
}

/// Credit that an ADU to the application takes: the length of the body of its frame.
pub fn adu_cost(adu: &Adu) -> u32 {
    let ranges = adu.missing.ranges.len().min(RANGES_MAX);
    let ranges = if ranges == 0 { 0 } else { 4 + 8 * ranges };
    u32::try_from(13 + ranges + adu.data.len()).unwrap_or(u32::MAX)
}

fn head(kind: u8, body: usize, into: &mut (impl BufMut + ?Sized)) {
    into.put_u32(body as u32 + 1);
    into.put_u8(kind);
}

#[cfg(test)]
mod tests;
