//! Stored video in two flows: an origin with the videos, a proxy near the viewers, any player on plain HTTP.
//!
//! The origin divides every video into what must arrive (essential: key frames and sound, in a reliable stream) and
//! what makes it good (enhanced: the other frames, in an unreliable stream with a deadline). The proxy puts both
//! together again, keeps what it can use again on disk, and leaves out frames that did not come in time, so that
//! players play on. [Two-flow §3]; user's guide in `docs/video.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`video`] | a video as both see it: chunks, and what of them is essential |
//! | [`origin`] | the library, and the pump that sends what is due |
//! | [`proxy`] | the cache near the viewers, and HTTP |
//! | [`store`] | the proxy's cache on disk |
//! | [`wire`] | what proxy and origin say to each other |

pub use anabranch_media as media;

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
