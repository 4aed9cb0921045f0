//! Load of videos on a pipe: bytes of UDP payload, including headers and acknowledgements.

use anabranch::base::Rate;
use anabranch_twoflow::rate::Overhead;

use crate::wire::{ADU_BYTES_MAX, ENHANCED_HEADER_BYTES};

/// Bytes of an enhanced frame that go into one packet.
pub(crate) const PART_BYTES_MAX: usize = ADU_BYTES_MAX - ENHANCED_HEADER_BYTES;
/// Headers before each part of an enhanced frame: its own, and those of stream, container and packet. Parts leave one by one,
/// so that hardly any share a packet.
pub(crate) const PART_HEAD_BYTES: usize = 50;
/// Overhead of records in a reliable stream: they travel in pieces of about a packet, each with such headers.
const RELIABLE: Overhead = Overhead {
    packet_bytes: 1_045.0,
    payload_bytes: 1_000.0,
};
/// Rate of other traffic: acknowledgements, reports, replies.
pub(crate) const CONTROL: Rate = Rate::from_kbps(32);

/// Size of a frame of the enhanced flow, in parts.
pub(crate) fn enhanced_bytes(size: usize) -> u64 {
    (size + size.div_ceil(PART_BYTES_MAX) * PART_HEAD_BYTES) as u64
}

/// Load of data of this rate in a reliable stream.
pub(crate) fn reliable(rate: Rate) -> Rate {
    RELIABLE.on_top_of(rate)
}
