//! Ranges of one version of an object.

use std::{io, sync::Arc};

use super::{StoreError, client::Client};
use crate::origin::library::place::{Film, ReadError, Stamp};

/// Size of a gap that is read along with two ranges: a request takes as long as some of this.
const GAP_BYTES: usize = 256 << 10;
/// Size of the read-ahead while an index is made.
const AHEAD_BYTES: usize = 4 << 20;

/// A version of an object.
#[derive(Debug)]
pub(super) struct Object {
    client: Arc<Client>,
    key: String,
    stamp: Stamp,
}

impl Object {
    pub(super) fn new(client: Arc<Client>, key: String, stamp: Stamp) -> Self {
        Self { client, key, stamp }
    }
}

impl Film for Object {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn gap_bytes(&self) -> usize {
        GAP_BYTES
    }

    fn ahead_bytes(&self) -> usize {
        AHEAD_BYTES
    }

    /// Every range is requested by its version.
    fn check(&self) -> Result<(), ReadError> {
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let Stamp { bytes, mark } = &self.stamp;
        let read = self.client.read(&self.key, mark, *bytes, offset, into);
        read.map_err(|error| match error {
            StoreError::Changed => ReadError::Changed,
            error => ReadError::Io(io::Error::other(error)),
        })
    }
}
