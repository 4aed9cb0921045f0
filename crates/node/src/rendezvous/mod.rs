//! Rendezvous: nodes that know nothing of each other meet at a relay of their user's own (`docs/codes.md`, `spec/codes.md`).
//!
//! | module | holds |
//! |---|---|
//! | `message` | requests and notices as bytes |
//! | `table` | the places, and the nodes that are together at each |
//! | `server` | the relay's side |
//! | `client` | the side of a node that waits or looks for another |
//! | `attendance` | a node that is reached by its id |
//! | `call` | the way to such a node |
//! | `via` | the text that names a relay |

mod attendance;
mod call;
mod client;
mod message;
mod server;
mod table;
mod via;

pub(crate) use self::client::open_translator;
pub use self::{
    attendance::Attendance,
    call::Call,
    client::{Pairing, RendezvousError, Seat, Waiter},
    message::{ADDRESSES_MAX, DecodeError, MESSAGE_BYTES_MAX, Notice, Refusal, Request},
    server::Server,
    table::{Guest, LIFETIME, MESSAGES_MAX, PLACES_MAX, Table},
    via::{ParseViaError, Via},
};

/// Label of the streams between a node and a rendezvous.
pub const LABEL: &str = "anabranch-rendezvous/1";
