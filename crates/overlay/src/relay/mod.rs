//! Relays: a node that carries packets between two others.
//!
//! A *circuit* is a pair of UDP ports at a relay. The source sends its packets to the port `near`; they leave from the
//! port `far` for the next hop, byte for byte, and the next hop's answers return in the same way (as with TURN
//! allocations, RFC 8656, without their framing). Encryption and congestion control stay between the two ends, and for
//! the source a relayed path is a link like any other, with the remote address `near`. A path over several relays is
//! one circuit at each, whose next hop is the next one's `near`; the source opens all of them.
//!
//! A relay's [`CircuitTable`] holds the circuits of each source, their quotas, and the next hop of each packet. It
//! opens no port and moves no byte: it reports when a port is needed and which may be closed, and gives a verdict on
//! every train of packets. Every packet is looked up by the port at which it arrived and its source address, so
//! circuits share ports wherever their peers differ, and packets of other senders are dropped before anything else is
//! examined.
//!
//! ```text
//!   request ──► CircuitTable::request ──► an answer, or "open me a port" (CircuitTable::add_port, and ask again)
//!   packets ──► CircuitTable::admit ────► forward a number of them from a port to an address, or drop
//!   time    ──► CircuitTable::expire ───► circuits that were not refreshed are gone
//!               CircuitTable::unused_port: close it
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `message`, `wire` | [`Request`] and [`Answer`], and their encoding (`spec/relay.md`) |
//! | `config` | [`Config`] and [`Quota`] |
//! | `circuits` | [`CircuitTable`]: requests, expiry, reports |
//! | `ports` | ports, and the peers on each |
//! | `bucket` | token bucket: a rate and the burst above it |
//! | `headroom` | capacity that a relay has left, as a percentile |
//! | `account` | packets forwarded, and packets dropped by reason |
//! | `relayed_path` | [`RelayedPath`]: a path over relays, as its source opens and keeps it |

mod account;
mod bucket;
mod circuits;
mod config;
mod headroom;
mod message;
mod ports;
mod relayed_path;
mod wire;

pub use account::{Account, Dropped, Flow, Reason, Totals};
pub use circuits::{
    Between, CircuitReport, CircuitTable, FlowId, Forward, Members, Outcome, PeerReport, Role,
    Seen, Train, Verdict,
};
pub use config::{Config, ConfigError, Quota};
pub use message::{Answer, CircuitId, Open, Opened, Origin, ROUTE_NODES_MAX, Refusal, Request};
pub use ports::{Family, PortId};
pub use relayed_path::{Broken, RelayedPath, RelayedPathSpec};
pub use wire::{DecodeError, MESSAGE_BYTES_MAX};
