//! Priorities in a pipe.
//!
//! All streams have one priority and differ in weight. A higher priority for what must arrive would leave the enhanced
//! flows a share of nothing whenever it has something to send, and what they have waiting beyond their share is
//! dropped; by weight they yield, but keep a queue.

/// The essential flows. They ask for no more than they need, so that they hold nothing up.
pub(crate) const ESSENTIAL_WEIGHT: u32 = 5_000;
/// What proxy and origin tell each other: short, and waited for.
pub(crate) const CONTROL_WEIGHT: u32 = 5_000;
/// The enhanced flows.
pub(crate) const ENHANCED_WEIGHT: u32 = 100;
/// What is fetched besides: indexes, beginnings of videos, lost frames.
pub(crate) const FETCH_WEIGHT: u32 = 50;
