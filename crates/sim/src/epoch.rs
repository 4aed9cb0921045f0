//! Epoch of virtual time: the only code that reads a clock.
//!
//! QUIC's types contain `std::time::Instant`, which has no constructor from a value. The value read here stands for
//! virtual time 0 and influences nothing: only differences from it are ever used.

use std::{sync::OnceLock, time::Instant};

/// Real instant that stands for virtual time 0; the same throughout a process.
#[allow(clippy::disallowed_methods)] // See the module: the value does not matter.
pub fn get() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}
