//! File of a record: a line of JSON for each entry. When it is full it becomes the earlier file, in place of the one before.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::Entry;
use crate::whole_file::private;

/// Bytes of each of the two files: some 10,000 entries.
pub const BYTES_MAX: u64 = 4 << 20;

/// The file that was full before.
fn earlier(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Adds entries, for the user who runs the node only.
pub(super) fn append(path: &Path, entries: &[Entry]) -> io::Result<()> {
    append_up_to(path, entries, BYTES_MAX)
}

fn append_up_to(path: &Path, entries: &[Entry], bytes_max: u64) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        private(&mut options).open(path)
    };
    let mut lines = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut lines, entry)?;
        lines.push(b'\n');
    }
    let mut file = open()?;
    let length = file.metadata()?.len();
    if length > 0 && length + lines.len() as u64 > bytes_max {
        fs::rename(path, earlier(path))?;
        file = open()?;
    } else if length > 0 {
        // A node that was killed may have left half a line.
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            lines.insert(0, b'\n');
        }
    }
    file.write_all(&lines)
}

/// All entries of both files, oldest first; lines that are no entries are left out.
pub(super) fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in [earlier(path), path.to_owned()] {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            bytes => bytes?,
        };
        let lines = bytes.split(|byte| *byte == b'\n');
        entries.extend(lines.filter_map(|line| serde_json::from_slice::<Entry>(line).ok()));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::{super::entry::sample as entry, *};

    #[test]
    fn what_is_written_is_read_and_damage_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/promises");
        assert_eq!(read(&path).unwrap(), []);
        append(&path, &[entry(1), entry(2)]).unwrap();
        let mut text = fs::read(&path).unwrap();
        text.extend(b"no entry\n{\"unix_ms\": 3, \"pe");
        fs::write(&path, text).unwrap();
        append(&path, &[entry(4)]).unwrap();
        assert_eq!(read(&path).unwrap(), [entry(1), entry(2), entry(4)]);
    }

    #[test]
    fn two_files_of_bounded_size_hold_the_latest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("promises");
        for number in 0..1_000 {
            append_up_to(&path, &[entry(number)], 4_000).unwrap();
            for path in [earlier(&path), path.clone()] {
                let length = fs::metadata(path).map_or(0, |meta| meta.len());
                assert!(length <= 4_000, "{length}");
            }
        }
        let kept = read(&path).unwrap();
        assert!((15..50).contains(&kept.len()), "{}", kept.len());
        let first = 1_000 - kept.len() as u64;
        assert!(kept.iter().map(|entry| entry.unix_ms).eq(first..1_000));
    }
}
