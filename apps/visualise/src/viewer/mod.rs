//! Viewer: serves the frames of a source to unmodified IMDv3 clients.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Viewer`]: its endpoints and settings |
//! | `watch` | the streams of a session with a simulation |
//! | `section` | sections from their parts |
//! | `assemble` | frames from their sections |
//! | `room` | the clients that are served, by endpoint |
//! | `client` | a connection of a client |
//! | `steer` | commands of clients to the source |

mod assemble;
mod client;
mod room;
mod section;
mod steer;
#[cfg(test)]
mod tests;
mod watch;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anabranch::Failure;
use room::Room;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc, watch as state},
    task::JoinSet,
    time::sleep,
};

use crate::{
    VisualiseError,
    imd::{Command, Sections, SessionInfo},
    wire::{Label, Purpose},
};

/// Clients of an endpoint at a time.
const CLIENTS_MAX: usize = 64;
/// Pause after a client could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Settings of a viewer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the simulation at the source.
    pub name: String,
    /// Nothing is skipped here: frames begin with the first client, and the slowest client holds up all.
    pub is_waiting: bool,
    /// Commands of clients go to the simulation.
    pub is_steering: bool,
}

/// Something that a viewer reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// There is no simulation yet.
    Waiting {
        /// Reason.
        why: String,
    },
    /// A session with a simulation has begun.
    Begun(SessionInfo),
    /// State of the promise for positions.
    Promise {
        /// Rate, in bit/s; `None`: none is promised.
        rate_bps: Option<u64>,
        /// Reason why none is.
        why: String,
    },
    /// Frames lacked a section of an endpoint.
    Skipped {
        /// Sections of the endpoint.
        sections: String,
        /// Frames, in a row.
        frames: u64,
    },
    /// A client is served.
    Client {
        /// Its address.
        address: SocketAddr,
        /// Sections that it gets.
        sections: String,
    },
    /// A client has left, or was turned away.
    Left {
        /// Its address.
        address: SocketAddr,
        /// Frames that it got.
        served: u64,
        /// Frames that it lost, because it did not read them.
        skipped: u64,
        /// Reason, if it was turned away.
        why: Option<String>,
    },
    /// The source refuses a command.
    Refused {
        /// Reason.
        why: String,
    },
    /// The session is over.
    Ended {
        /// Reason.
        why: String,
        /// Frames that were complete, by endpoint.
        frames: Vec<u64>,
        /// Frames that were skipped, by endpoint.
        skipped: Vec<u64>,
    },
}

/// Command of a client, for the source.
#[derive(Clone, Copy, Debug)]
struct Steered {
    client: u64,
    command: Command,
}

/// State that the tasks of a viewer share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    room: state::Sender<Option<Arc<Room>>>,
    /// Connections of clients.
    connected: state::Sender<usize>,
    /// Clients that are served.
    seated: state::Sender<usize>,
    steered: mpsc::Sender<Steered>,
    reports: mpsc::Sender<Report>,
}

impl Shared {
    /// The error of a stream.
    fn error(&self, error: &impl Failure, purpose: Purpose) -> VisualiseError {
        let name = self.settings.name.clone();
        let command = format!("anabranch imd source --name {name} HOST:PORT");
        let label = Label { purpose, name };
        VisualiseError::of(error, &self.settings.name, label.to_string(), command)
    }

    fn report(&self, report: Report) {
        // Without space, nobody reads the reports.
        let _ = self.reports.try_send(report);
    }
}

/// Endpoints that serve clients, for one session with a simulation after the other.
#[derive(Debug)]
pub struct Viewer {
    shared: Arc<Shared>,
    endpoints: Vec<Sections>,
    steered: mpsc::Receiver<Steered>,
    _accepting: JoinSet<()>,
}

impl Viewer {
    /// Serves clients at each listener, with these sections as far as the simulation sends them. What happens is reported to `reports`,
    /// as long as that has space. Within a runtime.
    pub fn new(
        endpoints: Vec<(TcpListener, Sections)>,
        settings: Settings,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let (commands, steered) = mpsc::channel(64);
        let shared = Arc::new(Shared {
            settings,
            room: state::Sender::new(None),
            connected: state::Sender::new(0),
            seated: state::Sender::new(0),
            steered: commands,
            reports,
        });
        let sections = endpoints.iter().map(|(_, sections)| *sections).collect();
        let mut accepting = JoinSet::new();
        for (number, (listener, _)) in endpoints.into_iter().enumerate() {
            accepting.spawn(accept(listener, number, shared.clone()));
        }
        Self {
            shared,
            endpoints: sections,
            steered,
            _accepting: accepting,
        }
    }

    /// Waits until a client is connected.
    async fn connected(&self) {
        // The sender is of this viewer.
        let _ = (self.shared.connected.subscribe())
            .wait_for(|count| *count > 0)
            .await;
    }

    /// Waits until all clients of sessions that are over have got what there was for them.
    pub async fn drained(&self) {
        // The sender is of this viewer.
        let _ = (self.shared.seated.subscribe())
            .wait_for(|count| *count == 0)
            .await;
    }
}

/// Accepts the clients of an endpoint.
async fn accept(listener: TcpListener, endpoint: usize, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    let mut clients = JoinSet::new();
    loop {
        while clients.try_join_next().is_some() {}
        // The semaphore is not closed. Clients beyond the number wait in the backlog.
        let place = places.clone().acquire_owned().await;
        match listener.accept().await {
            Ok((socket, address)) => {
                let shared = shared.clone();
                clients.spawn(async move {
                    let _place = place;
                    client::serve(socket, address, endpoint, &shared).await;
                });
            }
            // Such as too many open files.
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}
