//! Stored video as frames: index of a file, its division into essential and enhanced parts, and output for players.
//!
//! The crate reads an MP4 file into an [`Index`] (every sample with its type, offset and times), divides the samples
//! into an essential and an enhanced part ([`Partition`]), and writes what arrived as fragmented MP4 and HLS, so that
//! unmodified players continue when enhanced frames are missing. It stores no data of the film itself: it reads through
//! the caller's [`ReadAt`] and writes bytes that the caller supplies ([`Frames`]). It uses no file, socket or clock,
//! and decodes no picture.
//!
//! | module | contents |
//! |---|---|
//! | [`index`] | [`Index`], [`Track`], [`Sample`], [`FrameType`] |
//! | [`source`] | [`ReadAt`]: bytes at offsets |
//! | `read` | MP4 boxes to samples, fragmented or not |
//! | `codec` | frame types of H.264, H.265 and AV1; RFC 6381 names |
//! | [`depend`] | dependencies between frames: importance, and the effect of a lost frame |
//! | [`StandIns`] | replacements for referenced frames that are missing |
//! | [`partition`] | [`Policy`], [`Partition`]: essential and enhanced |
//! | [`segment`] | segments of equal time, their sizes and rates |
//! | [`chunk`] | [`Chunk`]: runs of groups of pictures, the unit of fragments |
//! | [`mod@write`] | init segments, fragments with frames left out, the layout of a progressive file |
//! | [`hls`] | playlists |
//!
//! An origin calls [`Index::read`], then [`Partition::new`]; a proxy receives the index ([`Index::encode`],
//! [`Index::decode`]), divides it with [`chunk::chunks`], and calls [`write::fragment`] for each chunk.

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
