//! Which tickets are good, and for whom.
//!
//! A ticket under which a transfer has begun is noted in the transfer's hidden folder, so that its
//! sender can go on with the same ticket after the receiver was restarted. The note holds a hash of the
//! secret, never the secret.

use std::{
    collections::HashMap,
    fs, io,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anabranch_base::{NodeId, ids::decode_base32};
use serde::{Deserialize, Serialize};

use super::{area::FOLDER_PREFIX, error::TransferError};
use crate::ticket::{SECRET_BYTES, Secret};

/// Tickets remembered; more are not issued.
const TICKETS_MAX: usize = 10_000;
/// The note's name in the transfer's folder.
const NOTE: &str = "ticket";
const NOTE_VERSION: u32 = 1;

/// A hash of a ticket's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(secret: &Secret) -> Self {
        Self(blake3::derive_key("anabranch 2026-11 ticket", &secret.0))
    }
}

/// By the hash of the secret, so that how long a search takes tells nothing about a secret.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<HashMap<Digest, State>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    /// Shown by this node, which may try again until it is done.
    Taken(NodeId),
    Spent,
}

#[derive(Serialize, Deserialize)]
struct Note {
    version: u32,
    sender: String,
    blake3: String,
}

impl Tickets {
    /// Those under which an earlier receiver left transfers unfinished in `directory`.
    pub(super) fn of_unfinished(directory: &Path) -> Self {
        let mut known = HashMap::new();
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries.take(TICKETS_MAX) {
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(FOLDER_PREFIX)
                && let Some((digest, sender)) = read_note(&entry.path().join(NOTE))
            {
                known.insert(digest, State::Taken(sender));
            }
        }
        Self(Mutex::new(known))
    }

    pub(super) fn issue(&self, secret: &Secret) {
        let mut tickets = self.lock();
        if tickets.len() < TICKETS_MAX {
            tickets.insert(Digest::of(secret), State::Fresh);
        }
    }

    /// The ticket that `sender` shows as text belongs to it from now on.
    ///
    /// # Errors
    /// It is not known, or not good for this sender.
    pub(super) fn take(&self, secret: &str, sender: NodeId) -> Result<Digest, TransferError> {
        let unknown = TransferError::Ticket(
            "the receiver does not know this ticket; it was issued by an earlier run, ask for a new one",
        );
        let Some(Ok(bytes)) = decode_base32(secret).map(<[u8; SECRET_BYTES]>::try_from) else {
            return Err(unknown);
        };
        let digest = Digest::of(&Secret(bytes));
        match self.lock().get_mut(&digest) {
            None => Err(unknown),
            Some(State::Spent) => Err(TransferError::Ticket(
                "this ticket was used already; it is good for one transfer, ask for a new one",
            )),
            Some(State::Taken(owner)) if *owner != sender => Err(TransferError::Ticket(
                "this ticket was used already by another node; ask for a new one",
            )),
            Some(state) => {
                *state = State::Taken(sender);
                Ok(digest)
            }
        }
    }

    /// Nobody can use it any more.
    pub(super) fn spend(&self, digest: Digest) {
        self.lock().insert(digest, State::Spent);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes in the folder of a transfer which ticket it came under, and from whom.
pub(super) fn write_note(folder: &Path, digest: Digest, sender: NodeId) -> io::Result<()> {
    let note = Note {
        version: NOTE_VERSION,
        sender: sender.to_string(),
        blake3: blake3::Hash::from_bytes(digest.0).to_hex().to_string(),
    };
    let text = serde_json::to_vec(&note).expect("a note is made of texts and numbers");
    // In one step: a torn note would cost the sender its ticket.
    let draft = folder.join(format!("{NOTE}.new"));
    fs::write(&draft, text)?;
    fs::rename(draft, folder.join(NOTE))
}

fn read_note(path: &Path) -> Option<(Digest, NodeId)> {
    let note: Note = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let hash = blake3::Hash::from_hex(&note.blake3).ok()?;
    let sender = note.sender.parse().ok()?;
    (note.version == NOTE_VERSION).then_some((Digest(*hash.as_bytes()), sender))
}

#[cfg(test)]
mod tests {
    use anabranch_base::ids::encode_base32;

    use super::*;

    const SECRET: Secret = Secret([7; SECRET_BYTES]);

    fn text(secret: &Secret) -> String {
        encode_base32(&secret.0)
    }

    fn node(n: u8) -> NodeId {
        NodeId::from_public_key([n; 32])
    }

    #[test]
    fn a_ticket_belongs_to_the_first_who_shows_it_until_it_is_spent() {
        let tickets = Tickets::default();
        assert!(tickets.take(&text(&SECRET), node(1)).is_err());
        tickets.issue(&SECRET);
        let digest = tickets.take(&text(&SECRET), node(1)).unwrap();
        assert!(tickets.take(&text(&SECRET), node(2)).is_err());
        assert!(tickets.take(&text(&SECRET), node(1)).is_ok());
        tickets.spend(digest);
        assert!(tickets.take(&text(&SECRET), node(1)).is_err());
        assert!(tickets.take("nonsense", node(1)).is_err());
    }

    #[test]
    fn a_ticket_of_an_unfinished_transfer_outlives_the_receiver() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join(format!("{FOLDER_PREFIX}x"));
        fs::create_dir(&folder).unwrap();
        write_note(&folder, Digest::of(&SECRET), node(1)).unwrap();
        let written = fs::read_to_string(folder.join(NOTE)).unwrap();
        assert!(!written.contains(&text(&SECRET)), "the secret is not kept");
        // Neither a torn note nor a stranger's folder does harm.
        let torn = directory.path().join(format!("{FOLDER_PREFIX}y"));
        fs::create_dir(&torn).unwrap();
        fs::write(torn.join(NOTE), "{\"version\":1,\"sen").unwrap();

        let tickets = Tickets::of_unfinished(directory.path());
        assert!(tickets.take(&text(&SECRET), node(2)).is_err());
        assert!(tickets.take(&text(&SECRET), node(1)).is_ok());
        assert!(
            tickets
                .take(&text(&Secret([8; SECRET_BYTES])), node(1))
                .is_err()
        );
    }
}
