//! Integration tests of the crate, in one program: each is linked once.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod bad_input;
mod change;
mod dialling;
mod load;
