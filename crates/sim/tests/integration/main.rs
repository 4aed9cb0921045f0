//! Integration tests of the crate, in one program: each is linked once.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod addresses;
mod budgets;
mod common;
mod connecting;
mod deadlines;
mod discard;
mod downlinks;
mod drone;
mod founding;
mod jitter;
mod lanes;
mod models;
mod network;
mod newest_first;
mod objectives;
mod on_time;
mod overlay;
mod overlay_engine;
mod overlay_loads;
mod parts;
mod paths_out;
mod pings;
mod preferences;
mod probing;
mod promises;
mod rates;
mod relay_deaths;
mod restart;
mod storm;
mod storm_faults;
mod topologies;
mod transcripts;
mod transfer;
mod uplinks;
mod waiting;
