//! The session with a simulation, and those who watch it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::{Notify, mpsc};

use crate::{
    holds::Holds,
    imd::{Command, Frame, Section, Sections, SessionInfo},
    queue::Queue,
    wire::Begun,
};

/// Sections whose rate is promised.
const PROMISED: Sections = Sections::of(&[Section::Box, Section::Positions]);
/// Bytes of frames that wait for one stream. Streams share the frames, and hold whole ones whatever sections they send.
const QUEUE_BYTES: usize = 32 << 20;
/// The same for all streams together; each may have one frame beyond it.
const QUEUES_BYTES: usize = 256 << 20;

/// A stream with frames.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) sections: Sections,
    pub(super) queue: Queue<(u64, Frame)>,
    pub(super) sent: AtomicU64,
    pub(super) skipped: AtomicU64,
    /// Its viewer is ready for frames.
    is_ready: AtomicBool,
}

/// A session with a simulation, whose frames have the same number of atoms.
#[derive(Debug)]
pub(super) struct Live {
    number: u64,
    info: SessionInfo,
    inner: Mutex<Inner>,
    /// A viewer has become ready.
    ready: Notify,
    commands: mpsc::Sender<Command>,
    holds: Mutex<Holds>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// Bytes of box and positions that arrived.
    positions_bytes: u64,
    watchers: Vec<Arc<Watcher>>,
    ended: Option<String>,
}

impl Live {
    pub(super) fn new(number: u64, info: SessionInfo, commands: mpsc::Sender<Command>) -> Self {
        Self {
            number,
            info,
            inner: Mutex::default(),
            ready: Notify::new(),
            commands,
            holds: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stream, which gets all frames from the one whose number is returned.
    pub(super) fn join(&self, sections: Sections) -> (Arc<Watcher>, Begun) {
        let watcher = Arc::new(Watcher {
            sections,
            queue: Queue::new(QUEUE_BYTES),
            sent: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            is_ready: AtomicBool::new(false),
        });
        let mut inner = self.lock();
        match inner.ended {
            Some(_) => watcher.queue.close(),
            None => inner.watchers.push(watcher.clone()),
        }
        let begun = Begun {
            session: self.number,
            next: inner.next,
            order: self.info.order,
            sections: self.info.sections.bits(),
            is_wrapped: self.info.is_wrapped,
        };
        (watcher, begun)
    }

    /// Removes a stream.
    pub(super) fn leave(&self, watcher: &Arc<Watcher>) {
        watcher.queue.abandon();
        self.lock()
            .watchers
            .retain(|other| !Arc::ptr_eq(other, watcher));
    }

    /// The viewer of a stream is ready for frames.
    pub(super) fn go(&self, watcher: &Watcher) {
        watcher.is_ready.store(true, Ordering::Relaxed);
        self.ready.notify_one();
    }

    /// Waits until a viewer is ready.
    pub(super) async fn ready(&self) {
        loop {
            let is_ready = |watcher: &Arc<Watcher>| watcher.is_ready.load(Ordering::Relaxed);
            if self.lock().watchers.iter().any(is_ready) {
                return;
            }
            self.ready.notified().await;
        }
    }

    /// Gives a frame to all streams. `is_waiting`: as soon as each has space for it; otherwise streams without space skip it.
    pub(super) async fn give(&self, frame: &Frame, is_waiting: bool) {
        let (number, watchers) = {
            let mut inner = self.lock();
            let number = inner.next;
            inner.next += 1;
            inner.positions_bytes += bytes_of(frame, PROMISED) as u64;
            (number, inner.watchers.clone())
        };
        let bytes = frame.bytes();
        let mut held: usize = watchers.iter().map(|watcher| watcher.queue.bytes()).sum();
        for watcher in watchers {
            let item = (number, frame.clone());
            if is_waiting {
                watcher.queue.put(bytes, item).await;
                continue;
            }
            let has_space = held + bytes <= QUEUES_BYTES || watcher.queue.bytes() == 0;
            if has_space && watcher.queue.offer(bytes, item).is_ok() {
                held += bytes;
            } else {
                watcher.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Bytes of box and positions that have arrived.
    pub(super) fn positions_bytes(&self) -> u64 {
        self.lock().positions_bytes
    }

    /// Frames that have arrived.
    pub(super) fn frames(&self) -> u64 {
        self.lock().next
    }

    /// Ends the session: what is queued is still sent. False if it was over.
    pub(super) fn end(&self, why: &str) -> bool {
        let mut inner = self.lock();
        if inner.ended.is_some() {
            return false;
        }
        inner.ended = Some(why.to_owned());
        for watcher in inner.watchers.drain(..) {
            watcher.queue.close();
        }
        true
    }

    /// Reason why the session is over; empty if it is not.
    pub(super) fn why(&self) -> String {
        self.lock().ended.clone().unwrap_or_default()
    }

    /// Sends a command to the simulation; false if too many wait already.
    pub(super) fn command(&self, command: Command) -> bool {
        self.commands.try_send(command).is_ok()
    }

    /// One more stream has the simulation paused.
    pub(super) fn hold(&self, who: u64) -> bool {
        let mut holds = self.holds();
        let is_done = !holds.hold(who) || self.command(Command::Pause);
        if !is_done {
            holds.release(who);
        }
        is_done
    }

    /// A stream does not have the simulation paused any more.
    pub(super) fn release(&self, who: u64) -> bool {
        let is_last = self.holds().release(who);
        !is_last || self.command(Command::Resume)
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(frame: &Frame, sections: Sections) -> usize {
    let bodies = sections.iter().filter_map(|section| frame.get(section));
    bodies.map(bytes::Bytes::len).sum()
}
