//! Local interface: applications in any language attach to a running node over a Unix socket, or TCP on loopback, and use its
//! sessions.
//!
//! The protocol is in `spec/local.md`; `docs/local.md` is for those who write applications. [`client::Client`] is the Rust
//! client, whose sessions and streams have the traits of those in this process ([`crate::api`]).
//!
//! | file | holds |
//! |---|---|
//! | [`frame`] | frames as bytes, both directions |
//! | [`message`] | bodies of frames in JSON |
//! | `outbox` | bytes that wait to be written to the socket |
//! | `server` | the sockets: who may attach, and how many |
//! | `change` | other sockets, prepared for a reload |
//! | `error` | errors of the sockets |
//! | `socket` | Unix and TCP sockets as one |
//! | `token` | the secret for the TCP socket |
//! | `policy` | users: who may attach, and the limits of each |
//! | `connection` | one application: greeting, frames, end |
//! | `request` | requests of an application |
//! | `tables` | handles of an application's sessions, streams and services |
//! | `memory` | memory of all applications together |
//! | `link` | the common part of the streams of a connection: its socket, and its credit |
//! | `inbox` | what an application has handed over for one stream |
//! | `stream` | the task of one stream: its data, credit, events and ends |
//! | `session` | events of a session |
//! | `service` | a label that an application has registered |
//! | [`client`] | the client |

mod change;
pub mod client;
mod connection;
mod error;
pub mod frame;
mod inbox;
mod link;
mod memory;
pub mod message;
mod outbox;
mod policy;
mod request;
mod server;
mod service;
mod session;
mod socket;
mod stream;
mod tables;
mod token;

use std::time::Duration;

pub(crate) use change::Change;
pub use error::LocalError;
pub use server::LocalServer;

/// Application code with which the streams of an application that has left are reset and stopped.
pub const CODE_DETACHED: u32 = 0x13;

/// Applications attached at a time.
pub const CONNECTIONS_MAX: usize = 128;
/// Of these, those over TCP that have not shown the token yet.
pub const STRANGERS_MAX: usize = 32;
/// Of these, those of one user other than the one who runs the node and root.
pub const CONNECTIONS_OF_USER_MAX: usize = 16;
/// Streams of a connection, until the application closes them.
pub const STREAMS_MAX: usize = 1024;
/// Sessions that a connection may hold at a time.
pub const SESSIONS_MAX: usize = 256;
/// Services that a connection may have registered at a time.
pub const SERVICES_MAX: usize = 64;
/// Requests of a connection that wait for a peer.
pub const REQUESTS_MAX: usize = 64;
/// Time until the greeting must have arrived.
pub const GREETING_TIME: Duration = Duration::from_secs(10);
/// Time for which finished streams of an application that has left are still sent.
pub const LINGER: Duration = Duration::from_secs(60);
/// Credit of a connection, for all its streams: bytes that wait in the node for their streams, but for one ADU.
pub const CONNECTION_CREDIT: u32 = 32 << 20;
/// Credit of a stream. All streams together have less than the connection, so that streams whose peers do not read hold up
/// others only where their ADUs are larger than this.
pub const STREAM_CREDIT: u32 = 256 << 10;
/// Streams of a connection that have [`STREAM_CREDIT`].
const WIDE_STREAMS: usize = 96;
/// Bytes that may wait in the node for all applications together.
pub const MEMORY_BYTES: u64 = 256 << 20;
/// Credit of the others.
const NARROW_CREDIT: u32 = 8 << 10;

const _: () = assert!(
    WIDE_STREAMS * STREAM_CREDIT as usize + (STREAMS_MAX - WIDE_STREAMS) * NARROW_CREDIT as usize
        <= CONNECTION_CREDIT as usize
);
