//! The one place that reads a clock.
//!
//! QUIC's types hold `std::time::Instant`, which cannot be made out of nothing. The value read here
//! stands for virtual time 0 and influences nothing: only differences to it are ever used.

use std::{sync::OnceLock, time::Instant};

/// The real instant that stands for virtual time 0; the same throughout a process.
#[allow(clippy::disallowed_methods)] // See the module: the value does not matter.
pub fn get() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}
