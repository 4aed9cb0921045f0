//! Bit reader for NAL units: exponential Golomb codes, emulation prevention.

/// Reader of bits, most significant first; `None` at the end. Skips the third byte of `00 00 03`.
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    /// Position of the current byte, and number of its bits that were read.
    at: usize,
    taken: u8,
    zeros: u8,
}

impl<'a> Bits<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            taken: 0,
            zeros: 0,
        }
    }

    pub(crate) fn bit(&mut self) -> Option<bool> {
        if self.taken == 0 && self.zeros >= 2 && self.bytes.get(self.at) == Some(&3) {
            self.at += 1;
            self.zeros = 0;
        }
        let byte = *self.bytes.get(self.at)?;
        let bit = byte >> (7 - self.taken) & 1 == 1;
        self.taken += 1;
        if self.taken == 8 {
            self.taken = 0;
            self.at += 1;
            self.zeros = if byte == 0 { self.zeros + 1 } else { 0 };
            self.zeros = self.zeros.min(2);
        }
        Some(bit)
    }

    /// `count` bits, at most 32.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        debug_assert!(count <= 32);
        let mut value = 0;
        for _ in 0..count {
            value = value << 1 | u32::from(self.bit()?);
        }
        Some(value)
    }

    /// ue(v), at most 2³² − 2 (H.264 §9.1).
    pub(crate) fn golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.bit()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let rest = self.take(zeros)?;
        Some(((1u64 << zeros) - 1) as u32 + rest)
    }

    /// se(v) (H.264 §9.1.1).
    pub(crate) fn signed(&mut self) -> Option<i32> {
        let code = i64::from(self.golomb()?);
        let value = if code & 1 == 1 {
            (code + 1) / 2
        } else {
            -(code / 2)
        };
        i32::try_from(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golomb_codes_of_the_standard() {
        // 1, 010, 011, 00100, 00111 are 0, 1, 2, 3, 6 (H.264 Table 9-2).
        let mut bits = Bits::new(&[0b1010_0110, 0b0100_0011, 0b1000_0000]);
        let read: Vec<_> = (0..5).map(|_| bits.golomb()).collect();
        assert_eq!(read, [0, 1, 2, 3, 6].map(Some));
    }

    #[test]
    fn emulation_prevention_is_skipped() {
        let mut bits = Bits::new(&[0, 0, 3, 1, 0, 0, 3, 3]);
        assert_eq!(bits.take(32), Some(0x0000_0100));
        assert_eq!(bits.take(16), Some(0x0003));
        assert_eq!(bits.bit(), None);
    }

    #[test]
    fn too_many_zeros_are_no_code() {
        assert_eq!(Bits::new(&[0; 8]).golomb(), None);
        assert_eq!(Bits::new(&[0, 0]).golomb(), None);
    }
}
