//! Source of a transfer, read from the sender's disk.
//!
//! A file is sent in its state at the time of the offer. Every file carries a [`Stamp`] from then on; it is compared when the
//! file is opened and again when it was read to its end, so that a source that changes in between is reported by its name and
//! never called verified.

use std::{
    fs::{self, File, Metadata},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use super::{
    error::TransferError,
    exclude::Exclude,
    manifest::Manifest,
    message::{Attributes, Entry, Kind, Link},
    names::{is_reserved, link_fault, path_fault},
    selection::{LeftOut, Selection},
};

pub(super) use system::Stamp;

#[cfg(unix)]
#[path = "source/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "source/windows.rs"]
mod system;

const UNREADABLE: &str = "this user may not read it";

/// Location of an entry on this disk.
#[derive(Debug)]
pub(super) struct Origin {
    path: PathBuf,
    stamp: Stamp,
}

impl Origin {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file that was offered.
    ///
    /// # Errors
    /// It cannot be read, or has been replaced by another one.
    pub(super) fn open(&self) -> Result<File, TransferError> {
        let opened = system::open(&self.path).map_err(TransferError::read(&self.path))?;
        let file = opened.ok_or_else(|| self.changed())?;
        self.check(&file)?;
        Ok(file)
    }

    /// Checks that the open file is still what was offered.
    ///
    /// # Errors
    /// It was written to, or its attributes cannot be read.
    pub(super) fn check(&self, file: &File) -> Result<(), TransferError> {
        let metadata = file.metadata().map_err(TransferError::read(&self.path))?;
        if Stamp::of(&metadata) != self.stamp {
            return Err(self.changed());
        }
        Ok(())
    }

    pub(super) fn changed(&self) -> TransferError {
        TransferError::Changed {
            path: self.path.clone(),
        }
    }
}

/// A source as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) manifest: Manifest,
    /// Location of each entry.
    pub(super) origins: Vec<Origin>,
    pub(super) left_out: LeftOut,
}

impl Found {
    /// Reads a file, or a directory and everything in it that can be sent.
    ///
    /// # Errors
    /// The source itself cannot be read or sent, or there is too much of it.
    pub(super) fn read(selection: &Selection) -> Result<Self, TransferError> {
        let given = &selection.path;
        let source = given.canonicalize().map_err(TransferError::read(given))?;
        let metadata = fs::metadata(&source).map_err(TransferError::read(&source))?;
        let name = match &selection.name {
            Some(name) => name.clone(),
            None => name_of(&source)?,
        };
        let fault = match name.contains('/') {
            true => Some("a name contains a separator"),
            false => path_fault(&name),
        };
        if let Some(reason) = fault {
            let path = source;
            return Err(TransferError::Unsendable { path, reason });
        }
        let mut walk = Walk {
            exclude: &selection.exclude,
            below: name.len() + 1,
            entries: Vec::new(),
            attributes: Vec::new(),
            origins: Vec::new(),
            links: Vec::new(),
            left_out: LeftOut::default(),
        };
        let kind = if metadata.is_dir() {
            let children = children(&source).map_err(TransferError::read(&source))?;
            walk.directory(&source, &name, &metadata, children)?;
            Kind::Directory
        } else if metadata.is_file() {
            walk.add(&source, name.clone(), &metadata)?;
            Kind::File
        } else {
            return Err(TransferError::NotAFile { path: source });
        };
        let manifest = Manifest {
            kind,
            name,
            entries: walk.entries,
            attributes: walk.attributes,
            links: walk.links,
        };
        manifest.check_number()?;
        Ok(Self {
            manifest,
            origins: walk.origins,
            left_out: walk.left_out,
        })
    }
}

struct Walk<'a> {
    exclude: &'a Exclude,
    /// Bytes of the part of a path that leads to the source.
    below: usize,
    entries: Vec<Entry>,
    attributes: Vec<Attributes>,
    origins: Vec<Origin>,
    links: Vec<Link>,
    left_out: LeftOut,
}

impl Walk<'_> {
    /// Lists directories before their entries, names in order.
    fn directory(
        &mut self,
        directory: &Path,
        at: &str,
        metadata: &Metadata,
        children: Vec<PathBuf>,
    ) -> Result<(), TransferError> {
        self.add(directory, at.to_owned(), metadata)?;
        for child in children {
            let name = child.file_name().unwrap_or_default();
            let Some(name) = name.to_str() else {
                let name = name.to_string_lossy();
                let path = format!("{at}/{name}");
                self.left_out.add(path, "its name is not UTF-8; rename it");
                continue;
            };
            let child_at = format!("{at}/{name}");
            if self.exclude.matches(&child_at[self.below..]) {
                continue;
            }
            match path_fault(&child_at) {
                // A transfer under way is not what the user sees in the directory.
                _ if is_reserved(name) => self.left_out.add(child_at, "an unfinished transfer"),
                Some(reason) => self.left_out.add(child_at, reason),
                None => self.child(&child, child_at)?,
            }
        }
        Ok(())
    }

    fn child(&mut self, path: &Path, at: String) -> Result<(), TransferError> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            // Removed since the directory was listed.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(TransferError::read(path)(error)),
        };
        if metadata.is_dir() {
            match children(path) {
                Ok(children) => return self.directory(path, &at, &metadata, children),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    self.left_out.add(at, UNREADABLE);
                }
                Err(error) => return Err(TransferError::read(path)(error)),
            }
        } else if metadata.is_file() {
            match system::is_readable(path) {
                true => return self.add(path, at, &metadata),
                false => self.left_out.add(at, UNREADABLE),
            }
        } else if metadata.is_symlink() {
            return self.link(path, at);
        } else {
            self.left_out
                .add(at, "it is neither a file, a directory nor a symbolic link");
        }
        Ok(())
    }

    fn link(&mut self, path: &Path, at: String) -> Result<(), TransferError> {
        let target = fs::read_link(path).map_err(TransferError::read(path))?;
        let Some(target) = target.to_str() else {
            self.left_out
                .add(at, "a symbolic link; its target is not UTF-8");
            return Ok(());
        };
        if let Some(reason) = link_fault(&at, target) {
            self.left_out.add(at, reason);
            return Ok(());
        }
        self.check_number()?;
        self.links.push(Link {
            path: at,
            target: target.to_owned(),
        });
        Ok(())
    }

    fn add(&mut self, path: &Path, at: String, metadata: &Metadata) -> Result<(), TransferError> {
        self.check_number()?;
        self.entries.push(entry(at, metadata));
        self.attributes.push(system::attributes(metadata));
        self.origins.push(Origin {
            path: path.to_owned(),
            stamp: Stamp::of(metadata),
        });
        Ok(())
    }

    /// Checks that there may be one more.
    fn check_number(&self) -> Result<(), TransferError> {
        let entries = (self.entries.len() + self.links.len()) as u64 + 1;
        let most = super::manifest::ENTRIES_MAX;
        match entries > most {
            true => Err(TransferError::TooMany { entries, most }),
            false => Ok(()),
        }
    }
}

/// Paths in a directory, in order.
fn children(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut children = Vec::new();
    for child in fs::read_dir(directory)? {
        children.push(child?.path());
    }
    children.sort();
    Ok(children)
}

fn name_of(path: &Path) -> Result<String, TransferError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| TransferError::Name {
        path: path.to_owned(),
    })
}

fn entry(path: String, metadata: &Metadata) -> Entry {
    let modified = metadata
        .modified()
        .ok()
        .filter(|_| metadata.is_file())
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Entry {
        path,
        is_directory: metadata.is_dir(),
        size_bytes: metadata.is_file().then_some(metadata.len()),
        modified_ns: modified.map_or(0, |since| since.as_nanos() as u64),
        is_executable: metadata.is_file() && system::is_executable(metadata),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn read(path: &Path) -> Found {
        Found::read(&Selection::new(path)).unwrap()
    }

    #[test]
    fn what_cannot_be_sent_is_left_out_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        for (link, target) in [
            ("in", "sub"),
            ("sub/up", "../a"),
            ("out", "../b"),
            ("etc", "/etc"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        fs::write(root.join("a"), "").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"odd\xff");
        fs::write(root.join(odd), "").unwrap();
        fs::write(root.join("line\nfeed"), "").unwrap();
        let found = read(&root);
        found.manifest.check().unwrap();
        let links: Vec<_> = found.manifest.links.iter().map(|l| &l.path[..]).collect();
        assert_eq!(links, ["root/in", "root/sub/up"]);
        let left: Vec<_> = found.left_out.named.iter().map(|l| &l.path[..]).collect();
        let expected = ["etc", "line\nfeed", "odd\u{fffd}", "out", "pipe"];
        assert_eq!(left, expected.map(|name| format!("root/{name}")));
    }

    #[test]
    fn a_selection_has_another_name_and_lacks_what_it_excludes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("build/deep")).unwrap();
        for name in ["a", "a.tmp", "build/x", "build/deep/y"] {
            fs::write(root.join(name), "").unwrap();
        }
        let exclude = Exclude::parse(["*.tmp", "build/deep"]).unwrap();
        let selection = Selection::new(&root).named("other").without(exclude);
        let found = Found::read(&selection).unwrap();
        let entries = found.manifest.entries.iter();
        let paths: Vec<_> = entries.map(|entry| &entry.path[..]).collect();
        assert_eq!(paths, ["other", "other/a", "other/build", "other/build/x"]);
        assert_eq!(found.left_out, LeftOut::default());
        for bad in ["a/b", "..", ""] {
            assert!(Found::read(&Selection::new(&root).named(bad)).is_err());
        }
    }

    #[test]
    fn a_manifest_that_is_read_passes_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("b/c")).unwrap();
        fs::write(root.join("b/c/x"), "123").unwrap();
        fs::write(root.join("a"), "").unwrap();
        let Found {
            manifest, origins, ..
        } = read(&root);
        manifest.check().unwrap();
        assert_eq!((manifest.files(), manifest.bytes()), (2, 3));
        assert_eq!(origins.len(), manifest.entries.len());
        let again = read(&root).manifest;
        assert_eq!(again.digest(), manifest.digest());
        fs::write(root.join("a"), "more").unwrap();
        let changed = read(&root).manifest;
        assert_ne!(changed.digest(), manifest.digest());
    }

    #[test]
    fn a_missing_source_is_named() {
        let error = Found::read(&Selection::new("/no/such/file")).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"));
    }

    #[test]
    fn leftovers_of_other_transfers_are_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join(".anabranch-xyz/data")).unwrap();
        fs::write(root.join(".anabranch-xyz/note"), "").unwrap();
        fs::write(root.join("a"), "").unwrap();
        let found = read(&root);
        let entries = &found.manifest.entries;
        let paths: Vec<_> = entries.iter().map(|entry| &entry.path).collect();
        assert_eq!(paths, ["root", "root/a"]);
        assert_eq!(found.left_out.named[0].path, "root/.anabranch-xyz");
    }

    #[test]
    fn a_tree_that_is_too_deep_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder
            .path()
            .join(vec!["d"; crate::transfer::names::DEPTH_MAX + 1].join("/"));
        fs::create_dir_all(&deep).unwrap();
        let found = read(&folder.path().join("d"));
        assert_eq!(found.left_out.count, 1);
        let left = &found.left_out.named[0];
        assert!(left.reason.contains("deeper than 64"), "{left:?}");
        found.manifest.check().unwrap();
    }

    /// Written to, or replaced by another of the same size and time.
    #[test]
    fn a_source_that_changed_since_the_offer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "one").unwrap();
        let origins = read(&path).origins;
        let open = origins[0].open().unwrap();
        origins[0].check(&open).unwrap();

        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let twin = folder.path().join("twin");
        fs::write(&twin, "two").unwrap();
        let twin_file = OpenOptions::new().write(true).open(&twin).unwrap();
        twin_file.set_modified(modified).unwrap();
        fs::rename(&twin, &path).unwrap();
        let error = origins[0].open().unwrap_err();
        assert!(matches!(&error, TransferError::Changed { path } if path.ends_with("log")));

        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        let error = origins[0].open().unwrap_err();
        assert!(matches!(error, TransferError::Changed { .. }), "{error}");
    }
}
