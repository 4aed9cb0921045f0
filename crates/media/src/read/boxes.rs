//! Boxes of ISO/IEC 14496-12: a size, four characters, a body.

use crate::{
    error::{IndexError, corrupt},
    source::Source,
};

/// Most boxes in one box, and at the top of a file.
const CHILDREN_MAX: usize = 4_096;
pub(super) const TOP_MAX: usize = 1 << 20;

/// One box.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) kind: [u8; 4],
    pub(crate) start: u64,
    pub(crate) body: u64,
    pub(crate) end: u64,
}

impl Header {
    /// Reads the box at `at`, which must end by `end`; `None` at `end`.
    pub(crate) fn read(
        source: &mut Source<'_>,
        at: u64,
        end: u64,
    ) -> Result<Option<Self>, IndexError> {
        // Fewer bytes than a box needs: some writers leave four zeros at the end of a list.
        if at + 8 > end {
            return Ok(None);
        }
        let size = source.u32(at)?;
        let kind = source.array::<4>(at + 4, "a box")?;
        let (size, body) = match size {
            0 => (end - at, at + 8),
            1 if at + 16 <= end => (source.u64(at + 8)?, at + 16),
            size => (u64::from(size), at + 8),
        };
        let box_end = at
            .checked_add(size)
            .ok_or_else(|| corrupt(kind, "its size overflows"))?;
        if box_end < body {
            return Err(corrupt(kind, "it is smaller than its header"));
        }
        if box_end > end {
            if end == source.len() {
                return Err(IndexError::Truncated {
                    what: "a box",
                    end: box_end,
                    len: end,
                });
            }
            return Err(corrupt(kind, "it reaches beyond the box around it"));
        }
        Ok(Some(Self {
            kind,
            start: at,
            body,
            end: box_end,
        }))
    }

    /// The boxes from `at` to the end of this one.
    pub(crate) fn children_from(
        &self,
        source: &mut Source<'_>,
        mut at: u64,
    ) -> Result<Vec<Self>, IndexError> {
        let mut children = Vec::new();
        while let Some(child) = Self::read(source, at, self.end)? {
            if children.len() == CHILDREN_MAX {
                return Err(corrupt(self.kind, "it holds too many boxes"));
            }
            at = child.end;
            children.push(child);
        }
        Ok(children)
    }

    /// The boxes in this one.
    pub(crate) fn children(&self, source: &mut Source<'_>) -> Result<Vec<Self>, IndexError> {
        self.children_from(source, self.body)
    }

    /// Size of the body in bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.end - self.body
    }

    /// Version and flags of a full box.
    pub(crate) fn version(&self, source: &mut Source<'_>) -> Result<(u8, u32), IndexError> {
        self.need(4)?;
        let word = source.u32(self.body)?;
        Ok(((word >> 24) as u8, word & 0xff_ffff))
    }

    /// Checks that the body has `bytes` bytes.
    pub(crate) fn need(&self, bytes: u64) -> Result<(), IndexError> {
        if self.len() < bytes {
            return Err(corrupt(self.kind, "it is too short"));
        }
        Ok(())
    }
}

/// Finds the first box of a kind.
pub(crate) fn find(boxes: &[Header], kind: &[u8; 4]) -> Option<Header> {
    boxes.iter().find(|header| header.kind == *kind).copied()
}

/// Finds the first box of a kind; an error if there is none.
pub(crate) fn require(
    boxes: &[Header],
    kind: &[u8; 4],
    inside: [u8; 4],
) -> Result<Header, IndexError> {
    find(boxes, kind).ok_or_else(|| corrupt(inside, "a box that it must hold is missing"))
}
