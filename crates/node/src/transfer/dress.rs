//! Attributes and symbolic links that a receiver gives to what has arrived.

use std::{fs::File, io};

use super::{
    error::TransferError,
    folder::Folder,
    manifest::Manifest,
    message::{Attributes, Link},
};

/// Gives an open file or directory its mode and its time. Whatever changes it comes before.
#[cfg(unix)]
fn dress_open(open: impl std::os::fd::AsFd, attributes: Attributes) -> io::Result<()> {
    use rustix::fs::{Mode, RawMode, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens};
    const NS_PER_S: i64 = 1_000_000_000;
    if let Some(mode) = attributes.mode {
        fchmod(&open, Mode::from_raw_mode(mode as RawMode))?;
    }
    if let Some(at) = attributes.modified_ns {
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: at.div_euclid(NS_PER_S),
                tv_nsec: at.rem_euclid(NS_PER_S),
            },
        };
        futimens(&open, &times)?;
    }
    Ok(())
}

/// Gives an open file its time. There is no mode here.
#[cfg(windows)]
fn dress_open(file: &File, attributes: Attributes) -> io::Result<()> {
    use std::time::{Duration, UNIX_EPOCH};
    let since = attributes.modified_ns.and_then(|ns| u64::try_from(ns).ok());
    match since.and_then(|ns| UNIX_EPOCH.checked_add(Duration::from_nanos(ns))) {
        Some(at) => file.set_modified(at),
        None => Ok(()),
    }
}

/// Gives a directory its mode and its time.
pub(super) fn dress_folder(folder: &Folder, attributes: Attributes) -> io::Result<()> {
    #[cfg(unix)]
    return dress_open(folder, attributes);
    // A directory has no mode there, and its time is not set.
    #[cfg(windows)]
    {
        let _ = (folder, attributes);
        Ok(())
    }
}

/// Makes the symbolic links of a transfer whose files are complete.
pub(super) fn make_links(manifest: &Manifest, data: &Folder) -> Result<(), TransferError> {
    for Link { path, target } in &manifest.links {
        let make = || {
            let (parent, name) = data.walk(path)?;
            parent.link(name, target)
        };
        make().map_err(TransferError::write(data.path_of(path)))?;
    }
    Ok(())
}

/// Gives every directory below the transfer's own its attributes, and syncs it to the disk if `syncs`.
pub(super) fn dress_directories(
    manifest: &Manifest,
    data: &Folder,
    syncs: bool,
) -> Result<(), TransferError> {
    // The deepest first: a directory may become one in which nothing can be changed.
    let entries = manifest.entries.iter().enumerate().rev();
    for (index, entry) in entries.filter(|(_, entry)| entry.is_directory) {
        let apply = || {
            let (parent, name) = data.walk(&entry.path)?;
            let directory = parent.child(name)?;
            if index > 0 {
                dress_folder(&directory, manifest.attributes(index as u32))?;
            }
            if syncs { directory.sync() } else { Ok(()) }
        };
        apply().map_err(TransferError::write(data.path_of(&entry.path)))?;
    }
    match syncs {
        true => data.sync().map_err(TransferError::write(data.path())),
        false => Ok(()),
    }
}

/// Gives the transfer's own directory its attributes. It has its final name: one that may not be changed cannot be moved.
pub(super) fn dress_root(manifest: &Manifest, directory: &Folder, name: &str) -> io::Result<()> {
    let root = directory.child(name)?;
    dress_folder(&root, manifest.attributes(0))?;
    root.sync()
}

/// Gives a file that is complete its attributes.
pub(super) fn dress_file(manifest: &Manifest, index: u32, file: &File) -> io::Result<()> {
    dress_open(file, manifest.attributes(index))
}
