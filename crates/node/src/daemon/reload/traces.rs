//! Traces that the preparation of a reload leaves in the file system, removed if the reload fails; and files that are tried before they
//! are used.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::whole_file::{folder, private};

/// Files and folders that did not exist before a preparation; those that exist when this is dropped are removed, folders if they are
/// empty.
#[derive(Debug, Default)]
pub(super) struct Traces(Vec<Trace>);

#[derive(Debug)]
enum Trace {
    File(PathBuf),
    Folder(PathBuf),
}

impl Traces {
    /// Notes that this folder may be made, with those that it is in.
    pub(super) fn folder(&mut self, path: &Path) {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !exists(path);
        let mut missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
        // The outermost first: they are removed in the opposite order.
        missing.reverse();
        let missing = missing.into_iter().map(ToOwned::to_owned);
        self.0.extend(missing.map(Trace::Folder));
    }

    /// Notes that this file may be made, with its folder.
    pub(super) fn file(&mut self, path: &Path) {
        self.folder(folder(path));
        if !exists(path) {
            self.0.push(Trace::File(path.to_owned()));
        }
    }

    /// Keeps everything.
    pub(super) fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        for trace in self.0.iter().rev() {
            // It may not have been made; a folder may have contents of others by now.
            let _ = match trace {
                Trace::File(path) => fs::remove_file(path),
                Trace::Folder(path) => fs::remove_dir(path),
            };
        }
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Checks that a file can be written, or made in the nearest folder that there is. Nothing is left there.
///
/// # Errors
/// It cannot be.
pub(super) fn try_file(path: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().append(true).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut nearest = folder(path).ancestors().filter(|path| exists(path));
    let nearest = nearest.next().unwrap_or(Path::new("."));
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    let probe = nearest.join(format!(
        ".anabranch-probe-{:016x}",
        u64::from_ne_bytes(number)
    ));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options).open(&probe)?;
    fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_there_is_removed_unless_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        let (file, old) = (deep.join("lock"), folder.path().join("old"));
        fs::write(&old, "x").unwrap();
        let make = || {
            let mut traces = Traces::default();
            traces.file(&file);
            traces.file(&old);
            traces.folder(&folder.path().join("never"));
            fs::create_dir_all(&deep).unwrap();
            fs::write(&file, "x").unwrap();
            traces
        };
        drop(make());
        assert!(!folder.path().join("a").exists() && old.exists());
        make().keep();
        assert!(file.exists());
        // Another process used the folder meanwhile.
        let mut traces = Traces::default();
        let shared = folder.path().join("shared");
        traces.folder(&shared);
        fs::create_dir(&shared).unwrap();
        fs::write(shared.join("theirs"), "x").unwrap();
        drop(traces);
        assert!(shared.join("theirs").exists());
    }

    #[test]
    fn files_are_tried_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = |text: &str| folder.path().join(text);
        fs::write(path("file"), "x").unwrap();
        for usable in ["new", "file", "a/b/new"] {
            try_file(&path(usable)).unwrap();
        }
        for unusable in ["file/new", "file/a/new", ""] {
            try_file(&path(unusable)).unwrap_err();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read(path("file")).unwrap(), b"x");
    }
}
