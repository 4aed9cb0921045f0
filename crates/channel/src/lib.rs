//! Channels: one QUIC connection for each path, sans-IO.
//!
//! This is the only room that names noq-proto; everything above speaks of channels, slots and fates.
//! It does not know what is inside a container, which stream it serves or why it was sent here: that
//! is the session's business. It reads no clock and owns no socket.
//!
//! What a channel promises [DESIGN §4]:
//! - **Exact fates.** Every container handed to [`Channel::send`] is reported exactly once, as
//!   acknowledged or as lost, with the time it was sent ([`PacketOutcome`]).
//! - **Slots.** [`Channel::slots`] is the number of full packets that may leave now: room in the
//!   congestion window, released by our own pacer. QUIC itself never holds a packet back.
//! - **Truth about limits.** The congestion controller hears whether the application or the network
//!   limited the sending, although QUIC never sees a backlog ([`Channel::set_backlogged`]).
//!
//! The loop: feed packets to [`Endpoint::handle_packet`] and time to [`Channel::handle_timeout`];
//! then drain [`Channel::poll_event`], [`Channel::receive`], [`Channel::take_outcomes`]; then fill
//! slots; then drain [`Channel::poll_transmit`] and re-arm [`Channel::poll_timeout`].
//!
//! | module | holds |
//! |---|---|
//! | [`identity`] | [`SecretKey`]: who a node is |
//! | [`config`] | [`Config`]: what the operator chooses for a channel |
//! | [`allow`] | [`AllowList`]: who may open channels here |
//! | `tls` | mutual authentication by raw public keys |
//! | [`endpoint`] | [`Endpoint`]: all channels of a node, and the routing of packets to them |
//! | [`gate`] | handshakes of peers: how many may be half done, and who has to prove its address first |
//! | `retry` | the tokens with which an address is proved |
//! | [`channel`] | [`Channel`]: one connection |
//! | `contained` | calls into the QUIC library, of which a panic ends one channel |
//! | `tap` | the wrapper around the congestion controller, from which fates come |
//! | `control` | congestion controllers by name |
//! | `pacer` | when the room in the window becomes slots |
//! | [`liveness`] | suspicion, probing and return of a silent channel |
//! | [`stats`] | [`Stats`]: what is measured on a channel |

pub mod allow;
pub mod channel;
pub mod config;
mod contained;
mod control;
pub mod endpoint;
pub mod gate;
pub mod identity;
pub mod liveness;
mod pacer;
mod retry;
pub mod stats;
mod tap;
mod tls;

pub use allow::{Access, AllowList};
pub use channel::{Channel, CloseReason, Event, Transmit};
pub use config::{Config, Controller, Ctcp};
pub use contained::{faults, is_contained};
pub use control::QueueGoal;
pub use endpoint::{ConnectError, Endpoint, Handled, Received};
pub use gate::Subnet;
pub use identity::{SecretKey, is_signed};
pub use liveness::Liveness;
pub use stats::Stats;
pub use tap::{Outcome, PacketOutcome};

/// Bytes that IPv4 and UDP add to every packet.
pub const IPV4_UDP_HEADER_BYTES: usize = 28;
/// Bytes that IPv6 and UDP add to every packet.
pub const IPV6_UDP_HEADER_BYTES: usize = 48;
