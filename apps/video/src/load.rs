//! Load of videos on a pipe: bytes of UDP payload, with what heads and acknowledgements add.

use anabranch::base::Rate;
use anabranch_media::Part;
use anabranch_twoflow::rate::{Overhead, RETRANSMITTED, target};

use crate::{
    video::Video,
    wire::{ADU_BYTES_MAX, ENHANCED_HEADER_BYTES},
};

/// Bytes of an enhanced frame that go into one packet.
pub(crate) const PART_BYTES_MAX: usize = ADU_BYTES_MAX - ENHANCED_HEADER_BYTES;
/// What goes before each part of an enhanced frame: its header, and those of stream, container and packet. Parts leave one by one,
/// so that hardly any share a packet.
pub(crate) const PART_HEAD_BYTES: usize = 50;
/// What records of a reliable stream become: pieces of about a packet, each with such heads.
const RELIABLE: Overhead = Overhead {
    packet_bytes: 1_045.0,
    payload_bytes: 1_000.0,
};
/// What goes besides: acknowledgements, reports, replies.
pub(crate) const CONTROL: Rate = Rate::from_kbps(32);

/// A frame of the enhanced flow in parts.
pub(crate) fn enhanced_bytes(size: usize) -> u64 {
    (size + size.div_ceil(PART_BYTES_MAX) * PART_HEAD_BYTES) as u64
}

/// Data of this rate in a reliable stream.
pub(crate) fn reliable(rate: Rate) -> Rate {
    RELIABLE.on_top_of(rate)
}

/// The most that a video ever takes, on schedule: the next segment's essential part, some of which is sent twice, and this one's
/// enhanced part.
pub(crate) fn most(video: &Video) -> Rate {
    let segments = &video.segments;
    let count = segments.segments.len();
    // A last one that is shorter counts as if it took as long as the others.
    let time = match count {
        1 => segments.playing_time(0),
        _ => segments.length,
    };
    let each = (0..count).map(|number| {
        let next = number + 1;
        let essential = if next < count {
            let bytes = segments.segments[next].essential_bytes;
            target(bytes, time, RETRANSMITTED)
        } else {
            Rate::ZERO
        };
        let enhanced = segments.segments[number].enhanced_bytes;
        let enhanced = Rate::from_bytes_per(enhanced, time) * video.enhanced_on_wire;
        reliable(essential) + enhanced
    });
    // A film of one segment has its essential part sent while it plays.
    let first = reliable(segments.rate(0, Part::Essential));
    each.max().unwrap_or_default().max(first)
}
