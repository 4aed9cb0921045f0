//! A file that is being written, and the part of a file that is present.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
    time::Instant,
};

use super::{error::TransferError, holes::hash_zeros, write_behind::WriteBehind};

const COPY_BYTES: usize = 1 << 20;

/// The part of a file that is present.
#[derive(Clone, Debug)]
pub(crate) struct Have {
    pub(crate) bytes: u64,
    /// Hash of these bytes.
    pub(crate) hash: blake3::Hash,
    /// State of the same hash, to continue at the first missing byte; about 2 kB, and `None` for a file that is complete.
    pub(crate) hasher: Option<Box<blake3::Hasher>>,
}

impl Default for Have {
    /// No bytes.
    fn default() -> Self {
        let hasher = blake3::Hasher::new();
        Self {
            bytes: 0,
            hash: hasher.finalize(),
            hasher: Some(Box::new(hasher)),
        }
    }
}

/// A file being written.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) hasher: Box<blake3::Hasher>,
    pub(crate) position: u64,
    pub(super) behind: WriteBehind,
}

impl Sink {
    /// Leaves a hole of so many bytes, which read as zeros.
    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), TransferError> {
        let end = self.position.saturating_add(bytes);
        self.file
            .set_len(end)
            .and_then(|()| self.file.seek(SeekFrom::Start(end)))
            .map_err(TransferError::write(&self.path))?;
        hash_zeros(&mut self.hasher, bytes);
        self.position = end;
        Ok(())
    }

    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), TransferError> {
        self.file
            .write_all(data)
            .map_err(TransferError::write(&self.path))?;
        self.hasher.update(data);
        self.position += data.len() as u64;
        self.behind
            .wrote(&self.file, self.position, Instant::now())
            .map_err(TransferError::write(&self.path))?;
        Ok(())
    }
}

/// Hashes up to `bytes` from the start; returns how many there were.
pub(crate) fn hash_prefix(
    file: &mut File,
    bytes: u64,
    hasher: &mut blake3::Hasher,
) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(bytes).unwrap_or(COPY_BYTES))];
    let mut rest = file.take(bytes);
    let mut done = 0;
    loop {
        // An empty buffer, for 0 bytes, reads nothing.
        match rest.read(&mut buffer)? {
            0 => return Ok(done),
            count => {
                hasher.update(&buffer[..count]);
                done += count as u64;
            }
        }
    }
}
