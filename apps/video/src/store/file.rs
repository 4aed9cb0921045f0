//! File format of the store: one part per file.
//!
//! ```text
//!  0      8         24       28        36                 68
//! +------+---------+--------+---------+------------------+------ …
//! | name | video   | part   | length  | BLAKE3 of all    | data
//! |      | key     |        |         | but this field   |
//! +------+---------+--------+---------+------------------+------ …
//! ```
//! Numbers are in network byte order. A part is its kind in the upper two bits, its chunk in the others.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use bytes::Bytes;

use super::{Part, VideoKey};

/// Size of the header.
pub(super) const HEADER_BYTES: u64 = 68;
/// Prefix of the names of files that are being written.
pub(super) const TEMPORARY: &str = "tmp-";
const NAME: &[u8; 8] = b"anabrV1\n";
/// Maximum size of the data; a chunk of 10 s at 1.6 Gbit/s.
const DATA_BYTES_MAX: u64 = 2 << 30;

pub(super) fn header(key: VideoKey, part: Part, data: &[u8]) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(NAME);
    header[8..24].copy_from_slice(&key.0);
    header[24..28].copy_from_slice(&number(part).to_be_bytes());
    header[28..36].copy_from_slice(&(data.len() as u64).to_be_bytes());
    let hash = checksum(&header[..36], data);
    header[36..].copy_from_slice(&hash);
    header
}

fn checksum(head: &[u8], data: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head);
    hasher.update(data);
    *hasher.finalize().as_bytes()
}

fn number(part: Part) -> u32 {
    const CHUNK: u32 = (1 << 30) - 1;
    match part {
        Part::Index => 0,
        Part::Essential(chunk) => 1 << 30 | chunk & CHUNK,
        Part::Enhanced(chunk) => 2 << 30 | chunk & CHUNK,
    }
}

/// Reads and checks a file; `InvalidData` when it is not the file written for this part.
pub(super) fn read(path: &Path, key: VideoKey, part: Part) -> io::Result<Bytes> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    parse(file, length, key, part)
}

/// The data of a file of `length` bytes, if the file is of this part and complete.
///
/// # Errors
/// It cannot be read, or is something else.
pub(super) fn parse(
    mut file: impl Read,
    length: u64,
    key: VideoKey,
    part: Part,
) -> io::Result<Bytes> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut head = [0; HEADER_BYTES as usize];
    file.read_exact(&mut head).map_err(|_| invalid())?;
    let length = length.saturating_sub(HEADER_BYTES);
    if length > DATA_BYTES_MAX || head[28..36] != length.to_be_bytes() {
        return Err(invalid());
    }
    let mut data = Vec::with_capacity(usize::try_from(length).map_err(|_| invalid())?);
    file.take(length).read_to_end(&mut data)?;
    if header(key, part, &data) != head {
        return Err(invalid());
    }
    Ok(data.into())
}

/// Writes `parts`, one after the other, to the file `path`, whole or not at all; `is_durable`: on disk when this returns.
pub(super) fn replace_with(
    path: &Path,
    temporary: &Path,
    parts: &[&[u8]],
    is_durable: bool,
) -> io::Result<()> {
    let written = (|| {
        let mut file = File::create(temporary)?;
        for part in parts {
            file.write_all(part)?;
        }
        if is_durable {
            file.sync_all()?;
        }
        drop(file);
        fs::rename(temporary, path)?;
        if is_durable && let Some(folder) = path.parent() {
            // Syncs the name, too; where folders cannot be opened, the system does it.
            match File::open(folder) {
                Ok(folder) => folder.sync_all()?,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })();
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
    written
}

/// [`replace_with`] of one part.
pub(super) fn replace(
    path: &Path,
    temporary: &Path,
    data: &[u8],
    is_durable: bool,
) -> io::Result<()> {
    replace_with(path, temporary, &[data], is_durable)
}
