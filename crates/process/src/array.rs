//! Elements of numeric arrays: width and byte order.

use std::fmt;

/// Element of an array of floating-point numbers (IEEE 754).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// 32 bits, little-endian.
    F32,
    /// 64 bits, little-endian.
    F64,
    /// 32 bits, big-endian.
    F32Be,
    /// 64 bits, big-endian.
    F64Be,
}

impl Element {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::F32, Self::F64, Self::F32Be, Self::F64Be];

    /// Its name in the text of a pipeline.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F32Be => "f32be",
            Self::F64Be => "f64be",
        }
    }

    /// Width in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::F32Be => 4,
            Self::F64 | Self::F64Be => 8,
        }
    }

    /// Bits of the significand without the leading one: 23 or 52.
    pub fn mantissa_bits(self) -> u32 {
        match self {
            Self::F32 | Self::F32Be => 23,
            Self::F64 | Self::F64Be => 52,
        }
    }

    fn is_big_endian(self) -> bool {
        matches!(self, Self::F32Be | Self::F64Be)
    }

    /// Bits of one element, in the lower half for 32.
    ///
    /// # Panics
    /// `bytes` does not have the width of an element.
    pub fn read_bits(self, bytes: &[u8]) -> u64 {
        let mut value = [0; 8];
        let value = &mut value[..self.bytes()];
        value.copy_from_slice(bytes);
        if !self.is_big_endian() {
            value.reverse();
        }
        value
            .iter()
            .fold(0, |bits, &byte| bits << 8 | u64::from(byte))
    }

    /// Writes the bits of one element.
    ///
    /// # Panics
    /// `bytes` does not have the width of an element.
    pub fn write_bits(self, bits: u64, bytes: &mut [u8]) {
        let width = self.bytes();
        bytes.copy_from_slice(&bits.to_be_bytes()[8 - width..]);
        if !self.is_big_endian() {
            bytes.reverse();
        }
    }

    /// Value of one element.
    ///
    /// # Panics
    /// `bytes` does not have the width of an element.
    pub fn read(self, bytes: &[u8]) -> f64 {
        let bits = self.read_bits(bytes);
        match self {
            Self::F32 | Self::F32Be => f64::from(f32::from_bits(bits as u32)),
            Self::F64 | Self::F64Be => f64::from_bits(bits),
        }
    }

    /// Number of elements in a body.
    ///
    /// # Errors
    /// The body does not end with a whole element.
    pub fn count(self, body: &[u8]) -> Result<usize, String> {
        let width = self.bytes();
        if !body.len().is_multiple_of(width) {
            return Err(format!(
                "the body has {} bytes, which is no whole number of {self}; name the element that the source sends",
                body.len()
            ));
        }
        Ok(body.len() / width)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_in_their_byte_order() {
        assert_eq!(Element::F32.read(&1.5_f32.to_le_bytes()), 1.5);
        assert_eq!(Element::F32Be.read(&1.5_f32.to_be_bytes()), 1.5);
        assert_eq!(Element::F64.read(&(-2.25_f64).to_le_bytes()), -2.25);
        assert_eq!(Element::F64Be.read(&(-2.25_f64).to_be_bytes()), -2.25);
        for element in Element::ALL {
            let mut bytes = vec![0; element.bytes()];
            element.write_bits(0x0102_0304, &mut bytes);
            assert_eq!(element.read_bits(&bytes), 0x0102_0304);
        }
        assert!(
            Element::F64
                .count(&[0; 12])
                .unwrap_err()
                .contains("12 bytes")
        );
    }
}
