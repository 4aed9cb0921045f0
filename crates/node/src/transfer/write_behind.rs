//! Write-behind: data is written to the disk while more arrives, so that the end of a transfer need not wait for it.

use std::{
    fs::File,
    io,
    sync::mpsc::{SyncSender, sync_channel},
    thread::JoinHandle,
};

/// Bytes written between two sync requests: about a second's worth at 130 Mbit/s.
const STEP_BYTES: u64 = 16 << 20;

/// A thread that syncs one file to the disk at intervals. It starts with the first step, so that small files need no thread.
#[derive(Debug, Default)]
pub(super) struct WriteBehind {
    written: u64,
    worker: Option<Worker>,
}

#[derive(Debug)]
struct Worker {
    /// Capacity for one request: a slow disk gets no second one.
    orders: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl WriteBehind {
    /// Counts `bytes` more written to `file`.
    ///
    /// # Errors
    /// The process cannot get another thread or descriptor.
    pub(super) fn wrote(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        let before = self.written / STEP_BYTES;
        self.written += bytes;
        if self.written / STEP_BYTES == before {
            return Ok(());
        }
        let worker = match &mut self.worker {
            Some(worker) => worker,
            None => self.worker.insert(Worker::start(file.try_clone()?)?),
        };
        // Full: the last request is still being carried out. Closed: it failed, and `finish` returns the error.
        let _ = worker.orders.try_send(());
        Ok(())
    }

    /// Waits for the last sync.
    ///
    /// # Errors
    /// The disk failed in the meantime. The system reports this only once, so a later sync might succeed without the data on
    /// the disk.
    pub(super) fn finish(self) -> io::Result<()> {
        let Some(Worker { orders, thread }) = self.worker else {
            return Ok(());
        };
        drop(orders);
        thread.join().unwrap_or_else(|_| {
            Err(io::Error::other(
                "the thread that writes to the disk failed",
            ))
        })
    }
}

impl Worker {
    fn start(file: File) -> io::Result<Self> {
        let (orders, taken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("write-behind".to_owned())
            .spawn(move || {
                for () in taken {
                    file.sync_data()?;
                }
                Ok(())
            })?;
        Ok(Self { orders, thread })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn small_files_need_no_thread_and_large_ones_one() {
        let mut file = tempfile::tempfile().unwrap();
        let mut behind = WriteBehind::default();
        let chunk = vec![7; 1 << 20];
        for step in 1..=40_u64 {
            file.write_all(&chunk).unwrap();
            behind.wrote(&file, chunk.len() as u64).unwrap();
            assert_eq!(behind.worker.is_some(), step >= 16, "{step}");
        }
        behind.finish().unwrap();
    }

    #[test]
    fn a_failing_disk_is_reported_at_the_end() {
        // A pipe cannot be synced.
        let (_reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut behind = WriteBehind::default();
        behind.wrote(&file, STEP_BYTES).unwrap();
        assert!(behind.finish().is_err());
    }
}
