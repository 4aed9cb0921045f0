//! Encoding of numbers.

use super::DecodeError;

/// Reader of bytes from the front; never reads past the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Remaining bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .0
            .split_at_checked(bytes)
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// A variable-length integer (RFC 9000 §16), in its shortest form.
    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        let first = *self.0.first().ok_or(DecodeError::Truncated)?;
        let length = 1usize << (first >> 6);
        let bytes = self.take(length)?;
        let value = bytes[1..]
            .iter()
            .fold(u64::from(first & 0x3f), |value, &byte| {
                value << 8 | u64::from(byte)
            });
        if varint_bytes(value) == length {
            Ok(value)
        } else {
            Err(DecodeError::Value)
        }
    }
}

/// Largest value of a variable-length integer.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Bytes of `value` as a variable-length integer.
pub(crate) const fn varint_bytes(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends `value`, at most [`VARINT_MAX`], as a variable-length integer.
pub(crate) fn put_varint(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= VARINT_MAX);
    let value = value.min(VARINT_MAX);
    match varint_bytes(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// A whole number in two bytes, with a relative error of at most 1/2048: five bits e, eleven bits m,
/// value m·2^e. Saturates at 2047·2^31 (4.4·10¹²).
pub(crate) fn to_short(value: u64) -> u16 {
    let mut exponent = (64 - value.leading_zeros()).saturating_sub(11);
    if exponent == 0 {
        return value as u16;
    }
    // Rounded to the nearest; a carry out of the mantissa takes one more bit.
    let mut mantissa = (value >> (exponent - 1)).div_ceil(2);
    if mantissa == 2048 {
        mantissa = 1024;
        exponent += 1;
    }
    if exponent > 31 {
        return u16::MAX;
    }
    (exponent as u16) << 11 | mantissa as u16
}

/// Reverses [`to_short`]; longer forms are refused.
pub(crate) fn from_short(code: u16) -> Result<u64, DecodeError> {
    let (exponent, mantissa) = (code >> 11, u64::from(code & 0x7ff));
    if exponent > 0 && mantissa < 1024 {
        return Err(DecodeError::Value);
    }
    Ok(mantissa << exponent)
}

/// A whole number in one byte, with a relative error of at most 1/16 (rounded down): four bits e, four
/// bits m. Below 16 exact, then (16 + m)·2^(e−1). Saturates at 31·2^14 (507,904).
pub(crate) fn to_tiny(value: u64) -> u8 {
    if value < 16 {
        return value as u8;
    }
    let exponent = 64 - value.leading_zeros() - 4;
    if exponent > 15 {
        return u8::MAX;
    }
    (exponent as u8) << 4 | (value >> (exponent - 1)) as u8 & 0x0f
}

/// Reverses [`to_tiny`].
pub(crate) fn from_tiny(code: u8) -> u64 {
    let (exponent, mantissa) = (code >> 4, u64::from(code & 0x0f));
    if exponent == 0 {
        mantissa
    } else {
        (16 + mantissa) << (exponent - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value in 0..=VARINT_MAX, shift in 0u32..62) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_bytes(value));
            prop_assert_eq!(Cursor::new(&out).varint(), Ok(value));
        }

        #[test]
        fn short_numbers_keep_three_digits(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let back = from_short(to_short(value)).unwrap();
            let largest = 2047u64 << 31;
            let error = back.abs_diff(value.min(largest)) as f64;
            prop_assert!(error <= value as f64 / 2047.0, "{} became {}", value, back);
        }

        #[test]
        fn codes_are_canonical(code in any::<u16>(), tiny in any::<u8>()) {
            if let Ok(value) = from_short(code) {
                prop_assert_eq!(to_short(value), code);
            }
            prop_assert_eq!(to_tiny(from_tiny(tiny)), tiny);
        }

        #[test]
        fn tiny_numbers_keep_one_digit(value in 0u64..500_000) {
            let back = from_tiny(to_tiny(value));
            prop_assert!(back <= value && value - back <= value / 16);
        }
    }

    #[test]
    fn longer_forms_are_refused() {
        assert_eq!(Cursor::new(&[0x40, 0x01]).varint(), Err(DecodeError::Value));
        assert_eq!(Cursor::new(&[0x40]).varint(), Err(DecodeError::Truncated));
        assert_eq!(from_short(1 << 11 | 5), Err(DecodeError::Value));
    }
}
