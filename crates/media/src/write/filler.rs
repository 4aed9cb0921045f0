//! Bytes that decoders skip: they keep samples at their offsets, so that one table describes them all.

use crate::index::Track;

/// Fewest bytes of filler in any codec.
const BYTES_MIN: u64 = 7;
/// Most bytes after one sample: hardware decoders have buffers of limited size.
const BYTES_MAX: u64 = 1 << 20;

/// True if filler can have this size.
pub(super) const fn fits(count: u64) -> bool {
    count >= BYTES_MIN && count <= BYTES_MAX
}

/// Form of the filler in a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filler {
    /// NAL unit of type 12 (ITU-T H.264 §7.3.2.7).
    H264,
    /// NAL unit of type 38 (ITU-T H.265 §7.3.2.8).
    H265,
    /// Padding OBU (AV1 §5.10).
    Av1,
}

impl Filler {
    /// Form for a track; `None` for audio, and for NAL units whose lengths do not take four bytes.
    pub(super) fn of(track: &Track) -> Option<Self> {
        let kind = track.entry.get(4..8)?;
        let (filler, settings, at) = match kind {
            b"avc1" | b"avc3" => (Self::H264, b"avcC", 4),
            b"hvc1" | b"hev1" => (Self::H265, b"hvcC", 21),
            b"av01" => return Some(Self::Av1),
            _ => return None,
        };
        // The boxes of a visual sample entry.
        let mut rest = track.entry.get(8 + 78..)?;
        loop {
            let (size, after) = rest.split_first_chunk::<4>()?;
            let size = u32::from_be_bytes(*size) as usize;
            if after.get(..4)? == settings {
                return (rest.get(8 + at)? & 3 == 3).then_some(filler);
            }
            rest = rest.get(size.max(8)..)?;
        }
    }

    /// Filler of `count` bytes, if there can be.
    pub(super) fn bytes(self, count: u64) -> Option<Vec<u8>> {
        if !fits(count) {
            return None;
        }
        let length = (count as u32 - 4).to_be_bytes();
        let mut bytes = Vec::with_capacity(count as usize);
        match self {
            Self::H264 => {
                bytes.extend_from_slice(&length);
                bytes.push(12);
            }
            Self::H265 => {
                bytes.extend_from_slice(&length);
                bytes.extend_from_slice(&[38 << 1, 1]);
            }
            Self::Av1 => {
                // Type 15 with a size of four groups of seven bits.
                let size = count as u32 - 5;
                bytes.push(15 << 3 | 2);
                let groups = [0, 7, 14].map(|shift| (size >> shift) as u8 & 127 | 128);
                bytes.extend_from_slice(&groups);
                bytes.push((size >> 21) as u8);
            }
        }
        bytes.resize(count as usize - 1, 0xff);
        bytes.push(0x80);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        for filler in [Filler::H264, Filler::H265, Filler::Av1] {
            for count in [BYTES_MIN, 8, 300, 70_000, BYTES_MAX] {
                let bytes = filler.bytes(count).expect("it fits");
                assert_eq!(bytes.len() as u64, count);
            }
            assert_eq!(filler.bytes(BYTES_MIN - 1), None);
            assert_eq!(filler.bytes(BYTES_MAX + 1), None);
        }
        assert_eq!(
            Filler::Av1.bytes(205),
            Some([&[0x7a, 0xc8, 0x81, 0x80, 0][..], &[0xff; 199], &[0x80]].concat())
        );
        assert_eq!(
            Filler::H264.bytes(7),
            Some(vec![0, 0, 0, 3, 12, 0xff, 0x80])
        );
        assert_eq!(Filler::H265.bytes(7), Some(vec![0, 0, 0, 3, 76, 1, 0x80]));
    }
}
