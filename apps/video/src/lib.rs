//! Stored video in two flows: an origin with the videos, a proxy near the viewers, any player on plain HTTP.
//!
//! The origin divides every video into essential data (key frames and sound, in a reliable stream) and enhanced data (the other
//! frames, in an unreliable stream with a deadline). The proxy reassembles both, caches on disk, and leaves out frames that did
//! not arrive in time, so that players do not stall. [Two-flow §3]; user's guide in `docs/video.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`video`] | a video as both see it: its chunks, and their essential part |
//! | [`origin`] | the library, and the pump that sends what is due |
//! | [`proxy`] | the cache near the viewers, and HTTP |
//! | [`store`] | the proxy's cache on disk |
//! | [`wire`] | the protocol between proxy and origin |
//! | `clock`, `counter` | the only place where time is read; counters that tasks share |

pub use anabranch_media as media;

mod clock;
mod counter;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod load;
pub mod origin;
mod priority;
pub mod proxy;
#[cfg(test)]
mod samples;
pub mod store;
pub mod video;
#[cfg(test)]
mod virtual_time;
pub mod wire;
