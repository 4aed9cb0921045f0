//! Hospital: receives the cases of one ambulance and keeps them in a folder.
//!
//! ```text
//! STORE/ambulance                    the node that the ticket was used by
//! STORE/NODE-RUN/ekg.hea, ekg.dat    the record
//! STORE/NODE-RUN/vitals.csv          numbers of each second
//! STORE/NODE-RUN/video.h264, .csv    pictures as they came, and a line for each
//! STORE/NODE-RUN/speech.opus, .csv   what the ambulance said, and a line for each packet
//! STORE/NODE-RUN/stills/             files that are whole
//! STORE/NODE-RUN/keeping.json        time for which the case is kept
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Hospital`]: its ticket, and the sessions that it takes |
//! | `case` | one session: clock, streams |
//! | `greeting` | the ticket that a session shows |
//! | `door` | the node to which the ticket is bound, and the case that is open |
//! | `ekg`, `vitals`, `video`, `speech`, `stills` | what comes on each stream |
//! | `keys` | requests for key pictures of the video |
//! | `keeping` | time for which cases are kept, and their removal |
//! | [`live`] | the newest case for viewers, while it comes |
//! | `page` | the page in which a browser shows it (feature `page`) |

mod case;
mod door;
mod ekg;
mod greeting;
mod keeping;
mod keys;
pub mod live;
#[cfg(feature = "page")]
pub mod page;
mod speech;
mod stills;
mod video;
mod vitals;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch::{
    Host, SecretKey, Ticket,
    base::NodeId,
    ticket::{ADDRESSES_MAX, SECRET_BYTES, Secret},
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

pub use self::keeping::KEPT_MAX;
use self::{door::Door, keeping::Keeping, live::Live};
use crate::{error::ClinicError, wfdb::Hole, wire::Purpose};

/// Most sessions at a time, those without a ticket included.
const SESSIONS_MAX: usize = 32;

/// Something that a hospital reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// An ambulance has shown the ticket.
    Begun {
        /// The ambulance.
        node: NodeId,
        /// Folder of its case.
        folder: PathBuf,
        /// Time for which the case is kept after its end.
        kept: Duration,
    },
    /// The record begins, or goes on.
    Ekg {
        /// Names of its leads.
        leads: Vec<String>,
        /// First frame that is lacking.
        next: u64,
    },
    /// Frames that did not come within a minute of later ones, or by the end of the record, if they may come in any order.
    Hole(Hole),
    /// The record is whole.
    Ended {
        /// Frames of the record.
        frames: u64,
        /// Those of them that did not come.
        missing: u64,
    },
    /// Numbers of the newest second.
    Vital {
        /// Its number.
        number: u64,
        /// Beats per minute.
        heart_rate: Option<f64>,
    },
    /// A file is whole.
    Still {
        /// Its place.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Pictures of a session.
    Pictures(Pictures),
    /// Speech of a session.
    Speech(Packets),
    /// The session is over.
    Left {
        /// The ambulance.
        node: NodeId,
        /// Reason.
        why: String,
    },
    /// The time of a case was over, and it was removed.
    Removed {
        /// Its folder.
        folder: PathBuf,
        /// Reason why it could not be removed; it is tried again.
        why: Option<String>,
    },
    /// Something cannot be kept; the other streams go on.
    Failed {
        /// Purpose of the stream.
        purpose: Purpose,
        /// Reason.
        why: String,
    },
}

/// Pictures of the video in one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pictures {
    /// Those that came.
    pub received: u64,
    /// Those that did not, between the first and the last that came.
    pub missing: u64,
    /// Those that came within 800 ms of their capture, by the ambulance's clock as it is estimated here; a picture before the clock
    /// is known is not one of them.
    pub in_time: u64,
    /// Key pictures that were asked for.
    pub keys_requested: u64,
}

/// Packets of speech in one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Those that came.
    pub received: u64,
    /// Those that did not, between the first and the last that came.
    pub missing: u64,
    /// Those that came within 400 ms of their capture, by the ambulance's clock as it is estimated here; a packet before the clock is known
    /// is not one of them.
    pub in_time: u64,
}

/// A hospital, which takes the cases of the ambulance that holds its ticket.
#[derive(Debug)]
pub struct Hospital {
    secret: Secret,
    shared: Arc<Shared>,
}

/// Secret, store, door, view and reports, shared by all sessions.
#[derive(Debug)]
struct Shared {
    secret: blake3::Hash,
    store: PathBuf,
    door: Door,
    keeping: Keeping,
    live: Arc<Live>,
    reports: mpsc::Sender<Report>,
}

impl Shared {
    fn now_us(&self) -> u64 {
        self.live.now_us()
    }

    fn report(&self, report: Report) {
        // Without space, nobody reads the reports.
        let _ = self.reports.try_send(report);
    }
}

impl Hospital {
    /// A hospital with its store, which is made if it is missing, run by the node with this key. Its ticket stays the same for as long as key
    /// and store do. A case is kept for the time to which its patient consents after its end, for `kept` at most ([`KEPT_MAX`]), and then removed. What happens is
    /// reported to `reports`, as long as that has space.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn open(
        store: &Path,
        kept: Duration,
        key: &SecretKey,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, ClinicError> {
        let opened = std::fs::create_dir_all(store).and_then(|()| store.canonicalize());
        let store = opened.map_err(|why| ClinicError::file(store, why))?;
        let mut hasher = blake3::Hasher::new_derive_key("anabranch 2026-11 clinic hospital ticket");
        hasher.update(key.to_text().as_bytes());
        hasher.update(store.as_os_str().as_encoded_bytes());
        let mut secret = [0; SECRET_BYTES];
        secret.copy_from_slice(&hasher.finalize().as_bytes()[..SECRET_BYTES]);
        let door = Door::open(&store)?;
        let keeping = Keeping::open(&store, kept).map_err(|why| ClinicError::file(&store, why))?;
        Ok(Self {
            secret: Secret(secret),
            shared: Arc::new(Shared {
                secret: blake3::hash(&secret),
                store,
                door,
                keeping,
                live: Arc::new(Live::new(Instant::now())),
                reports,
            }),
        })
    }

    /// The newest case for viewers.
    pub fn live(&self) -> Arc<Live> {
        self.shared.live.clone()
    }

    /// Default port: the same for the same key and store, so that a ticket also leads to a hospital that was started again. In the range
    /// for private use (RFC 6335 §6).
    pub fn port(&self) -> u16 {
        const FIRST: u16 = 49_152;
        let [high, low, ..] = *self.shared.secret.as_bytes();
        FIRST | (u16::from_be_bytes([high, low]) & !FIRST)
    }

    /// The ticket with which an ambulance reaches this hospital at `host`.
    pub fn ticket(&self, host: &Host) -> Ticket {
        let mut addresses = host.addresses();
        addresses.truncate(ADDRESSES_MAX);
        Ticket {
            node: host.node_id(),
            secret: Some(self.secret),
            addresses,
            hosts: Vec::new(),
            via: None,
        }
    }

    /// Takes sessions until the host shuts down, and removes cases whose time is over.
    pub async fn serve(&self, host: &Host) {
        let mut running = JoinSet::new();
        let mut removing = std::pin::pin!(self.shared.keeping.run(|folder, why| {
            let why = why.map(|why| why.to_string());
            self.shared.report(Report::Removed { folder, why });
        }));
        loop {
            tokio::select! {
                never = &mut removing => match never {},
                session = host.accept() => {
                    let Some(session) = session else { return };
                    if running.len() >= SESSIONS_MAX {
                        session.close(1, "the hospital has too many sessions; try again later");
                        continue;
                    }
                    running.spawn(case::serve(session, self.shared.clone()));
                }
                Some(_) = running.join_next() => {}
            }
        }
    }
}
