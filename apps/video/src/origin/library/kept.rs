//! Indexes of earlier runs on disk: one file per video, in a folder that may be deleted at any time.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anabranch_media::Index;
use bytes::Bytes;

use super::place::Stamp;

/// Size of the header of a stored index: a digest of the version and the content.
const HEADER_BYTES: usize = 32;

/// A folder with indexes.
#[derive(Debug)]
pub(super) struct Kept {
    folder: PathBuf,
    /// The place that they belong to; several may share a folder.
    place: String,
}

impl Kept {
    pub(super) fn new(folder: PathBuf, place: String) -> Self {
        Self { folder, place }
    }

    /// The index of a video, if it is still the same and nothing is damaged.
    pub(super) fn read(&self, name: &str, stamp: &Stamp) -> Option<(Index, Bytes)> {
        let bytes = Bytes::from(fs::read(self.path(name)).ok()?);
        if bytes.get(..HEADER_BYTES)? != header(stamp, bytes.get(HEADER_BYTES..)?) {
            return None;
        }
        let encoded = bytes.slice(HEADER_BYTES..);
        Some((Index::decode(&encoded).ok()?, encoded))
    }

    /// Stores an index. If that fails it is made again the next time.
    pub(super) fn write(&self, name: &str, stamp: &Stamp, encoded: &[u8]) {
        let path = self.path(name);
        if let Err(error) = write(&path, stamp, encoded) {
            tracing::debug!(%error, path = %path.display(), "the index cannot be stored");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.place.as_bytes());
        // A separator: no name contains it.
        hasher.update(b"\n");
        hasher.update(name.as_bytes());
        let hash = hasher.finalize().to_hex();
        self.folder.join(format!("{}.index", &hash[..24]))
    }
}

/// Header of a stored index: identifies the version of the film, and protects the content.
fn header(stamp: &Stamp, encoded: &[u8]) -> [u8; HEADER_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key("anabranch 2026-11 video stored index");
    hasher.update(&stamp.bytes.to_be_bytes());
    hasher.update(&(stamp.mark.len() as u64).to_be_bytes());
    hasher.update(stamp.mark.as_bytes());
    hasher.update(encoded);
    *hasher.finalize().as_bytes()
}

fn write(path: &Path, stamp: &Stamp, encoded: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    let mut bytes = header(stamp, encoded).to_vec();
    bytes.extend_from_slice(encoded);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(mark: &str) -> Stamp {
        Stamp {
            bytes: 7,
            mark: mark.to_owned(),
        }
    }

    fn an_index() -> Bytes {
        let film = include_bytes!("../../../../../crates/media/tests/data/bikes.mp4");
        let mut source: &[u8] = film;
        let index = Index::read(&mut source, film.len() as u64).unwrap();
        Bytes::from(index.encode())
    }

    #[test]
    fn an_index_comes_back_for_the_same_version_only() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(folder.path().join("deep/er"), "here".to_owned());
        let encoded = an_index();
        assert!(kept.read("film", &stamp("a")).is_none());
        kept.write("film", &stamp("a"), &encoded);
        let (index, same) = kept.read("film", &stamp("a")).unwrap();
        assert_eq!(same, encoded);
        assert_eq!(index.encode(), encoded);
        assert!(kept.read("film", &stamp("b")).is_none());
        assert!(kept.read("other", &stamp("a")).is_none());
        let elsewhere = Kept::new(folder.path().join("deep/er"), "there".to_owned());
        assert!(elsewhere.read("film", &stamp("a")).is_none());
    }

    #[test]
    fn damaged_files_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(folder.path().to_owned(), "here".to_owned());
        let encoded = an_index();
        kept.write("film", &stamp("a"), &encoded);
        let path = kept.path("film");
        let good = fs::read(&path).unwrap();
        for at in [0, HEADER_BYTES, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert!(kept.read("film", &stamp("a")).is_none(), "byte {at}");
        }
        for length in [0, HEADER_BYTES - 1, HEADER_BYTES, good.len() - 1] {
            fs::write(&path, &good[..length]).unwrap();
            assert!(kept.read("film", &stamp("a")).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        let kept = Kept::new(file, "here".to_owned());
        kept.write("film", &stamp("a"), &an_index());
        assert!(kept.read("film", &stamp("a")).is_none());
    }
}
