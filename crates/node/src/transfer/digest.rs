//! Digest of a ticket's secret.

use crate::ticket::Secret;

/// A hash of a ticket's secret. Compared in constant time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digest(blake3::Hash);

impl Digest {
    pub(super) fn of(secret: &Secret) -> Self {
        let hash = blake3::derive_key("anabranch 2026-11 ticket", &secret.0);
        Self(blake3::Hash::from_bytes(hash))
    }

    pub(crate) fn from_hash(hash: blake3::Hash) -> Self {
        Self(hash)
    }

    pub(super) fn to_hex(self) -> String {
        self.0.to_hex().to_string()
    }
}
