//! Origin, emulated pipe, proxy and real players.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod browser;
mod faults;
mod film;
mod http;
mod play;
#[cfg(feature = "s3")]
mod s3;
mod setting;
mod strangers;
