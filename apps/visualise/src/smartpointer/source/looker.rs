//! A viewer: its view, and the frames that wait for its streams.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch::base::NodeId;
use tokio::sync::watch as state;

use crate::{
    queue::Queue,
    smartpointer::{
        frame::{FramePart, HEADER_BYTES, Part},
        view::View,
    },
};

/// Frames that wait for a stream; a newer one takes the place of the oldest.
const FRAMES_MAX: usize = 5;
/// Bytes of them, or one frame.
const QUEUE_BYTES: usize = 4 << 20;

/// A viewer, from its first stream to the end of that.
#[derive(Debug)]
pub(super) struct Looker {
    pub(super) number: u64,
    pub(super) peer: NodeId,
    view: Mutex<(u32, View)>,
    outlets: Mutex<[Option<Arc<Outlet>>; 3]>,
}

/// Frames that wait for a stream with a part of each.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) queue: Queue<FramePart>,
    pub(super) sent: AtomicU64,
    pub(super) skipped: AtomicU64,
    /// Rate of the largest frame of the last second, in bit/s.
    pub(super) rate: state::Sender<u64>,
    /// Bytes of the frames of the last second.
    recent: Mutex<VecDeque<usize>>,
}

impl Outlet {
    fn new() -> Self {
        Self {
            queue: Queue::with_limits(QUEUE_BYTES, FRAMES_MAX),
            sent: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            rate: state::Sender::new(0),
            recent: Mutex::default(),
        }
    }

    /// One more frame, of so many a second.
    pub(super) fn give(&self, part: FramePart, per_second: u32) {
        let bytes = HEADER_BYTES + part.body.len();
        let largest = {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            if recent.len() >= per_second as usize {
                recent.pop_front();
            }
            recent.push_back(bytes);
            recent.iter().copied().max().unwrap_or_default()
        };
        let rate = 8 * largest as u64 * u64::from(per_second);
        self.rate
            .send_if_modified(|before| std::mem::replace(before, rate) != rate);
        let skipped = self.queue.renew(bytes, part);
        self.skipped.fetch_add(skipped, Ordering::Relaxed);
    }
}

impl Looker {
    pub(super) fn new(number: u64, peer: NodeId) -> Self {
        Self {
            number,
            peer,
            view: Mutex::default(),
            outlets: Mutex::default(),
        }
    }

    fn outlets(&self) -> MutexGuard<'_, [Option<Arc<Outlet>>; 3]> {
        self.outlets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The view, with its number.
    pub(super) fn view(&self) -> (u32, View) {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.clone()
    }

    pub(super) fn look(&self, number: u32, view: View) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = (number, view);
    }

    /// The outlet of a stream with a part; `None`: there is another one.
    pub(super) fn open(&self, part: Part) -> Option<Arc<Outlet>> {
        let mut outlets = self.outlets();
        let outlet = &mut outlets[part.index()];
        if outlet.is_some() {
            return None;
        }
        Some(outlet.insert(Arc::new(Outlet::new())).clone())
    }

    /// The outlet of a part, if there is a stream for it.
    pub(super) fn outlet(&self, part: Part) -> Option<Arc<Outlet>> {
        self.outlets()[part.index()].clone()
    }

    /// No frame follows; with `is_abandoned`, nor do those that wait.
    pub(super) fn close(&self, is_abandoned: bool) {
        for outlet in self.outlets().iter().flatten() {
            match is_abandoned {
                true => outlet.queue.abandon(),
                false => outlet.queue.close(),
            }
        }
    }

    /// Frames that were sent and skipped, by part.
    pub(super) fn counts(&self) -> ([u64; 3], [u64; 3]) {
        let outlets = self.outlets();
        let count = |of: fn(&Outlet) -> &AtomicU64| {
            let one = |at: usize| {
                outlets[at]
                    .as_ref()
                    .map(|one| of(one).load(Ordering::Relaxed))
            };
            std::array::from_fn(|at| one(at).unwrap_or_default())
        };
        (count(|one| &one.sent), count(|one| &one.skipped))
    }
}
