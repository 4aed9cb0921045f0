//! The link model driven by the clock: between loopback sockets, and between network namespaces.
//!
//! | module | holds |
//! |---|---|
//! | [`udp`] | [`Emulator`]: paths between UDP sockets, for anyone |
//! | [`tun`] | [`TunEmulator`](tun::TunEmulator): links between namespaces for any program's traffic, for root |
//! | `control` | [`Path`]: switching and observing a running path |
//! | `line` | one direction of a link with the packets on their way |
//! | `relay` | the thread that moves packets between UDP sockets |

mod control;
mod line;
mod relay;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod udp;

pub use anabranch_link as link;
pub use control::{EmulateError, Path};
pub use line::LineStats;
pub use udp::{Emulator, PathSpec};
