//! Manifest of a transfer, shared by both sides, and the receiver's check of it.

use std::collections::HashSet;

use anabranch_base::text;

use super::{
    error::TransferError,
    message::{Entry, Kind},
    names::{NAME_BYTES_MAX, check_path},
};

/// Limit on the entries of one transfer.
pub const ENTRIES_MAX: u64 = 200_000;
/// Limit on the bytes of all paths of one transfer together.
pub(crate) const PATHS_BYTES_MAX: usize = 32 << 20;

/// Kind, name and entries of a transfer. The position of an entry in the list is its index everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) entries: Vec<Entry>,
}

impl Manifest {
    /// A stream of unknown length, under this name.
    pub(crate) fn stream(name: &str) -> Self {
        Self {
            kind: Kind::Stream,
            name: name.to_owned(),
            entries: vec![Entry {
                path: name.to_owned(),
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

    /// Total size in bytes; saturates on absurd claims of a peer.
    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.entries.iter().filter_map(|entry| entry.size_bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Digest that is equal for two attempts at the same transfer.
    pub(crate) fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let head = (self.kind, &self.name);
        let write = |text: serde_json::Result<()>| text.expect("texts and numbers are written");
        write(serde_json::to_writer(&mut hasher, &head));
        for entry in &self.entries {
            write(serde_json::to_writer(&mut hasher, entry));
        }
        hasher.finalize()
    }

    /// Refuses a manifest that exceeds the limits of the protocol.
    ///
    /// # Errors
    /// Too many entries, or too long paths.
    pub(crate) fn check_number(&self) -> Result<(), TransferError> {
        let entries = self.entries.len() as u64;
        if entries > ENTRIES_MAX {
            return Err(TransferError::TooMany {
                entries,
                most: ENTRIES_MAX,
            });
        }
        let bytes: usize = self.entries.iter().map(|entry| entry.path.len()).sum();
        if bytes > PATHS_BYTES_MAX {
            return Err(TransferError::Protocol("paths of more than 32 MiB"));
        }
        Ok(())
    }

    /// Refuses a manifest from a peer that could write anywhere other than under its own name.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn check(&self) -> Result<(), TransferError> {
        self.check_number()?;
        if self.name.contains('/') {
            return refuse(&self.name, "a name contains a separator");
        }
        check_path(&self.name)?;
        if self.entries.is_empty() {
            return Err(TransferError::Protocol("an offer without entries"));
        }
        if self.kind != Kind::Directory && self.entries.len() != 1 {
            return Err(TransferError::Protocol("a file with several entries"));
        }
        let mut seen = HashSet::new();
        let mut directories = HashSet::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let path = entry.path.as_str();
            check_path(path)?;
            let parent = path.rsplit_once('/').map(|(parent, _)| parent);
            let is_root = parent.is_none();
            if path.split('/').next() != Some(&self.name) {
                return refuse(path, "it does not lie under the transfer's name");
            }
            if !seen.insert(path) {
                return refuse(path, "it occurs twice");
            }
            let fits = index == 0 && entry.is_directory == (self.kind == Kind::Directory);
            if is_root && !fits {
                return refuse(path, "it does not fit the kind of transfer");
            }
            if parent.is_some_and(|parent| !directories.contains(parent)) {
                return refuse(path, "its directory does not come before it");
            }
            if entry.is_directory {
                directories.insert(path);
            } else if entry.size_bytes.is_none() && self.kind != Kind::Stream {
                return refuse(path, "it has no size");
            }
        }
        Ok(())
    }
}

fn refuse<T>(path: &str, reason: &'static str) -> Result<T, TransferError> {
    Err(TransferError::Path {
        path: text::printable(path, NAME_BYTES_MAX),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &[&str]) -> Entry {
        Entry {
            path: path.join("/"),
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
        let name = entries[0].path.clone();
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
        assert!(of(vec![directory(&["d"]), file(&["d", "a"])]).is_ok());
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

    /// An offer of a million entries, of endless paths, and of sizes whose sum overflows.
    #[test]
    fn absurd_claims_are_refused_or_counted_without_overflow() {
        let many = Manifest {
            kind: Kind::Directory,
            name: "d".to_owned(),
            entries: vec![directory(&["d"]); 1_000_000],
        };
        assert!(matches!(many.check(), Err(TransferError::TooMany { .. })));
        let long = format!("d/{}", vec!["x".repeat(250); 16].join("/"));
        let long = Manifest {
            entries: vec![file(&[&long]); 9_000],
            ..many
        };
        assert!(matches!(long.check(), Err(TransferError::Protocol(_))));
        let mut huge = file(&["d", "a"]);
        huge.size_bytes = Some(u64::MAX);
        let mut other = huge.clone();
        other.path = "d/b".to_owned();
        let huge = of(vec![directory(&["d"]), huge, other]);
        assert!(huge.is_ok());
    }
}
