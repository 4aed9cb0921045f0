//! What there is to send: read from the sender's disk, checked by the receiver.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use super::{
    error::TransferError,
    message::{Entry, Kind},
};

/// Entries taken in one transfer.
pub const ENTRIES_MAX: u64 = 200_000;
/// Parts of a path.
const DEPTH_MAX: usize = 64;
/// Bytes of one part, what file systems take.
const NAME_BYTES_MAX: usize = 255;

/// A transfer's kind, name and entries. The entry's place in the list is its index everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) entries: Vec<Entry>,
}

impl Manifest {
    /// Reads a file or directory; the paths of the entries on this disk come with it.
    pub(crate) fn read(source: &Path) -> Result<(Self, Vec<PathBuf>), TransferError> {
        let source = source.canonicalize().map_err(TransferError::read(source))?;
        let metadata = fs::metadata(&source).map_err(TransferError::read(&source))?;
        let name = name_of(&source)?;
        let mut entries = Vec::new();
        let mut paths = Vec::new();
        let kind = if metadata.is_dir() {
            walk(
                &source,
                std::slice::from_ref(&name),
                &mut entries,
                &mut paths,
            )?;
            Kind::Directory
        } else if metadata.is_file() {
            entries.push(entry(vec![name.clone()], &metadata));
            paths.push(source);
            Kind::File
        } else {
            return Err(TransferError::NotAFile { path: source });
        };
        let manifest = Self {
            kind,
            name,
            entries,
        };
        manifest.check_number()?;
        Ok((manifest, paths))
    }

    /// Bytes whose end is not known, under this name.
    pub(crate) fn stream(name: &str) -> Self {
        Self {
            kind: Kind::Stream,
            name: name.to_owned(),
            entries: vec![Entry {
                path: vec![name.to_owned()],
                is_directory: false,
                size_bytes: None,
                modified_ns: 0,
                is_executable: false,
            }],
        }
    }

    pub(crate) fn files(&self) -> u64 {
        self.entries
            .iter()
            .filter(|entry| !entry.is_directory)
            .count() as u64
    }

    /// Saturates on absurd claims of a peer.
    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.entries.iter().filter_map(|entry| entry.size_bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Tells whether two attempts move the same thing.
    pub(crate) fn digest(&self) -> String {
        let text = serde_json::to_vec(&(self.kind, &self.name, &self.entries))
            .expect("a manifest is made of texts and numbers");
        blake3::hash(&text).to_hex().to_string()
    }

    fn check_number(&self) -> Result<(), TransferError> {
        let entries = self.entries.len() as u64;
        if entries > ENTRIES_MAX {
            return Err(TransferError::TooMany {
                entries,
                most: ENTRIES_MAX,
            });
        }
        Ok(())
    }

    /// Refuses a manifest from a peer that could write anywhere but under its own name.
    pub(crate) fn check(&self) -> Result<(), TransferError> {
        self.check_number()?;
        check_name(&self.name, &self.name)?;
        let refuse = |entry: &Entry, reason| {
            Err(TransferError::Path {
                path: entry.path.join("/"),
                reason,
            })
        };
        if self.entries.is_empty() {
            return Err(TransferError::Protocol("an offer without entries"));
        }
        if self.kind != Kind::Directory && self.entries.len() != 1 {
            return Err(TransferError::Protocol("a file with several entries"));
        }
        let mut seen = HashSet::new();
        let mut directories = HashSet::new();
        for (index, entry) in self.entries.iter().enumerate() {
            for part in &entry.path {
                check_name(part, &entry.path.join("/"))?;
            }
            if entry.path.first() != Some(&self.name) || entry.path.len() > DEPTH_MAX {
                return refuse(entry, "it does not lie under the transfer's name");
            }
            if !seen.insert(&entry.path) {
                return refuse(entry, "it occurs twice");
            }
            let is_root = entry.path.len() == 1;
            let fits = index == 0 && entry.is_directory == (self.kind == Kind::Directory);
            if is_root && !fits {
                return refuse(entry, "it does not fit the kind of transfer");
            }
            if !is_root && !directories.contains(&entry.path[..entry.path.len() - 1]) {
                return refuse(entry, "its directory does not come before it");
            }
            if entry.is_directory {
                directories.insert(&entry.path[..]);
            } else if entry.size_bytes.is_none() && self.kind != Kind::Stream {
                return refuse(entry, "it has no size");
            }
        }
        Ok(())
    }
}

fn check_name(name: &str, whole: &str) -> Result<(), TransferError> {
    let reason = if name.is_empty() {
        "a part is empty"
    } else if name == "." || name == ".." {
        "it leads out of the directory"
    } else if name.contains(['/', '\\', '\0']) {
        "a part contains a separator"
    } else if name.len() > NAME_BYTES_MAX {
        "a part is longer than 255 bytes"
    } else {
        return Ok(());
    };
    Err(TransferError::Path {
        path: whole.escape_debug().to_string(),
        reason,
    })
}

fn name_of(path: &Path) -> Result<String, TransferError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| TransferError::Name {
        path: path.to_owned(),
    })
}

fn entry(path: Vec<String>, metadata: &fs::Metadata) -> Entry {
    let modified = metadata
        .modified()
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    #[cfg(unix)]
    let is_executable =
        std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o100 != 0;
    #[cfg(not(unix))]
    let is_executable = false;
    Entry {
        path,
        is_directory: metadata.is_dir(),
        size_bytes: metadata.is_file().then_some(metadata.len()),
        modified_ns: modified.map_or(0, |since| since.as_nanos() as u64),
        is_executable: is_executable && metadata.is_file(),
    }
}

/// Directories before what is in them, names in order. Symbolic links and devices are left out.
fn walk(
    directory: &Path,
    path: &[String],
    entries: &mut Vec<Entry>,
    paths: &mut Vec<PathBuf>,
) -> Result<(), TransferError> {
    let metadata = fs::metadata(directory).map_err(TransferError::read(directory))?;
    entries.push(Entry {
        modified_ns: 0,
        ..entry(path.to_vec(), &metadata)
    });
    paths.push(directory.to_owned());
    let listing = fs::read_dir(directory).map_err(TransferError::read(directory))?;
    let mut children = Vec::new();
    for child in listing {
        children.push(child.map_err(TransferError::read(directory))?.path());
    }
    children.sort();
    for child in children {
        let metadata = fs::symlink_metadata(&child).map_err(TransferError::read(&child))?;
        let mut child_path = path.to_vec();
        child_path.push(name_of(&child)?);
        if metadata.is_dir() {
            walk(&child, &child_path, entries, paths)?;
        } else if metadata.is_file() {
            entries.push(entry(child_path, &metadata));
            paths.push(child);
        } else {
            tracing::warn!(path = %child.display(), "left out: neither file nor directory");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &[&str]) -> Entry {
        Entry {
            path: path.iter().map(|part| (*part).to_owned()).collect(),
            is_directory: false,
            size_bytes: Some(1),
            modified_ns: 0,
            is_executable: false,
        }
    }

    fn directory(path: &[&str]) -> Entry {
        Entry {
            is_directory: true,
            size_bytes: None,
            ..file(path)
        }
    }

    fn of(entries: Vec<Entry>) -> Result<(), TransferError> {
        let name = entries[0].path[0].clone();
        let kind = if entries[0].is_directory {
            Kind::Directory
        } else {
            Kind::File
        };
        Manifest {
            kind,
            name,
            entries,
        }
        .check()
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        assert!(of(vec![file(&["a"])]).is_ok());
        for bad in ["..", ".", "", "/etc/passwd", "a/b", "..\\x", "nul\0"] {
            assert!(of(vec![file(&[bad])]).is_err(), "{bad:?}");
            assert!(
                of(vec![directory(&["d"]), file(&["d", bad])]).is_err(),
                "{bad:?}"
            );
        }
        assert!(of(vec![directory(&["d"]), file(&["e", "f"])]).is_err());
        assert!(of(vec![directory(&["d"]), file(&["d", "x", "f"])]).is_err());
        assert!(
            of(vec![
                directory(&["d"]),
                file(&["d", "f"]),
                file(&["d", "f"])
            ])
            .is_err()
        );
        assert!(
            of(vec![
                directory(&["d"]),
                file(&["d", "f"]),
                file(&["d", "f", "g"])
            ])
            .is_err()
        );
        assert!(of(vec![file(&["a"]), file(&["b"])]).is_err());
    }

    #[test]
    fn what_is_read_passes_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("b/c")).unwrap();
        fs::write(root.join("b/c/x"), "123").unwrap();
        fs::write(root.join("a"), "").unwrap();
        let (manifest, paths) = Manifest::read(&root).unwrap();
        manifest.check().unwrap();
        assert_eq!((manifest.files(), manifest.bytes()), (2, 3));
        assert_eq!(paths.len(), manifest.entries.len());
        let (again, _) = Manifest::read(&root).unwrap();
        assert_eq!(again.digest(), manifest.digest());
        fs::write(root.join("a"), "more").unwrap();
        let (changed, _) = Manifest::read(&root).unwrap();
        assert_ne!(changed.digest(), manifest.digest());
    }

    #[test]
    fn a_missing_source_is_named() {
        let error = Manifest::read(Path::new("/no/such/file")).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"));
    }
}
