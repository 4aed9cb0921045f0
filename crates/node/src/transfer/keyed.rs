//! Key with which a receiver signs the state that it trusts after a restart.
//!
//! It is derived from the node's secret, so that no other node can write a note that is trusted, or predict the name of a
//! folder.

use std::fmt;

use anabranch_base::{NodeId, ids::encode_base32};
use anabranch_session::SecretKey;

/// Prefix of the names of all folders in which transfers wait. No received name may begin with it.
pub(super) const FOLDER_PREFIX: &str = ".anabranch-";
/// Bytes of a keyed hash in a folder's name: enough that no two collide, and that none can be guessed.
const TAG_BYTES: usize = 16;

/// Key known to this node only. `Debug` hides it.
#[derive(Clone)]
pub(crate) struct StateKey([u8; 32]);

impl StateKey {
    pub(crate) fn of(key: &SecretKey) -> Self {
        let text = key.to_text();
        Self(blake3::derive_key(
            "anabranch 2026-11 state of transfers",
            text.as_bytes(),
        ))
    }

    /// Name of the folder in which a transfer waits: the same for every attempt at it.
    pub(crate) fn folder_name(&self, sender: NodeId, name: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"folder\0");
        hasher.update(sender.public_key());
        hasher.update(name.as_bytes());
        let tag = hasher.finalize();
        format!(
            "{FOLDER_PREFIX}{}",
            encode_base32(&tag.as_bytes()[..TAG_BYTES])
        )
    }

    /// Signs `text` for one folder. Hashes of this type are compared in constant time.
    pub(crate) fn sign(&self, folder: &str, text: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"note\0");
        hasher.update(&(folder.len() as u64).to_be_bytes());
        hasher.update(folder.as_bytes());
        hasher.update(text);
        hasher.finalize()
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateKey(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_signatures_depend_on_the_key() {
        let [a, b] = [1, 2].map(|n| StateKey::of(&SecretKey::from_seed([n; 32])));
        let sender = NodeId::from_public_key([3; 32]);
        let folder = a.folder_name(sender, "film");
        assert_eq!(folder, a.folder_name(sender, "film"));
        assert_ne!(folder, b.folder_name(sender, "film"));
        assert_ne!(folder, a.folder_name(sender, "book"));
        assert_eq!(a.sign("f", b"text"), a.sign("f", b"text"));
        assert_ne!(a.sign("f", b"text"), b.sign("f", b"text"));
        assert_ne!(a.sign("f", b"text"), a.sign("ft", b"ext"));
        assert!(!format!("{a:?}").contains(char::is_numeric));
    }
}
