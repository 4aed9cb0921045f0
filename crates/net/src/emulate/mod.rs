//! Emulator: the link model in real time, between loopback sockets and between network namespaces.
//!
//! | module | holds |
//! |---|---|
//! | [`udp`] | [`Emulator`]: paths between UDP sockets, without privileges |
//! | [`tun`] | [`TunEmulator`](tun::TunEmulator): links between namespaces for any program's traffic, as root |
//! | `control` | [`Path`]: control and statistics of a running path |
//! | `line` | one direction of a link with its packets in flight |
//! | `relay` | the thread that moves packets between UDP sockets |

mod control;
mod line;
mod relay;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod udp;

pub use anabranch_link as link;
pub use control::{EmulateError, Entrance, Path, PathSpec};
pub use line::LineStats;
pub use udp::Emulator;
