//! Reader of DCD, the trajectory files of CHARMM and NAMD, in both byte orders.
//!
//! A file is a sequence of Fortran records: length (i32), bytes, length again. The first three are the head:
//!
//! ```text
//! 84 bytes: "CORD", 20 × i32: frames, …, [8] fixed atoms, …, [10] has a unit cell, [11] has a fourth dimension, …, [19] version
//!  n bytes: i32 number of lines, lines of 80 characters
//!  4 bytes: i32 atoms
//! ```
//!
//! A frame is a record with the unit cell (6 × f64) if there is one, and one each for x, y, z (and the fourth dimension) of all
//! atoms, as f32. All frames have the same length, so that a frame is found by its number, and the number of frames is that which
//! the file holds: programs that are stopped leave another one in the head.

use super::{ATOMS_MAX, MoleculeError, Position, at_most};
use crate::imd::ByteOrder;

/// Bytes of the first record.
const FIRST_BYTES: usize = 84;
/// Bytes from which a head is read, which hold 1,600 lines of title.
pub(super) const HEAD_BYTES_MAX: usize = 128 << 10;
/// Bytes of the lengths around a record.
const AROUND_BYTES: usize = 8;
/// Bytes of the unit cell.
const CELL_BYTES: usize = 48;

/// Head of a trajectory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dcd {
    /// Byte order of all numbers.
    pub order: ByteOrder,
    /// Atoms of each frame.
    pub atoms: u32,
    /// Frames, as the head states them; the file can hold others.
    pub stated: u32,
    has_cell: bool,
    has_fourth: bool,
    head_bytes: usize,
}

impl Dcd {
    /// Reads the head from the beginning of a file, of which 128 KiB suffice.
    ///
    /// # Errors
    /// It is no DCD, has atoms that are fixed, or more atoms than can be shown.
    pub fn read(bytes: &[u8]) -> Result<Self, MoleculeError> {
        let mut records = Records::of(bytes)?;
        let first = records.next(Some(FIRST_BYTES))?;
        let (magic, numbers) = first.split_at(4);
        if magic != b"CORD" {
            return wrong("it holds no coordinates (CORD)");
        }
        let order = records.order;
        let number = |at: usize| i32_at(order, &numbers[4 * at..]);
        if number(8) != 0 {
            return wrong(
                "it has fixed atoms, which are in its first frame only; write it without them, as with catdcd or MDAnalysis",
            );
        }
        let is_charmm = number(19) != 0;
        let title = records.next(None)?;
        if title.len() < 4 {
            return wrong("its title has no number of lines");
        }
        let atoms = i32_at(order, records.next(Some(4))?);
        let Ok(atoms) = u64::try_from(atoms) else {
            return wrong("it states a negative number of atoms");
        };
        Ok(Self {
            order,
            atoms: at_most("atoms", atoms, ATOMS_MAX)?,
            stated: number(0).max(0) as u32,
            has_cell: is_charmm && number(10) != 0,
            has_fourth: is_charmm && number(11) != 0,
            head_bytes: bytes.len() - records.bytes.len(),
        })
    }

    /// Bytes of each frame.
    pub fn frame_bytes(&self) -> usize {
        let axes = 3 + usize::from(self.has_fourth);
        let cell = usize::from(self.has_cell) * (CELL_BYTES + AROUND_BYTES);
        cell + axes * (4 * self.atoms as usize + AROUND_BYTES)
    }

    /// Place of a frame in the file.
    pub fn frame_at(&self, frame: u64) -> u64 {
        self.head_bytes as u64 + frame * self.frame_bytes() as u64
    }

    /// Whole frames in a file of so many bytes.
    pub fn frames_in(&self, file_bytes: u64) -> u64 {
        file_bytes.saturating_sub(self.head_bytes as u64) / self.frame_bytes() as u64
    }

    /// The positions of a frame from its [`Dcd::frame_bytes`].
    ///
    /// # Errors
    /// Its records have other lengths than the head states.
    pub fn frame(&self, bytes: &[u8]) -> Result<Vec<Position>, MoleculeError> {
        let mut records = Records {
            order: self.order,
            bytes,
        };
        if self.has_cell {
            records.next(Some(CELL_BYTES))?;
        }
        let length = 4 * self.atoms as usize;
        let mut axis = || records.next(Some(length));
        let (x, y, z) = (axis()?, axis()?, axis()?);
        if self.has_fourth {
            axis()?;
        }
        let float =
            |axis: &[u8], atom: usize| f32::from_bits(i32_at(self.order, &axis[4 * atom..]) as u32);
        let position = |atom| [float(x, atom), float(y, atom), float(z, atom)];
        Ok((0..self.atoms as usize).map(position).collect())
    }
}

fn wrong<T>(why: &str) -> Result<T, MoleculeError> {
    Err(MoleculeError::Dcd(why.to_owned()))
}

fn i32_at(order: ByteOrder, bytes: &[u8]) -> i32 {
    let bytes = *bytes.first_chunk().expect("a record has its length");
    match order {
        ByteOrder::Little => i32::from_le_bytes(bytes),
        ByteOrder::Big => i32::from_be_bytes(bytes),
    }
}

/// Records of a file, one after the other.
struct Records<'a> {
    order: ByteOrder,
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records of a file, whose byte order follows from the length of the first one.
    fn of(bytes: &'a [u8]) -> Result<Self, MoleculeError> {
        let Some(first) = bytes.first_chunk::<8>() else {
            return wrong("it is shorter than its first record");
        };
        let length = FIRST_BYTES as u64;
        let is_wide = [u64::from_le_bytes(*first), u64::from_be_bytes(*first)].contains(&length);
        if is_wide {
            return wrong("the lengths of its records have 64 bits, and 32 are needed");
        }
        for order in [ByteOrder::Little, ByteOrder::Big] {
            if i32_at(order, bytes) == FIRST_BYTES as i32 {
                return Ok(Self { order, bytes });
            }
        }
        wrong("it does not begin with a record of 84 bytes, in any byte order")
    }

    /// The next record, of the expected length if there is one.
    fn next(&mut self, expected: Option<usize>) -> Result<&'a [u8], MoleculeError> {
        if self.bytes.len() < 4 {
            return wrong("it ends before a record");
        }
        let stated = i32_at(self.order, self.bytes);
        let length = usize::try_from(stated).ok();
        let length = length.filter(|length| expected.is_none_or(|expected| expected == *length));
        let Some(length) = length else {
            let expected = expected.map(|expected| format!(" in place of {expected}"));
            let expected = expected.unwrap_or_default();
            return wrong(&format!("a record of {stated} bytes{expected}"));
        };
        let body = (self.bytes[4..].split_at_checked(length)).filter(|(_, rest)| rest.len() >= 4);
        let Some((body, rest)) = body else {
            return wrong(&format!("it ends within a record of {length} bytes"));
        };
        if i32_at(self.order, rest) != stated {
            return wrong(&format!(
                "a record of {length} bytes has another length at its end"
            ));
        }
        self.bytes = &rest[4..];
        Ok(body)
    }
}
