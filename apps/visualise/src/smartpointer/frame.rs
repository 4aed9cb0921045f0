//! Parts of a frame, as they are sent.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::view::View;
use crate::{
    molecule::{ATOMS_MAX, BONDS_MAX, Position},
    wire::WireError,
};

/// Kind of an ADU with a part of a frame.
pub(super) const FRAME: u8 = 1;
/// Kind of the ADU with the elements of all atoms.
pub(super) const ELEMENTS: u8 = 2;
/// Kind, part, number of the frame, number of the view.
pub const HEADER_BYTES: usize = 1 + 1 + 8 + 4;
/// Bytes of an atom: x, y, z.
pub const ATOM_BYTES: usize = 12;
/// Bytes of a bond: its number, and the places of both atoms.
pub const BOND_BYTES: usize = 4 + 2 * ATOM_BYTES;

/// Part of a frame, with a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// All atoms.
    Atoms,
    /// Bonds in view.
    Bond1,
    /// Bonds out of view.
    Bond2,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Atoms, Self::Bond1, Self::Bond2];

    /// Place among [`Part::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// True if its stream is promised its rate.
    pub fn is_promised(self) -> bool {
        self != Self::Bond2
    }

    fn unit_bytes(self) -> usize {
        match self {
            Self::Atoms => ATOM_BYTES,
            Self::Bond1 | Self::Bond2 => BOND_BYTES,
        }
    }

    fn count_max(self) -> usize {
        let most = match self {
            Self::Atoms => ATOMS_MAX,
            Self::Bond1 | Self::Bond2 => BONDS_MAX,
        };
        most as usize
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Atoms => "atoms",
            Self::Bond1 => "bonds in view",
            Self::Bond2 => "bonds out of view",
        })
    }
}

/// A part of a frame.
///
/// ```text
///  0      1      2              10           14
///  +------+------+--------------+------------+------
///  | 1    | part | frame (u64)  | view (u32) | body
///  +------+------+--------------+------------+------
/// ```
/// The head is in network byte order, the body in little-endian: of atoms x, y, z (f32) each; of bonds the number (u32), and x, y, z of
/// both atoms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePart {
    /// Part.
    pub part: Part,
    /// Number of the frame, from 0: its time is that number of periods.
    pub frame: u64,
    /// Number of the view by which bonds are divided; 0: that of all space.
    pub view: u32,
    /// Atoms or bonds.
    pub body: Bytes,
}

impl FramePart {
    /// Number of atoms or bonds.
    pub fn count(&self) -> usize {
        self.body.len() / self.part.unit_bytes()
    }

    /// The part as an ADU.
    pub fn to_adu(&self) -> Bytes {
        let mut adu = BytesMut::with_capacity(HEADER_BYTES + self.body.len());
        adu.put_u8(FRAME);
        adu.put_u8(self.part.index() as u8);
        adu.put_u64(self.frame);
        adu.put_u32(self.view);
        adu.put_slice(&self.body);
        adu.freeze()
    }

    /// Reads an ADU of this kind.
    ///
    /// # Errors
    /// It is shorter than its head, of an unknown part, or its body is none of the part.
    pub fn read(mut adu: Bytes) -> Result<Self, WireError> {
        if adu.len() < HEADER_BYTES || adu.get_u8() != FRAME {
            return Err(WireError("no part of a frame".to_owned()));
        }
        let part = adu.get_u8();
        let part = *(Part::ALL.get(usize::from(part)))
            .ok_or_else(|| WireError(format!("part {part} of a frame")))?;
        let read = Self {
            part,
            frame: adu.get_u64(),
            view: adu.get_u32(),
            body: adu,
        };
        let bytes = read.body.len();
        if !bytes.is_multiple_of(part.unit_bytes()) || read.count() > part.count_max() {
            return Err(WireError(format!("{part} of {bytes} bytes")));
        }
        Ok(read)
    }
}

/// The body of the atoms of a frame.
pub fn atoms(positions: &[Position]) -> Bytes {
    let mut body = BytesMut::with_capacity(ATOM_BYTES * positions.len());
    positions.iter().for_each(|at| put(&mut body, at));
    body.freeze()
}

/// The bodies of the bonds in view and out of it: each bond is in one of them.
pub fn bonds(bonds: &[[u32; 2]], positions: &[Position], view: &View) -> [Bytes; 2] {
    let [mut seen, mut unseen] = [BytesMut::new(), BytesMut::new()];
    for (number, atoms) in bonds.iter().enumerate() {
        let ends = atoms.map(|atom| positions[atom as usize]);
        let body = match view.holds_bond(ends) {
            true => &mut seen,
            false => &mut unseen,
        };
        body.put_u32_le(number as u32);
        ends.iter().for_each(|at| put(body, at));
    }
    [seen.freeze(), unseen.freeze()]
}

fn put(body: &mut BytesMut, position: &Position) {
    for part in position {
        body.put_f32_le(*part);
    }
}

/// The numbers of the bonds in a body.
pub fn bond_numbers(body: &[u8]) -> impl Iterator<Item = u32> + '_ {
    body.chunks_exact(BOND_BYTES)
        .map(|bond| u32::from_le_bytes(*bond.first_chunk().expect("a bond has its number")))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let part = |bytes| FramePart {
            part: Part::Bond1,
            frame: 7,
            view: 1,
            body: vec![0; bytes].into(),
        };
        for bytes in [0, 28, 56] {
            let part = part(bytes);
            assert_eq!(FramePart::read(part.to_adu()), Ok(part));
        }
        let many = BOND_BYTES * (BONDS_MAX as usize + 1);
        for wrong in [part(27).to_adu(), part(many).to_adu()] {
            assert!(FramePart::read(wrong).is_err());
        }
        let mut unknown = part(28).to_adu().to_vec();
        unknown[1] = 3;
        for wrong in [&unknown[..], &unknown[..13], &[], &[1], &[0; 14]] {
            assert!(FramePart::read(Bytes::copy_from_slice(wrong)).is_err());
        }
    }

    fn coordinate() -> impl Strategy<Value = f32> {
        prop_oneof![8 => -20.0..20.0_f32, 1 => any::<f32>(), 1 => Just(f32::NAN)]
    }

    proptest! {
        /// Whatever the positions and the view are.
        #[test]
        fn each_bond_is_in_exactly_one_part(
            positions in vec([coordinate(), coordinate(), coordinate()], 1..40),
            pairs in vec([any::<u32>(), any::<u32>()], 0..80),
            planes in vec([-1.0..1.0_f64, -1.0..1.0, -1.0..1.0, -20.0..20.0], 0..=8),
        ) {
            let atoms = positions.len() as u32;
            let pairs: Vec<_> = pairs.iter().map(|pair| pair.map(|atom| atom % atoms)).collect();
            let view = View::new(planes).unwrap();
            let [seen, unseen] = bonds(&pairs, &positions, &view);
            let mut all: Vec<u32> = bond_numbers(&seen).chain(bond_numbers(&unseen)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..pairs.len() as u32).collect::<Vec<_>>());
            for (part, body) in [(Part::Bond1, seen), (Part::Bond2, unseen)] {
                let is_seen = part == Part::Bond1;
                for bond in bond_numbers(&body) {
                    let ends = pairs[bond as usize].map(|atom| positions[atom as usize]);
                    prop_assert_eq!(view.holds_bond(ends), is_seen);
                }
                let sent = FramePart { part, frame: 1, view: 2, body };
                prop_assert_eq!(FramePart::read(sent.to_adu()), Ok(sent));
            }
        }

        #[test]
        fn any_adu_is_read_or_refused(bytes in vec(any::<u8>(), 0..100)) {
            let adu = Bytes::from(bytes);
            if let Ok(part) = FramePart::read(adu.clone()) {
                prop_assert_eq!(part.to_adu(), adu);
            }
        }
    }
}
