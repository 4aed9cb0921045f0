//! The Internet checksum (RFC 1071), and its change with a change of the data (RFC 1624).

/// One's complement sum of big-endian words, added to `before`; a last odd byte is padded with zero.
pub(crate) fn sum(before: u16, bytes: &[u8]) -> u16 {
    let mut words = bytes.chunks_exact(2);
    let mut total = u64::from(before);
    for pair in &mut words {
        total += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let [last] = words.remainder() {
        total += u64::from(u16::from_be_bytes([*last, 0]));
    }
    folded(total)
}

fn folded(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Sum of the pseudo-header of a transport protocol: both addresses, the length and the protocol (RFC 9293 §3.1, RFC 8200 §8.1).
pub(crate) fn pseudo(addresses: &[u8], length: usize, protocol: u8) -> u16 {
    let length = u32::try_from(length)
        .expect("packets are short")
        .to_be_bytes();
    let before = sum(u16::from(protocol), addresses);
    sum(before, &length)
}

/// Checksum after a word of the data was changed: equation 3 of RFC 1624, HC' = ~(~HC + ~m + m').
pub(crate) fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    !folded(u64::from(!checksum) + u64::from(!before) + u64::from(after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 1071 §3.
    #[test]
    fn the_published_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(0, &data), 0xddf2);
        assert_eq!(sum(0, &data[..7]), 0xddf2 - 0xf7);
    }

    /// The example of RFC 1624 §4.
    #[test]
    fn the_published_update() {
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn an_update_equals_a_new_sum(
            mut data in prop::collection::vec(any::<u8>(), 2..64),
            place in any::<prop::sample::Index>(),
            after in any::<u16>(),
        ) {
            let at = place.index(data.len() / 2) * 2;
            let checksum = !sum(0, &data);
            let before = u16::from_be_bytes([data[at], data[at + 1]]);
            data[at..at + 2].copy_from_slice(&after.to_be_bytes());
            let changed = updated(checksum, before, after);
            // Both zeros of the one's complement mean the same.
            let total = sum(changed, &data);
            prop_assert!(total == 0xffff || total == 0, "{total:#x}");
        }
    }
}
