//! Priorities in a pipe.
//!
//! All streams have one priority and differ in weight. A higher priority for essential flows would leave the enhanced flows no
//! share whenever an essential flow has data to send, and what they have waiting beyond their share is dropped; with weights
//! they yield, but keep a queue.

/// Weight of essential flows. They request no more than they need, so that they delay no other stream.
pub(crate) const ESSENTIAL_WEIGHT: u32 = 5_000;
/// Weight of the messages between proxy and origin: short, and waited for.
pub(crate) const CONTROL_WEIGHT: u32 = 5_000;
/// Weight of enhanced flows.
pub(crate) const ENHANCED_WEIGHT: u32 = 100;
/// Weight of fetched data: indexes, beginnings of videos, lost frames.
pub(crate) const FETCH_WEIGHT: u32 = 50;
