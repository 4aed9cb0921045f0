//! Data goes to the disk while more arrives, so that the last word of a transfer need not wait for it.

use std::{
    fs::File,
    io,
    sync::mpsc::{SyncSender, sync_channel},
    thread::JoinHandle,
};

/// Bytes written between two orders to the disk: about a second's worth at 130 Mbit/s.
const STEP_BYTES: u64 = 16 << 20;

/// A thread that has one file written to the disk, now and then. It starts with the first step, so that
/// small files cost none.
#[derive(Debug, Default)]
pub(super) struct WriteBehind {
    written: u64,
    worker: Option<Worker>,
}

#[derive(Debug)]
struct Worker {
    /// Room for one order: a slow disk is not asked twice.
    orders: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl WriteBehind {
    /// `bytes` more were written to `file`.
    ///
    /// # Errors
    /// The process can have no further thread or descriptor.
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
        // Full: the last order is still being carried out. Closed: it failed, and `finish` says how.
        let _ = worker.orders.try_send(());
        Ok(())
    }

    /// Waits for what was ordered.
    ///
    /// # Errors
    /// The disk failed meanwhile. The system says so only once, so a later sync might succeed without the
    /// data being there.
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
    fn a_failing_disk_is_told_at_the_end() {
        // A pipe cannot be synced.
        let (_reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut behind = WriteBehind::default();
        behind.wrote(&file, STEP_BYTES).unwrap();
        assert!(behind.finish().is_err());
    }
}
