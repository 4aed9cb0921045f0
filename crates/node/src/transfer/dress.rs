//! Attributes and symbolic links that a receiver gives to what has arrived.

use std::{fs::File, io};

use rustix::fs::{Mode, RawMode, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens};

use super::{
    error::TransferError,
    folder::Folder,
    manifest::Manifest,
    message::{Attributes, Link},
};

const NS_PER_S: i64 = 1_000_000_000;

/// Gives an open file or directory its mode and its time. Whatever changes it comes before.
pub(super) fn dress(open: impl std::os::fd::AsFd, attributes: Attributes) -> io::Result<()> {
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
                dress(&directory, manifest.attributes(index as u32))?;
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
    dress(&root, manifest.attributes(0))?;
    root.sync()
}

/// Gives a file that is complete its attributes.
pub(super) fn dress_file(manifest: &Manifest, index: u32, file: &File) -> io::Result<()> {
    dress(file, manifest.attributes(index))
}
