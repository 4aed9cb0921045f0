//! Integers of variable length (LEB128), floating-point numbers and strings.

use super::decode::Malformed;

/// Writes an integer: seven bits a byte, the least significant first.
pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Writes a difference: small ones of either sign are short.
pub(super) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put(bytes, (value << 1 ^ value >> 63) as u64);
}

pub(super) fn put_f64(bytes: &mut Vec<u8>, value: f64) {
    bytes.extend_from_slice(&value.to_bits().to_le_bytes());
}

pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Input that is read from its beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    /// Position of the next byte.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.all.len() - self.at
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.all.get(self.at..end));
        let taken = taken.ok_or(Malformed::Truncated)?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Value("an integer of more than 64 bits"))
    }

    pub(super) fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn f64(&mut self) -> Result<f64, Malformed> {
        let bytes = self.take(8)?;
        let bytes = bytes.first_chunk().copied().unwrap_or_default();
        Ok(f64::from_bits(u64::from_le_bytes(bytes)))
    }

    pub(super) fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.number()?).map_err(|_| Malformed::Value("a size"))
    }

    /// A number of items, of which each has a byte at least: no more than bytes are left.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.size()?;
        if count > self.left() {
            return Err(Malformed::Truncated);
        }
        Ok(count)
    }

    pub(super) fn text(&mut self, bytes_max: usize) -> Result<String, Malformed> {
        let length = self.size()?;
        if length > bytes_max {
            return Err(Malformed::Value("a text that is too long"));
        }
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| Malformed::Value("a text that is not UTF-8"))
    }
}
