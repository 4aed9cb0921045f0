//! Integration tests of the crate, in one program, so that it is linked only once.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod addresses;
mod circuits;
mod common;
mod exports;
mod hostile_transfer;
mod killed_receiver;
mod local;
mod mutual;
mod overlay;
mod reload;
mod rendezvous;
mod rights;
mod services;
mod transfer;
mod trees;
mod updates;
