//! Slice header of a referenced frame: its effect on the buffer of decoded pictures (ITU-T H.264 §7.3.3).

use super::parameters::{Pictures, Sequence};
use crate::codec::bits::Bits;

/// Most memory management commands of one picture.
const COMMANDS_MAX: usize = 40;

/// One memory management command and its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) operation: u32,
    pub(super) values: [u32; 2],
}

impl Command {
    /// Number of values that an operation takes.
    pub(super) const fn values(operation: u32) -> Option<usize> {
        match operation {
            1 | 2 | 4 | 6 => Some(1),
            3 => Some(2),
            5 => Some(0),
            _ => None,
        }
    }
}

/// Data of a referenced frame that later frames depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(super) importance: u8,
    pub(super) is_idr: bool,
    pub(super) frame_num: u32,
    pub(super) order: u32,
    /// `None`: the oldest is removed when the buffer is full.
    pub(super) commands: Option<Vec<Command>>,
}

impl Reference {
    /// Parses the header of a referenced slice; `None` if it is not understood.
    pub(super) fn read(unit: &[u8], sequence: &Sequence, sets: &[Pictures]) -> Option<Self> {
        let (&header, body) = unit.split_first()?;
        let (importance, kind) = (header >> 5 & 3, header & 31);
        if importance == 0 || !matches!(kind, 1 | 5) {
            return None;
        }
        let mut bits = Bits::new(body);
        let first = bits.golomb()?;
        let slice_type = bits.golomb()? % 5;
        let set = bits.golomb()?;
        let set = sets.iter().find(|known| known.id == set)?;
        if first != 0 || sequence.has_planes {
            return None;
        }
        let frame_num = bits.take(sequence.frame_num_bits)?;
        if kind == 5 {
            bits.golomb()?;
        }
        let mut order = 0;
        if let Some(order_bits) = sequence.order_bits {
            order = bits.take(order_bits)?;
            // A stand-in has none.
            if set.has_bottom_order && bits.signed()? != 0 {
                return None;
            }
        }
        if set.has_redundant {
            bits.golomb()?;
        }
        // 0: P, 1: B, 2: I; SP and SI occur in no streams in use.
        let lists = match slice_type {
            0 => 1,
            1 => 2,
            2 => 0,
            _ => return None,
        };
        lists_of(&mut bits, sequence, set, lists)?;
        let commands = if kind == 5 {
            bits.take(2)?;
            None
        } else if bits.bit()? {
            Some(commands(&mut bits)?)
        } else {
            None
        };
        Some(Self {
            importance,
            is_idr: kind == 5,
            frame_num,
            order,
            commands,
        })
    }
}

/// Skips the fields of a header about reference lists.
fn lists_of(bits: &mut Bits<'_>, sequence: &Sequence, set: &Pictures, lists: usize) -> Option<()> {
    let mut active = set.active;
    if lists == 2 {
        let _direct = bits.bit()?;
    }
    if lists > 0 && bits.bit()? {
        for count in &mut active[..lists] {
            *count = bits.golomb()?.checked_add(1).filter(|&count| count <= 32)?;
        }
    }
    for _ in 0..lists {
        if bits.bit()? {
            let mut left = 66;
            while bits.golomb()? != 3 {
                bits.golomb()?;
                left -= 1;
                if left == 0 {
                    return None;
                }
            }
        }
    }
    let is_weighted = match lists {
        1 => set.is_weighted,
        2 => set.is_weighted_explicitly,
        _ => false,
    };
    if is_weighted {
        bits.golomb()?;
        if sequence.has_chroma {
            bits.golomb()?;
        }
        for &count in &active[..lists] {
            for _ in 0..count {
                if bits.bit()? {
                    bits.golomb()?;
                    bits.golomb()?;
                }
                if sequence.has_chroma && bits.bit()? {
                    for _ in 0..4 {
                        bits.golomb()?;
                    }
                }
            }
        }
    }
    Some(())
}

fn commands(bits: &mut Bits<'_>) -> Option<Vec<Command>> {
    let mut commands = Vec::new();
    loop {
        let operation = bits.golomb()?;
        if operation == 0 {
            return Some(commands);
        }
        let mut values = [0; 2];
        for value in &mut values[..Command::values(operation)?] {
            *value = bits.golomb()?;
        }
        if commands.len() == COMMANDS_MAX {
            return None;
        }
        commands.push(Command { operation, values });
    }
}
