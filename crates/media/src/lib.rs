//! Stored video as frames: what a file holds, which of it is essential, and how a player gets it.
//!
//! The room reads a real MP4 into an [`Index`] (every sample with its type, place and times), divides the
//! samples into an essential and an enhanced part ([`Partition`]), and writes what arrived as fragmented MP4
//! and HLS, so that unmodified players go on when enhanced frames are missing. It holds no data of the
//! film itself: it reads through the caller's [`ReadAt`] and writes bytes that the caller supplies ([`Frames`]).
//! It knows no file, socket or clock; and it decodes no picture.
//!
//! | module | holds |
//! |---|---|
//! | [`index`] | [`Index`], [`Track`], [`Sample`], [`FrameType`] |
//! | [`source`] | [`ReadAt`]: bytes at offsets |
//! | `read` | MP4 boxes to samples, fragmented or not |
//! | `codec` | frame types of H.264, H.265 and AV1; RFC 6381 names |
//! | [`depend`] | which frames need which: importance, and what a lost frame takes with it |
//! | [`StandIns`] | what takes the place of a frame that others need |
//! | [`partition`] | [`Policy`], [`Partition`]: essential and enhanced |
//! | [`segment`] | segments of equal time, their sizes and rates |
//! | [`chunk`] | [`Chunk`]: runs of groups of pictures, the unit of fragments |
//! | [`mod@write`] | init segments, fragments with frames left out, the layout of a progressive file |
//! | [`hls`] | playlists |
//!
//! An origin calls [`Index::read`], then [`Partition::new`]; a proxy gets the index ([`Index::encode`],
//! [`Index::decode`]), makes [`chunk::chunks`] of it, and calls [`write::fragment`] for each.

pub mod chunk;
mod codec;
pub mod depend;
pub mod error;
pub mod hls;
pub mod index;
mod pack;
pub mod partition;
mod read;
pub mod segment;
pub mod source;
mod stand_ins;
pub mod write;

pub use chunk::Chunk;
pub use error::IndexError;
pub use index::{FrameType, Index, Sample, Track, TrackKind};
pub use partition::{Part, Partition, Policy};
pub use source::ReadAt;
pub use stand_ins::StandIns;
pub use write::{Fragment, Frames};
