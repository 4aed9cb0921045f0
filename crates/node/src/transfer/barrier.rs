//! Durability of many files with one request to the disk.
//!
//! A sync of every file alone waits for the disk once per file. Files that were written are therefore gathered, and a thread
//! makes a batch of them durable while more are written: with one `syncfs` where the system reports a failure of it, elsewhere with
//! one `fsync` per file, several at once. Files count as durable when their batch is.

use std::{
    fs::File,
    io,
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::folder::Folder;

/// Files of a batch that is worth a request.
const BATCH_FILES: u64 = 4_000;
/// Bytes of a batch that is worth a request: less than a second of most disks.
const BATCH_BYTES: u64 = 64 << 20;
/// Age of the first file of a batch that is worth a request, so that progress is seen.
const BATCH_AGE: Duration = Duration::from_secs(1);
/// Limit on the open files of a batch that is synced file by file.
const OPEN_MAX: usize = 128;
/// Threads that sync files of one batch.
const THREADS: usize = 8;

/// Files and bytes that are durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Makes a batch of files durable.
pub(super) trait Disk: Send + 'static {
    /// True if the files must stay open until they are durable.
    fn needs_files(&self) -> bool;
    /// Returns once `files`, and if they need not stay open all files closed before the call, are on the disk.
    ///
    /// # Errors
    /// Of any of them it is not certain.
    fn sync(&mut self, files: &[File]) -> io::Result<()>;
}

/// Gathers files, and reports them once they are durable.
#[derive(Debug)]
pub(super) struct Barrier {
    needs_files: bool,
    gathered: Batch,
    orders: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug, Default)]
struct Batch {
    files: Vec<File>,
    count: Count,
    since: Option<Instant>,
}

impl Barrier {
    /// A barrier for files in the file system of `folder`. `durable` is called from another thread, with the files and bytes
    /// of each batch that has become durable.
    ///
    /// # Errors
    /// The process cannot get another thread or descriptor.
    pub(super) fn new(
        folder: &Folder,
        durable: impl Fn(Count) + Send + 'static,
    ) -> io::Result<Self> {
        Self::over(system::disk_of(folder)?, durable)
    }

    fn over(disk: Box<dyn Disk>, durable: impl Fn(Count) + Send + 'static) -> io::Result<Self> {
        // Capacity for none: a batch is passed on only when the one before is durable.
        let (orders, batches) = sync_channel(0);
        let needs_files = disk.needs_files();
        let thread = std::thread::Builder::new()
            .name("barrier".to_owned())
            .spawn(move || serve(disk, &batches, durable))?;
        Ok(Self {
            needs_files,
            gathered: Batch::default(),
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    /// Adds a file that was written to its end. Waits for the disk only if too many files are open.
    ///
    /// # Errors
    /// An earlier file could not be made durable.
    pub(super) fn add(&mut self, file: File, bytes: u64) -> io::Result<()> {
        let batch = &mut self.gathered;
        batch.count.files += 1;
        batch.count.bytes = batch.count.bytes.saturating_add(bytes);
        let since = *batch.since.get_or_insert_with(Instant::now);
        if self.needs_files {
            batch.files.push(file);
        }
        let is_full = batch.files.len() >= OPEN_MAX;
        let is_worth_it = is_full
            || batch.count.files >= BATCH_FILES
            || batch.count.bytes >= BATCH_BYTES
            || since.elapsed() >= BATCH_AGE;
        match is_worth_it {
            true => self.pass_on(is_full),
            false => Ok(()),
        }
    }

    /// True if files are synced one by one; directories must be, too.
    pub(super) fn needs_files(&self) -> bool {
        self.needs_files
    }

    fn pass_on(&mut self, waits: bool) -> io::Result<()> {
        let Some(orders) = &self.orders else {
            return Err(failed());
        };
        let batch = std::mem::take(&mut self.gathered);
        let passed = match waits {
            true => orders
                .send(batch)
                .map_err(|error| TrySendError::Disconnected(error.0)),
            false => orders.try_send(batch),
        };
        match passed {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(batch)) => {
                self.gathered = batch;
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => self.end(),
        }
    }

    /// Waits until all files that were added are durable, and all of them were reported. Where the file system is synced as a
    /// whole, links and directories that were made before the call are durable, too: there is a request even if no file waits.
    ///
    /// # Errors
    /// A file, or the last request, could not be made durable.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.pass_on(true)?;
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.orders = None;
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|_| Err(failed())),
            None => Err(failed()),
        }
    }
}

/// Adds a directory to those that are synced by [`sync_names`].
///
/// # Errors
/// Too many are open, and one of them could not be synced.
pub(super) fn sync_later(folder: Folder, folders: &mut Vec<Folder>) -> io::Result<()> {
    folders.push(folder);
    if folders.len() < OPEN_MAX {
        return Ok(());
    }
    match system::disk_of(&folders[0])?.needs_files() {
        true => folders.drain(..).try_for_each(|folder| folder.sync()),
        false => {
            folders.truncate(1);
            Ok(())
        }
    }
}

/// Makes the names in `directory` and in `folders` durable, and everything else that was changed in files below them.
///
/// # Errors
/// It is not certain.
pub(super) fn sync_names(directory: &Folder, folders: Vec<Folder>) -> io::Result<()> {
    let mut disk = system::disk_of(directory)?;
    if !disk.needs_files() {
        return disk.sync(&[]);
    }
    folders.into_iter().try_for_each(|folder| folder.sync())?;
    directory.sync()
}

fn failed() -> io::Error {
    io::Error::other("an earlier file could not be written to the disk")
}

fn serve(
    mut disk: Box<dyn Disk>,
    batches: &Receiver<Batch>,
    durable: impl Fn(Count),
) -> io::Result<()> {
    for batch in batches {
        disk.sync(&batch.files)?;
        durable(batch.count);
    }
    Ok(())
}

/// Syncs files one by one, several at once.
#[derive(Debug)]
struct Files;

impl Disk for Files {
    fn needs_files(&self) -> bool {
        true
    }

    fn sync(&mut self, files: &[File]) -> io::Result<()> {
        let share = files.len().div_ceil(THREADS).max(1);
        let sync = |files: &[File]| files.iter().try_for_each(File::sync_all);
        std::thread::scope(|scope| {
            let threads: Vec<_> = files
                .chunks(share)
                .map(|files| scope.spawn(move || sync(files)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(failed())))
        })
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Disk, File, Files, Folder, io};

    /// File systems in which `syncfs` returns when everything is on the disk: ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, tmpfs,
    /// and overlays of them. A server behind FUSE or a network is not asked by it.
    const KNOWN: [u64; 8] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0xf2f5_2010,
        0x2fc1_2fc1,
        0xca45_1a4e,
        0x0102_1994,
        0x794c_7630,
    ];
    /// Linux from which on `syncfs` returns the failures of single files.
    const REPORTS_SINCE: (u32, u32) = (5, 8);

    /// Syncs the whole file system of a folder.
    #[derive(Debug)]
    struct System(Folder);

    impl Disk for System {
        fn needs_files(&self) -> bool {
            false
        }

        fn sync(&mut self, _: &[File]) -> io::Result<()> {
            Ok(rustix::fs::syncfs(&self.0)?)
        }
    }

    pub(super) fn disk_of(folder: &Folder) -> io::Result<Box<dyn Disk>> {
        let kind = rustix::fs::fstatfs(folder)?.f_type;
        if !KNOWN.contains(&u64::from(kind as u32)) || !reports_failures() {
            return Ok(Box::new(Files));
        }
        // A description of its own: failures since it was opened are reported by it.
        Ok(Box::new(System(folder.child(".")?)))
    }

    fn reports_failures() -> bool {
        let system = rustix::system::uname();
        version(&system.release().to_string_lossy()) >= Some(REPORTS_SINCE)
    }

    fn version(release: &str) -> Option<(u32, u32)> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn versions_are_compared_by_number() {
            assert_eq!(version("6.18.44-fc"), Some((6, 18)));
            assert!(version("5.10.0") > Some(REPORTS_SINCE));
            assert!(version("5.4.0") < Some(REPORTS_SINCE));
            assert!(version("odd") < Some(REPORTS_SINCE));
        }

        #[test]
        fn a_folder_syncs_with_what_its_file_system_offers() {
            let disk = tempfile::tempdir().unwrap();
            let mut real = disk_of(&Folder::open(disk.path()).unwrap()).unwrap();
            real.sync(&[]).unwrap();
            // No file system with files: `syncfs` says nothing of them.
            let proc = Folder::open("/proc".as_ref()).unwrap();
            assert!(disk_of(&proc).unwrap().needs_files());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Disk, Files, Folder, io};

    pub(super) fn disk_of(_: &Folder) -> io::Result<Box<dyn Disk>> {
        Ok(Box::new(Files))
    }
}

#[cfg(test)]
mod tests;
