//! Integration tests of the crate, in one program: each is linked once.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod diagnostics;
mod evaluation;
mod guide;
mod samples;
mod schedules;
