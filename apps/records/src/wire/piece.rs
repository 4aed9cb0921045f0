//! Pieces: bytes of parts. An ADU has several of them, and the BLAKE3 hash of all that follows it.

use bytes::Bytes;

use super::{PIECES, WireError};

/// Largest number of bytes in one piece.
pub const PIECE_BYTES_MAX: usize = 512 << 10;
/// Bytes before the data of a piece.
pub const HEADER_BYTES: usize = 8 + 2 + 1 + 8 + 8 + 8 + 4;
const HASH_BYTES: usize = 32;
const FLAG_ABSENT: u8 = 1;

/// Bytes of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Record.
    pub record: u64,
    /// Component.
    pub component: u16,
    /// True if the record is without this component; there is no data then.
    pub is_absent: bool,
    /// Version of the file: another one has other contents.
    pub version: u64,
    /// Length of the part.
    pub part_bytes: u64,
    /// Place of the data in the part.
    pub offset: u64,
    /// The data.
    pub data: Bytes,
}

/// An ADU that is filled with pieces.
#[derive(Debug)]
pub struct Pack {
    bytes: Vec<u8>,
}

impl Default for Pack {
    fn default() -> Self {
        let mut bytes = vec![0; 1 + HASH_BYTES];
        bytes[0] = PIECES;
        Self { bytes }
    }
}

impl Pack {
    /// True without a piece.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == 1 + HASH_BYTES
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a piece whose data has `length` bytes, which `fill` supplies. If it fails, the pack is as it was.
    ///
    /// # Errors
    /// That of `fill`.
    pub fn push<E>(
        &mut self,
        piece: &Piece,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&piece.record.to_le_bytes());
        self.bytes.extend_from_slice(&piece.component.to_le_bytes());
        self.bytes.push(u8::from(piece.is_absent) * FLAG_ABSENT);
        for number in [piece.version, piece.part_bytes, piece.offset] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
        let data = self.bytes.len();
        self.bytes.resize(data + length, 0);
        let filled = fill(&mut self.bytes[data..]);
        if filled.is_err() {
            self.bytes.truncate(before);
        }
        filled
    }

    /// The ADU.
    pub fn finish(mut self) -> Bytes {
        let hash = blake3::hash(&self.bytes[1 + HASH_BYTES..]);
        self.bytes[1..=HASH_BYTES].copy_from_slice(hash.as_bytes());
        self.bytes.into()
    }
}

/// Pieces of an ADU behind its first byte, whose hash is checked.
///
/// # Errors
/// The hash is another one, or these are no pieces.
pub fn pieces(adu: &Bytes) -> Result<Vec<Piece>, WireError> {
    let wrong = |words: &str| WireError(words.to_owned());
    if adu.len() < HASH_BYTES {
        return Err(wrong("pieces without a hash"));
    }
    let mut rest = adu.slice(HASH_BYTES..);
    if blake3::hash(&rest).as_bytes()[..] != adu[..HASH_BYTES] {
        return Err(wrong("pieces with another hash than their bytes have"));
    }
    let mut all = Vec::new();
    while !rest.is_empty() {
        if rest.len() < HEADER_BYTES {
            return Err(wrong("a piece ends early"));
        }
        let header = rest.split_to(HEADER_BYTES);
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let flags = header[10];
        let length = u32::from_le_bytes([header[35], header[36], header[37], header[38]]) as usize;
        if length > rest.len() || length > PIECE_BYTES_MAX || flags > FLAG_ABSENT {
            return Err(wrong("a piece is longer than it may be"));
        }
        let piece = Piece {
            record: number(0),
            component: u16::from_le_bytes([header[8], header[9]]),
            is_absent: flags & FLAG_ABSENT != 0,
            version: number(11),
            part_bytes: number(19),
            offset: number(27),
            data: rest.split_to(length),
        };
        let end = piece.offset.checked_add(length as u64);
        let is_within = end.is_some_and(|end| end <= piece.part_bytes);
        if !is_within || (piece.is_absent && piece.part_bytes > 0) {
            return Err(wrong("a piece lies beyond its part"));
        }
        all.push(piece);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(record: u64, part_bytes: u64, offset: u64, data: &[u8]) -> Piece {
        Piece {
            record,
            component: 3,
            is_absent: false,
            version: 9,
            part_bytes,
            offset,
            data: Bytes::copy_from_slice(data),
        }
    }

    fn packed(pieces: &[Piece]) -> Bytes {
        let mut pack = Pack::default();
        for piece in pieces {
            let fill = |bytes: &mut [u8]| {
                bytes.copy_from_slice(&piece.data);
                Ok::<(), ()>(())
            };
            pack.push(piece, piece.data.len(), fill).unwrap();
        }
        pack.finish().slice(1..)
    }

    #[test]
    fn pieces_are_read_as_they_were_packed() {
        let absent = Piece {
            is_absent: true,
            ..piece(7, 0, 0, b"")
        };
        let all = [
            piece(u64::MAX, 10, 4, b"abcdef"),
            absent,
            piece(0, 0, 0, b""),
        ];
        assert_eq!(pieces(&packed(&all)).unwrap(), all);
        assert_eq!(pieces(&packed(&[])).unwrap(), []);
        // What cannot be read is left out.
        let mut pack = Pack::default();
        assert_eq!(pack.push(&all[0], 5, |_| Err("no")), Err("no"));
        assert!(pack.is_empty());
    }

    #[test]
    fn a_changed_byte_or_a_place_beyond_the_part_is_refused() {
        let good = packed(&[piece(1, 3, 0, b"abc")]);
        for at in 0..good.len() {
            let mut bad = good.to_vec();
            bad[at] ^= 1;
            assert!(pieces(&bad.into()).is_err(), "{at}");
        }
        for beyond in [piece(1, 3, 1, b"abc"), piece(1, 3, u64::MAX, b"a")] {
            assert!(pieces(&packed(&[beyond])).is_err());
        }
        assert!(pieces(&good.slice(..20)).is_err());
    }

    proptest! {
        /// No bytes are read as pieces beyond their end.
        #[test]
        fn any_bytes_are_pieces_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut adu = blake3::hash(&bytes).as_bytes().to_vec();
            adu.extend_from_slice(&bytes);
            if let Ok(all) = pieces(&adu.into()) {
                let length: usize = all.iter().map(|piece| HEADER_BYTES + piece.data.len()).sum();
                prop_assert_eq!(length, bytes.len());
            }
        }
    }
}
