//! Channels: one QUIC connection for each path, sans-IO.
//!
//! This is the only crate that uses noq-proto; everything above it deals with channels, slots and outcomes. It does not
//! know what a container holds, which stream it serves or why it was sent here: that is the session's task. It reads no
//! clock and owns no socket.
//!
//! Properties of a channel [DESIGN §4]:
//! - **Exact outcomes.** Every container handed to [`Channel::send`] is reported exactly once, as acknowledged or as
//!   lost, with the time it was sent ([`PacketOutcome`]).
//! - **Slots.** [`Channel::slots`] is the number of full packets that may leave now: space in the congestion window,
//!   released by our own pacer. QUIC itself never holds a packet back.
//! - **Correct limits.** The congestion controller is informed whether the application or the network limited the
//!   sending, although QUIC never sees a backlog ([`Channel::set_backlogged`]).
//!
//! The loop: pass packets to [`Endpoint::handle_packet`] and time to [`Channel::handle_timeout`]; then drain
//! [`Channel::poll_event`], [`Channel::receive`], [`Channel::take_outcomes`]; then fill slots; then drain
//! [`Channel::poll_transmit`] and re-arm [`Channel::poll_timeout`].
//!
//! | module | contents |
//! |---|---|
//! | [`identity`] | [`SecretKey`]: the identity of a node |
//! | [`config`] | [`Config`]: settings of a channel |
//! | [`allow`] | [`AllowList`]: the nodes that may open channels here |
//! | `tls` | mutual authentication by raw public keys |
//! | [`endpoint`] | [`Endpoint`]: all channels of a node, and the routing of packets to them |
//! | `epoch` | conversion between our instants and QUIC's |
//! | [`gate`] | limits on unfinished handshakes of peers, and address validation |
//! | `resets` | limits on stateless resets |
//! | `retry` | the tokens that prove an address |
//! | [`channel`] | [`Channel`]: one connection |
//! | `contained` | calls into the QUIC library; a panic in one ends its channel only |
//! | `tap` | the wrapper around the congestion controller that reports the outcomes |
//! | `control` | congestion controllers by name |
//! | `qlog`, a feature | traces in the qlog format |
//! | `pacer` | the times at which space in the window becomes slots |
//! | [`liveness`] | suspicion, probing and recovery of a silent channel |
//! | `round_trip` | the round trip of one packet, without the delay of its acknowledgement |
//! | [`stats`] | [`Stats`]: measurements of a channel |

pub mod allow;
pub mod channel;
pub mod config;
mod contained;
mod control;
pub mod endpoint;
mod epoch;
pub mod gate;
pub mod identity;
pub mod liveness;
mod pacer;
#[cfg(feature = "qlog")]
pub mod qlog;
mod resets;
mod retry;
mod round_trip;
pub mod stats;
mod tap;
mod tls;
mod usual_rtt;

pub use allow::{Access, AllowList};
pub use channel::{Channel, CloseReason, Event, Transmit, Undeliverable};
pub use config::{Config, Controller, Ctcp};
pub use contained::{faults, is_contained};
pub use control::QueueGoal;
pub use endpoint::{ConnectError, Endpoint, Handled, Received};
pub use gate::Subnet;
pub use identity::{SecretKey, is_signed};
pub use liveness::Liveness;
pub use round_trip::Acknowledgement;
pub use stats::{Load, Stats};
pub use tap::{Outcome, PacketOutcome};

/// Bytes that IPv4 and UDP add to every packet.
pub const IPV4_UDP_HEADER_BYTES: usize = 28;
/// Bytes that IPv6 and UDP add to every packet.
pub const IPV6_UDP_HEADER_BYTES: usize = 48;
