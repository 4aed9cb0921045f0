//! Reading of a source's files into records, on a thread of its own.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

use super::{
    error::TransferError,
    holes::{self, HOLE_BYTES_MAX, hash_zeros},
    manifest::Manifest,
    message::{CHUNK_HEADER_BYTES, Record},
    progress::Progress,
    send::ReadSend,
    sink::hash_prefix,
    source::Origin,
};

/// Bytes of one chunk: large enough that the cost per ADU is negligible, small enough that losing one in an interruption is
/// cheap.
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Limit on the bytes of a file that is sent together with others.
const WHOLE_BYTES_MAX: u64 = 64 << 10;

/// The part of one entry that the receiver has, just read from its disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) bytes: u64,
    pub(super) hash: blake3::Hash,
    /// True if this is the whole file, and was compared with its content; it is not read again.
    pub(super) is_same: bool,
    /// True of an update if it is not in its place yet.
    pub(super) waits: bool,
}

/// Sources of the data of a transfer.
pub(super) enum Origins {
    Paths(Vec<Origin>),
    Reader(Box<dyn ReadSend>),
}

/// Small files that are sent together: alone, each would cost as much as a large record.
struct Pack<'a> {
    records: &'a mpsc::Sender<Bytes>,
    record: BytesMut,
    /// Bytes from which on it is sent.
    bytes: usize,
}

impl Pack<'_> {
    /// Adds a whole file; false once no consumer takes the records.
    fn add(&mut self, index: u32, data: &[u8]) -> bool {
        Record::add_whole(&mut self.record, index, blake3::hash(data).as_bytes(), data);
        self.record.len() < self.bytes || self.flush()
    }

    /// Sends what was added; false once no consumer takes the records.
    fn flush(&mut self) -> bool {
        if self.record.is_empty() {
            return true;
        }
        let record = std::mem::take(&mut self.record);
        self.records.blocking_send(record.freeze()).is_ok()
    }
}

/// Turns everything into records, on a thread of its own.
pub(super) struct Reading<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) known: &'a [Option<Known>],
    pub(super) records: &'a mpsc::Sender<Bytes>,
    /// Revision of the protocol that the receiver speaks.
    pub(super) revision: u32,
    /// Limit on the bytes of one chunk.
    pub(super) chunk_bytes: usize,
}

impl Reading<'_> {
    /// Reads all files. Ends quietly once no consumer takes the records.
    pub(super) fn all(&self, origins: Origins, progress: &Progress) -> Result<(), TransferError> {
        match origins {
            Origins::Reader(mut reader) => {
                let mut chunks = self.chunks(0, Path::new(&self.manifest.name));
                let start = (0, blake3::Hasher::new());
                let Some((size, hasher)) = chunks.read(&mut reader, start, None)? else {
                    return Ok(());
                };
                if !chunks.end(size, hasher.finalize()) {
                    return Ok(());
                }
            }
            Origins::Paths(origins) => {
                let mut pack = Pack {
                    records: self.records,
                    record: BytesMut::new(),
                    bytes: self.chunk_bytes,
                };
                let entries = self.manifest.entries.iter().zip(&origins).zip(0..);
                for ((entry, origin), index) in entries {
                    let Some(size) = entry.size_bytes.filter(|_| !entry.is_directory) else {
                        continue;
                    };
                    let is_small = size <= WHOLE_BYTES_MAX && self.revision >= 1;
                    let goes_on = if is_small && self.known[index as usize].is_none() {
                        pack.add(index, &whole(origin, size)?)
                    } else {
                        pack.flush() && self.file(index, size, origin, progress)?
                    };
                    if !goes_on {
                        return Ok(());
                    }
                }
                if !pack.flush() {
                    return Ok(());
                }
            }
        }
        let _ = self.records.blocking_send(Record::End.encode());
        Ok(())
    }

    /// Reads one file; false once no consumer takes the records.
    fn file(
        &self,
        index: u32,
        size: u64,
        origin: &Origin,
        progress: &Progress,
    ) -> Result<bool, TransferError> {
        let mut file = origin.open()?;
        let path = origin.path();
        let known = self.known[index as usize];
        if let Some(same) = known.filter(|known| known.is_same) {
            // Opening has checked that it did not change since.
            return Ok(self.chunks(index, path).end(size, same.hash));
        }
        let (mut at, mut hasher) = resume(&mut file, known).map_err(TransferError::read(path))?;
        progress.resumed(at);
        let ranges = match self.revision >= 1 {
            true => holes::ranges(&file, at, size).map_err(TransferError::read(path))?,
            false => Vec::new(),
        };
        let mut chunks = self.chunks(index, path);
        // The last range is read to the end of the file, which may have become longer.
        let last = ranges.last().is_none_or(|last| !last.is_hole);
        let to_end = ranges.len() - usize::from(last && !ranges.is_empty());
        for range in &ranges[..to_end] {
            if range.is_hole {
                if !chunks.skip(at, range.end) {
                    return Ok(false);
                }
                hash_zeros(&mut hasher, range.end - at);
                at = range.end;
                let moved = file.seek(SeekFrom::Start(at));
                moved.map_err(TransferError::read(path))?;
                continue;
            }
            let mut part = (&mut file).take(range.end - at);
            let Some(read) = chunks.read(&mut part, (at, hasher), Some(range.end))? else {
                return Ok(false);
            };
            (at, hasher) = read;
            if at != range.end {
                return Err(origin.changed());
            }
        }
        let Some((read, hasher)) = chunks.read(&mut file, (at, hasher), Some(size))? else {
            return Ok(false);
        };
        if read != size {
            return Err(origin.changed());
        }
        // The receiver confirms what was read, which must still be the content of the file.
        origin.check(&file)?;
        Ok(chunks.end(size, hasher.finalize()))
    }

    fn chunks<'a>(&'a self, index: u32, path: &'a Path) -> Chunks<'a> {
        Chunks {
            index,
            path,
            records: self.records,
            chunk_bytes: self.chunk_bytes,
        }
    }
}

/// Content of a small file that is still what was offered.
fn whole(origin: &Origin, size: u64) -> Result<Vec<u8>, TransferError> {
    let file = origin.open()?;
    let mut data = Vec::with_capacity(size as usize + 1);
    (&file)
        .take(size + 1)
        .read_to_end(&mut data)
        .map_err(TransferError::read(origin.path()))?;
    if data.len() as u64 != size {
        return Err(origin.changed());
    }
    origin.check(&file)?;
    Ok(data)
}

/// Position at which to start: after the part that the receiver has, if it matches the file. If the receiver has the whole
/// file, all of it is read and compared.
fn resume(file: &mut File, known: Option<Known>) -> std::io::Result<(u64, blake3::Hasher)> {
    let mut hasher = blake3::Hasher::new();
    if let Some(known) = known.filter(|known| known.bytes > 0) {
        let read = hash_prefix(file, known.bytes, &mut hasher)?;
        if read == known.bytes && hasher.finalize() == known.hash {
            return Ok((read, hasher));
        }
        file.seek(SeekFrom::Start(0))?;
        hasher.reset();
    }
    Ok((0, hasher))
}

/// The records of one file.
struct Chunks<'a> {
    index: u32,
    path: &'a Path,
    records: &'a mpsc::Sender<Bytes>,
    chunk_bytes: usize,
}

impl Chunks<'_> {
    /// Reads from the current position to the end, or to one byte after `size`. Returns the bytes and the state of the hash of the file so far;
    /// `None` once no consumer takes the records.
    fn read(
        &mut self,
        reader: &mut dyn Read,
        (mut offset, mut hasher): (u64, blake3::Hasher),
        size: Option<u64>,
    ) -> Result<Option<(u64, blake3::Hasher)>, TransferError> {
        loop {
            // One byte more than is left shows the end, or that the file has grown.
            let left = size.map_or(u64::MAX, |size| size.saturating_sub(offset) + 1);
            let capacity = (self.chunk_bytes as u64).min(left) as usize;
            let mut record = Vec::with_capacity(CHUNK_HEADER_BYTES + capacity);
            Record::begin_chunk(&mut record, self.index, offset);
            let count = (&mut *reader)
                .take(self.chunk_bytes as u64)
                .read_to_end(&mut record)
                .map_err(TransferError::read(self.path))?;
            hasher.update(&record[CHUNK_HEADER_BYTES..]);
            offset += count as u64;
            // A file that grows differs from the one offered.
            let is_longer = size.is_some_and(|size| offset > size);
            if count == 0 || is_longer {
                return Ok(Some((offset, hasher)));
            }
            if self.records.blocking_send(record.into()).is_err() {
                return Ok(None);
            }
        }
    }

    /// Sends a hole as records; false if there is no consumer.
    fn skip(&self, from: u64, to: u64) -> bool {
        let mut offset = from;
        while offset < to {
            let bytes = (to - offset).min(HOLE_BYTES_MAX);
            let hole = Record::Hole {
                index: self.index,
                offset,
                bytes,
            };
            if self.records.blocking_send(hole.encode()).is_err() {
                return false;
            }
            offset += bytes;
        }
        true
    }

    /// Sends size and hash of the file; false if there is no consumer.
    fn end(&self, size: u64, hash: blake3::Hash) -> bool {
        let end = Record::FileEnd {
            index: self.index,
            size,
            hash: *hash.as_bytes(),
        };
        self.records.blocking_send(end.encode()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;
    use crate::transfer::{selection::Selection, source::Found};

    /// Changed while it is read, with the same size, and with the old time restored.
    #[test]
    fn a_source_that_changes_while_it_is_read_is_named_and_not_confirmed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, vec![1; 20 * CHUNK_BYTES]).unwrap();
        let found = Found::read(&Selection::new(&path)).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let (records, mut queue) = mpsc::channel(2);
        let reading = std::thread::spawn(move || {
            let reading = Reading {
                manifest: &found.manifest,
                known: &[None],
                records: &records,
                revision: 1,
                chunk_bytes: CHUNK_BYTES,
            };
            reading.all(Origins::Paths(found.origins), &Progress::default())
        });
        queue.blocking_recv().unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::End(-1)).unwrap();
        file.write_all(&[2]).unwrap();
        file.set_modified(modified).unwrap();
        while let Some(record) = queue.blocking_recv() {
            assert_eq!(record[0], 0, "no record of the file's end");
        }
        let error = reading.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("log changed"), "{error}");
    }

    #[test]
    fn a_source_that_grows_without_end_is_not_read_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, vec![1; CHUNK_BYTES]).unwrap();
        let (records, mut queue) = mpsc::channel(100);
        let mut chunks = Chunks {
            index: 0,
            path: &path,
            records: &records,
            chunk_bytes: CHUNK_BYTES,
        };
        let start = (0, blake3::Hasher::new());
        let read = chunks.read(&mut std::io::repeat(1), start, Some(10));
        assert!(read.unwrap().unwrap().0 > 10);
        assert!(queue.try_recv().is_err());
    }
}
