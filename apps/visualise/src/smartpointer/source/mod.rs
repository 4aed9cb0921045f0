//! Source: an application that is attached to a node, plays a trajectory, and sends its frames to peers.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Source`]: its settings, and the streams that it takes |
//! | `looker` | a viewer: its view, and what waits for its streams |
//! | `play` | the frames at their times |
//! | `stream` | the streams of viewers |

mod looker;
mod play;
mod stream;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{
    Client, ClientError,
    base::{
        NodeId,
        text::{REASON_CHARS, printable},
    },
    local::client::{Service, Stream},
    net::limited,
};
use looker::Looker;
use tokio::{
    sync::{mpsc, watch as state},
    task::JoinSet,
    time::{Instant, timeout},
};

use super::wire::Label;
use crate::{
    molecule::{Topology, Trajectory},
    promise::Asking,
    streams::{CODE_BUSY, CODE_MALFORMED, End, Places, refuse},
};

/// Time for viewers to get what is on its way when the source ends.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Viewers at a time.
const LOOKERS_MAX: usize = 64;
/// Viewers of one peer at a time.
const LOOKERS_OF_PEER_MAX: usize = 8;

/// Settings of a source.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the molecule, in the labels of streams.
    pub name: String,
    /// Frames a second, from 1 to 240.
    pub rate: u32,
    /// The trajectory begins anew at its end.
    pub is_looping: bool,
    /// Promise for atoms and for bonds in view.
    pub asking: Asking,
}

/// Something that a source reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// The first viewer is there, and the frames begin.
    Begun,
    /// A viewer looks.
    Looking {
        /// Peer.
        peer: NodeId,
    },
    /// A viewer has changed its view.
    View {
        /// Peer.
        peer: NodeId,
        /// Number of the view.
        number: u32,
        /// Number of its half-spaces.
        planes: usize,
    },
    /// A viewer has left.
    Left {
        /// Peer.
        peer: NodeId,
        /// Frames of atoms, bonds in view and bonds out of view that were handed to the node.
        sent: [u64; 3],
        /// Frames that were skipped before that, because the streams did not keep up.
        skipped: [u64; 3],
    },
}

/// A source of the frames of one molecule.
#[derive(Debug)]
pub struct Source {
    settings: Settings,
    topology: Topology,
    trajectory: Mutex<Trajectory>,
    /// Time of frame 0, once it is known.
    begin: Mutex<Option<Instant>>,
    /// Number of the next frame.
    next: AtomicU64,
    lookers: Mutex<BTreeMap<u64, Arc<Looker>>>,
    /// Viewers that have not been reported to have left.
    present: state::Sender<usize>,
    /// Streams with frames.
    watching: state::Sender<usize>,
    ended: state::Sender<Option<String>>,
    places: Arc<Places>,
    numbers: AtomicU64,
    reports: mpsc::Sender<Report>,
}

impl Source {
    /// A source with its settings; what happens is reported to `reports`, as long as that has space.
    pub fn new(
        settings: Settings,
        trajectory: Trajectory,
        reports: mpsc::Sender<Report>,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings,
            topology: trajectory.topology().clone(),
            trajectory: Mutex::new(trajectory),
            begin: Mutex::default(),
            next: AtomicU64::new(0),
            lookers: Mutex::default(),
            present: state::Sender::new(0),
            watching: state::Sender::new(0),
            ended: state::Sender::new(None),
            places: Arc::default(),
            numbers: AtomicU64::new(1),
            reports,
        })
    }

    /// Registers the label of the molecule at the node.
    ///
    /// # Errors
    /// The connection to the node is over, or another application has it.
    pub async fn register(&self, client: &Client) -> Result<Service, ClientError> {
        let name = self.settings.name.clone();
        client.register(&Label { name }.to_string()).await
    }

    /// Serves the streams of a registration until the connection to the node is over; returns the reason.
    pub async fn serve(self: &Arc<Self>, service: &Service) -> ClientError {
        let mut serving = JoinSet::new();
        loop {
            while serving.try_join_next().is_some() {}
            let (peer, stream) = match service.accept().await {
                Ok(accepted) => accepted,
                Err(error) => return error,
            };
            let Some(place) = self.places.enter(peer) else {
                refuse(&stream, CODE_BUSY);
                continue;
            };
            let source = self.clone();
            serving.spawn(async move {
                let _place = place;
                source.stream(peer, &stream).await;
            });
        }
    }

    async fn stream(self: Arc<Self>, peer: NodeId, stream: &Stream) {
        match self.streamed(peer, stream).await {
            Ok(()) | Err(End::Stream(_)) => {}
            Err(End::Full) => refuse(stream, CODE_BUSY),
            Err(end) => {
                let words = printable(&end.to_string(), REASON_CHARS);
                limited!(info, %peer, error = words, "a stream about a molecule was refused");
                refuse(stream, CODE_MALFORMED);
            }
        }
    }

    /// Waits until all viewers have left and that was reported, for at most ten seconds.
    pub async fn idle(&self) {
        let (mut watching, mut present) = (self.watching.subscribe(), self.present.subscribe());
        let all = async {
            // The senders are of this source.
            let _ = watching.wait_for(|count| *count == 0).await;
            let _ = present.wait_for(|count| *count == 0).await;
        };
        // A viewer that takes nothing is left behind.
        let _ = timeout(IDLE_TIME, all).await;
    }

    fn lookers(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Looker>>> {
        self.lookers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> MutexGuard<'_, Option<Instant>> {
        self.begin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1) / self.settings.rate.max(1)
    }

    /// A viewer of a peer; `None`: there are too many.
    fn enter(&self, peer: NodeId) -> Option<Arc<Looker>> {
        let mut lookers = self.lookers();
        let of_peer = lookers.values().filter(|looker| looker.peer == peer);
        if lookers.len() >= LOOKERS_MAX || of_peer.count() >= LOOKERS_OF_PEER_MAX {
            return None;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let looker = Arc::new(Looker::new(number, peer));
        lookers.insert(number, looker.clone());
        Some(looker)
    }

    fn report(&self, report: Report) {
        // Without space, nobody reads the reports.
        let _ = self.reports.try_send(report);
    }
}
