//! Files and directories beneath a directory that is held open by a descriptor.

use std::{
    collections::BinaryHeap,
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt, MetadataExt},
    },
    path::Path,
};

use anabranch_net::limited;
use rustix::{
    fs::{self as sys, Mode, OFlags},
    io::Errno,
};

use super::{Range, Read};
use crate::exports::message::{Entry, Fault, Kind, Metadata, Version};

/// Names of a directory that are looked at; a longer one is refused.
const NAMES_MAX: usize = 4_000_000;
/// Attempts at a path while directories in it are moved.
#[cfg(target_os = "linux")]
const ATTEMPTS: usize = 16;

/// Flags to look at something without an effect on it.
#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);
/// Flags to read a file, or what has taken its place since it was looked at.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Checks that a directory can be exported.
///
/// # Errors
/// It is none, or this user may not read it.
pub(crate) fn is_readable(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    sys::open(path, flags, Mode::empty())?;
    Ok(())
}

/// Attributes of a file or directory.
pub(in crate::exports) fn stat(root: &Path, beneath: &str) -> Result<Metadata, Fault> {
    look(&open_root(root)?, beneath)
}

/// Entries of a directory that `is_shown`, in the order of their bytes: those after a name, `max` at most, and true if others follow.
pub(in crate::exports) fn list(
    root: &Path,
    beneath: &str,
    after: &str,
    max: usize,
    is_shown: impl Fn(&str) -> bool,
) -> Result<(Vec<Entry>, bool), Fault> {
    let root = open_root(root)?;
    if look(&root, beneath)?.kind != Kind::Directory {
        return Err(Fault::NotDirectory);
    }
    let mut after = after.to_owned();
    loop {
        let directory = open(&root, beneath, READ | OFlags::DIRECTORY)?;
        let (names, has_more) = first_names(&directory, &after, max, &is_shown)?;
        let entry = |name: &String| {
            let path = match beneath {
                "" => name.clone(),
                beneath => format!("{beneath}/{name}"),
            };
            // Links that lead nowhere or out, devices, and what was removed meanwhile are left out.
            let metadata = look(&root, &path).ok()?;
            let name = name.clone();
            Some(Entry { name, metadata })
        };
        let entries: Vec<Entry> = names.iter().filter_map(entry).collect();
        match names.last() {
            Some(last) if has_more && entries.is_empty() => after.clone_from(last),
            _ => return Ok((entries, has_more)),
        }
    }
}

/// The first names in a directory after one, in order, and true if others follow.
fn first_names(
    directory: &OwnedFd,
    after: &str,
    max: usize,
    is_shown: impl Fn(&str) -> bool,
) -> Result<(Vec<String>, bool), Fault> {
    // The last of them on top.
    let mut first = BinaryHeap::new();
    for (number, entry) in sys::Dir::read_from(directory).map_err(fault)?.enumerate() {
        if number == NAMES_MAX {
            return Err(Fault::TooLong);
        }
        let entry = entry.map_err(fault)?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if name > after && is_shown(name) {
            first.push(name.to_owned());
            if first.len() > max + 1 {
                first.pop();
            }
        }
    }
    let has_more = first.len() > max;
    let mut names = first.into_sorted_vec();
    names.truncate(max);
    Ok((names, has_more))
}

/// Bytes of a file, after `header` bytes for the caller.
pub(in crate::exports) fn read(
    root: &Path,
    beneath: &str,
    range: Range,
    header: usize,
) -> Result<Read, Fault> {
    let root = open_root(root)?;
    if look(&root, beneath)?.kind == Kind::Directory {
        return Err(Fault::IsDirectory);
    }
    let file = File::from(open(&root, beneath, READ)?);
    let before = metadata(&file)?;
    if before.kind == Kind::Directory {
        return Err(Fault::IsDirectory);
    }
    let is_asked = |now: Version| range.version.is_none_or(|asked| asked == now);
    if !is_asked(before.version) {
        return Err(Fault::Changed);
    }
    let left = before.size_bytes.saturating_sub(range.offset);
    let bytes = left.min(range.bytes.into()) as usize;
    let mut message = vec![0; header + bytes];
    let mut read = 0;
    while read < bytes {
        let at = range.offset + read as u64;
        match file.read_at(&mut message[header + read..], at) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(judge(&error)),
        }
    }
    // After the read: the time of modification changes before the bytes do.
    if metadata(&file)?.version != before.version || read < bytes {
        return Err(Fault::Changed);
    }
    Ok(Read {
        version: before.version,
        size_bytes: before.size_bytes,
        message,
    })
}

fn open_root(root: &Path) -> Result<OwnedFd, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    sys::open(root, flags, Mode::empty()).map_err(fault)
}

/// Looks at something without an effect on it.
fn look(root: &OwnedFd, beneath: &str) -> Result<Metadata, Fault> {
    metadata(&File::from(open(root, beneath, LOOK)?))
}

fn metadata(file: &File) -> Result<Metadata, Fault> {
    let found = file.metadata().map_err(|error| judge(&error))?;
    let kind = match found.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_file() => Kind::File,
        _ => return Err(Fault::Special),
    };
    let seconds = found.mtime().saturating_mul(1_000_000_000);
    Ok(Metadata {
        kind,
        size_bytes: match kind {
            Kind::File => found.len(),
            Kind::Directory => 0,
        },
        modified_ns: seconds.saturating_add(found.mtime_nsec()),
        version: version(&found),
    })
}

/// A hash, so that a peer learns nothing of the file system.
fn version(found: &fs::Metadata) -> Version {
    let mut hasher = blake3::Hasher::new();
    for number in [found.dev(), found.ino(), found.len()] {
        hasher.update(&number.to_le_bytes());
    }
    for number in [found.mtime(), found.mtime_nsec()] {
        hasher.update(&number.to_le_bytes());
    }
    let mut version = Version::default();
    version
        .0
        .copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    version
}

/// Opens something beneath a directory; empty: the directory itself.
fn open(root: &OwnedFd, beneath: &str, flags: OFlags) -> Result<OwnedFd, Fault> {
    let beneath = if beneath.is_empty() { "." } else { beneath };
    let flags = flags | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        let resolve = sys::ResolveFlags::BENEATH | sys::ResolveFlags::NO_MAGICLINKS;
        for _ in 0..ATTEMPTS {
            match sys::openat2(root, beneath, flags, Mode::empty(), resolve) {
                // Something on the path was moved while it was resolved.
                Err(Errno::AGAIN) => {}
                // An older kernel.
                Err(Errno::NOSYS) => return walk(root, beneath, flags),
                opened => return opened.map_err(fault),
            }
        }
        Err(Fault::Busy)
    }
    #[cfg(not(target_os = "linux"))]
    walk(root, beneath, flags)
}

/// Opens something beneath a directory, part by part; no link is followed.
fn walk(root: &OwnedFd, beneath: &str, flags: OFlags) -> Result<OwnedFd, Fault> {
    let mut at = root.try_clone().map_err(|error| judge(&error))?;
    let mut rest = beneath;
    while let Some((part, next)) = rest.split_once('/') {
        let through = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = sys::openat(&at, part, through, Mode::empty()).map_err(fault)?;
        rest = next;
    }
    let found = sys::statat(&at, rest, sys::AtFlags::SYMLINK_NOFOLLOW).map_err(fault)?;
    match sys::FileType::from_raw_mode(found.st_mode) {
        sys::FileType::RegularFile | sys::FileType::Directory => {}
        sys::FileType::Symlink => return Err(Fault::NotPermitted),
        _ => return Err(Fault::Special),
    }
    sys::openat(&at, rest, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(fault)
}

fn fault(error: Errno) -> Fault {
    match error {
        Errno::NOENT | Errno::NOTDIR => Fault::NotFound,
        // A link leads out, or into itself.
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP => Fault::NotPermitted,
        Errno::NAMETOOLONG | Errno::INVAL => Fault::Invalid,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Fault::Busy,
        // A socket, or a device without a driver.
        Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => Fault::Special,
        error => judge(&error.into()),
    }
}

fn judge(error: &io::Error) -> Fault {
    limited!(warn, %error, "an exported file cannot be read");
    Fault::Failed
}

#[cfg(test)]
mod tests;
