//! File of the addresses by node. It is replaced as a whole, so that a reader finds the old text or the new one.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

use crate::lease::{Pools, TEXT_BYTES_MAX, Table, TableError};

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the addresses of the tunnel in {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Its text is not that of a table.
    #[error(
        "{path}: {source}; repair the line, or remove the file, and the clients get new addresses"
    )]
    Text {
        /// The file.
        path: PathBuf,
        /// The line.
        source: TableError,
    },
}

/// Keeper of the file: it counts changes of the table, and never writes an older text over a newer one. A clone is the same keeper.
#[derive(Clone, Debug)]
pub(super) struct Keeper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Changes of the table so far.
    changes: AtomicU64,
    /// Those of them that the file has. Held while it is written.
    written: Mutex<u64>,
    changed: Notify,
}

impl Keeper {
    /// A keeper of a file that has the table as it is.
    pub(super) fn new(path: PathBuf) -> Self {
        Self(Arc::new(Inner {
            path,
            changes: AtomicU64::new(0),
            written: Mutex::new(0),
            changed: Notify::new(),
        }))
    }

    /// The table has changed.
    pub(super) fn note(&self) {
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }

    /// Waits for a change.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Changes so far: to be asked for before the text that is to have them.
    pub(super) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }

    /// Writes a text that has so many changes, unless the file has them.
    ///
    /// # Errors
    /// It cannot be written, in words; the file is as it was.
    pub(super) fn save(&self, changes: u64, text: &str) -> Result<(), String> {
        let inner = &self.0;
        let mut written = inner.written.lock().unwrap_or_else(PoisonError::into_inner);
        if changes <= *written {
            return Ok(());
        }
        let path = &inner.path;
        write(path, text).map_err(|error| {
            let path = path.display();
            format!("cannot write the addresses of the tunnel to {path}: {error}")
        })?;
        *written = changes;
        Ok(())
    }
}

/// Reads the table of a file; an empty one if there is no file.
///
/// # Errors
/// It cannot be read, or is not a table.
pub(super) fn read(path: &Path, pools: Pools) -> Result<Table, FileError> {
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::new(pools)),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(TEXT_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Table::from_text(pools, &text).map_err(|source| FileError::Text {
        path: path.to_owned(),
        source,
    })
}

/// Replaces the file in one step; its owner alone can read it. Its folder is created if it is missing.
///
/// # Errors
/// It cannot be written; the file is as it was.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that began earlier may end later.
    #[test]
    fn an_older_text_is_not_written_over_a_newer_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases");
        let keeper = Keeper::new(path.clone());
        keeper
            .save(keeper.changes(), "nothing has changed")
            .unwrap();
        assert!(!path.exists());
        keeper.note();
        let early = keeper.changes();
        keeper.note();
        keeper.save(keeper.changes(), "newer").unwrap();
        keeper.save(early, "older").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        keeper.note();
        let error = keeper.save(keeper.changes(), "x").unwrap_err();
        assert!(error.contains("leases"), "{error}");
        fs::remove_dir(&path).unwrap();
        keeper.save(keeper.changes(), "again").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "again");
    }

    #[test]
    fn a_table_outlives_its_server_and_a_wrong_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/leases");
        let pools = Pools::new(["10.77.0.0/24".parse().unwrap()]).unwrap();
        assert!(read(&path, pools).unwrap().is_empty());
        let text = format!(
            "{} 10.77.0.7 - 4\n",
            anabranch::base::NodeId::from_public_key([1; 32])
        );
        write(&path, &text).unwrap();
        assert_eq!(read(&path, pools).unwrap().len(), 1);
        write(&path, "rubbish\n").unwrap();
        let error = read(&path, pools).unwrap_err().to_string();
        assert!(
            error.contains("line 1") && error.contains("leases"),
            "{error}"
        );
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(read(&path, pools).is_err());
        assert!(write(&path, "x").is_err());
    }
}
