//! An ambulance and a hospital, each with a node, over loopback.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod case;
mod full;
mod keys;
mod newest;
mod objectives;
#[cfg(feature = "page")]
mod page;
mod rate;
mod setting;
mod speech;
mod stills;
