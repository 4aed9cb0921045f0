//! The origin: a library of videos, and the plays that proxies ask for.
//!
//! | file | holds |
//! |---|---|
//! | `library/` | what there is in a directory or an object store: indexes, bytes of chunks |
//! | `serve` | one proxy's session: requests and answers |
//! | `pump` | the task that sends what is due, and holds the pipe to what plays take |
//! | `plays`, `play` | all plays of a session behind one timer; one of them: what is due when |
//! | `walk`, `group` | where its enhanced flow is; frames between key frames, and which are left out |
//! | `governor`, `fares`, `paths` | what the pipe is held to and who yields; how plays fared; what each path is held to |
//! | `promise` | what essential flows ask of several paths |

mod fares;
mod governor;
mod group;
pub mod library;
mod paths;
mod play;
mod plays;
mod promise;
mod pump;
mod serve;
mod walk;

use std::sync::Arc;

use anabranch::{
    Controller, Ctcp, Host, HostConfig, SecretKey, Ticket,
    base::{Rate, ids::encode_base32},
    ticket::{ADDRESSES_MAX, SECRET_BYTES, Secret},
};
use tokio::task::JoinSet;

pub use self::library::{Library, LibraryError};

/// Bytes of a stream that wait to be sent or acknowledged.
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// Proxies served at a time.
const SESSIONS_MAX: usize = 256;

/// An origin: serves a library to those who hold its ticket.
#[derive(Debug)]
pub struct Origin {
    library: Arc<Library>,
    secret: Secret,
    capacity: Option<Rate>,
}

impl Origin {
    /// The origin of a library, run by the node with this key. Its ticket stays the same for as long as the key does, so that
    /// proxies find an origin again that was restarted.
    pub fn new(library: Library, key: &SecretKey) -> Self {
        let context = "anabranch 2026-11 video origin ticket";
        let derived = blake3::derive_key(context, key.to_text().as_bytes());
        let mut secret = [0; SECRET_BYTES];
        secret.copy_from_slice(&derived[..SECRET_BYTES]);
        Self {
            library: Arc::new(library),
            secret: Secret(secret),
            capacity: None,
        }
    }

    /// The same where it is known what each path of the pipe to a proxy carries: none is ever asked for more. `None`: it is found out.
    #[must_use]
    pub fn over(self, capacity: Option<Rate>) -> Self {
        Self { capacity, ..self }
    }

    /// The port at which to listen where nobody chose one: the same for the same key and library, so that a ticket
    /// leads to an origin that was restarted, too. In the range for private use (RFC 6335 §6).
    pub fn port(key: &SecretKey, library: &Library) -> u16 {
        const FIRST: u16 = 49_152;
        let mut hasher = blake3::Hasher::new_derive_key("anabranch 2026-11 video origin port");
        hasher.update(key.node_id().public_key());
        hasher.update(library.place().as_bytes());
        let [high, low, ..] = *hasher.finalize().as_bytes();
        FIRST | (u16::from_be_bytes([high, low]) & !FIRST)
    }

    /// `config` as an origin wants it: little waits to be sent, because what waits is late; and every path is held to a rate, so that
    /// what the origin sends does not fill the queue before the pipe [Two-flow §4.1]. It follows what plays take, and never exceeds
    /// `capacity`, the same as in [`Origin::over`].
    pub fn host_config(mut config: HostConfig, capacity: Option<Rate>) -> HostConfig {
        config.engine.send_buffer_bytes = SEND_BUFFER_BYTES;
        let rate = governor::first_rate(capacity);
        config.engine.channel.controller = Controller::Ctcp(Ctcp::at(rate));
        config
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// What a proxy needs to reach this origin at `host`.
    pub fn ticket(&self, host: &Host) -> Ticket {
        let mut addresses = host.addresses();
        addresses.truncate(ADDRESSES_MAX);
        Ticket {
            node: host.node_id(),
            secret: Some(self.secret),
            addresses,
        }
    }

    /// Serves every proxy that calls, until the host shuts down or this is dropped.
    pub async fn serve(&self, host: &Host) {
        let secret = encode_base32(&self.secret.0);
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                session = host.accept() => {
                    let Some(session) = session else { return };
                    if running.len() >= SESSIONS_MAX {
                        session.close(1, "this origin serves as many proxies as it can");
                        continue;
                    }
                    let (library, secret) = (self.library.clone(), secret.clone());
                    running.spawn(serve::serve(session, library, secret, self.capacity));
                }
                Some(_) = running.join_next() => {}
            }
        }
    }
}
