//! Builder of one container, from its capacity to its bytes.

use crate::{
    send::Piece,
    wire::{
        Control,
        frame::{Place, fragment_overhead, write_fragment},
    },
};

/// A container being filled. Fragments are planned first and written last, because only the last of
/// them may omit its length.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) bytes: Vec<u8>,
    capacity: usize,
    pub(super) controls: Vec<Control>,
    /// Bytes that the planned fragments will take.
    planned: usize,
    /// True if nothing more may be added.
    pub(super) closed: bool,
}

impl Builder {
    pub(super) fn new(bytes: Vec<u8>, capacity: usize) -> Self {
        Self {
            bytes,
            capacity,
            controls: Vec::new(),
            planned: 0,
            closed: false,
        }
    }

    /// Bytes left.
    pub(super) fn remaining(&self) -> usize {
        if self.closed {
            return 0;
        }
        self.capacity
            .saturating_sub(self.bytes.len() + self.planned)
    }

    /// Plans a fragment; all but the last will carry a length.
    pub(super) fn add(&mut self, piece: &Piece) {
        self.planned += planned_bytes(piece);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.controls.is_empty()
    }

    /// Writes a single fragment at once.
    pub(super) fn write_only(&mut self, place: Place, is_final: bool, payload: &[u8]) {
        write_fragment(&mut self.bytes, place, is_final, false, payload);
    }
}

/// Bytes that a piece takes in a container, its length included.
pub(super) fn planned_bytes(piece: &Piece) -> usize {
    fragment_overhead(piece.place, true) + piece.data.len()
}
