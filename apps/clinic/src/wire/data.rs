//! ADUs with data, in network byte order.
//!
//! ```text
//!  0      1                 9             17
//!  +------+-----------------+-------------+---------------------------------------+
//!  | 1    | captured (u64)  | first (u64) | samples, frame by frame (i16)         |
//!  +------+-----------------+-------------+------+-------+------------------------+
//!  | 2    | captured (u64)  | number (u64)| type | group | access unit (Annex B)  |
//!  +------+--------+--------+-------------+------+-------+------------------------+
//!  | 3    | still  | offset (u64) | bytes
//!  +------+--------+--------+-----+-------+------
//!  | 4    | captured (u64)  | number (u64)| packet of Opus, 20 ms
//!  +------+-----------------+-------------+------
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::WireError;
use crate::{
    annexb::{PictureType, UNIT_BYTES_MAX},
    speech::is_speech,
};

/// Most bytes of samples in one ADU.
pub const SAMPLES_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a file in one ADU.
pub const PIECE_BYTES_MAX: usize = 64 << 10;

const SAMPLES: u8 = 1;
const PICTURE: u8 = 2;
const PIECE: u8 = 3;
const SPEECH: u8 = 4;
/// Bits of a picture's type.
const INTRA: u8 = 1;
const KEY: u8 = 2;

/// Frames of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Time at which the last of them was there, in microseconds of the ambulance's clock.
    pub captured_us: u64,
    /// Number of the first frame.
    pub first: u64,
    /// Samples of all leads, frame by frame.
    pub samples: Vec<i16>,
}

/// A picture of the video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Time at which it was there, in microseconds of the ambulance's clock.
    pub captured_us: u64,
    /// Its number, from 0.
    pub number: u64,
    /// Its type.
    pub kind: PictureType,
    /// A decoder can begin here.
    pub is_key: bool,
    /// Pictures up to it at which a decoder can begin, itself included.
    pub group: u32,
    /// The access unit.
    pub bytes: Bytes,
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the still.
    pub still: u32,
    /// Place in the file.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// A packet of speech.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speech {
    /// Time at which its last sample was there, in microseconds of the sender's clock.
    pub captured_us: u64,
    /// Its number among those that were made.
    pub number: u64,
    /// The packet of Opus, of 20 ms.
    pub bytes: Bytes,
}

/// An ADU with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Frames of a record.
    Samples(Samples),
    /// A picture.
    Picture(Picture),
    /// A piece of a file.
    Piece(Piece),
    /// A packet of speech.
    Speech(Speech),
}

fn wrong<T>(why: &str) -> Result<T, WireError> {
    Err(WireError(why.to_owned()))
}

impl Data {
    /// The ADU.
    pub fn to_adu(&self) -> Bytes {
        let mut adu = BytesMut::new();
        match self {
            Self::Samples(of) => {
                adu.put_u8(SAMPLES);
                adu.put_u64(of.captured_us);
                adu.put_u64(of.first);
                for sample in &of.samples {
                    adu.put_i16(*sample);
                }
            }
            Self::Picture(of) => {
                adu.put_u8(PICTURE);
                adu.put_u64(of.captured_us);
                adu.put_u64(of.number);
                let intra = match of.kind {
                    PictureType::Intra => INTRA,
                    PictureType::Predicted => 0,
                };
                adu.put_u8(intra | if of.is_key { KEY } else { 0 });
                adu.put_u32(of.group);
                adu.put_slice(&of.bytes);
            }
            Self::Piece(of) => {
                adu.put_u8(PIECE);
                adu.put_u32(of.still);
                adu.put_u64(of.offset);
                adu.put_slice(&of.bytes);
            }
            Self::Speech(of) => {
                adu.put_u8(SPEECH);
                adu.put_u64(of.captured_us);
                adu.put_u64(of.number);
                adu.put_slice(&of.bytes);
            }
        }
        adu.freeze()
    }

    /// Reads an ADU.
    ///
    /// # Errors
    /// It is none with data, or it is too long.
    pub fn read(mut adu: Bytes) -> Result<Self, WireError> {
        let head_bytes = match adu.first() {
            Some(&SAMPLES | &SPEECH) => 17,
            Some(&PICTURE) => 22,
            Some(&PIECE) => 13,
            _ => return wrong("an ADU of another kind"),
        };
        if adu.len() < head_bytes {
            return wrong("an ADU that is too short");
        }
        match adu.get_u8() {
            SAMPLES => {
                let (captured_us, first) = (adu.get_u64(), adu.get_u64());
                if adu.len() > SAMPLES_BYTES_MAX || !adu.len().is_multiple_of(2) {
                    return wrong("samples of an impossible length");
                }
                let samples = adu.chunks_exact(2);
                let samples = samples
                    .map(|two| i16::from_be_bytes([two[0], two[1]]))
                    .collect();
                Ok(Self::Samples(Samples {
                    captured_us,
                    first,
                    samples,
                }))
            }
            PICTURE => {
                let (captured_us, number) = (adu.get_u64(), adu.get_u64());
                let (bits, group) = (adu.get_u8(), adu.get_u32());
                if adu.len() > UNIT_BYTES_MAX || bits & !(INTRA | KEY) != 0 {
                    return wrong("a picture that is too long, or of another type");
                }
                Ok(Self::Picture(Picture {
                    captured_us,
                    number,
                    kind: match bits & INTRA {
                        0 => PictureType::Predicted,
                        _ => PictureType::Intra,
                    },
                    is_key: bits & KEY != 0,
                    group,
                    bytes: adu,
                }))
            }
            SPEECH => {
                let (captured_us, number) = (adu.get_u64(), adu.get_u64());
                match is_speech(&adu) {
                    true => Ok(Self::Speech(Speech {
                        captured_us,
                        number,
                        bytes: adu,
                    })),
                    false => wrong("speech that is no packet of Opus of 20 ms"),
                }
            }
            _ => {
                let (still, offset) = (adu.get_u32(), adu.get_u64());
                match adu.len() {
                    1..=PIECE_BYTES_MAX => Ok(Self::Piece(Piece {
                        still,
                        offset,
                        bytes: adu,
                    })),
                    _ => wrong("a piece of an impossible length"),
                }
            }
        }
    }
}
