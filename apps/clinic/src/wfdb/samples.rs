//! Bytes of samples: formats 16 and 212, a sample after the other, of all leads of a file in turn.
//!
//! ```text
//! 16    two bytes, little-endian, two's complement: -32768 is invalid
//! 212   two samples a, b in three bytes: a7…a0 | b11…b8 a11…a8 | b7…b0, two's complement: -2048 is invalid
//! ```
//!
//! An odd number of samples in format 212 ends with two bytes.

use super::INVALID;

/// Value of an invalid sample in format 212.
const INVALID_OF_12: i16 = -2_048;
/// Smallest and largest valid value in format 212.
const RANGE_OF_12: (i16, i16) = (-2_047, 2_047);

/// Format of a file with samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Two bytes a sample.
    F16,
    /// Three bytes for two samples of 12 bits.
    F212,
}

impl Format {
    /// The format with this number.
    pub fn of(number: u32) -> Option<Self> {
        match number {
            16 => Some(Self::F16),
            212 => Some(Self::F212),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            Self::F16 => 16,
            Self::F212 => 212,
        }
    }

    /// Bytes of so many samples at the beginning of a file.
    pub fn bytes_of(self, samples: u64) -> u64 {
        match self {
            Self::F16 => samples.saturating_mul(2),
            Self::F212 => samples.saturating_mul(3).div_ceil(2),
        }
    }

    /// Whole samples in so many bytes.
    pub fn samples_in(self, bytes: u64) -> u64 {
        match self {
            Self::F16 => bytes / 2,
            Self::F212 => bytes / 3 * 2 + u64::from(bytes % 3 == 2),
        }
    }

    /// The number whose sum is the checksum of a lead, of a sample as [`Unpacker`] returns it.
    pub(super) fn stored(self, sample: i16) -> i16 {
        match (self, sample) {
            (Self::F212, INVALID) => INVALID_OF_12,
            _ => sample,
        }
    }
}

/// Reader of samples from bytes that come in pieces.
#[derive(Clone, Debug)]
pub struct Unpacker {
    format: Format,
    /// Bytes of a sample or of a pair that is not whole.
    rest: Vec<u8>,
}

impl Unpacker {
    /// A reader at the beginning of a file.
    pub fn new(format: Format) -> Self {
        let rest = Vec::new();
        Self { format, rest }
    }

    /// Appends to `samples` those that are whole with these bytes.
    pub fn push(&mut self, bytes: &[u8], samples: &mut Vec<i16>) {
        let size = match self.format {
            Format::F16 => 2,
            Format::F212 => 3,
        };
        let missing = (size - self.rest.len()).min(bytes.len());
        let (first, others) = bytes.split_at(missing);
        self.rest.extend_from_slice(first);
        if self.rest.len() < size {
            return;
        }
        let rest = std::mem::take(&mut self.rest);
        self.group(&rest, samples);
        let groups = others.chunks_exact(size);
        self.rest.extend_from_slice(groups.remainder());
        for group in groups {
            self.group(group, samples);
        }
    }

    /// Appends a sample that only the end of the file makes whole.
    pub fn finish(&mut self, samples: &mut Vec<i16>) {
        if let (Format::F212, [low, high]) = (self.format, &self.rest[..]) {
            samples.push(of_12(u16::from(*low) | u16::from(*high & 0x0f) << 8));
        }
        self.rest.clear();
    }

    fn group(&self, group: &[u8], samples: &mut Vec<i16>) {
        match (self.format, group) {
            (Format::F16, &[low, high]) => samples.push(i16::from_le_bytes([low, high])),
            (Format::F212, &[first, both, second]) => {
                samples.push(of_12(u16::from(first) | u16::from(both & 0x0f) << 8));
                samples.push(of_12(u16::from(second) | u16::from(both & 0xf0) << 4));
            }
            _ => {}
        }
    }
}

/// Sample from its 12 bits.
fn of_12(bits: u16) -> i16 {
    match (bits << 4).cast_signed() >> 4 {
        INVALID_OF_12 => INVALID,
        value => value,
    }
}

/// Writer of samples as bytes.
#[derive(Clone, Debug)]
pub struct Packer {
    format: Format,
    /// First sample of a pair.
    first: Option<i16>,
}

impl Packer {
    /// A writer at the beginning of a file.
    pub fn new(format: Format) -> Self {
        let first = None;
        Self { format, first }
    }

    /// Appends the bytes of samples; one that waits for the second of its pair is written with it. In format 212, values beyond ±2047
    /// become the next one that is valid.
    pub fn push(&mut self, samples: &[i16], bytes: &mut Vec<u8>) {
        for &sample in samples {
            match (self.format, self.first.take()) {
                (Format::F16, _) => bytes.extend_from_slice(&sample.to_le_bytes()),
                (Format::F212, None) => self.first = Some(sample),
                (Format::F212, Some(first)) => {
                    let [first, second] = [first, sample].map(to_12);
                    let high = (first >> 8 | second >> 4 & 0xf0) as u8;
                    bytes.extend_from_slice(&[first as u8, high, second as u8]);
                }
            }
        }
    }

    /// Appends the bytes of a sample without a second one.
    pub fn finish(&mut self, bytes: &mut Vec<u8>) {
        if let Some(first) = self.first.take() {
            let first = to_12(first);
            bytes.extend_from_slice(&[first as u8, (first >> 8) as u8]);
        }
    }
}

/// The 12 bits of a sample.
fn to_12(sample: i16) -> u16 {
    let (least, most) = RANGE_OF_12;
    let value = match sample {
        INVALID => INVALID_OF_12,
        sample => sample.clamp(least, most),
    };
    value.cast_unsigned() & 0x0fff
}
