//! Access units of H.264 in a byte stream (Annex B of ITU-T H.264): a picture each, with what comes before it.
//!
//! Nothing is encoded again: the NAL units of the stream are sent as they are, each after a start code of four bytes. The parameter sets are
//! repeated before each IDR picture that lacks them, so that a decoder can begin there. Streams with B pictures are refused: each would
//! have to wait for a later picture.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

/// Most bytes of an access unit.
pub const UNIT_BYTES_MAX: usize = 4 << 20;
/// Most parameter sets that are repeated.
const SETS_MAX: usize = 32;
/// Bytes of a slice in which its type is.
const HEAD_BYTES: usize = 24;
const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// A stream is no H.264 that can be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnexBError {
    /// It does not begin with a start code.
    #[error(
        "this is no H.264 byte stream (Annex B); convert it with ffmpeg -i FILE -c copy -bsf:v h264_mp4toannexb -f h264 OUT.h264"
    )]
    NoStartCode,
    /// It has B pictures.
    #[error(
        "the stream has B pictures, each of which waits for a later one; encode it without them (ffmpeg: -bf 0)"
    )]
    Bidirectional,
    /// A picture is too large, or no picture follows.
    #[error("a picture has more than {UNIT_BYTES_MAX} bytes, or there is none in so many")]
    Long,
    /// A slice cannot be read.
    #[error("the stream is damaged: {0}")]
    Damaged(&'static str),
}

/// Type of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureType {
    /// All of its slices are coded without other pictures.
    Intra,
    /// It needs earlier pictures.
    Predicted,
}

impl PictureType {
    /// Its letter, I or P.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Intra => "I",
            Self::Predicted => "P",
        }
    }
}

/// A picture as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessUnit {
    /// NAL units, each after a start code of four bytes.
    pub bytes: Vec<u8>,
    /// Type of the picture.
    pub kind: PictureType,
    /// A decoder can begin here: an IDR picture, with its parameter sets.
    pub is_key: bool,
}

/// Reader of access units from bytes that come in pieces. An access unit is whole when the next one begins.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
    /// Bytes of the buffer in which the next start code does not begin.
    searched: usize,
    has_begun: bool,
    unit: Unit,
    /// Parameter sets by kind and number.
    sets: BTreeMap<(u8, u32), Vec<u8>>,
}

/// Access unit that is not whole yet.
#[derive(Clone, Debug, Default)]
struct Unit {
    bytes: Vec<u8>,
    kind: Option<PictureType>,
    is_key: bool,
    has_sets: [bool; 2],
}

impl Reader {
    /// Takes bytes, and returns the access units that are whole with them.
    ///
    /// # Errors
    /// The stream cannot be sent; units before the error are lost, and the reader is of no use any more.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<AccessUnit>, AnnexBError> {
        self.buffer.extend_from_slice(bytes);
        let mut units = Vec::new();
        while let Some(at) = self.next_start() {
            let nal: Vec<u8> = self.buffer.drain(..at).collect();
            self.buffer.drain(..3);
            self.searched = 0;
            if self.has_begun {
                self.nal(trimmed(&nal), &mut units)?;
            } else if nal.iter().any(|byte| *byte != 0) {
                return Err(AnnexBError::NoStartCode);
            }
            self.has_begun = true;
        }
        let is_lead = self.buffer.iter().all(|byte| *byte == 0);
        if !self.has_begun && self.buffer.len() > 3 && !is_lead {
            return Err(AnnexBError::NoStartCode);
        }
        match self.buffer.len() > UNIT_BYTES_MAX {
            true => Err(AnnexBError::Long),
            false => Ok(units),
        }
    }

    /// The last access units, at the end of the stream.
    ///
    /// # Errors
    /// As [`Reader::push`]; or there was none.
    pub fn finish(mut self) -> Result<Vec<AccessUnit>, AnnexBError> {
        let mut units = Vec::new();
        if !self.has_begun {
            return Err(AnnexBError::NoStartCode);
        }
        let nal = std::mem::take(&mut self.buffer);
        self.nal(trimmed(&nal), &mut units)?;
        self.end(&mut units);
        Ok(units)
    }

    /// Place of the next three bytes of a start code.
    fn next_start(&mut self) -> Option<usize> {
        let rest = &self.buffer[self.searched..];
        if let Some(at) = rest.windows(3).position(|three| three == [0, 0, 1]) {
            return Some(self.searched + at);
        }
        self.searched = self.buffer.len().saturating_sub(2);
        None
    }

    /// Takes a NAL unit.
    fn nal(&mut self, nal: &[u8], units: &mut Vec<AccessUnit>) -> Result<(), AnnexBError> {
        let Some(first) = nal.first() else {
            return Ok(());
        };
        let kind = first & 0x1f;
        match kind {
            1 | 5 => {
                let (first_macroblock, picture) = slice(&nal[1..])?;
                if first_macroblock == 0 {
                    self.end(units);
                }
                self.unit.is_key |= kind == 5;
                self.unit.kind = match self.unit.kind {
                    Some(PictureType::Predicted) => Some(PictureType::Predicted),
                    _ => Some(picture),
                };
            }
            2..=4 => {
                return Err(AnnexBError::Damaged(
                    "it has data partitions, which are not sent",
                ));
            }
            // What can only come before the slices of a picture (H.264 §7.4.1.2.3).
            6..=9 | 14..=18 => self.end(units),
            _ => {}
        }
        if let 7 | 8 = kind {
            let number = set_number(kind, &nal[1..])
                .ok_or(AnnexBError::Damaged("a parameter set has no number"))?;
            self.unit.has_sets[usize::from(kind - 7)] = true;
            let is_known = self.sets.contains_key(&(kind, number));
            if is_known || self.sets.len() < SETS_MAX {
                self.sets.insert((kind, number), nal.to_vec());
            }
        }
        if self.unit.bytes.len() + nal.len() + START_CODE.len() > UNIT_BYTES_MAX {
            return Err(AnnexBError::Long);
        }
        self.unit.bytes.extend_from_slice(&START_CODE);
        self.unit.bytes.extend_from_slice(nal);
        Ok(())
    }

    /// Ends the access unit, if it has a picture.
    fn end(&mut self, units: &mut Vec<AccessUnit>) {
        let Some(kind) = self.unit.kind else {
            return;
        };
        let unit = std::mem::take(&mut self.unit);
        let mut bytes = unit.bytes;
        let lacks = |kind: u8| unit.is_key && !unit.has_sets[usize::from(kind - 7)];
        let missing = self.sets.iter().filter(|((kind, _), _)| lacks(*kind));
        let missing: Vec<u8> = missing
            .flat_map(|(_, set)| [&START_CODE, &set[..]].concat())
            .collect();
        if !missing.is_empty() {
            // An access unit delimiter stays in front.
            let at = match bytes.get(4).map(|first| first & 0x1f) {
                Some(9) => delimiter_bytes(&bytes),
                _ => 0,
            };
            bytes.splice(at..at, missing);
        }
        let has_sets = [7, 8].map(|kind| unit.has_sets[kind as usize - 7] || self.has_set(kind));
        units.push(AccessUnit {
            bytes,
            kind,
            is_key: unit.is_key && has_sets == [true; 2],
        });
    }

    fn has_set(&self, kind: u8) -> bool {
        self.sets.keys().any(|(other, _)| *other == kind)
    }
}

/// A NAL unit without the zeros after it.
fn trimmed(nal: &[u8]) -> &[u8] {
    let end = nal.iter().rposition(|byte| *byte != 0);
    &nal[..end.map_or(0, |end| end + 1)]
}

/// Bytes of the first NAL unit, with its start code.
fn delimiter_bytes(bytes: &[u8]) -> usize {
    let next = bytes[4..].windows(4).position(|four| four == START_CODE);
    next.map_or(bytes.len(), |next| next + 4)
}

/// First macroblock of a slice, and its type.
fn slice(body: &[u8]) -> Result<(u32, PictureType), AnnexBError> {
    const DAMAGED: AnnexBError = AnnexBError::Damaged("a slice has no type");
    let mut bits = Bits::new(body);
    let first = bits.golomb().ok_or(DAMAGED)?;
    match bits.golomb().ok_or(DAMAGED)? {
        0 | 3 | 5 | 8 => Ok((first, PictureType::Predicted)),
        1 | 6 => Err(AnnexBError::Bidirectional),
        2 | 4 | 7 | 9 => Ok((first, PictureType::Intra)),
        _ => Err(DAMAGED),
    }
}

/// Number of a parameter set.
fn set_number(kind: u8, body: &[u8]) -> Option<u32> {
    match kind {
        // Three bytes of profile and level are before it.
        7 => Bits::new(body.get(3..)?).golomb(),
        _ => Bits::new(body).golomb(),
    }
}

/// Bits of a NAL unit, without its emulation prevention.
struct Bits {
    bytes: Vec<u8>,
    at: usize,
}

impl Bits {
    fn new(body: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        let mut zeros = 0;
        for byte in body.iter().take(HEAD_BYTES) {
            if *byte == 3 && zeros >= 2 {
                zeros = 0;
                continue;
            }
            zeros = if *byte == 0 { zeros + 1 } else { 0 };
            bytes.push(*byte);
        }
        Self { bytes, at: 0 }
    }

    fn bit(&mut self) -> Option<u32> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(u32::from(bit))
    }

    /// ue(v) (H.264 §9.1).
    fn golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let mut rest = 0;
        for _ in 0..zeros {
            rest = rest << 1 | self.bit()?;
        }
        Some(((1_u64 << zeros) - 1) as u32 + rest)
    }
}
