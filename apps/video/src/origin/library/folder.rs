//! A directory with videos, including its folders. Links that lead out of it and hidden files are not in the catalogue.

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use super::{
    LibraryError,
    names::{self, VIDEOS_MAX, is_plain, is_video},
    place::{Catalogue, Film, Found, Place, ReadError, Stamp},
};

/// Maximum depth of folders.
const DEPTH_MAX: usize = 16;
/// Minimum interval between reads of the directory.
const RESCAN: Duration = Duration::from_secs(2);

/// A directory.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

/// A file in it.
#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    stamp: Stamp,
}

impl Folder {
    /// # Errors
    /// The directory cannot be read.
    pub(super) fn open(root: &Path) -> Result<Self, LibraryError> {
        let failed = |source| LibraryError::Folder {
            path: root.to_owned(),
            source,
        };
        let root = root.canonicalize().map_err(failed)?;
        fs::read_dir(&root).map_err(failed)?;
        Ok(Self { root })
    }

    /// The full path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.root
    }

    fn walk(&self, folder: &Path, depth: usize, found: &mut Catalogue) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(folder)?.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_plain(name)) else {
                continue;
            };
            if found.len() >= VIDEOS_MAX {
                tracing::warn!(
                    "the library has more than {VIDEOS_MAX} videos; the rest is left out"
                );
                return Ok(());
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if depth < DEPTH_MAX
                    && let Err(error) = self.walk(&path, depth + 1, found)
                {
                    tracing::warn!(%error, folder = %path.display(), "cannot be read");
                }
                continue;
            }
            // A link counts when its target is in the library.
            let is_inside = !kind.is_symlink()
                || path
                    .canonicalize()
                    .is_ok_and(|target| target.starts_with(&self.root));
            if !is_inside || !is_video(name) {
                continue;
            }
            if let Ok(metadata) = fs::metadata(&path)
                && metadata.is_file()
                && let Some(at) = self.inside(&path)
            {
                let stamp = stamp(&metadata);
                names::put(found, Found { at, stamp });
            }
        }
        Ok(())
    }

    /// Path relative to the directory, with slashes.
    fn inside(&self, path: &Path) -> Option<String> {
        let inside = path.strip_prefix(&self.root).ok()?;
        let parts: Option<Vec<_>> = inside.iter().map(|part| part.to_str()).collect();
        Some(parts?.join("/"))
    }
}

impl Place for Folder {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn rescan(&self) -> Duration {
        RESCAN
    }

    fn scan(&self) -> Result<Catalogue, LibraryError> {
        let mut found = Catalogue::new();
        let walked = self.walk(&self.root, 0, &mut found);
        walked.map_err(|source| LibraryError::Folder {
            path: self.root.clone(),
            source,
        })?;
        Ok(found)
    }

    fn open(&self, found: &Found) -> Result<Box<dyn Film>, ReadError> {
        let path = self.root.join(&found.at);
        let file = File::open(&path)?;
        // The open file counts, not what the walk saw.
        let stamp = stamp(&file.metadata()?);
        Ok(Box::new(Open { path, file, stamp }))
    }
}

impl Film for Open {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn gap_bytes(&self) -> usize {
        0
    }

    fn ahead_bytes(&self) -> usize {
        0
    }

    fn check(&self) -> Result<(), ReadError> {
        // Detects a new file under the old name, and an old file with new content.
        let now = fs::metadata(&self.path).map_err(|_| ReadError::Changed)?;
        let own = self.file.metadata()?;
        if stamp(&now) != self.stamp || stamp(&own) != self.stamp {
            return Err(ReadError::Changed);
        }
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ReadError> {
        Ok(read_at(&self.file, offset, into)?)
    }
}

/// Length, time, and the number in the file system, where there is one.
fn stamp(metadata: &Metadata) -> Stamp {
    let modified = metadata.modified().ok();
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_ns = modified.map_or(0, |time| time.as_nanos());
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let number = 0;
    Stamp {
        bytes: metadata.len(),
        mark: format!("{modified_ns} {number}"),
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

#[cfg(not(unix))]
fn read_at(file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_walked_and_what_leads_out_is_not_there() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.mp4"), b"x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let root = inside.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(root.join(".hidden")).unwrap();
        for at in ["film.mp4", "a/b/film.mov", ".hidden/film.mp4", "a/note.txt"] {
            fs::write(root.join(at), b"x").unwrap();
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink(outside.path().join("secret.mp4"), root.join("out.mp4")).unwrap();
            symlink(root.join("film.mp4"), root.join("same.mp4")).unwrap();
        }
        let found = Folder::open(root).unwrap().scan().unwrap();
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["a/b/film", "film", "same"]);
    }

    #[test]
    fn a_file_that_is_written_over_or_replaced_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mp4");
        fs::write(&path, b"first").unwrap();
        let place = Folder::open(folder.path()).unwrap();
        let found = place.scan().unwrap()["film"].clone();
        let film = place.open(&found).unwrap();
        film.check().unwrap();
        let mut two = [0; 2];
        film.read(3, &mut two).unwrap();
        assert_eq!(&two, b"st");
        fs::write(&path, b"longer than before").unwrap();
        assert!(matches!(film.check(), Err(ReadError::Changed)));
        let film = place.open(&found).unwrap();
        film.check().unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(film.check(), Err(ReadError::Changed)));
    }

    #[test]
    fn a_missing_folder_is_reported() {
        let error = Folder::open(Path::new("/nonexistent/films")).unwrap_err();
        let words = error.to_string();
        assert!(words.contains("/nonexistent/films"), "{words}");
    }
}
