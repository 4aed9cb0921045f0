//! Packets of Opus: their lengths (RFC 6716 §3), and the header of a stream (RFC 7845 §5.1).

use super::{PACKET_BYTES_MAX, PACKET_SAMPLES};

/// Longest packet of the format, in samples at 48 kHz: 120 ms.
const SAMPLES_MAX: u32 = 5_760;
/// Samples that a decoder drops at first: those of libopus' encoder at 48 kHz.
const PRE_SKIP: u16 = 312;
const MAGIC: &[u8; 8] = b"OpusHead";
const TAGS: &[u8; 8] = b"OpusTags";
const VENDOR: &[u8] = b"anabranch";

/// Samples of one frame of a configuration (RFC 6716, table 2).
fn frame_samples(configuration: u8) -> u32 {
    let place = usize::from(configuration & 3);
    match configuration {
        0..=11 => [480, 960, 1_920, 2_880][place],
        12..=15 => [480, 960][place & 1],
        _ => [120, 240, 480, 960][place],
    }
}

/// Samples of a packet at 48 kHz, from its first bytes; `None`: it is none of Opus.
pub fn samples(packet: &[u8]) -> Option<u32> {
    let first = *packet.first()?;
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0x3f),
    };
    let samples = frames * frame_samples(first >> 3);
    (samples > 0 && samples <= SAMPLES_MAX).then_some(samples)
}

/// True for a packet of 20 ms that is not too long.
pub fn is_speech(packet: &[u8]) -> bool {
    packet.len() <= PACKET_BYTES_MAX && samples(packet) == Some(PACKET_SAMPLES)
}

/// A packet of 20 ms without data, by which a decoder conceals a loss (RFC 7845 §4.1), in the mode and with the channels of another one.
pub(super) fn concealment(like: &[u8]) -> [u8; 1] {
    let first = like.first().copied().unwrap_or_default();
    let configuration = first >> 3;
    let configuration = match configuration {
        0..=11 => configuration & !3 | 1,
        12..=15 => configuration | 1,
        _ => configuration | 3,
    };
    [configuration << 3 | first & 4]
}

/// Header of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Channels: 1 or 2.
    pub channels: u8,
    /// Samples that a decoder drops at first, at 48 kHz.
    pub pre_skip: u16,
}

impl Head {
    /// Header for packets like this one.
    pub(super) fn like(packet: &[u8]) -> Self {
        let is_stereo = packet.first().is_some_and(|first| first & 4 != 0);
        Self {
            channels: 1 + u8::from(is_stereo),
            pre_skip: PRE_SKIP,
        }
    }

    /// The first packet of a stream.
    pub(super) fn to_packet(self) -> Vec<u8> {
        let mut packet = MAGIC.to_vec();
        packet.extend([1, self.channels]);
        packet.extend(self.pre_skip.to_le_bytes());
        packet.extend(48_000_u32.to_le_bytes());
        // No gain, and channels as they are.
        packet.extend([0, 0, 0]);
        packet
    }

    /// Reads the first packet of a stream; `None`: it is none of Opus, of another version, or has more than two channels.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let body = packet.strip_prefix(MAGIC)?;
        let [version, channels, low, high, ..] = *body else {
            return None;
        };
        let is_known = body.len() >= 11 && version < 16 && body[10] == 0;
        (is_known && (1..=2).contains(&channels)).then_some(Self {
            channels,
            pre_skip: u16::from_le_bytes([low, high]),
        })
    }
}

/// The second packet of a stream: comments, of which there are none.
pub(super) fn tags() -> Vec<u8> {
    let mut packet = TAGS.to_vec();
    packet.extend((VENDOR.len() as u32).to_le_bytes());
    packet.extend(VENDOR);
    packet.extend(0_u32.to_le_bytes());
    packet
}

/// True for a packet of comments.
pub(super) fn is_tags(packet: &[u8]) -> bool {
    packet.starts_with(TAGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_table() {
        // Configuration, code, and for code 3 the number of frames.
        let cases: [(&[u8], Option<u32>); 9] = [
            (&[1 << 3], Some(960)),
            (&[1 << 3 | 1], Some(1_920)),
            (&[3 << 3 | 2], Some(5_760)),
            (&[3 << 3 | 3, 3], None),
            (&[13 << 3 | 4], Some(960)),
            (&[16 << 3 | 3, 8], Some(960)),
            (&[31 << 3 | 3, 0], None),
            (&[31 << 3 | 3], None),
            (&[], None),
        ];
        for (packet, expected) in cases {
            assert_eq!(samples(packet), expected, "{packet:?}");
        }
        assert!(is_speech(&[1 << 3, 5]) && !is_speech(&[0, 5]));
        assert!(!is_speech(&[8; PACKET_BYTES_MAX + 1]));
    }

    #[test]
    fn a_concealment_is_as_long_as_what_it_replaces() {
        for first in 0..=u8::MAX {
            let packet = concealment(&[first]);
            assert_eq!(samples(&packet), Some(PACKET_SAMPLES), "{first}");
            assert_eq!(packet[0] & 4, first & 4);
        }
    }

    #[test]
    fn heads_are_read_as_they_are_written() {
        let head = Head::like(&[12]);
        assert_eq!(head.channels, 2);
        assert_eq!(Head::read(&head.to_packet()), Some(head));
        assert_eq!(head.to_packet().len(), 19);
        assert!(is_tags(&tags()));
        for wrong in [
            &b"OpusHead"[..],
            b"vorbis",
            b"OpusHead\x01\x03\0\0\0\0\0\0\0\0\0",
        ] {
            assert_eq!(Head::read(wrong), None);
        }
    }
}
