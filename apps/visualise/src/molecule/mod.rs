//! Molecules: atoms and bonds from topology files (PSF), positions from trajectory files (DCD), or both generated.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Topology`], limits, [`MoleculeError`] |
//! | `psf` | reader of PSF, without files |
//! | `dcd` | reader of DCD, without files |
//! | `generated` | a molecule that is in no file |
//! | `trajectory` | [`Trajectory`]: positions by number, from a file or generated |

mod dcd;
mod generated;
mod psf;
#[cfg(test)]
pub(crate) mod tests;
mod trajectory;

pub use dcd::Dcd;
pub use generated::Generated;
pub use psf::read as read_psf;
pub use trajectory::Trajectory;

/// Most atoms of a molecule that is shown: 4.8 MB of positions in a frame.
pub const ATOMS_MAX: u32 = 400_000;
/// Most bonds: 11.2 MB of them in a frame.
pub const BONDS_MAX: u32 = 400_000;
/// Largest topology file, in bytes.
pub const TOPOLOGY_BYTES_MAX: u64 = 256 << 20;

/// Position of an atom, in ångström. Any value can be in it, NaN included.
pub type Position = [f32; 3];

/// Atoms and the bonds between them, which do not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Atomic number of each atom; 0: unknown.
    pub elements: Vec<u8>,
    /// Pairs of atoms, by number from 0. Both are atoms of the molecule.
    pub bonds: Vec<[u32; 2]>,
}

impl Topology {
    /// Number of atoms.
    pub fn atoms(&self) -> u32 {
        self.elements.len() as u32
    }
}

/// A file is not what it should be, or holds more than is shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoleculeError {
    /// The file cannot be read.
    #[error("{file} cannot be read: {why}")]
    File {
        /// The file.
        file: String,
        /// Error of the system.
        why: std::io::Error,
    },
    /// It is no PSF, or a damaged one.
    #[error("the topology is no PSF that can be read: {0}")]
    Psf(String),
    /// It is no DCD, or a damaged one.
    #[error("the trajectory is no DCD that can be read: {0}")]
    Dcd(String),
    /// There is more than is shown.
    #[error("{count} {what}; up to {most} can be shown")]
    TooMany {
        /// Atoms or bonds.
        what: &'static str,
        /// Number of them.
        count: u64,
        /// Number that can be shown.
        most: u32,
    },
    /// Topology and trajectory are of different molecules.
    #[error(
        "the topology has {topology} atoms, and the trajectory {trajectory}: give the topology with which the trajectory was made"
    )]
    Uneven {
        /// Atoms of the topology.
        topology: u32,
        /// Atoms of the trajectory.
        trajectory: u32,
    },
}

fn at_most(what: &'static str, count: u64, most: u32) -> Result<u32, MoleculeError> {
    match u32::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(MoleculeError::TooMany { what, count, most }),
    }
}
