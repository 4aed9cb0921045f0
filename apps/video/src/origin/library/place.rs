//! Places of videos: the interface that a library needs of a directory or an object store.

use std::{collections::BTreeMap, fmt, io, time::Duration};

use super::LibraryError;

/// Videos by their names in the catalogue.
pub(super) type Catalogue = BTreeMap<String, Found>;

/// What tells one version of a film from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Length in bytes.
    pub(super) bytes: u64,
    /// Differs between two versions of the same length: time and number of a file, ETag of an object.
    pub(super) mark: String,
}

/// A film that a place has.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Place where it is within the place.
    pub(super) at: String,
    /// What it was when it was found.
    pub(super) stamp: Stamp,
}

/// A place with films. Calls wait for a disk or a network.
pub(super) trait Place: fmt::Debug + Send + Sync {
    /// Its name for people, and for telling it from others.
    fn name(&self) -> String;

    /// It is not looked through more often than this.
    fn rescan(&self) -> Duration;

    /// Looks through it.
    ///
    /// # Errors
    /// It cannot be read.
    fn scan(&self) -> Result<Catalogue, LibraryError>;

    /// Opens a film that was found.
    ///
    /// # Errors
    /// It is gone, or cannot be read.
    fn open(&self, found: &Found) -> Result<Box<dyn Film>, ReadError>;
}

/// A film that is open. Calls wait for a disk or a network.
pub(super) trait Film: fmt::Debug + Send + Sync {
    /// The version that is read; it stays the same.
    fn stamp(&self) -> &Stamp;

    /// Bytes that are read for nothing rather than asking a second time for what follows them.
    fn gap_bytes(&self) -> usize;

    /// Bytes that are read ahead where all of the film is read in order; zero where that is of no use.
    fn ahead_bytes(&self) -> usize;

    /// Whether the place still has this version, as far as can be told without reading.
    ///
    /// # Errors
    /// [`ReadError::Changed`]: it has another, or none.
    fn check(&self) -> Result<(), ReadError>;

    /// Fills `into` with the bytes from `offset` on, all of them of this version.
    ///
    /// # Errors
    /// They cannot be read, or are of another version.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ReadError>;
}

/// Reason why bytes of a film cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The place has another version now, or none.
    #[error("it has changed")]
    Changed,
    /// Reading fails.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadError {
    /// The same for the video `name`.
    pub(super) fn of(self, name: &str) -> LibraryError {
        let name = name.to_owned();
        match self {
            Self::Changed => LibraryError::Changed(name),
            Self::Io(source) => LibraryError::Read { name, source },
        }
    }
}
