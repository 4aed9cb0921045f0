//! Reassembly of one ADU, with memory in proportion to the bytes that have arrived, however the ADU is fragmented.
//!
//! Bytes that are contiguous from the first one on are appended to one buffer, which becomes the ADU. Later bytes wait in pieces
//! of their own size, and move into the buffer when it reaches them; or earlier, with the gaps, when the pieces take more memory
//! than the gaps would, or when space for the whole ADU is reserved already.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Violation, holes::Holes};
use crate::event::Missing;

/// Memory overhead of a piece: its map entry, and the overhead of the allocator.
pub(super) const PIECE_BYTES: usize = 128;
/// Additional overhead of the first piece.
pub(super) const FIRST_PIECE_BYTES: usize = 256;
/// Pieces of at most so many bytes are joined to the one before them, so that there are never many small ones. The bytes moved
/// for it are the most that a fragment costs beyond its own bytes.
const JOIN_BYTES: usize = 1024;
/// Capacity is reserved for the whole ADU once a part of it has arrived: at most this multiple of the bytes that have, and a
/// little more.
const RESERVE_RATIO: usize = 16;
const RESERVE_FREE_BYTES: usize = 8 << 10;

/// Memory that an ADU may take beyond its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    /// Probable length of the ADU; 0: unknown.
    pub expected_bytes: usize,
    /// Memory that may be reserved for bytes that have not arrived.
    pub reserve_bytes: usize,
}

/// Key: stream, sequence.
///
/// Invariants: pieces neither overlap one another nor the buffer; `holes` is `Some` exactly while the buffer has some.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// The bytes from the first one on; zeros where `holes` marks bytes as missing.
    data: Vec<u8>,
    holes: Option<Box<Holes>>,
    /// Pieces beyond the buffer, by offset.
    pieces: BTreeMap<u32, Vec<u8>>,
    pieces_bytes: u32,
    length: Option<u32>,
    /// Capacity reserved ahead in the buffer.
    reserved: u32,
    /// Bytes moved in addition to those that arrived.
    #[cfg(test)]
    moved: usize,
}

impl Assembly {
    /// Bytes of memory that it takes; never more than [`extent`](Self::extent). While the buffer has holes, an eighth is added.
    pub(super) fn held_bytes(&self) -> usize {
        let first = if self.pieces.is_empty() {
            0
        } else {
            FIRST_PIECE_BYTES
        };
        first + self.data.len() + self.pieces_bytes as usize + self.pieces.len() * PIECE_BYTES
    }

    /// Memory reserved ahead of what arrives.
    pub(super) fn reserved_bytes(&self) -> usize {
        self.reserved as usize
    }

    /// End of the bytes that have arrived: a lower bound of the ADU's length.
    pub(super) fn extent(&self) -> usize {
        let last = self.pieces.last_key_value();
        last.map_or(self.data.len(), |(&at, piece)| at as usize + piece.len())
    }

    /// Its length, if that is known.
    pub(super) fn length(&self) -> Option<usize> {
        self.length.map(|length| length as usize)
    }

    /// Number of pieces that wait for earlier bytes.
    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes that have arrived, each counted once.
    pub(super) fn got_bytes(&self) -> u64 {
        let missing = self.holes.as_ref().map_or(0, |holes| holes.missing());
        (self.data.len() - missing) as u64 + u64::from(self.pieces_bytes)
    }

    /// Adds a fragment; true when the ADU is complete.
    pub(super) fn add(
        &mut self,
        offset: usize,
        payload: &[u8],
        is_final: bool,
        allowance: Allowance,
    ) -> Result<bool, Violation> {
        let end = offset + payload.len();
        if is_final {
            if self.length().is_some_and(|length| length != end) || self.extent() > end {
                return Err(Violation::Length);
            }
            self.length = Some(end as u32);
        } else if self.length().is_some_and(|length| end > length) {
            return Err(Violation::Length);
        }
        self.reserve(payload.len(), allowance);
        let (front, rest) =
            payload.split_at(self.data.len().saturating_sub(offset).min(payload.len()));
        if !front.is_empty() {
            self.fill(offset, front);
        }
        if rest.is_empty() {
            return Ok(self.is_complete());
        }
        let at = end - rest.len();
        if at == self.data.len() {
            self.append(rest);
            self.join_pieces();
        } else {
            self.add_piece(at, rest);
        }
        if !self.pieces.is_empty() {
            let extent = self.extent();
            if self.held_bytes() > extent || extent <= self.data.capacity() {
                self.flatten();
            }
        }
        Ok(self.is_complete())
    }

    fn is_complete(&self) -> bool {
        self.length == Some(self.data.len() as u32) && self.holes.is_none()
    }

    /// Reserves space for the whole ADU, once enough of it has arrived. Once for each ADU.
    fn reserve(&mut self, more: usize, allowance: Allowance) {
        let expected = self.length().unwrap_or(allowance.expected_bytes);
        if self.reserved > 0 || expected <= self.data.capacity() {
            return;
        }
        let got = self.got_bytes() as usize + more;
        let is_earned = expected <= RESERVE_RATIO * got + RESERVE_FREE_BYTES;
        if is_earned && expected <= allowance.reserve_bytes {
            self.reserved = expected as u32;
            self.data.reserve_exact(expected - self.data.len());
        }
    }

    /// Adds bytes that lie within the buffer.
    fn fill(&mut self, offset: usize, bytes: &[u8]) {
        let Some(holes) = &mut self.holes else {
            return;
        };
        let range = offset..offset + bytes.len();
        if holes.fill(range.clone()) > 0 {
            self.data[range].copy_from_slice(bytes);
        }
        if holes.missing() == 0 {
            self.holes = None;
        }
    }

    /// Adds bytes that follow the buffer's last.
    fn append(&mut self, bytes: &[u8]) {
        let at = self.data.len();
        grow(&mut self.data, bytes.len());
        self.data.extend_from_slice(bytes);
        if let Some(holes) = &mut self.holes {
            holes.extend(at + bytes.len());
            holes.fill(at..at + bytes.len());
        }
    }

    /// Moves the pieces that the buffer has reached into it.
    fn join_pieces(&mut self) {
        while let Some(entry) = self.pieces.first_entry()
            && *entry.key() as usize <= self.data.len()
        {
            let (at, piece) = entry.remove_entry();
            self.pieces_bytes -= piece.len() as u32;
            let known = (self.data.len() - at as usize).min(piece.len());
            self.fill(at as usize, &piece[..known]);
            self.append(&piece[known..]);
            self.note_moved(piece.len());
        }
        if self.pieces.is_empty() {
            // An emptied map keeps a node of eleven entries.
            self.pieces = BTreeMap::new();
        }
    }

    /// Adds bytes that lie beyond the buffer; the new ones become pieces, or parts of pieces.
    fn add_piece(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let (mut at, mut open) = (offset, None);
        if let Some((&start, piece)) = self.pieces.range(..=offset as u32).next_back()
            && start as usize + piece.len() >= offset
        {
            at = start as usize + piece.len();
            open = Some(start);
        }
        loop {
            let next = self.pieces.range(at as u32..).next();
            let next = next.map(|(&start, piece)| (start as usize, piece.len()));
            let until = next.map_or(end, |(start, _)| start.min(end));
            if until > at {
                let new_bytes = &bytes[at - offset..until - offset];
                self.pieces_bytes += new_bytes.len() as u32;
                let piece = self
                    .pieces
                    .entry(*open.get_or_insert(at as u32))
                    .or_default();
                grow(piece, new_bytes.len());
                piece.extend_from_slice(new_bytes);
                at = until;
            }
            let Some((start, length)) = next.filter(|&(start, _)| start == at) else {
                return;
            };
            // The next piece begins where this one ends.
            at = start + length;
            open = match open {
                Some(open) if length <= JOIN_BYTES => {
                    self.join(open, start as u32);
                    Some(open)
                }
                _ => Some(start as u32),
            };
            if at > end {
                return;
            }
        }
    }

    /// Appends one piece to another, which ends where it begins.
    fn join(&mut self, first: u32, second: u32) {
        let second = self.pieces.remove(&second).unwrap_or_default();
        self.note_moved(second.len());
        if let Some(first) = self.pieces.get_mut(&first) {
            grow(first, second.len());
            first.extend_from_slice(&second);
        }
    }

    /// Moves all pieces into the buffer, with gaps between them.
    fn flatten(&mut self) {
        let (from, to) = (self.data.len(), self.extent());
        if to == from {
            return;
        }
        grow(&mut self.data, to - from);
        self.data.resize(to, 0);
        let holes = self.holes.get_or_insert_with(|| Box::new(Holes::new(from)));
        holes.extend(to);
        for (at, piece) in std::mem::take(&mut self.pieces) {
            let range = at as usize..at as usize + piece.len();
            holes.fill(range.clone());
            self.data[range].copy_from_slice(&piece);
            self.pieces_bytes -= piece.len() as u32;
        }
        self.note_moved(to - from);
    }

    /// The bytes that have arrived, with zeros in the gaps, and the missing ranges.
    pub(super) fn give_up(mut self) -> (Bytes, Missing) {
        self.flatten();
        let missing = Missing {
            ranges: self.holes.take().map_or(Vec::new(), |holes| holes.ranges()),
            is_cut: self.length.is_none(),
        };
        (self.finish(), missing)
    }

    /// The complete ADU.
    pub(super) fn finish(mut self) -> Bytes {
        let spare = self.data.capacity() - self.data.len();
        if spare > self.data.len() / 8 {
            self.data.shrink_to_fit();
        }
        Bytes::from(self.data)
    }

    fn note_moved(&mut self, bytes: usize) {
        #[cfg(test)]
        {
            self.moved += bytes;
        }
        #[cfg(not(test))]
        let _ = bytes;
    }
}

/// Reserves capacity for `more` bytes. A quarter at a time: held bytes are counted by the buffer's length.
fn grow(buffer: &mut Vec<u8>, more: usize) {
    if buffer.capacity() - buffer.len() < more {
        buffer.reserve_exact(more.max(buffer.len() / 4));
    }
}

#[cfg(test)]
mod tests;
