//! Source: an application that is attached to a node, beside a simulation, which sends the simulation's frames to peers.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Source`]: its settings, and the streams that it takes |
//! | `live` | the session with a simulation, and those who watch it |
//! | `simulation` | the connection to the simulation |
//! | `watch` | a stream with frames |
//! | `steer` | a stream with commands |
//! | `promise` | the promise for positions |

mod live;
mod promise;
mod simulation;
mod steer;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{
    Client, ClientError,
    base::{
        NodeId, Rate,
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
    wire::{Label, Purpose, Request, WireError, decode},
};

/// Code of a stream whose messages are none.
pub const CODE_MALFORMED: u32 = 0x20;
/// Code of a stream beyond the number that is served at a time.
pub const CODE_BUSY: u32 = 0x21;
/// Time for the first message of a stream.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Time for viewers to get what is on its way when the source ends.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// Streams at a time; a viewer has up to five.
const STREAMS_MAX: usize = 320;
/// Streams of one peer at a time.
const STREAMS_OF_PEER_MAX: usize = 40;

/// Promise that is asked for box and positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asking {
    /// None.
    Nothing,
    /// The rate at which they arrive from the simulation, which is measured.
    Measured {
        /// Share of the windows, from 0 to 1.
        share: f64,
    },
    /// A rate.
    Fixed {
        /// The rate.
        rate: Rate,
        /// Share of the windows, from 0 to 1.
        share: f64,
    },
}

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

/// Reason why a stream is over.
#[derive(Debug, thiserror::Error)]
enum End {
    /// The stream is.
    #[error(transparent)]
    Stream(#[from] ClientError),
    /// The peer does not keep to the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The peer makes no request.
    #[error("it made no request")]
    Silent,
}

/// A source of the frames of one simulation.
#[derive(Debug)]
pub struct Source {
    settings: Settings,
    live: state::Sender<Option<Arc<Live>>>,
    /// Streams with frames, including those that wait for a session.
    watching: state::Sender<usize>,
    streams: Mutex<BTreeMap<NodeId, usize>>,
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
            streams: Mutex::default(),
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
            let Some(place) = self.enter(peer) else {
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

    fn enter(self: &Arc<Self>, peer: NodeId) -> Option<Place> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = streams.get(&peer).copied().unwrap_or_default();
        if of_peer >= STREAMS_OF_PEER_MAX || streams.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        streams.insert(peer, of_peer + 1);
        let source = self.clone();
        Some(Place { source, peer })
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn report(&self, report: Report) {
        // Without space, nobody reads the reports.
        let _ = self.reports.try_send(report);
    }
}

/// A stream that is counted until this is dropped.
struct Place {
    source: Arc<Source>,
    peer: NodeId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut streams = self
            .source
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = streams.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.peer);
            }
        }
    }
}

/// The next request of a stream; `None`: the peer has finished.
async fn request(stream: &Stream) -> Result<Option<Request>, End> {
    match stream.recv().await? {
        Some(adu) => Ok(Some(decode(&adu.data)?)),
        None => Ok(None),
    }
}

/// The first request of a stream.
async fn first_request(stream: &Stream) -> Result<Request, End> {
    let first = timeout(REQUEST_TIME, request(stream)).await;
    first.map_err(|_| End::Silent)??.ok_or(End::Silent)
}

/// Resets and stops a stream.
fn refuse(stream: &Stream, code: u32) {
    // An error means that it is over.
    let _ = (stream.reset(code), stream.stop(code));
}
