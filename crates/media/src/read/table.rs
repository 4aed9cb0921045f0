//! Tables in boxes, each read entry by entry through a small buffer, so that memory does not grow with the table.

use super::boxes::Header;
use crate::{
    error::{IndexError, corrupt},
    source::Source,
};

const BUFFER_BYTES: usize = 4 << 10;

/// Table of entries of a fixed width, read in order.
pub(super) struct Table {
    kind: [u8; 4],
    at: u64,
    left: u64,
    width: usize,
    buffer: Vec<u8>,
    taken: usize,
}

impl Table {
    /// `count` entries of `width` bytes from `at` on, which must lie in the box.
    pub(super) fn new(
        header: &Header,
        at: u64,
        count: u64,
        width: usize,
    ) -> Result<Self, IndexError> {
        let bytes = count.checked_mul(width as u64);
        if at > header.end || bytes.is_none_or(|bytes| bytes > header.end - at) {
            return Err(corrupt(
                header.kind,
                "it has fewer entries than it declares",
            ));
        }
        Ok(Self {
            kind: header.kind,
            at,
            left: count,
            width,
            buffer: Vec::new(),
            taken: 0,
        })
    }

    /// A table after version, flags and a count, as most are.
    pub(super) fn counted(
        source: &mut Source<'_>,
        header: &Header,
        width: usize,
    ) -> Result<Self, IndexError> {
        header.need(8)?;
        let count = source.u32(header.body + 4)?;
        Self::new(header, header.body + 8, u64::from(count), width)
    }

    /// Reads the next entry's bytes.
    pub(super) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<&[u8]>, IndexError> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.taken == self.buffer.len() {
            let entries = (BUFFER_BYTES / self.width).max(1) as u64;
            let bytes = entries.min(self.left) as usize * self.width;
            self.buffer.resize(bytes, 0);
            source.fill(self.at, &mut self.buffer, "a table")?;
            self.at += bytes as u64;
            self.taken = 0;
        }
        self.left -= 1;
        let start = self.taken;
        self.taken += self.width;
        Ok(Some(&self.buffer[start..self.taken]))
    }

    /// Reads the next entry as `N` words of 32 bits.
    pub(super) fn words<const N: usize>(
        &mut self,
        source: &mut Source<'_>,
    ) -> Result<Option<[u32; N]>, IndexError> {
        debug_assert_eq!(self.width, 4 * N);
        Ok(self.next(source)?.map(|entry| {
            let mut words = [0; N];
            for (word, bytes) in words.iter_mut().zip(entry.as_chunks::<4>().0) {
                *word = u32::from_be_bytes(*bytes);
            }
            words
        }))
    }

    /// Reads the next entry as `N` words; an error if there is none.
    pub(super) fn must<const N: usize>(
        &mut self,
        source: &mut Source<'_>,
    ) -> Result<[u32; N], IndexError> {
        let kind = self.kind;
        self.words(source)?
            .ok_or_else(|| corrupt(kind, "it covers fewer samples than there are"))
    }
}

/// Table of (count, value), read value by value.
pub(super) struct Runs {
    table: Table,
    left: u32,
    value: u32,
}

impl Runs {
    pub(super) fn new(source: &mut Source<'_>, header: &Header) -> Result<Self, IndexError> {
        Ok(Self {
            table: Table::counted(source, header, 8)?,
            left: 0,
            value: 0,
        })
    }

    pub(super) fn next(&mut self, source: &mut Source<'_>) -> Result<u32, IndexError> {
        while self.left == 0 {
            let [count, value] = self.table.must(source)?;
            self.left = count;
            self.value = value;
        }
        self.left -= 1;
        Ok(self.value)
    }
}
