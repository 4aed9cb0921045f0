//! Sequence and picture parameter sets (ITU-T H.264 §7.3.2.1, §7.3.2.2), as far as slice headers need them.

use crate::codec::bits::Bits;

/// Sequence parameter set of progressive frames; others get no stand-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) id: u32,
    pub(super) has_planes: bool,
    pub(super) has_chroma: bool,
    pub(super) frame_num_bits: u32,
    /// Bits of the order count; `None` if it follows from the decode order.
    pub(super) order_bits: Option<u32>,
    pub(super) references_max: u32,
    pub(super) macroblocks: u32,
}

/// Profiles whose parameter sets have further fields about samples.
const HIGH: [u32; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

impl Sequence {
    /// Parses a NAL unit; `None` for a set that is not understood, has fields, or uses order counts of type 1.
    pub(super) fn read(unit: &[u8]) -> Option<Self> {
        let (&header, body) = unit.split_first()?;
        if header & 31 != 7 {
            return None;
        }
        let mut bits = Bits::new(body);
        let profile = bits.take(8)?;
        bits.take(16)?;
        let id = bits.golomb()?;
        let mut chroma = 1;
        let mut has_planes = false;
        if HIGH.contains(&profile) {
            chroma = bits.golomb()?;
            if chroma == 3 {
                has_planes = bits.bit()?;
            }
            bits.golomb()?;
            bits.golomb()?;
            bits.bit()?;
            if bits.bit()? {
                for list in 0..if chroma == 3 { 12 } else { 8 } {
                    if bits.bit()? {
                        scaling_list(&mut bits, if list < 6 { 16 } else { 64 })?;
                    }
                }
            }
        }
        let frame_num_bits = bits.golomb()?.checked_add(4)?;
        let order_bits = match bits.golomb()? {
            0 => Some(bits.golomb()?.checked_add(4)?),
            2 => None,
            _ => return None,
        };
        let references_max = bits.golomb()?;
        let _gaps = bits.bit()?;
        let width = bits.golomb()?.checked_add(1)?;
        let height = bits.golomb()?.checked_add(1)?;
        let is_progressive = bits.bit()?;
        let is_valid = id < 32
            && chroma <= 3
            && frame_num_bits <= 16
            && order_bits.unwrap_or(4) <= 16
            && references_max <= 16
            && is_progressive;
        Some(Self {
            id,
            has_planes,
            has_chroma: chroma != 0 && !has_planes,
            frame_num_bits,
            order_bits,
            references_max,
            // 139,264 is the maximum of any level.
            macroblocks: width.checked_mul(height).filter(|&all| all <= 139_264)?,
        })
        .filter(|_| is_valid)
    }
}

fn scaling_list(bits: &mut Bits<'_>, size: u32) -> Option<()> {
    let mut last = 8i64;
    let mut next = 8i64;
    for _ in 0..size {
        if next != 0 {
            next = (last + i64::from(bits.signed()?)).rem_euclid(256);
        }
        if next != 0 {
            last = next;
        }
    }
    Some(())
}

/// Fields of a picture parameter set that slice headers depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pictures {
    pub(super) id: u32,
    pub(super) has_bottom_order: bool,
    /// Number of reference pictures of the two lists where a slice does not specify it.
    pub(super) active: [u32; 2],
    pub(super) is_weighted: bool,
    pub(super) is_weighted_explicitly: bool,
    pub(super) has_redundant: bool,
}

impl Pictures {
    /// Parses a NAL unit; `None` for a set that is not understood or has slice groups.
    pub(super) fn read(unit: &[u8]) -> Option<Self> {
        let (&header, body) = unit.split_first()?;
        if header & 31 != 8 {
            return None;
        }
        let mut bits = Bits::new(body);
        let id = bits.golomb()?;
        bits.golomb()?;
        bits.bit()?;
        let has_bottom_order = bits.bit()?;
        if bits.golomb()? != 0 || id > 255 {
            return None;
        }
        let active = [
            bits.golomb()?.checked_add(1)?,
            bits.golomb()?.checked_add(1)?,
        ];
        let is_weighted = bits.bit()?;
        let is_weighted_explicitly = bits.take(2)? == 1;
        for _ in 0..3 {
            bits.golomb()?;
        }
        bits.take(2)?;
        Some(Self {
            id,
            has_bottom_order,
            active,
            is_weighted,
            is_weighted_explicitly,
            has_redundant: bits.bit()?,
        })
        .filter(|_| active.iter().all(|&count| count <= 32))
    }
}
