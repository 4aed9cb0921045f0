//! Signals that end a command, and the one that reloads a node.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{Hangups, stopped};
#[cfg(all(unix, feature = "top"))]
pub(crate) use unix::{Suspensions, suspend};
#[cfg(windows)]
pub(crate) use windows::{Hangups, stopped};
#[cfg(all(windows, feature = "top"))]
pub(crate) use windows::{Suspensions, suspend};
