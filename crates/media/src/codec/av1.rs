//! AV1: codec name and frames of a sample. Frame types come from sync samples and from the dependence information of
//! the file ('sdtp', flags of fragments). A sample is a temporal unit, which may hold several frames, including hidden
//! ones; the file's information is about the frame that is shown, so a sample with hidden frames counts as referenced.

/// `av01.P.LLT.DD` (AV1 Codec ISO Media File Format Binding §5). `settings` is the body of 'av1C', at least 4 bytes.
pub(crate) fn codec(settings: &[u8]) -> String {
    let profile = settings[1] >> 5;
    let level = settings[1] & 31;
    let tier = if settings[2] >> 7 == 1 { 'H' } else { 'M' };
    let is_high = settings[2] >> 6 & 1 == 1;
    let is_twelve = settings[2] >> 5 & 1 == 1;
    let depth = match (profile, is_high, is_twelve) {
        (2, true, true) => 12,
        (_, true, _) => 10,
        _ => 8,
    };
    format!("av01.{profile}.{level:02}{tier}.{depth:02}")
}

/// Parses one OBU at the beginning of `bytes`: its type, and its length including the header; `None` if it is not an
/// OBU or has no size (AV1 §5.3).
pub(crate) fn unit(bytes: &[u8]) -> Option<(u8, u64)> {
    let (&header, mut rest) = bytes.split_first()?;
    let has_size = header & 2 != 0;
    if header & 0x80 != 0 || !has_size {
        return None;
    }
    let mut taken = 1;
    if header & 4 != 0 {
        rest = rest.get(1..)?;
        taken += 1;
    }
    let mut size = 0u64;
    for (place, &byte) in rest.iter().take(8).enumerate() {
        size |= u64::from(byte & 127) << (7 * place);
        taken += 1;
        if byte & 128 == 0 {
            return Some((header >> 3 & 15, taken + size));
        }
    }
    None
}

/// True if an OBU begins a frame: a frame header, or a frame.
pub(crate) const fn begins_frame(kind: u8) -> bool {
    matches!(kind, 3 | 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_a_temporal_unit() {
        // A temporal delimiter, a frame of 300 bytes, one without a size.
        assert_eq!(unit(&[0x12, 0]), Some((2, 2)));
        assert_eq!(unit(&[0x32, 0xac, 0x02, 9]), Some((6, 303)));
        assert_eq!(unit(&[0x30, 0xac]), None);
        assert_eq!(unit(&[0x32, 0x80]), None);
        assert!(begins_frame(6) && !begins_frame(4));
    }

    #[test]
    fn names() {
        assert_eq!(codec(&[0x81, 0x04, 0x0c, 0]), "av01.0.04M.08");
        assert_eq!(codec(&[0x81, 0x4d, 0xe0, 0]), "av01.2.13H.12");
    }
}
