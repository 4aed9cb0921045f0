//! Source of bytes at offsets: the caller's access to a file.

use std::io;

use crate::error::IndexError;

/// A file as bytes at offsets. A closure `FnMut(u64, &mut [u8]) -> io::Result<()>` is one, and so is `&[u8]`.
pub trait ReadAt {
    /// Fills `into` with the bytes from `offset` on. The crate never asks for bytes beyond the given file length, nor
    /// for more than 64 KiB at once.
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for &[u8] {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(into.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

impl<F: FnMut(u64, &mut [u8]) -> io::Result<()>> ReadAt for F {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self(offset, into)
    }
}

/// Bytes read ahead while boxes and tables are walked.
const WINDOW_BYTES: usize = 16 << 10;

/// A file of known length, read through a window.
pub(crate) struct Source<'a> {
    file: &'a mut dyn ReadAt,
    len: u64,
    window: Vec<u8>,
    /// Offset of the window in the file.
    window_at: u64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a mut dyn ReadAt, len: u64) -> Self {
        Self {
            file,
            len,
            window: Vec::new(),
            window_at: 0,
        }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Fills `into` from `offset`, bypassing the window.
    pub(crate) fn fill(
        &mut self,
        offset: u64,
        into: &mut [u8],
        what: &'static str,
    ) -> Result<(), IndexError> {
        let end = offset.saturating_add(into.len() as u64);
        if end > self.len {
            let len = self.len;
            return Err(IndexError::Truncated { what, end, len });
        }
        self.file
            .read_at(offset, into)
            .map_err(|cause| IndexError::Io { offset, cause })
    }

    /// Reads `N` bytes at `offset` through the window: for boxes and tables, which are adjacent.
    pub(crate) fn array<const N: usize>(
        &mut self,
        offset: u64,
        what: &'static str,
    ) -> Result<[u8; N], IndexError> {
        let end = offset.saturating_add(N as u64);
        if end > self.len {
            let len = self.len;
            return Err(IndexError::Truncated { what, end, len });
        }
        let is_inside =
            offset >= self.window_at && end <= self.window_at + self.window.len() as u64;
        if !is_inside {
            let bytes = (self.len - offset).min(WINDOW_BYTES as u64) as usize;
            let mut window = std::mem::take(&mut self.window);
            window.resize(bytes.max(N), 0);
            self.fill(offset, &mut window, what)?;
            self.window = window;
            self.window_at = offset;
        }
        let start = (offset - self.window_at) as usize;
        let mut out = [0; N];
        out.copy_from_slice(&self.window[start..start + N]);
        Ok(out)
    }

    pub(crate) fn u32(&mut self, offset: u64) -> Result<u32, IndexError> {
        self.array(offset, "a box").map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self, offset: u64) -> Result<u64, IndexError> {
        self.array(offset, "a box").map(u64::from_be_bytes)
    }
}
