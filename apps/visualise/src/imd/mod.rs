//! Codec of IMDv3, the protocol between a molecular dynamics engine and who watches it (imdclient's documentation, "IMDv3
//! Protocol"). No sockets: bytes go in, frames and commands come out.
//!
//! ```text
//!  0               4               8
//!  +---------------+---------------+----------------------------+
//!  | type (i32 BE) | value (i32 BE)| body, in the byte order of |
//!  +---------------+---------------+ the simulation's machine   +
//! ```
//!
//! The value of a handshake is in the byte order of the simulation's machine, which is how a receiver learns it. Bodies are
//! carried as they are: nothing here interprets a number in them.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Header`] and its types, [`ByteOrder`], limits, [`ImdError`] |
//! | `section` | [`Section`] and [`Sections`]: the parts of a frame |
//! | `info` | [`SessionInfo`], the beginning of a session |
//! | `frame` | [`Frame`], written to a receiver |
//! | `simulation` | [`Simulation`]: reads what a simulation sends |
//! | `command` | [`Command`] and [`Commands`]: reads what a receiver sends |

mod command;
mod frame;
mod info;
mod section;
mod simulation;
#[cfg(test)]
mod tests;

pub use command::{Command, Commands};
pub use frame::Frame;
pub use info::{HELLO_BYTES, SessionInfo};
pub use section::{NoSection, Section, Sections};
pub use simulation::{Event, Simulation};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;
/// Version of the protocol.
pub const VERSION: i32 = 3;
/// Most atoms of a system: 120 MB of positions in a frame.
pub const ATOMS_MAX: u32 = 10_000_000;
/// Largest body of a section, in bytes.
pub const BODY_BYTES_MAX: usize = ATOMS_MAX as usize * ATOM_BYTES;
/// Bytes of an atom in a section: three floats.
pub(crate) const ATOM_BYTES: usize = 12;

pub(crate) const DISCONNECT: i32 = 0;
pub(crate) const ENERGIES: i32 = 1;
pub(crate) const POSITIONS: i32 = 2;
pub(crate) const GO: i32 = 3;
pub(crate) const HANDSHAKE: i32 = 4;
pub(crate) const KILL: i32 = 5;
pub(crate) const APPLY_FORCES: i32 = 6;
pub(crate) const PAUSE: i32 = 7;
pub(crate) const RATE: i32 = 8;
pub(crate) const SESSION_INFO: i32 = 10;
pub(crate) const RESUME: i32 = 11;
pub(crate) const TIME: i32 = 12;
pub(crate) const BOX: i32 = 13;
pub(crate) const VELOCITIES: i32 = 14;
pub(crate) const FORCES: i32 = 15;
pub(crate) const WAIT: i32 = 16;

/// Byte order of the machine of a simulation, in which bodies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteOrder {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

/// Header of a packet: type and value, both in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the packet.
    pub kind: i32,
    /// Meaning depends on the type: a count of atoms, blocks or bytes, or a setting.
    pub value: i32,
}

impl Header {
    /// Reads a header from the front of `bytes`; `None`: not all of it is there.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first_chunk()?;
        Some(Self {
            kind: i32::from_be_bytes(*kind),
            value: i32::from_be_bytes(*rest.first_chunk()?),
        })
    }

    /// The header as it is sent.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.kind.to_be_bytes());
        bytes[4..].copy_from_slice(&self.value.to_be_bytes());
        bytes
    }
}

/// Bytes that are not IMDv3, or more than is carried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImdError {
    /// The first packet is no handshake.
    #[error(
        "it does not begin with an IMD handshake (type {0} in place of 4): is this the port of a simulation's IMD?"
    )]
    NoHandshake(i32),
    /// The version is another one.
    #[error(
        "it speaks version {0} of IMD, and 3 is needed: choose IMDv3 in the simulation's settings (GROMACS: IMD-version = v3; LAMMPS: \
         fix imd … version 3; NAMD: IMDversion 3)"
    )]
    Version(i32),
    /// The handshake is not followed by the session's info of 7 bytes.
    #[error(
        "its handshake is followed by type {kind} with {value}, in place of session info (type 10) with 7 bytes"
    )]
    NoInfo {
        /// Type.
        kind: i32,
        /// Value.
        value: i32,
    },
    /// No frame has any section.
    #[error("it sends no section: choose at least positions in the simulation's settings")]
    NoSections,
    /// A packet is not the one that follows in a frame.
    #[error("it sends type {kind} where {expected} of a frame were announced")]
    Unexpected {
        /// Section that was announced.
        expected: Section,
        /// Type in its place.
        kind: i32,
    },
    /// A section states a count that is not possible.
    #[error("its {section} are stated as {count}; from 0 to {} are possible", .section.count_max())]
    Count {
        /// Section.
        section: Section,
        /// Count that is stated.
        count: i32,
    },
    /// The sections of a frame are of different numbers of atoms.
    #[error("a frame has {positions} atoms in one section, and {other} in its {section}")]
    Uneven {
        /// Atoms in the sections before.
        positions: u32,
        /// Section that differs.
        section: Section,
        /// Atoms in it.
        other: u32,
    },
    /// A receiver sends what is no command.
    #[error("type {0} is no command of a receiver")]
    NoCommand(i32),
    /// A receiver applies forces to an impossible number of atoms.
    #[error("forces on {0} atoms; from 0 to {ATOMS_MAX} are possible")]
    Forces(i32),
}
