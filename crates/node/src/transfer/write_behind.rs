//! Write-behind: data is written to the disk while more arrives, so that the end of a transfer need not wait for it, and what is
//! durable of a large file is known before its end.

use std::{
    fs::File,
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{barrier::Count, progress::Progress};

/// Bytes between two sync requests: about a second's worth at 130 Mbit/s.
const STEP_BYTES: u64 = 16 << 20;
/// Time between two sync requests when less than that arrives.
const STEP_TIME: Duration = Duration::from_secs(1);

/// A thread that syncs one file to the disk at intervals, and counts its bytes as durable. It starts with the first step, so that
/// small files need no thread.
#[derive(Debug)]
pub(super) struct WriteBehind {
    progress: Progress,
    /// Position in the file, and time, of the last request.
    ordered: (u64, Instant),
    worker: Option<Worker>,
}

#[derive(Debug)]
struct Worker {
    /// Positions up to which the file is written. Capacity for one: a slow disk gets no second one.
    orders: SyncSender<u64>,
    /// Returns the bytes that it has counted.
    thread: JoinHandle<io::Result<u64>>,
}

impl WriteBehind {
    /// For a file of which nothing is counted in `progress` yet.
    pub(super) fn new(progress: Progress, now: Instant) -> Self {
        Self {
            progress,
            ordered: (0, now),
            worker: None,
        }
    }

    /// Notes that `file` is written up to `position`.
    ///
    /// # Errors
    /// The process cannot get another thread or descriptor.
    pub(super) fn wrote(&mut self, file: &File, position: u64, now: Instant) -> io::Result<()> {
        let (last, at) = self.ordered;
        let is_late = position > last && now.duration_since(at) >= STEP_TIME;
        if position.saturating_sub(last) < STEP_BYTES && !is_late {
            return Ok(());
        }
        let worker = match &mut self.worker {
            Some(worker) => worker,
            None => self
                .worker
                .insert(Worker::start(file.try_clone()?, self.progress.clone())?),
        };
        // Full: the last request is still being carried out. Closed: it failed, and `finish` returns the error.
        if worker.orders.try_send(position).is_ok() {
            self.ordered = (position, now);
        }
        Ok(())
    }

    /// Waits for the last sync; returns the bytes that were counted as durable.
    ///
    /// # Errors
    /// The disk failed in the meantime. The system reports this only once, so a later sync might succeed without the data on
    /// the disk.
    pub(super) fn finish(self) -> io::Result<u64> {
        let Some(Worker { orders, thread }) = self.worker else {
            return Ok(0);
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
    fn start(file: File, progress: Progress) -> io::Result<Self> {
        let (orders, taken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("write-behind".to_owned())
            .spawn(move || serve(&file, &taken, &progress))?;
        Ok(Self { orders, thread })
    }
}

fn serve(file: &File, positions: &Receiver<u64>, progress: &Progress) -> io::Result<u64> {
    let mut counted = 0;
    for position in positions {
        file.sync_data()?;
        let bytes = position - counted;
        progress.durable(Count { files: 0, bytes });
        counted = position;
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn small_files_need_no_thread_and_large_ones_one() {
        let mut file = tempfile::tempfile().unwrap();
        let (progress, now) = (Progress::default(), Instant::now());
        let mut behind = WriteBehind::new(progress.clone(), now);
        let chunk = vec![7; 1 << 20];
        for step in 1..=40_u64 {
            file.write_all(&chunk).unwrap();
            behind.wrote(&file, step << 20, now).unwrap();
            assert_eq!(behind.worker.is_some(), step >= 16, "{step}");
        }
        let counted = behind.finish().unwrap();
        assert!((16 << 20..=40 << 20).contains(&counted), "{counted}");
        assert_eq!(progress.snapshot().bytes_durable, counted);
        assert_eq!(progress.snapshot().files_done, 0);
    }

    #[test]
    fn what_trickles_in_is_durable_after_a_second() {
        let mut file = tempfile::tempfile().unwrap();
        let (progress, now) = (Progress::default(), Instant::now());
        let mut behind = WriteBehind::new(progress.clone(), now);
        file.write_all(b"abc").unwrap();
        behind.wrote(&file, 3, now + STEP_TIME / 2).unwrap();
        assert!(behind.worker.is_none());
        behind.wrote(&file, 3, now + STEP_TIME).unwrap();
        assert_eq!(behind.finish().unwrap(), 3);
        assert_eq!(progress.snapshot().bytes_durable, 3);
    }

    #[test]
    fn a_failing_disk_is_reported_at_the_end() {
        // A pipe cannot be synced.
        let (_reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let progress = Progress::default();
        let mut behind = WriteBehind::new(progress.clone(), Instant::now());
        behind.wrote(&file, STEP_BYTES, Instant::now()).unwrap();
        assert!(behind.finish().is_err());
        assert_eq!(progress.snapshot().bytes_durable, 0);
    }
}
