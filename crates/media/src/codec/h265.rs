//! H.265: type and reference flag of a slice segment (ITU-T H.265 §7.3.1.2, §7.3.6.1), and the codec's name.

use super::{Picture, bits::Bits};
use crate::index::FrameType;

/// Reads type and reference flag of a picture from a NAL unit, if it is a slice segment.
///
/// ```text
/// | 0 | nal_unit_type 6 | nuh_layer_id 6 | nuh_temporal_id_plus1 3 | first_slice_segment_in_pic 1 | …
/// ```
///
/// Types below 16 with an even number are sub-layer non-reference pictures: no picture of the same temporal layer needs
/// them, nor do pictures of lower layers, but those of higher layers may. In the highest layer they are disposable. The
/// slice type follows fields whose lengths the parameter sets give (extra bits, number of the first block); it is read
/// only from a picture's first segment, in streams without extra bits.
pub(crate) fn slice(unit: &[u8]) -> Option<Picture> {
    let [first, second, ..] = *unit else {
        return None;
    };
    let kind = first >> 1 & 63;
    let layer = u16::from(first & 1) << 5 | u16::from(second >> 3);
    if kind > 31 || layer != 0 {
        return None;
    }
    let is_random_access = (16..=23).contains(&kind);
    let mut bits = Bits::new(&unit[2..]);
    let is_first_segment = bits.bit()?;
    if is_random_access {
        let _no_output_of_prior_pictures = bits.bit()?;
    }
    if !is_first_segment {
        return None;
    }
    let _parameter_set = bits.golomb()?;
    let frame = if is_random_access {
        FrameType::Intra
    } else {
        match bits.golomb()? {
            0 => FrameType::Bidirectional,
            1 => FrameType::Predicted,
            2 => FrameType::Intra,
            _ => return None,
        }
    };
    Some(Picture {
        frame,
        is_referenced: kind > 14 || kind & 1 == 1,
        layer: second & 7,
    })
}

/// Codec name `hvc1.…` of ISO/IEC 14496-15 Annex E: profile, compatibility, tier and level, constraints. `settings` is
/// the body of 'hvcC', at least 23 bytes.
pub(crate) fn codec(four: &str, settings: &[u8]) -> String {
    let space = match settings[1] >> 6 {
        0 => "",
        1 => "A",
        2 => "B",
        _ => "C",
    };
    let profile = settings[1] & 31;
    let compatible =
        u32::from_be_bytes([settings[2], settings[3], settings[4], settings[5]]).reverse_bits();
    let tier = if settings[1] & 32 == 0 { 'L' } else { 'H' };
    let level = settings[12];
    let mut codec = format!("{four}.{space}{profile}.{compatible:X}.{tier}{level}");
    let constraints = &settings[6..12];
    let used = constraints.iter().rposition(|&byte| byte != 0);
    for byte in &constraints[..used.map_or(0, |last| last + 1)] {
        codec.push_str(&format!(".{byte:X}"));
    }
    codec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_main_profile() {
        let mut settings = [0; 23];
        settings[1] = 1;
        settings[2..6].copy_from_slice(&[0x60, 0, 0, 0]);
        settings[6] = 0x90;
        settings[12] = 93;
        assert_eq!(codec("hvc1", &settings), "hvc1.1.6.L93.90");
    }

    #[test]
    fn random_access_and_disposable_pictures() {
        // IDR_W_RADL (19): first segment, one flag, parameter set 0, slice type 2.
        let idr = slice(&[0x26, 0x01, 0b1010_1100]).expect("a slice");
        assert_eq!((idr.frame, idr.is_referenced), (FrameType::Intra, true));
        // TRAIL_R (1), P: '1' '1' '010'.
        let p = slice(&[0x02, 0x01, 0b1101_0000]).expect("a slice");
        assert_eq!((p.frame, p.is_referenced), (FrameType::Predicted, true));
        // TRAIL_N (0), B: '1' '1' '1'.
        let b = slice(&[0x00, 0x01, 0b1110_0000]).expect("a slice");
        assert_eq!(
            (b.frame, b.is_referenced),
            (FrameType::Bidirectional, false)
        );
        assert_eq!(slice(&[0x40, 0x01, 0x0c]), None);
    }
}
