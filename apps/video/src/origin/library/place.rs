//! Places of videos: the interface that a library needs of a directory or an object store.

use std::{collections::BTreeMap, fmt, io, time::Duration};

use super::LibraryError;

/// Videos by their names in the catalogue.
pub(super) type Catalogue = BTreeMap<String, Found>;

/// Identity of one version of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Length in bytes.
    pub(super) bytes: u64,
    /// Distinguishes two versions of the same length: time and number of a file, ETag of an object.
    pub(super) mark: String,
}

/// A film at a place.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Its path at the place.
    pub(super) at: String,
    /// Its version when it was listed.
    pub(super) stamp: Stamp,
}

/// A place with films. Calls wait for a disk or a network.
pub(super) trait Place: fmt::Debug + Send + Sync {
    /// Name for people, and to distinguish it from other places.
    fn name(&self) -> String;

    /// Minimum interval between scans.
    fn rescan(&self) -> Duration;

    /// Lists the films.
    ///
    /// # Errors
    /// The place cannot be read.
    fn scan(&self) -> Result<Catalogue, LibraryError>;

    /// Opens a listed film.
    ///
    /// # Errors
    /// The film is gone, or cannot be read.
    fn open(&self, found: &Found) -> Result<Box<dyn Film>, ReadError>;
}

/// An open film. Calls wait for a disk or a network.
pub(super) trait Film: fmt::Debug + Send + Sync {
    /// The version that is read; it does not change.
    fn stamp(&self) -> &Stamp;

    /// Size of a gap that is read along rather than making a second request for what follows.
    fn gap_bytes(&self) -> usize;

    /// Size of the read-ahead where all of the film is read in order; zero where that is of no use.
    fn ahead_bytes(&self) -> usize;

    /// Checks that the place still has this version, as far as possible without reading.
    ///
    /// # Errors
    /// [`ReadError::Changed`]: it has another version, or none.
    fn check(&self) -> Result<(), ReadError>;

    /// Fills `into` with the bytes from `offset` on, all of them of this version.
    ///
    /// # Errors
    /// They cannot be read, or are of another version.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ReadError>;
}

/// Reason for which bytes of a film cannot be read.
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
