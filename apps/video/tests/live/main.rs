//! Origin, emulated pipe, proxy and real players.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod film;
mod play;
mod setting;
