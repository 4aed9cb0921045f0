//! Manifest of a set of records: a text in TOML or JSON that names the components, the service of each, the records, and the place of
//! every part in the files beneath the set's directory.
//!
//! ```
//! use anabranch_recordset::Manifest;
//!
//! let manifest = Manifest::from_toml(
//!     r#"
//!     name = "climate"
//!     rate = "25/s"
//!
//!     [[component]]
//!     name = "numbers"
//!     file = "numbers.dat"
//!     size = "172800 B"
//!     promise = 0.95
//!
//!     [[component]]
//!     name = "image"
//!     file = "images/{name}.png"
//!
//!     [records]
//!     count = 1_000
//!     name = "{n:04}"
//!     "#,
//! )?;
//! assert_eq!(manifest.len(), 1_000);
//! let numbers = manifest.part(2, 0).unwrap();
//! assert_eq!((numbers.file.as_ref(), numbers.extents.bytes()), ("numbers.dat", Some(172_800)));
//! assert_eq!(manifest.part(2, 1).unwrap().file, "images/0002.png");
//! assert_eq!(manifest.find("0999"), Some(999));
//! # Ok::<(), anabranch_recordset::ManifestError>(())
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Manifest`] and its look-ups |
//! | `layer` | the text's keys, as they are read |
//! | `check` | from keys to a manifest: every value checked |
//! | `pattern` | names and files that depend on the record |
//! | `place` | [`Part`]: files and extents |
//! | `error` | [`ManifestError`] |

mod check;
mod error;
mod layer;
mod pattern;
mod place;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, time::Duration};

use anabranch_base::Rate;

pub use error::ManifestError;
use pattern::Pattern;
pub use place::{Extent, Extents, Part};

/// Most components of a set.
pub const COMPONENTS_MAX: usize = 64;
/// Most records of a set.
pub const RECORDS_MAX: u64 = 100_000_000;
/// Longest name of a set, a component or a record, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest text of a manifest, in bytes: some ten million listed parts.
pub const TEXT_BYTES_MAX: usize = 1 << 30;
/// Largest part of a record, in bytes.
pub const PART_BYTES_MAX: u64 = 1 << 50;

/// A set of records. Records are numbered from 0 in the order of the manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Name of the set; `None`: that of its file.
    pub name: Option<String>,
    /// Records of a second, when the set is watched as it is produced; `None`: as fast as possible.
    pub rate: Option<f64>,
    /// Components, the most important first: within a record they are sent in this order.
    pub components: Vec<Component>,
    records: Records,
}

/// A component of all records.
#[derive(Clone, Debug)]
pub struct Component {
    /// Name, unlike all others.
    pub name: String,
    /// Service that it needs.
    pub service: Service,
    /// True if records may be without it.
    pub is_optional: bool,
    template: Option<Template>,
}

/// Service that a component needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Service {
    /// Rate of the component; `None`: that of its size at the set's rate.
    pub rate: Option<Rate>,
    /// Share of windows that must get the rate; `None`: it is elastic.
    pub promise: Option<f64>,
    /// Age from which it is of no use to who watches.
    pub deadline: Option<Duration>,
}

/// Place of a component's parts where records do not state another.
#[derive(Clone, Debug)]
enum Template {
    /// A file for each record.
    Files(Pattern, Option<u64>),
    /// Parts of one size in one file, at equal distances.
    Strided {
        file: String,
        offset: u64,
        stride: u64,
        bytes: u64,
    },
}

#[derive(Clone, Debug)]
enum Records {
    /// A number of records, whose names follow a pattern.
    Counted { count: u64, name: Pattern },
    /// Listed records, and their indices in the order of their names.
    Listed { all: Vec<Listed>, by_name: Vec<u32> },
}

#[derive(Clone, Debug)]
struct Listed {
    name: Box<str>,
    /// Place of each component; `None`: that of its template. Empty: of all.
    parts: Box<[Option<Part<'static>>]>,
}

impl Manifest {
    /// Reads a text in TOML.
    ///
    /// # Errors
    /// It is not TOML or breaks a rule; the message states the place, the value and what is accepted.
    pub fn from_toml(text: &str) -> Result<Self, ManifestError> {
        check::length(text)?;
        check::resolve(layer::from_toml(text)?)
    }

    /// Reads a text in JSON, with the same keys.
    ///
    /// # Errors
    /// As [`Manifest::from_toml`].
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        check::length(text)?;
        check::resolve(layer::from_json(text)?)
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        match &self.records {
            Records::Counted { count, .. } => *count,
            Records::Listed { all, .. } => all.len() as u64,
        }
    }

    /// True if there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Name of a record; `None` if it does not exist.
    pub fn record_name(&self, record: u64) -> Option<Cow<'_, str>> {
        match &self.records {
            Records::Counted { count, name } => {
                (record < *count).then(|| name.of(record, "").into())
            }
            Records::Listed { all, .. } => {
                let listed = all.get(usize::try_from(record).ok()?)?;
                Some(Cow::Borrowed(&*listed.name))
            }
        }
    }

    /// Number of the record with this name. O(log records).
    pub fn find(&self, name: &str) -> Option<u64> {
        match &self.records {
            Records::Counted {
                count,
                name: pattern,
            } => pattern.number(name).filter(|number| number < count),
            Records::Listed { all, by_name } => {
                let order = |index: &u32| (*all[*index as usize].name).cmp(name);
                let found = by_name.binary_search_by(order).ok()?;
                Some(u64::from(by_name[found]))
            }
        }
    }

    /// Number of the component with this name.
    pub fn component(&self, name: &str) -> Option<usize> {
        self.components
            .iter()
            .position(|component| component.name == name)
    }

    /// Bytes of a component in every record; `None` if they differ, or only the files know them.
    pub fn stated_bytes(&self, component: usize) -> Option<u64> {
        if let Records::Listed { all, .. } = &self.records
            && all
                .iter()
                .any(|listed| matches!(listed.parts.get(component), Some(Some(_))))
        {
            return None;
        }
        let described = self.components.get(component)?;
        match described.template.as_ref()? {
            _ if described.is_optional => None,
            Template::Files(_, bytes) => *bytes,
            Template::Strided { bytes, .. } => Some(*bytes),
        }
    }

    /// Place of a component of a record; `None` if the record, or this component of it, does not exist.
    pub fn part(&self, record: u64, component: usize) -> Option<Part<'_>> {
        let name = self.record_name(record)?;
        if let Records::Listed { all, .. } = &self.records
            && let Some(Some(part)) = all[record as usize].parts.get(component)
        {
            return Some(part.borrowed());
        }
        match self.components.get(component)?.template.as_ref()? {
            Template::Files(pattern, bytes) => Some(Part {
                file: pattern.of(record, &name).into(),
                extents: bytes.map_or(Extents::Whole, |bytes| Extents::one(0, bytes)),
            }),
            Template::Strided {
                file,
                offset,
                stride,
                bytes,
            } => Some(Part {
                file: Cow::Borrowed(file),
                // Checked for the last record.
                extents: Extents::one(offset + stride * record, *bytes),
            }),
        }
    }
}
