//! Files beneath a directory, through which no symbolic link is followed: whoever wrote the manifest does not choose a place
//! outside of it.

#[cfg(unix)]
mod system {
    use std::{fs::File, io, os::fd::OwnedFd, path::Path};

    use rustix::{
        fs::{self, Mode, OFlags},
        io::Errno,
    };

    /// A directory.
    #[derive(Debug)]
    pub(in super::super) struct Folder(OwnedFd);

    const DIRECTORY: OFlags = OFlags::DIRECTORY
        .union(OFlags::CLOEXEC)
        .union(OFlags::RDONLY);

    impl Folder {
        /// Opens a directory, or makes it.
        pub(in super::super) fn open(path: &Path) -> io::Result<Self> {
            std::fs::create_dir_all(path)?;
            Ok(Self(fs::open(path, DIRECTORY, Mode::empty())?))
        }

        /// Opens a file beneath it to be written, or makes it and its directories.
        pub(in super::super) fn file(&self, name: &str) -> io::Result<File> {
            let mut parts = name.split('/').peekable();
            let mut at: Option<OwnedFd> = None;
            loop {
                let part = parts.next().unwrap_or_default();
                let here = at.as_ref().unwrap_or(&self.0);
                if parts.peek().is_none() {
                    let flags = OFlags::CREATE
                        | OFlags::RDWR
                        | OFlags::NOFOLLOW
                        | OFlags::NONBLOCK
                        | OFlags::CLOEXEC;
                    let file =
                        File::from(fs::openat(here, part, flags, Mode::from_raw_mode(0o666))?);
                    return match file.metadata()?.is_file() {
                        true => Ok(file),
                        false => Err(io::Error::other("it is there, and no file")),
                    };
                }
                match fs::mkdirat(here, part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                let flags = DIRECTORY | OFlags::NOFOLLOW;
                at = Some(fs::openat(here, part, flags, Mode::empty())?);
            }
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::{
        fs::{self, File, OpenOptions},
        io,
        path::{Path, PathBuf},
    };

    /// A directory.
    #[derive(Debug)]
    pub(in super::super) struct Folder(PathBuf);

    impl Folder {
        /// Opens a directory, or makes it.
        pub(in super::super) fn open(path: &Path) -> io::Result<Self> {
            fs::create_dir_all(path)?;
            Ok(Self(path.to_owned()))
        }

        /// Opens a file beneath it to be written, or makes it and its directories.
        pub(in super::super) fn file(&self, name: &str) -> io::Result<File> {
            let mut path = self.0.clone();
            for part in name.split('/') {
                match path.symlink_metadata() {
                    Ok(found) if !found.is_dir() => {
                        return Err(io::Error::other("a part of its path is no directory"));
                    }
                    _ => fs::create_dir_all(&path)?,
                }
                path.push(part);
            }
            if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                return Err(io::Error::other("it is there, and no file"));
            }
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true).read(true);
            options.open(path)
        }
    }
}

pub(super) use system::Folder;
