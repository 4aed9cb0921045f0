//! `anabranch tun` between network namespaces, over two emulated paths, skipped without root; its demonstration, and its unit for systemd.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod capability;
mod carry;
mod classes;
mod crowd;
mod demo;
mod destinations;
mod exit;
mod faults;
mod flood;
mod guide;
#[path = "../harness/mod.rs"]
mod harness;
mod hostile;
mod lan;
#[path = "../../../net/tests/netns/namespace.rs"]
mod namespace;
mod portal;
mod ports;
#[path = "../integration/faults/process.rs"]
#[expect(dead_code, reason = "shared with tests that do more with them")]
mod process;
mod programs;
mod rights;
mod routes;
mod rules;
mod sockets;
mod speed;
mod split;
mod stage;
mod suspend;
mod underlay;
mod units;
