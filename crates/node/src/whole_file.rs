//! Files that are replaced as a whole, so that whoever reads one finds the old text or the new one.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The file beside `path` whose name ends with `ending` in addition.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The folder of a file.
pub(crate) fn folder(path: &Path) -> &Path {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Replaces the file in one step, and syncs it to the disk. It can be read by its owner only.
///
/// # Errors
/// The draft beside it cannot be written, or does not take its place; the file is as it was.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    replace_bytes(path, text.as_bytes())
}

/// The same with bytes.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_bytes(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = beside(path, ".new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = private(&mut options).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    sync_folder(folder(path))
}

/// Creates a file with this text in one step, and syncs it to the disk: whoever opens it finds the whole text, even if this process is
/// killed meanwhile. It can be read by its owner only.
///
/// # Errors
/// There is a file of this name, or it cannot be written; then there is none.
pub(crate) fn create(path: &Path, text: &str) -> io::Result<()> {
    let draft = beside(path, &format!(".new-{}", std::process::id()));
    let written = (|| {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let mut file = private(&mut options).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::hard_link(&draft, path)
    })();
    // It is of no use either way.
    let _ = fs::remove_file(&draft);
    match written {
        Err(error) if has_no_links(&error) => create_at_once(path, text)?,
        written => written?,
    }
    sync_folder(folder(path))
}

/// True if the file system has no second names for a file, as those of memory cards.
fn has_no_links(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | Unsupported)
}

/// Creates a file in place; a process that is killed meanwhile leaves an empty one.
fn create_at_once(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = private(&mut options).open(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

/// Makes names in a folder durable. Windows does that itself.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => fs::File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

/// The same options, so that a file that is made can be read by its owner only. On Windows it has the access rights of its folder.
pub(crate) fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// The same as on other systems, but that changes of several processes may overtake each other, and a symbolic link is replaced.
///
/// # Errors
/// The file cannot be read or written; it is as it was.
#[cfg(not(unix))]
pub(crate) fn edit(path: &Path, change: impl FnOnce(&str) -> Option<String>) -> io::Result<()> {
    match change(&fs::read_to_string(path)?) {
        Some(text) => replace(path, &text),
        None => Ok(()),
    }
}

/// Replaces the text of an existing file in one step; `None` from `change` leaves it as it is. Mode and, as far as this user may
/// set it, the owner are kept, and a symbolic link stays one. Changes of several processes follow each other.
///
/// # Errors
/// The file cannot be read or written; it is as it was.
#[cfg(unix)]
pub(crate) fn edit(path: &Path, change: impl FnOnce(&str) -> Option<String>) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let path = fs::canonicalize(path)?;
    let locked = loop {
        let file = fs::File::open(&path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        let (held, there) = (file.metadata()?, fs::metadata(&path)?);
        // Another process may have replaced it before the lock was given.
        if (held.dev(), held.ino()) == (there.dev(), there.ino()) {
            break file;
        }
    };
    let Some(text) = change(&io::read_to_string(&locked)?) else {
        return Ok(());
    };
    let before = locked.metadata()?;
    let draft = beside(&path, ".new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(text.as_bytes())?;
    // Another owner is kept by root only.
    let _ = std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()));
    file.set_permissions(fs::Permissions::from_mode(before.mode() & 0o777))?;
    file.sync_all()?;
    fs::rename(&draft, &path)?;
    fs::File::open(folder(&path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_whole_and_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for create in [create, create_at_once] {
            create(&path, "text").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "text");
            let error = create(&path, "other").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&path).unwrap(), "text");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft");
            fs::remove_file(&path).unwrap();
        }
    }

    /// Whoever waits for the file never finds a part of it: a node that was killed while it made its key found an empty one at every
    /// later start.
    #[test]
    fn a_new_file_is_never_seen_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                loop {
                    if let Ok(text) = fs::read_to_string(&path) {
                        return text.len();
                    }
                }
            });
            let text = "x".repeat(1 << 20);
            create(&path, &text).unwrap();
            assert_eq!(reader.join().unwrap(), text.len());
        });
    }
}
