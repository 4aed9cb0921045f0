//! Integration tests of the crate, in one program: each is linked once.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod bikes;
mod common;
mod hls;
mod hostile;
mod made;
mod merge;
mod properties;
