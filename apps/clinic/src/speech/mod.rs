//! Speech: packets of Opus (RFC 6716), 20 ms each, and files of them (Ogg, RFC 3533 and RFC 7845). Without sockets and clocks.
//!
//! | file | holds |
//! |---|---|
//! | `opus` | length of a packet, packets that ask for concealment, the headers of a stream |
//! | `ogg` | [`Reader`] of packets from pages, and pages of packets |
//! | `source` | [`Source`]: packets of a file or of an encoder |
//! | `order` | [`Ordered`]: packets that overtook each other, in their order |
//! | `timeline` | [`Timeline`]: the place of each packet in time |
//! | `pages` | [`Pages`]: packets at their places, as pages with gaps as gaps |
//! | `track` | [`Track`]: a file of pages that grows |

mod ogg;
mod opus;
mod order;
mod pages;
mod source;
mod timeline;
mod track;

use std::time::Duration;

pub use self::{
    ogg::{OggError, Packet, Reader},
    opus::{Head, is_speech, samples},
    order::Ordered,
    pages::{Pages, Place},
    source::{Source, SpeechError},
    timeline::{GAP_MAX, Timeline},
    track::Track,
};

/// Time of a packet.
pub const PACKET_TIME: Duration = Duration::from_millis(20);
/// Samples of a packet at 48 kHz, in which Opus counts.
pub const PACKET_SAMPLES: u32 = 960;
/// Age up to which a packet is in time.
pub const LIFETIME: Duration = Duration::from_millis(400);
/// Longest packet, in bytes: two channels at 510 kbit/s (RFC 6716 §2.1.1) take 1,275.
pub const PACKET_BYTES_MAX: usize = 1_500;
