//! Basic types that every other crate uses: IDs, rates, instants of virtual time, seeded random streams.
//!
//! Nothing here depends on QUIC, sockets or clocks.
//!
//! | module | holds |
//! |---|---|
//! | [`ids`] | [`NodeId`], [`SessionId`], [`ChannelId`], [`StreamId`], [`SocketId`] |
//! | [`rate`] | [`Rate`] in bits per second, with parsing and printing of units |
//! | [`duration`] | parsing and printing of durations with units |
//! | [`size`] | parsing of sizes in bytes with units |
//! | [`time`] | [`Instant`]: nanoseconds since the host's epoch |
//! | [`mod@unit`] | splitting of a number from its unit |
//! | [`text`] | text from a peer, made safe to display |
//! | [`random`] | [`Seed`] and [`Random`]: one named, reproducible stream per purpose |

pub mod duration;
pub mod ids;
pub mod random;
pub mod rate;
pub mod size;
pub mod text;
pub mod time;
pub mod unit;

pub use ids::{ChannelId, NodeId, SessionId, SocketId, StreamId};
pub use random::{Random, Seed};
pub use rate::Rate;
pub use time::Instant;
