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
    let draft = beside(path, ".new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = private(&mut options).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    sync_folder(folder(path))
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
