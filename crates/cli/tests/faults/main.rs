//! Whole transfers with faults: killed and stopped processes, full and read-only disks, tickets in two
//! hands. The data goes over an emulated 40 Mbit/s link, so that there is time to interfere.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod disk;
mod process;
mod restart;
mod setting;
mod tickets;
