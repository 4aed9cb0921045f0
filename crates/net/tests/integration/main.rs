//! Integration tests of the crate, in one program: each is linked once.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod detours;
mod emulator;
mod locals;
mod loopback;
mod promises;
#[cfg(feature = "qlog")]
mod qlog;
mod relay;
mod session_events;
mod transcripts;
