//! Manifest of a transfer, shared by both sides, and the receiver's check of it.

use std::collections::HashSet;

use anabranch_base::text;

use super::{
    error::TransferError,
    message::{Attributes, Entry, Kind, Link},
    names::{NAME_BYTES_MAX, check_path, link_fault},
    selection::LeftOut,
};

/// Limit on the entries of one transfer.
pub const ENTRIES_MAX: u64 = 200_000;
/// Limit on the bytes of all paths of one transfer together.
pub(crate) const PATHS_BYTES_MAX: usize = 32 << 20;

/// Bits of a mode other than those of permission: set-user-ID, set-group-ID, sticky.
const SPECIAL_BITS: u32 = 0o7000;
const PERMISSION_BITS: u32 = 0o777;
const SPECIAL_DROPPED: &str =
    "its set-user-ID, set-group-ID or sticky bit was dropped; recv --allow-special-bits keeps it";

/// Kind, name and entries of a transfer. The position of an entry in the list is its index everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) entries: Vec<Entry>,
    /// Of each entry; none from an old sender.
    pub(crate) attributes: Vec<Attributes>,
    pub(crate) links: Vec<Link>,
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
            attributes: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Attributes of an entry, as far as they are known.
    pub(super) fn attributes(&self, index: u32) -> Attributes {
        let attributes = self.attributes.get(index as usize);
        attributes.copied().unwrap_or_default()
    }

    /// Drops what the bits of a mode grant beyond access; returns the entries that had such bits.
    pub(super) fn drop_special_bits(&mut self) -> LeftOut {
        let mut dropped = LeftOut::default();
        for (entry, attributes) in self.entries.iter().zip(&mut self.attributes) {
            let Some(mode) = &mut attributes.mode else {
                continue;
            };
            if *mode & SPECIAL_BITS != 0 {
                *mode &= PERMISSION_BITS;
                dropped.add(&entry.path, SPECIAL_DROPPED);
            }
        }
        dropped
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

    /// Digest that is equal for two attempts at the same transfer, which may differ in attributes.
    pub(crate) fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let head = (self.kind, &self.name);
        let write = |text: serde_json::Result<()>| text.expect("texts and numbers are written");
        write(serde_json::to_writer(&mut hasher, &head));
        for entry in &self.entries {
            write(serde_json::to_writer(&mut hasher, entry));
        }
        for link in &self.links {
            write(serde_json::to_writer(&mut hasher, link));
        }
        hasher.finalize()
    }

    /// Refuses a manifest that exceeds the limits of the protocol.
    ///
    /// # Errors
    /// Too many entries, or too long paths.
    pub(crate) fn check_number(&self) -> Result<(), TransferError> {
        let entries = (self.entries.len() + self.links.len()) as u64;
        if entries > ENTRIES_MAX {
            return Err(TransferError::TooMany {
                entries,
                most: ENTRIES_MAX,
            });
        }
        let paths = self.entries.iter().map(|entry| entry.path.len());
        let links = self.links.iter().map(Link::bytes);
        let bytes: usize = paths.chain(links).sum();
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
        for link in &self.links {
            let path = link.path.as_str();
            check_path(path)?;
            if !seen.insert(path) {
                return refuse(path, "it occurs twice");
            }
            if !path
                .rsplit_once('/')
                .is_some_and(|(parent, _)| directories.contains(parent))
            {
                return refuse(path, "its directory does not come before it");
            }
            if let Some(reason) = link_fault(path, &link.target) {
                return refuse(path, reason);
            }
        }
        if !self.attributes.is_empty() && self.attributes.len() != self.entries.len() {
            return Err(TransferError::Protocol("attributes of some entries only"));
        }
        let mut modes = self.attributes.iter().filter_map(|a| a.mode);
        if modes.any(|mode| mode & !(SPECIAL_BITS | PERMISSION_BITS) != 0) {
            return Err(TransferError::Protocol("a mode of more than 12 bits"));
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
            ..Manifest::stream("")
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

    #[test]
    fn links_and_modes_of_a_peer_are_checked() {
        let link = |path: &str, target: &str| Link {
            path: path.to_owned(),
            target: target.to_owned(),
        };
        let check = |link: Link| {
            let manifest = Manifest {
                kind: Kind::Directory,
                name: "d".to_owned(),
                entries: vec![directory(&["d"]), file(&["d", "f"])],
                links: vec![link],
                attributes: Vec::new(),
            };
            manifest.check()
        };
        check(link("d/l", "f")).unwrap();
        for (path, target) in [
            ("d", "f"),
            ("l", "d"),
            ("d/f", "x"),
            ("d/f/l", "x"),
            ("d/x/l", "f"),
            ("e/l", "f"),
            ("d/..", "f"),
            ("d/l", "/etc"),
            ("d/l", "../x"),
        ] {
            assert!(check(link(path, target)).is_err(), "{path} {target}");
        }
        let mut manifest = Manifest::stream("s");
        manifest.attributes = vec![Attributes::default(); 2];
        assert!(manifest.check().is_err());
        manifest.attributes.truncate(1);
        manifest.attributes[0].mode = Some(0o4755);
        manifest.check().unwrap();
        assert_eq!(manifest.drop_special_bits().count, 1);
        assert_eq!(manifest.drop_special_bits().count, 0);
        assert_eq!(manifest.attributes(0).mode, Some(0o755));
        manifest.attributes[0].mode = Some(0o100_644);
        assert!(manifest.check().is_err());
    }

    /// An offer of a million entries, of endless paths, and of sizes whose sum overflows.
    #[test]
    fn absurd_claims_are_refused_or_counted_without_overflow() {
        let many = Manifest {
            kind: Kind::Directory,
            name: "d".to_owned(),
            entries: vec![directory(&["d"]); 1_000_000],
            ..Manifest::stream("")
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
