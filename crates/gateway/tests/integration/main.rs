//! Integration tests of the crate, in one program, so that it is linked only once.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod datagrams;
mod harness;
mod limits;
mod promises;
mod reload;
mod restart;
mod reverse;
mod rights;
mod rules;
mod socks;
mod streams;
