//! The origin: a library of videos, and the plays that proxies ask for.
//!
//! | file | holds |
//! |---|---|
//! | `library/` | the videos of a directory or an object store: indexes, bytes of chunks |
//! | `door`, `tickets` | places of sessions, before and after they have shown a ticket; the valid tickets |
//! | `serve`, `reading` | one proxy's session: requests and answers; reading of what is asked for |
//! | `memory` | bound on the memory that data read for one ticket's proxies may take |
//! | `pump` | the task that sends what is due, and holds the pipe to the rate that the plays need |
//! | `plays`, `play` | all plays of a session behind one timer; the schedule of one play |
//! | `walk`, `group` | position of the enhanced flow; frames between key frames, and which are left out |
//! | `governor`, `counters`, `paths` | rate of the pipe and its division; statistics of the plays; rate of each path |
//! | `monitor` | the state for people and monitoring |
//! | `promise` | guarantees that essential flows request over several paths |

mod counters;
mod door;
mod governor;
mod group;
pub mod library;
mod memory;
mod monitor;
mod paths;
mod play;
mod plays;
mod promise;
mod pump;
mod reading;
mod serve;
pub mod tickets;
#[cfg(test)]
pub(crate) mod virtual_time;
mod walk;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch::{
    Controller, Ctcp, Host, HostConfig, SecretKey, Ticket,
    base::Rate,
    base::text::{REASON_CHARS, printable},
    net::limited,
    ticket::{ADDRESSES_MAX, SECRET_BYTES, Secret},
};
use tokio::task::JoinSet;

use self::{
    door::{Door, From},
    memory::Memory,
    tickets::Tickets,
};
pub use self::{
    library::{Library, LibraryError},
    monitor::Monitor,
    tickets::TicketsError,
};
use crate::clock::Clock;

/// Send buffer of a stream: bytes that wait to be sent or acknowledged.
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// Interval between checks for tickets that were made or revoked.
const TICKETS_LOOK: Duration = Duration::from_secs(1);
/// File of the tickets in an origin's state folder.
const TICKETS_FILE: &str = "tickets.json";
/// File in the state folder that records how the origin is reached.
const REACH_FILE: &str = "origin";

/// An origin: serves a library to the holders of its tickets.
#[derive(Debug)]
pub struct Origin {
    library: Arc<Library>,
    secret: Secret,
    tickets: Arc<Tickets>,
    capacity: Option<Rate>,
    monitor: Monitor,
}

/// State shared by all sessions.
#[derive(Debug)]
pub(crate) struct Shared {
    library: Arc<Library>,
    tickets: Arc<Tickets>,
    clock: Clock,
    memory: Memory,
    door: Arc<Door>,
    capacity: Option<Rate>,
    monitor: Monitor,
}

impl Origin {
    /// The origin of a library, run by the node with this key. Its first ticket stays the same for as long as the key does, so
    /// that proxies find the origin again after a restart. Without [`Origin::with_tickets`] it is the only ticket.
    pub fn new(library: Library, key: &SecretKey) -> Self {
        let context = "anabranch 2026-11 video origin ticket";
        let derived = blake3::derive_key(context, key.to_text().as_bytes());
        let mut secret = [0; SECRET_BYTES];
        secret.copy_from_slice(&derived[..SECRET_BYTES]);
        let secret = Secret(secret);
        Self {
            library: Arc::new(library),
            tickets: Arc::new(Tickets::only(&secret)),
            secret,
            capacity: None,
            monitor: Monitor::new(Clock::system()),
        }
    }

    /// The same with the tickets in the state folder `state`; they may change while the origin serves. A folder that does not
    /// exist is created, with the first ticket in it.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn with_tickets(self, state: &Path) -> Result<Self, TicketsError> {
        let tickets = Tickets::open(tickets_file(state), &self.secret)?;
        Ok(Self {
            tickets: Arc::new(tickets),
            ..self
        })
    }

    /// Default state folder of an origin whose key is in the folder `beside`: each library has its own.
    pub fn state(beside: &Path, key: &SecretKey, library: &Library) -> PathBuf {
        let mut hasher = blake3::Hasher::new_derive_key("anabranch 2026-11 video origin state");
        hasher.update(key.node_id().public_key());
        hasher.update(library.place().as_bytes());
        let hash = hasher.finalize().to_hex();
        beside.join(format!("video-origin-{}", &hash[..12]))
    }

    /// Records in the state folder how this origin is reached, for tickets that are made later.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn announce(&self, state: &Path, host: &Host) -> io::Result<()> {
        let reach = Ticket {
            hosts: Vec::new(),
            via: None,
            secret: None,
            ..self.ticket(host)
        };
        tickets::replace(&state.join(REACH_FILE), reach.to_string().as_bytes())
    }

    /// The same where the capacity of each path to a proxy is known: no path is ever held to more. `None`: it is measured.
    #[must_use]
    pub fn over(self, capacity: Option<Rate>) -> Self {
        Self { capacity, ..self }
    }

    /// Default port: the same for the same key and library, so that a ticket also leads to an origin that was restarted. In the
    /// range for private use (RFC 6335 §6).
    pub fn port(key: &SecretKey, library: &Library) -> u16 {
        const FIRST: u16 = 49_152;
        let mut hasher = blake3::Hasher::new_derive_key("anabranch 2026-11 video origin port");
        hasher.update(key.node_id().public_key());
        hasher.update(library.place().as_bytes());
        let [high, low, ..] = *hasher.finalize().as_bytes();
        FIRST | (u16::from_be_bytes([high, low]) & !FIRST)
    }

    /// `config` as an origin needs it: little data waits to be sent, because data that waits is late; and every path is held to
    /// a rate, so that the origin does not fill the queue before the bottleneck [Two-flow §4.1]. That rate follows the needs of
    /// the plays, and never exceeds `capacity`, the same as in [`Origin::over`].
    pub fn host_config(mut config: HostConfig, capacity: Option<Rate>) -> HostConfig {
        config.engine.send_buffer_bytes = SEND_BUFFER_BYTES;
        let rate = governor::first_rate(capacity);
        config.engine.channel.controller = Controller::Ctcp(Ctcp::at(rate));
        config
    }

    /// A view of this origin, which stays when it serves.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// True if the first ticket was not revoked.
    pub fn has_first_ticket(&self) -> bool {
        self.tickets.has_first(&self.secret)
    }

    /// The ticket with which a proxy reaches this origin at `host`: the first one.
    pub fn ticket(&self, host: &Host) -> Ticket {
        let mut addresses = host.addresses();
        addresses.truncate(ADDRESSES_MAX);
        Ticket {
            hosts: Vec::new(),
            via: None,
            node: host.node_id(),
            secret: Some(self.secret),
            addresses,
        }
    }

    /// Serves every proxy that connects and shows a ticket, until the host shuts down or this is dropped.
    pub async fn serve(&self, host: &Host) {
        let shared = Arc::new(Shared {
            library: self.library.clone(),
            tickets: self.tickets.clone(),
            clock: Clock::system(),
            memory: Memory::default(),
            door: Arc::default(),
            capacity: self.capacity,
            monitor: self.monitor.clone(),
        });
        let mut running = JoinSet::new();
        let mut look = tokio::time::interval(TICKETS_LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                session = host.accept() => {
                    let Some(session) = session else { return };
                    let reports = session.channels();
                    let from = From {
                        node: session.peer(),
                        address: reports.first().map(|report| report.remote.ip()),
                    };
                    let place = shared.door.enter(from);
                    running.spawn(serve::serve(session, from, place, shared.clone()));
                }
                Some(_) = running.join_next() => {}
                _ = look.tick() => look_at_tickets(&shared.tickets).await,
            }
        }
    }
}

/// The file of the tickets in a state folder, for [`tickets::issue`] and [`tickets::revoke`].
pub fn tickets_file(state: &Path) -> PathBuf {
    state.join(TICKETS_FILE)
}

/// Address at which the origin with this state folder was last reached, as a ticket without a secret.
///
/// # Errors
/// It has not run yet, or the folder cannot be read.
pub fn reach(state: &Path) -> io::Result<Ticket> {
    let text = std::fs::read_to_string(state.join(REACH_FILE))?;
    text.trim().parse().map_err(io::Error::other)
}

async fn look_at_tickets(tickets: &Arc<Tickets>) {
    let tickets = tickets.clone();
    let looked = tokio::task::spawn_blocking(move || tickets.refresh()).await;
    if let Ok(Err(error)) = looked {
        let error = printable(&error.to_string(), REASON_CHARS);
        limited!(warn, %error, "the file of the tickets cannot be read; the tickets remain as before");
    }
}
