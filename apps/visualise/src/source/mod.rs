//! Source: an application that is attached to a node, beside a simulation, which sends the simulation's frames to peers.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Source`]: its settings, and the streams that it takes |
//! | `live` | the session with a simulation, and those who watch it |
//! | `simulation` | the connection to the simulation |
//! | `watch` | a stream with frames |
//! | `steer` | a stream with commands |

mod live;
mod simulation;
mod steer;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    sync::{
        Arc,
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
use live::Live;
use tokio::{
    sync::{mpsc, watch as state},
    task::JoinSet,
    time::timeout,
};

use crate::{
    imd::SessionInfo,
    streams::{CODE_BUSY, CODE_MALFORMED, End, Places, refuse},
    wire::{Label, Purpose},
};

pub use crate::promise::Asking;

/// Time for viewers to get what is on its way when the source ends.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// Settings of a source.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the simulation, in the labels of streams.
    pub name: String,
    /// `HOST:PORT` of the simulation.
    pub address: String,
    /// The simulation waits for viewers: it is connected to when the first one is there, and held up by the slowest.
    pub is_waiting: bool,
    /// Peers with the right to steer may pause it and change its rate of frames.
    pub may_steer: bool,
    /// Peers with the right to steer may end it.
    pub may_kill: bool,
    /// Promise for box and positions.
    pub asking: Asking,
}

/// Something that a source reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// A session with the simulation has begun.
    Begun(SessionInfo),
    /// The first frame has arrived, with so many atoms.
    First {
        /// Atoms; `None`: no section has any.
        atoms: Option<u32>,
    },
    /// The session is over.
    Ended {
        /// Reason.
        why: String,
        /// Frames that arrived.
        frames: u64,
    },
    /// A viewer has left, or the session with it.
    Left {
        /// Peer.
        peer: NodeId,
        /// Sections of the stream.
        sections: String,
        /// Frames that were sent.
        sent: u64,
        /// Frames that were skipped, because the paths did not carry them.
        skipped: u64,
    },
    /// A peer has sent a command that was done.
    Steered {
        /// Peer.
        peer: NodeId,
        /// The command.
        command: String,
    },
}

/// A source of the frames of one simulation.
#[derive(Debug)]
pub struct Source {
    settings: Settings,
    live: state::Sender<Option<Arc<Live>>>,
    /// Streams with frames, including those that wait for a session.
    watching: state::Sender<usize>,
    places: Arc<Places>,
    numbers: AtomicU64,
    reports: mpsc::Sender<Report>,
}

impl Source {
    /// A source with its settings; what happens is reported to `reports`, as long as that has space.
    pub fn new(settings: Settings, reports: mpsc::Sender<Report>) -> Arc<Self> {
        Arc::new(Self {
            settings,
            live: state::Sender::new(None),
            watching: state::Sender::new(0),
            places: Arc::default(),
            numbers: AtomicU64::new(1),
            reports,
        })
    }

    /// Registers the labels of the simulation at the node.
    ///
    /// # Errors
    /// The connection to the node is over, or another application has them.
    pub async fn register(&self, client: &Client) -> Result<[Service; 2], ClientError> {
        let label = |purpose| {
            let name = self.settings.name.clone();
            Label { purpose, name }.to_string()
        };
        let watch = client.register(&label(Purpose::Watch)).await?;
        Ok([watch, client.register(&label(Purpose::Steer)).await?])
    }

    /// Serves the streams of a registration until the connection to the node is over; returns the reason.
    pub async fn serve(self: &Arc<Self>, [watch, steer]: &[Service; 2]) -> ClientError {
        let mut serving = JoinSet::new();
        loop {
            while serving.try_join_next().is_some() {}
            let accepted = tokio::select! {
                accepted = watch.accept() => accepted.map(|of| (Purpose::Watch, of)),
                accepted = steer.accept() => accepted.map(|of| (Purpose::Steer, of)),
            };
            let (purpose, (peer, stream)) = match accepted {
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
                source.stream(peer, purpose, &stream).await;
            });
        }
    }

    async fn stream(self: Arc<Self>, peer: NodeId, purpose: Purpose, stream: &Stream) {
        let ended = match purpose {
            Purpose::Watch => self.watched(peer, stream).await,
            Purpose::Steer => self.steered(peer, stream).await,
        };
        match ended {
            Ok(()) | Err(End::Stream(_)) => {}
            Err(end) => {
                let words = printable(&end.to_string(), REASON_CHARS);
                limited!(info, %peer, error = words, "a stream about a simulation was refused");
                refuse(stream, CODE_MALFORMED);
            }
        }
    }

    /// Waits until no stream with frames is left, for at most a minute.
    pub async fn idle(&self) {
        let mut watching = self.watching.subscribe();
        // A viewer that takes nothing is left behind; the sender is of this source.
        let _ = timeout(IDLE_TIME, watching.wait_for(|count| *count == 0)).await;
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn report(&self, report: Report) {
        // Without space, nobody reads the reports.
        let _ = self.reports.try_send(report);
    }
}
