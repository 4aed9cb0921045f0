//! Variable-length integers of QUIC (RFC 9000 §16).

use bytes::Buf;

use super::DecodeError;

/// Largest encodable value.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Bytes that `value` takes.
pub(crate) const fn size(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends `value`, which must not exceed [`MAX`].
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX);
    match size(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(0x4000 | value as u16).to_be_bytes()),
        4 => out.extend_from_slice(&(0x8000_0000 | value as u32).to_be_bytes()),
        _ => out.extend_from_slice(&(0xc000_0000_0000_0000 | value).to_be_bytes()),
    }
}

/// Takes a value off the front of `input`.
pub(crate) fn read(input: &mut impl Buf) -> Result<u64, DecodeError> {
    if !input.has_remaining() {
        return Err(DecodeError::Truncated);
    }
    let first = input.chunk()[0];
    let length = 1 << (first >> 6);
    if input.remaining() < length {
        return Err(DecodeError::Truncated);
    }
    Ok(match length {
        1 => u64::from(input.get_u8()),
        2 => u64::from(input.get_u16() & 0x3fff),
        4 => u64::from(input.get_u32() & 0x3fff_ffff),
        _ => input.get_u64() & MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trips(value in 0..=MAX) {
            let mut out = Vec::new();
            write(&mut out, value);
            prop_assert_eq!(out.len(), size(value));
            let mut input = out.as_slice();
            prop_assert_eq!(read(&mut input), Ok(value));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn truncation_is_an_error(value in 0x40..=MAX) {
            let mut out = Vec::new();
            write(&mut out, value);
            out.pop();
            prop_assert_eq!(read(&mut out.as_slice()), Err(DecodeError::Truncated));
        }
    }

    /// RFC 9000 appendix A.1.
    #[test]
    fn matches_the_rfc() {
        let sample = |mut bytes: &[u8]| read(&mut bytes);
        assert_eq!(
            sample(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            Ok(151_288_809_941_952_652)
        );
        assert_eq!(sample(&[0x9d, 0x7f, 0x3e, 0x7d]), Ok(494_878_333));
        assert_eq!(sample(&[0x7b, 0xbd]), Ok(15_293));
        assert_eq!(sample(&[0x25]), Ok(37));
    }
}
