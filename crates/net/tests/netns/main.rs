//! The host and the TUN emulator between network namespaces; skipped without root.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod interfaces;
mod mesh;
mod mtu;
mod namespace;
mod node;
mod tun;
