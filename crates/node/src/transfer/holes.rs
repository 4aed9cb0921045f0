//! Holes of sparse files: ranges that read as zeros and occupy no space.

use std::{fs::File, io};

/// Shortest hole that is kept: smaller ones cost more as records than as zeros.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "holes are found on Linux only")
)]
const HOLE_BYTES_MIN: u64 = 64 << 10;

/// Limit on the bytes of one hole in a record, so that a receiver hashes no endless one.
pub(super) const HOLE_BYTES_MAX: u64 = 1 << 30;

/// A range of a file, from the byte after the last of the range before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) end: u64,
    pub(super) is_hole: bool,
}

/// Ranges of the file from `start` to `size`; one range of data if it has no holes, or the system knows of none. Does not change
/// the position of the file if it has none.
///
/// # Errors
/// The file cannot be read.
pub(super) fn ranges(file: &File, start: u64, size: u64) -> io::Result<Vec<Range>> {
    let mut ranges = Vec::new();
    if is_sparse(file)? {
        system::find(file, start, size, &mut ranges)?;
    }
    if ranges.last().map_or(start, |last| last.end) < size || ranges.is_empty() {
        ranges.push(Range {
            end: size,
            is_hole: false,
        });
    }
    Ok(ranges)
}

/// Hashes as many zeros.
pub(super) fn hash_zeros(hasher: &mut blake3::Hasher, mut bytes: u64) {
    const ZEROS: &[u8] = &[0; 64 << 10];
    while bytes > 0 {
        let step = bytes.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..step as usize]);
        bytes -= step;
    }
}

/// True if the file occupies less space than its size.
fn is_sparse(file: &File) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let metadata = file.metadata()?;
        let used = metadata.blocks().saturating_mul(512);
        Ok(metadata.len() >= HOLE_BYTES_MIN && used < metadata.len())
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        Ok(false)
    }
}

/// Adds a range, joined with the last one where both are data or the hole is short.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "holes are found on Linux only")
)]
fn add(ranges: &mut Vec<Range>, from: u64, range: Range) {
    let is_hole = range.is_hole && range.end - from >= HOLE_BYTES_MIN;
    match ranges.last_mut() {
        Some(last) if last.is_hole == is_hole => last.end = range.end,
        _ => ranges.push(Range { is_hole, ..range }),
    }
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::{
        fs::{SeekFrom, seek},
        io::Errno,
    };

    use super::{File, Range, add, io};

    pub(super) fn find(
        file: &File,
        start: u64,
        size: u64,
        ranges: &mut Vec<Range>,
    ) -> io::Result<()> {
        let mut at = start;
        while at < size {
            let data = match seek(file, SeekFrom::Data(at)) {
                Ok(data) => data.min(size),
                // Nothing but a hole up to the end.
                Err(Errno::NXIO) => size,
                // The file system has no holes.
                Err(Errno::INVAL | Errno::NOTSUP) => break,
                Err(error) => return Err(error.into()),
            };
            if data > at {
                let hole = Range {
                    end: data,
                    is_hole: true,
                };
                add(ranges, at, hole);
            }
            if data == size {
                break;
            }
            at = seek(file, SeekFrom::Hole(data))?.min(size);
            let filled = Range {
                end: at,
                is_hole: false,
            };
            add(ranges, data, filled);
        }
        seek(file, SeekFrom::Start(start))?;
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{File, Range, io};

    pub(super) fn find(_: &File, _: u64, _: u64, _: &mut Vec<Range>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Seek, SeekFrom, Write},
        os::unix::fs::MetadataExt,
    };

    use super::*;

    #[test]
    fn ranges_cover_the_file_and_tell_holes_from_data() {
        const MIB: u64 = 1 << 20;
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(
            ranges(&file, 0, 0).unwrap(),
            [Range {
                end: 0,
                is_hole: false
            }]
        );
        file.seek(SeekFrom::Start(4 * MIB)).unwrap();
        file.write_all(&[1; MIB as usize]).unwrap();
        file.set_len(9 * MIB).unwrap();
        for start in [0, 5, 4 * MIB, 4 * MIB + 9, 6 * MIB, 9 * MIB] {
            let found = ranges(&file, start, 9 * MIB).unwrap();
            assert_eq!(found.last().unwrap().end, 9 * MIB);
            assert!(found.windows(2).all(|pair| pair[0].end < pair[1].end));
            let holes = found
                .windows(2)
                .all(|pair| pair[0].is_hole != pair[1].is_hole);
            assert!(holes, "{found:?}");
        }
        if file.metadata().unwrap().blocks() * 512 < 9 * MIB {
            let found = ranges(&file, 0, 9 * MIB).unwrap();
            assert!(found[0].is_hole && found[0].end <= 4 * MIB, "{found:?}");
            assert!(found.last().unwrap().is_hole, "{found:?}");
        }
    }
}
