//! Content of the ADUs of a storm: flow, number and a pattern of both, so that a mix-up of streams, of ADUs or of bytes
//! within one is detected.

use std::ops::Range;

use bytes::Bytes;

/// Size of the head: flow (4) and number (4), little endian.
const HEAD_BYTES: usize = 8;
/// Smallest ADU: the head.
pub(super) const ADU_BYTES_MIN: usize = HEAD_BYTES;

/// The byte at `at` of an ADU.
fn byte_at(flow: u32, number: u32, at: usize) -> u8 {
    match at {
        0..4 => flow.to_le_bytes()[at],
        4..HEAD_BYTES => number.to_le_bytes()[at - 4],
        _ => {
            let mixed = (flow ^ number.rotate_left(16)).wrapping_mul(0x9e37_79b9);
            (mixed.wrapping_add((at as u32).wrapping_mul(0x85eb_ca6b)) >> 23) as u8
        }
    }
}

/// The ADU `number` of a flow, of `bytes`.
pub(super) fn make(flow: u32, number: u32, bytes: usize) -> Bytes {
    (0..bytes.max(HEAD_BYTES))
        .map(|at| byte_at(flow, number, at))
        .collect()
}

/// Flow and number in the head.
pub(super) fn head(data: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    Some((word(0)?, word(4)?))
}

/// True if every byte is that of this ADU, and zero where one is missing.
pub(super) fn is_intact(flow: u32, number: u32, data: &[u8], missing: &[Range<u64>]) -> bool {
    let is_missing = |at: usize| missing.iter().any(|range| range.contains(&(at as u64)));
    let mut bytes = data.iter().enumerate();
    if missing.is_empty() {
        return bytes.all(|(at, &byte)| byte == byte_at(flow, number, at));
    }
    bytes.all(|(at, &byte)| {
        let expected = if is_missing(at) {
            0
        } else {
            byte_at(flow, number, at)
        };
        byte == expected
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_adu_flow_or_byte_is_detected() {
        let data = make(3, 5, 1000);
        assert_eq!(head(&data), Some((3, 5)));
        assert!(is_intact(3, 5, &data, &[]));
        assert!(!is_intact(3, 6, &data, &[]));
        assert!(!is_intact(4, 5, &data, &[]));
        let mut swapped = data.to_vec();
        swapped.swap(500, 700);
        assert!(!is_intact(3, 5, &swapped, &[]));
        let mut holey = data.to_vec();
        holey[10..20].fill(0);
        assert!(!is_intact(3, 5, &holey, &[]));
        let hole = 10..20;
        assert!(is_intact(3, 5, &holey, std::slice::from_ref(&hole)));
        assert!(!is_intact(3, 5, &data, std::slice::from_ref(&hole)));
    }
}
