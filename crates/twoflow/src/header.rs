//! Header of each part of an enhanced frame: RTP's fixed header (RFC 3550 §5.1), the frame's number and the part's
//! offset in it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |V=2|0|0|  0    |L|     96      |        sequence number        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       media timestamp                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             flow                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        frame of the flow                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       offset in the frame                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Numbers are in network byte order. L, RTP's marker, is set on the last part of a frame.

/// Length of the header in bytes.
pub const HEADER_BYTES: usize = 20;
/// Version 2, no padding, no extension, no contributing sources.
const FIRST: u8 = 0x80;
/// The first dynamic payload type (RFC 3551 §6).
const PAYLOAD_TYPE: u8 = 96;
const MARKER: u8 = 0x80;

/// Header of a part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sequence number of the part in the flow, from an arbitrary start, wrapping around; [`Arrivals`](crate::Arrivals)
    /// uses it.
    pub sequence: u16,
    /// Decoding time of the frame in the units of the medium (90,000 a second for video), modulo 2³².
    pub timestamp: u32,
    /// The flow.
    pub flow: u32,
    /// Number of the frame in the film.
    pub frame: u32,
    /// Position in the frame at which the part begins, in bytes.
    pub offset: u32,
    /// True if the frame ends with this part.
    pub is_last: bool,
}

/// Error of bytes that do not begin with a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Fewer bytes than a header.
    #[error("a part of a frame has {0} bytes; its header alone has 20")]
    Short(usize),
    /// Not the form of RTP used here.
    #[error("a part of a frame begins with {0:#04x}, not with 0x80: RTP version 2 without options")]
    First(u8),
    /// Another payload type.
    #[error("RTP payload type {0}; parts of frames have 96")]
    PayloadType(u8),
}

impl Header {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = FIRST;
        bytes[1] = PAYLOAD_TYPE | if self.is_last { MARKER } else { 0 };
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.flow.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.frame.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// Decodes a header; returns it with the bytes that follow.
    ///
    /// # Errors
    /// If the bytes do not begin with a valid header.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(HeaderError::Short(bytes.len()));
        };
        if head[0] != FIRST {
            return Err(HeaderError::First(head[0]));
        }
        let payload_type = head[1] & !MARKER;
        if payload_type != PAYLOAD_TYPE {
            return Err(HeaderError::PayloadType(payload_type));
        }
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let header = Self {
            sequence: u16::from_be_bytes([head[2], head[3]]),
            timestamp: word(4),
            flow: word(8),
            frame: word(12),
            offset: word(16),
            is_last: head[1] & MARKER != 0,
        };
        Ok((header, rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_invalid_header_is_refused() {
        let header = Header {
            sequence: 7,
            timestamp: 9_000,
            flow: 3,
            frame: 12,
            offset: 1_400,
            is_last: true,
        };
        let bytes = header.encode();
        assert_eq!(bytes[..4], [0x80, 0xe0, 0, 7]);
        assert_eq!(Header::decode(&bytes[..19]), Err(HeaderError::Short(19)));
        let mut other = bytes;
        other[0] = 0x90;
        assert_eq!(Header::decode(&other), Err(HeaderError::First(0x90)));
        let mut other = bytes;
        other[1] = 0;
        assert_eq!(Header::decode(&other), Err(HeaderError::PayloadType(0)));
    }

    proptest! {
        #[test]
        fn headers_round_trip(
            sequence in any::<u16>(),
            words in any::<[u32; 4]>(),
            is_last in any::<bool>(),
            rest in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let [timestamp, flow, frame, offset] = words;
            let header = Header { sequence, timestamp, flow, frame, offset, is_last };
            let mut bytes = header.encode().to_vec();
            bytes.extend_from_slice(&rest);
            prop_assert_eq!(Header::decode(&bytes), Ok((header, &rest[..])));
        }

        /// Encoding and decoding are inverse: no two byte strings have the same header.
        #[test]
        fn any_bytes_are_refused_or_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok((header, rest)) = Header::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..], &bytes[..HEADER_BYTES]);
                prop_assert_eq!(rest, &bytes[HEADER_BYTES..]);
            }
        }
    }
}
