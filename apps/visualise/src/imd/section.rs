//! Sections of a frame, in the order in which they are sent.

use std::{fmt, str::FromStr};

use super::{ATOMS_MAX, BOX, ENERGIES, FORCES, POSITIONS, TIME, VELOCITIES};

/// A section of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Section {
    /// Step, time and length of a step: 24 bytes.
    Time = 0,
    /// Temperature and energies: 40 bytes.
    Energies = 1,
    /// Vectors of the box: 36 bytes.
    Box = 2,
    /// Positions, 12 bytes an atom.
    Positions = 3,
    /// Velocities, 12 bytes an atom.
    Velocities = 4,
    /// Forces, 12 bytes an atom.
    Forces = 5,
}

impl Section {
    /// All of them, in the order of a frame.
    pub const ALL: [Self; 6] = [
        Self::Time,
        Self::Energies,
        Self::Box,
        Self::Positions,
        Self::Velocities,
        Self::Forces,
    ];

    /// Place in a frame, from 0.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The section at a place; `None`: there is no such place.
    pub fn at(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// Name in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Energies => "energies",
            Self::Box => "box",
            Self::Positions => "positions",
            Self::Velocities => "velocities",
            Self::Forces => "forces",
        }
    }

    pub(super) fn kind(self) -> i32 {
        match self {
            Self::Time => TIME,
            Self::Energies => ENERGIES,
            Self::Box => BOX,
            Self::Positions => POSITIONS,
            Self::Velocities => VELOCITIES,
            Self::Forces => FORCES,
        }
    }

    /// Bytes of the whole section, if it does not depend on the number of atoms.
    pub fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::Time => Some(24),
            Self::Energies => Some(40),
            Self::Box => Some(36),
            Self::Positions | Self::Velocities | Self::Forces => None,
        }
    }

    /// Largest value in the header.
    pub fn count_max(self) -> u32 {
        match self.fixed_bytes() {
            Some(_) => 1,
            None => ATOMS_MAX,
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of sections.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Sections(u8);

impl Sections {
    /// Every section.
    pub const ALL: Self = Self(0b11_1111);

    /// The set of some sections.
    pub const fn of(sections: &[Section]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < sections.len() {
            bits |= 1 << sections[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// True if `section` is in it.
    pub fn has(self, section: Section) -> bool {
        self.0 & (1 << section.index()) != 0
    }

    /// The same with `section`.
    #[must_use]
    pub fn with(self, section: Section) -> Self {
        Self(self.0 | 1 << section.index())
    }

    /// Those in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those in either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its sections, in the order of a frame.
    pub fn iter(self) -> impl Iterator<Item = Section> + use<> {
        Section::ALL
            .into_iter()
            .filter(move |section| self.has(*section))
    }

    /// One bit for each section, the first in the least significant.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Reads [`Sections::bits`]; `None`: other bits are set.
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits & !Self::ALL.0 == 0).then_some(Self(bits))
    }
}

impl FromIterator<Section> for Sections {
    fn from_iter<I: IntoIterator<Item = Section>>(sections: I) -> Self {
        sections.into_iter().fold(Self::default(), Self::with)
    }
}

impl fmt::Debug for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Section::name).collect();
        f.write_str(&names.join("+"))
    }
}

/// A text names no sections.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no section; give some of time, energies, box, positions, velocities, forces with + between them, or all"
)]
pub struct NoSection(String);

impl FromStr for Sections {
    type Err = NoSection;

    fn from_str(text: &str) -> Result<Self, NoSection> {
        if text == "all" {
            return Ok(Self::ALL);
        }
        let section = |name: &str| {
            (Section::ALL.into_iter())
                .find(|section| section.name() == name)
                .ok_or_else(|| NoSection(name.chars().take(40).collect()))
        };
        text.split('+').map(section).collect()
    }
}
