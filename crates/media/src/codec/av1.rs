//! AV1: the codec's name. Its frame types come from sync samples and from what the file says of dependence
//! ('sdtp', flags of fragments): a sample is a temporal unit, which may hold several frames, hidden ones too.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(codec(&[0x81, 0x04, 0x0c, 0]), "av01.0.04M.08");
        assert_eq!(codec(&[0x81, 0x4d, 0xe0, 0]), "av01.2.13H.12");
    }
}
