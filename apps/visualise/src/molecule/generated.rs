//! A molecule that is in no file: a folded chain of residues whose atoms swing about their places.

use super::{ATOMS_MAX, MoleculeError, Position, Topology, at_most};

/// Elements of a residue, in the order of its chain: N, C, C, O and a side chain with hydrogen.
const RESIDUE: [u8; 8] = [7, 6, 6, 8, 6, 1, 1, 1];
/// Length of a bond, in ångström.
const BOND: f64 = 1.4;
/// Amplitude of the swing, in ångström.
const SWING: f64 = 1.2;
/// Frames of a slow swing of the whole chain.
const SWING_FRAMES: f64 = 250.0;

/// A generated molecule. The same number of atoms and frame give the same positions.
#[derive(Clone, Debug)]
pub struct Generated {
    places: Vec<[f64; 3]>,
}

impl Generated {
    /// A molecule with so many atoms.
    ///
    /// # Errors
    /// There are more than can be shown.
    pub fn new(atoms: u32) -> Result<Self, MoleculeError> {
        at_most("atoms", u64::from(atoms), ATOMS_MAX)?;
        // A walk that is held near the origin, by a generator of its own: the chain is the same on every machine.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
        };
        let radius = 1.5 * f64::from(atoms.max(1)).cbrt();
        let mut at = [0.0; 3];
        let mut places = Vec::new();
        for _ in 0..atoms {
            places.push(at);
            let step: [f64; 3] = std::array::from_fn(|axis| uniform() - 0.5 * at[axis] / radius);
            let length = step.iter().map(|part| part * part).sum::<f64>().sqrt();
            let scale = BOND / length.max(1e-3);
            at = std::array::from_fn(|axis| at[axis] + scale * step[axis]);
        }
        Ok(Self { places })
    }

    /// Its atoms, and the bonds of its chain.
    pub fn topology(&self) -> Topology {
        let atoms = self.places.len() as u32;
        Topology {
            elements: (0..self.places.len())
                .map(|atom| RESIDUE[atom % RESIDUE.len()])
                .collect(),
            bonds: (1..atoms).map(|atom| [atom - 1, atom]).collect(),
        }
    }

    /// Positions of a frame.
    pub fn frame(&self, frame: u64) -> Vec<Position> {
        let turn = frame as f64 / SWING_FRAMES * std::f64::consts::TAU;
        let place = |(atom, place): (usize, &[f64; 3])| {
            let phase = atom as f64 * 0.01;
            let swing = [
                (turn + phase).sin(),
                (turn + 2.0 * phase).cos(),
                (2.0 * turn + phase).sin(),
            ];
            std::array::from_fn(|axis| (place[axis] + SWING * swing[axis]) as f32)
        };
        self.places.iter().enumerate().map(place).collect()
    }
}
