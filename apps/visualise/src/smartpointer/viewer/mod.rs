//! Viewer: receives the frames of a source, and hands them to pages.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Viewer`]: its settings, and what is shared |
//! | `watch` | the streams of a session with a source |
//! | `account` | frames of a part: those that came, and those that were skipped |
//! | `guest` | what waits for a page |
//! | `state` | the state for pages |

mod account;
mod guest;
mod state;
mod watch;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use account::Account;
use anabranch::peer_clock::{Age, PeerClock};
use bytes::Bytes;
pub use guest::{Guest, Visit};
use tokio::{
    sync::{mpsc, watch as changes},
    time::Instant,
};

use super::{frame::Part, view::View, wire::Begun};

/// Something that a viewer reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// A source shows its molecule.
    Begun(Begun),
    /// State of the promise of a part.
    Promise {
        /// The part.
        part: Part,
        /// Rate, in bit/s; `None`: none is promised.
        rate_bps: Option<u64>,
        /// Reason why none is.
        why: String,
    },
    /// The source shows nothing more.
    Ended {
        /// Reason.
        why: String,
        /// Frames of atoms, bonds in view and bonds out of view that came.
        frames: [u64; 3],
        /// The same of those that were skipped.
        skipped: [u64; 3],
    },
}

/// A part of a frame that has come.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// The part.
    pub part: Part,
    /// Number of the frame.
    pub frame: u64,
    /// Number of the view.
    pub view: u32,
    /// Atoms or bonds.
    pub count: usize,
    /// Bytes of the ADU.
    pub bytes: usize,
    /// Time of its arrival.
    pub at: Instant,
    /// Age at that time; `None`: the clock of the source is not known yet.
    pub age: Option<Age>,
}

/// Settings of a viewer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the molecule at the source.
    pub name: String,
    /// Told of each part of a frame that comes, as long as there is space.
    pub arrived: Option<mpsc::Sender<Arrived>>,
}

/// A viewer, for one session with a source after the other. Clones share it.
#[derive(Clone, Debug)]
pub struct Viewer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Beginning of the viewer's clock.
    start: Instant,
    view: changes::Sender<(u32, View)>,
    inner: Mutex<Inner>,
    guests: Mutex<Vec<Arc<Guest>>>,
    sessions: AtomicU64,
    reports: mpsc::Sender<Report>,
}

/// The newest that is known of the source.
#[derive(Debug, Default)]
struct Inner {
    session: u64,
    begun: Option<Begun>,
    elements: Bytes,
    parts: [Account; 3],
    clock: PeerClock,
    /// Reason why there are no frames.
    why: Option<String>,
}

impl Viewer {
    /// A viewer with its settings; what happens is reported to `reports`, as long as that has space.
    pub fn new(settings: Settings, reports: mpsc::Sender<Report>) -> Self {
        let shared = Shared {
            settings,
            start: Instant::now(),
            view: changes::Sender::default(),
            inner: Mutex::default(),
            guests: Mutex::default(),
            sessions: AtomicU64::new(0),
            reports,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Changes the view; returns its number, which frames carry that are divided by it. A later source is told of it, too.
    pub fn look(&self, view: View) -> u32 {
        let mut number = 0;
        self.shared.view.send_modify(|(last, held)| {
            *last = last.wrapping_add(1).max(1);
            number = *last;
            *held = view;
        });
        number
    }

    /// Atomic numbers of the atoms; empty before the first source.
    pub fn elements(&self) -> Bytes {
        self.shared.inner().elements.clone()
    }

    /// True once a source has shown its molecule.
    pub fn was_begun(&self) -> bool {
        self.shared.inner().begun.is_some()
    }

    /// There are no frames, for this reason, until a source is watched again.
    pub fn wait_for(&self, why: &str) {
        let mut inner = self.shared.inner();
        inner.why = Some(why.to_owned());
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guests(&self) -> MutexGuard<'_, Vec<Arc<Guest>>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time of the viewer, in microseconds.
    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_micros() as u64
    }

    fn session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn report(&self, report: Report) {
        // Without space, nobody reads the reports.
        let _ = self.reports.try_send(report);
    }
}

impl Inner {
    /// Age of a frame at a time of the viewer.
    fn age(&self, frame: u64, now_us: u64) -> Option<Age> {
        let period = self.begun?.period_us;
        self.clock.age(now_us, frame.saturating_mul(period))
    }
}

/// Age from which the newest frame of a part is stale.
pub const STALE_AGE: Duration = Duration::from_millis(500);
