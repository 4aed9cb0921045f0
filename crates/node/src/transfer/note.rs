//! Note in a transfer's folder: the sender, the transfer, its ticket, and whether it has its final name already.
//!
//! It is signed with a key that only this node has, so that a receiver that was restarted trusts its own notes only. It holds a
//! hash of the ticket's secret, never the secret.

use std::io::{self, Read, Write};

use anabranch_base::NodeId;
use serde::{Deserialize, Serialize};

use super::{digest::Digest, folder::Folder, keyed::StateKey};

/// Name of the note in the transfer's folder.
const NOTE: &str = "note";
const DRAFT: &str = "note.new";
const VERSION: u32 = 2;
/// Limit on the bytes of a note; longer ones are not read.
const BYTES_MAX: u64 = 4096;

/// State of a transfer that a receiver needs after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) sender: NodeId,
    /// Digest of the manifest.
    pub(crate) digest: blake3::Hash,
    /// Ticket of the transfer; `None`: the sender is trusted.
    pub(crate) ticket: Option<Digest>,
    /// True if all data was present and verified, and the transfer was about to get its final name.
    pub(crate) is_complete: bool,
    /// Its final name; `None`: it has none yet, or that of the offer.
    pub(crate) named: Option<String>,
    /// True if the sender has announced more transfers under the same ticket.
    pub(crate) has_more: bool,
}

/// A transfer that an earlier receiver left in a directory: its note, and its folder's name.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) folder_name: String,
    pub(super) note: Note,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    sender: String,
    digest: String,
    ticket: Option<String>,
    is_complete: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_more: bool,
}

impl Note {
    /// Encodes the note: one line of JSON, and a line with its signature for this folder.
    pub(crate) fn encode(&self, key: &StateKey, folder: &str) -> Vec<u8> {
        let text = Text {
            version: VERSION,
            sender: self.sender.to_string(),
            digest: self.digest.to_hex().to_string(),
            ticket: self.ticket.map(|ticket| ticket.to_hex()),
            is_complete: self.is_complete,
            named: self.named.clone(),
            has_more: self.has_more,
        };
        let mut bytes = serde_json::to_vec(&text).expect("a note is made of texts and numbers");
        let signature = key.sign(folder, &bytes).to_hex();
        bytes.push(b'\n');
        bytes.extend_from_slice(signature.as_bytes());
        bytes.push(b'\n');
        bytes
    }

    /// Decodes a note; `None`: it is torn, or this node did not write it for this folder.
    pub(crate) fn decode(bytes: &[u8], key: &StateKey, folder: &str) -> Option<Self> {
        let mut lines = bytes.strip_suffix(b"\n")?.splitn(2, |&byte| byte == b'\n');
        let (text, signature) = (lines.next()?, lines.next()?);
        let signature = blake3::Hash::from_hex(signature).ok()?;
        if key.sign(folder, text) != signature {
            return None;
        }
        let text: Text = serde_json::from_slice(text).ok()?;
        let hash = |text: &str| blake3::Hash::from_hex(text).ok();
        let ticket = match text.ticket {
            None => None,
            Some(ticket) => Some(Digest::from_hash(hash(&ticket)?)),
        };
        (text.version == VERSION).then_some(Self {
            sender: text.sender.parse().ok()?,
            digest: hash(&text.digest)?,
            ticket,
            is_complete: text.is_complete,
            named: text.named,
            has_more: text.has_more,
        })
    }

    /// Reads the note in a transfer's folder; `None`: there is none that this node wrote.
    pub(super) fn read(root: &Folder, key: &StateKey, folder: &str) -> Option<Self> {
        let mut bytes = Vec::new();
        let file = root.read(NOTE).ok()?;
        file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Self::decode(&bytes, key, folder)
    }

    /// Writes it in one step: a torn note would cost the sender its ticket.
    pub(super) fn write(&self, root: &Folder, key: &StateKey, folder: &str) -> io::Result<()> {
        let mut file = root.write(DRAFT, 0o600)?;
        file.set_len(0)?;
        file.write_all(&self.encode(key, folder))?;
        file.sync_all()?;
        root.rename(DRAFT, NOTE)?;
        root.sync()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_session::SecretKey;

    use super::*;

    fn key(n: u8) -> StateKey {
        StateKey::of(&SecretKey::from_seed([n; 32]))
    }

    fn note() -> Note {
        Note {
            sender: NodeId::from_public_key([1; 32]),
            digest: blake3::hash(b"manifest"),
            ticket: Some(Digest::from_hash(blake3::hash(b"ticket"))),
            is_complete: false,
            named: None,
            has_more: false,
        }
    }

    #[test]
    fn only_notes_of_this_node_for_this_folder_are_trusted() {
        let bytes = note().encode(&key(1), "a");
        assert_eq!(Note::decode(&bytes, &key(1), "a"), Some(note()));
        assert_eq!(Note::decode(&bytes, &key(2), "a"), None, "another node's");
        assert_eq!(Note::decode(&bytes, &key(1), "b"), None, "moved");
        let text = String::from_utf8(bytes.clone()).unwrap();
        let forged = text.replace("false", "true ");
        assert_eq!(Note::decode(forged.as_bytes(), &key(1), "a"), None);
        for end in 0..bytes.len() {
            assert_eq!(Note::decode(&bytes[..end], &key(1), "a"), None, "torn");
        }
    }

    #[test]
    fn a_note_is_kept_on_disk() {
        let disk = tempfile::tempdir().unwrap();
        let root = Folder::open(disk.path()).unwrap();
        assert_eq!(Note::read(&root, &key(1), "a"), None);
        note().write(&root, &key(1), "a").unwrap();
        let trusted = Note {
            ticket: None,
            is_complete: true,
            named: Some("film (2)".to_owned()),
            has_more: true,
            ..note()
        };
        trusted.write(&root, &key(1), "a").unwrap();
        assert_eq!(Note::read(&root, &key(1), "a"), Some(trusted));
        std::fs::write(disk.path().join(NOTE), vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(Note::read(&root, &key(1), "a"), None);
    }
}
