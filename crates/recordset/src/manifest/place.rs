//! Places of parts in files.

use std::borrow::Cow;

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The bytes of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extents<'a> {
    /// All of the file.
    Whole,
    /// These, one after the other.
    Some(Cow<'a, [Extent]>),
}

/// A component of one record: where its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Path of the file beneath the set's directory, with `/` between its parts, none of which is `.` or `..`.
    pub file: Cow<'a, str>,
    /// Its bytes there.
    pub extents: Extents<'a>,
}

impl Extents<'_> {
    /// One extent.
    pub(super) fn one(offset: u64, bytes: u64) -> Self {
        Self::Some(Cow::Owned(vec![Extent { offset, bytes }]))
    }

    /// Number of bytes; `None` if only the file knows.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Whole => None,
            Self::Some(extents) => Some(extents.iter().map(|extent| extent.bytes).sum()),
        }
    }

    /// Length that the file must have at least.
    pub fn end(&self) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Some(extents) => {
                let ends = extents.iter().map(|extent| extent.offset + extent.bytes);
                ends.max().unwrap_or(0)
            }
        }
    }
}

impl Part<'static> {
    /// The same part without a copy.
    pub(super) fn borrowed(&self) -> Part<'_> {
        Part {
            file: Cow::Borrowed(&self.file),
            extents: match &self.extents {
                Extents::Whole => Extents::Whole,
                Extents::Some(extents) => Extents::Some(Cow::Borrowed(extents)),
            },
        }
    }
}
