//! H.264: type and reference flag of a slice (ITU-T H.264 §7.3.1, §7.3.3).

use crate::codec::{Picture, bits::Bits};
use crate::index::FrameType;

/// Reads type and reference flag of a picture from a NAL unit, if it is a slice; the unit may be cut off after some
/// bytes.
///
/// ```text
/// | 0 | nal_ref_idc 2 | nal_unit_type 5 | first_mb_in_slice ue(v) | slice_type ue(v) | …
/// ```
pub(crate) fn slice(unit: &[u8]) -> Option<Picture> {
    let (&header, rest) = unit.split_first()?;
    // 1: slice; 2: data partition A; 5: slice of an IDR picture.
    if !matches!(header & 31, 1 | 2 | 5) {
        return None;
    }
    let mut bits = Bits::new(rest);
    let _first_macroblock = bits.golomb()?;
    let frame = match bits.golomb()? {
        // P, SP; values from 5 on mean that all slices of the picture are of that type (Table 7-6).
        0 | 3 | 5 | 8 => FrameType::Predicted,
        1 | 6 => FrameType::Bidirectional,
        // I, SI.
        2 | 4 | 7 | 9 => FrameType::Intra,
        _ => return None,
    };
    Some(Picture {
        frame,
        is_referenced: header >> 5 & 3 != 0,
        layer: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_each_type() {
        // first_mb 0 ('1'), slice_type 7 ('0001000'): 0x88, as every IDR slice of x264 begins.
        let idr = slice(&[0x65, 0x88, 0x84]).expect("a slice");
        assert_eq!((idr.frame, idr.is_referenced), (FrameType::Intra, true));
        // slice_type 5 ('00110') and 6 ('00111').
        let p = slice(&[0x41, 0b1001_1000]).expect("a slice");
        assert_eq!((p.frame, p.is_referenced), (FrameType::Predicted, true));
        let b = slice(&[0x01, 0b1001_1100]).expect("a slice");
        assert_eq!(
            (b.frame, b.is_referenced),
            (FrameType::Bidirectional, false)
        );
    }

    #[test]
    fn other_units_and_stumps_are_none() {
        for unit in [&[][..], &[0x67, 0x64], &[0x06, 5], &[0x65], &[0x65, 0]] {
            assert_eq!(slice(unit), None, "{unit:?}");
        }
    }
}
