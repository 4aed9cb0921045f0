//! Records of the streams with data: numbers in network byte order, then bytes of the video.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::WireError;

/// Maximum size of the data in one record of a reliable stream.
pub const PIECE_BYTES_MAX: usize = 16 << 10;
/// Maximum size of an ADU of the enhanced flow: with the session's and QUIC's headers it fits the smallest packet that QUIC
/// uses, 1,200 bytes, so that one lost packet costs one part of one frame.
pub const ADU_BYTES_MAX: usize = 1_100;
/// Size of the header of an ADU of the enhanced flow.
pub const ENHANCED_HEADER_BYTES: usize = 21;

/// Record of the fetch stream.
///
/// ```text
///  0        4            12           20
/// +--------+------------+------------+-------- …
/// | id     | offset     | total      | bytes
/// +--------+------------+------------+-------- …
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Identifier of the request.
    pub id: u32,
    /// Offset in the requested data.
    pub offset: u64,
    /// Size of the requested data.
    pub total: u64,
    /// The bytes.
    pub data: Bytes,
}

impl Piece {
    /// Its end in the requested data.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }

    /// Encodes the piece.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(20 + self.data.len());
        out.put_u32(self.id);
        out.put_u64(self.offset);
        out.put_u64(self.total);
        out.put_slice(&self.data);
        out.freeze()
    }

    /// Decodes a piece.
    ///
    /// # Errors
    /// It is not a piece.
    pub fn decode(mut bytes: Bytes) -> Result<Self, WireError> {
        if bytes.len() < 20 {
            return Err(WireError("a piece without header".to_owned()));
        }
        let piece = Self {
            id: bytes.get_u32(),
            offset: bytes.get_u64(),
            total: bytes.get_u64(),
            data: bytes,
        };
        let end = piece.offset.checked_add(piece.data.len() as u64);
        if end.is_none_or(|end| end > piece.total) {
            return Err(WireError("a piece beyond the end".to_owned()));
        }
        Ok(piece)
    }
}

/// Record of the essential flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Essential {
    /// `0 | chunk u32 | offset u32 | total u32 | bytes`: part of a chunk's essential data.
    Data {
        /// The chunk.
        chunk: u32,
        /// Position in the chunk's essential data.
        offset: u32,
        /// Bytes of the chunk's essential data.
        total: u32,
        /// The bytes.
        data: Bytes,
    },
    /// `1 | chunk u32 | ADUs u32 | left out u32`: a chunk's enhanced data has been handed to the enhanced flow; what
    /// does not arrive soon is lost.
    Sent {
        /// The chunk.
        chunk: u32,
        /// ADUs sent of it.
        adus: u32,
        /// Frames that were left out because the pipe had no capacity for them.
        left_out: u32,
    },
}

impl Essential {
    /// Encodes the record.
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Data {
                chunk,
                offset,
                total,
                data,
            } => {
                let mut out = BytesMut::with_capacity(13 + data.len());
                out.put_u8(0);
                out.put_u32(*chunk);
                out.put_u32(*offset);
                out.put_u32(*total);
                out.put_slice(data);
                out.freeze()
            }
            Self::Sent {
                chunk,
                adus,
                left_out,
            } => {
                let mut out = BytesMut::with_capacity(13);
                out.put_u8(1);
                out.put_u32(*chunk);
                out.put_u32(*adus);
                out.put_u32(*left_out);
                out.freeze()
            }
        }
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// It is not such a record.
    pub fn decode(mut bytes: Bytes) -> Result<Self, WireError> {
        if bytes.len() < 13 {
            return Err(WireError("a record without header".to_owned()));
        }
        let kind = bytes.get_u8();
        let numbers = [bytes.get_u32(), bytes.get_u32(), bytes.get_u32()];
        let [chunk, second, third] = numbers;
        match kind {
            0 if u64::from(second) + bytes.len() as u64 <= u64::from(third) => Ok(Self::Data {
                chunk,
                offset: second,
                total: third,
                data: bytes,
            }),
            1 if bytes.is_empty() => Ok(Self::Sent {
                chunk,
                adus: second,
                left_out: third,
            }),
            _ => Err(WireError(format!("a record of kind {kind}"))),
        }
    }
}

/// ADU of the enhanced flow: a part of one frame that fits one packet.
///
/// ```text
///  0          4           8       12      13       17       21
/// +----------+-----------+-------+-------+--------+--------+------ …
/// | sequence | timestamp | chunk | track | sample | offset | bytes
/// +----------+-----------+-------+-------+--------+--------+------ …
/// ```
/// Sequence and timestamp are as in RTP [RFC 3550 §5.1]: the first counts ADUs of the play, the second is the time at which the
/// frame is decoded, in 90 kHz, both modulo 2³².
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enhanced {
    /// Number of the ADU in the play.
    pub sequence: u32,
    /// Time of the frame in the video, 90 kHz.
    pub timestamp: u32,
    /// The chunk.
    pub chunk: u32,
    /// Position of the track in the index.
    pub track: u8,
    /// Position of the frame in the track.
    pub sample: u32,
    /// Position in the frame.
    pub offset: u32,
    /// The bytes; at least one.
    pub data: Bytes,
}

impl Enhanced {
    /// Encodes the ADU.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(ENHANCED_HEADER_BYTES + self.data.len());
        out.put_u32(self.sequence);
        out.put_u32(self.timestamp);
        out.put_u32(self.chunk);
        out.put_u8(self.track);
        out.put_u32(self.sample);
        out.put_u32(self.offset);
        out.put_slice(&self.data);
        out.freeze()
    }

    /// Decodes an ADU.
    ///
    /// # Errors
    /// It is not such an ADU.
    pub fn decode(mut bytes: Bytes) -> Result<Self, WireError> {
        if bytes.len() <= ENHANCED_HEADER_BYTES {
            return Err(WireError("a part of a frame without data".to_owned()));
        }
        Ok(Self {
            sequence: bytes.get_u32(),
            timestamp: bytes.get_u32(),
            chunk: bytes.get_u32(),
            track: bytes.get_u8(),
            sample: bytes.get_u32(),
            offset: bytes.get_u32(),
            data: bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_round_trip() {
        let data = Bytes::from_static(b"data");
        let piece = Piece {
            id: 1,
            offset: 1 << 33,
            total: 1 << 34,
            data: data.clone(),
        };
        assert_eq!(Piece::decode(piece.encode()), Ok(piece));
        let part = Essential::Data {
            chunk: 7,
            offset: 6,
            total: 10,
            data: data.clone(),
        };
        assert_eq!(Essential::decode(part.encode()), Ok(part));
        let sent = Essential::Sent {
            chunk: 7,
            adus: 6,
            left_out: 5,
        };
        assert_eq!(Essential::decode(sent.encode()), Ok(sent));
        let frame = Enhanced {
            sequence: 1,
            timestamp: 2,
            chunk: 3,
            track: 4,
            sample: 5,
            offset: 6,
            data,
        };
        let bytes = frame.encode();
        assert_eq!(bytes.len(), ENHANCED_HEADER_BYTES + 4);
        assert_eq!(Enhanced::decode(bytes), Ok(frame));
    }

    #[test]
    fn data_beyond_the_end_is_refused() {
        let data = Bytes::from_static(b"data");
        let piece = |offset, total| Piece {
            id: 1,
            offset,
            total,
            data: data.clone(),
        };
        assert!(Piece::decode(piece(0, 3).encode()).is_err());
        assert!(Piece::decode(piece(u64::MAX, u64::MAX).encode()).is_err());
        let part = Essential::Data {
            chunk: 0,
            offset: u32::MAX,
            total: u32::MAX,
            data: data.clone(),
        };
        assert!(Essential::decode(part.encode()).is_err());
    }

    proptest! {
        #[test]
        fn rubbish_is_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = Bytes::from(bytes);
            if let Ok(record) = Essential::decode(bytes.clone()) {
                prop_assert_eq!(&record.encode(), &bytes);
            }
            if let Ok(piece) = Piece::decode(bytes.clone()) {
                prop_assert_eq!(&piece.encode(), &bytes);
            }
            if let Ok(frame) = Enhanced::decode(bytes.clone()) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }
    }
}
