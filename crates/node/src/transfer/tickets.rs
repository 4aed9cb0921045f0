//! Tickets that are valid, with their holders and uses.
//!
//! A ticket belongs to the first node that shows it, and to the first transfer for which it is used, or, if the sender announces
//! several, to one after the other. The note in the transfer's
//! folder keeps both, so that the sender can continue with the same ticket after a restart of the receiver.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use anabranch_base::{NodeId, ids::decode_base32};

use super::{digest::Digest, error::TransferError, message::MORE_MAX, note::Unfinished};
use crate::ticket::{SECRET_BYTES, Secret};

/// Limit on the tickets remembered. Beyond it, those that were used longest ago are forgotten; if none was used, no more are
/// issued.
pub(super) const TICKETS_MAX: usize = 10_000;

pub(super) const USED: &str =
    "this ticket was used already; it is good for one transfer, ask for a new one";

/// Keyed by the hash of the secret, so that the time of a lookup reveals nothing about a secret.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    states: HashMap<Digest, State>,
    /// Used tickets, in the order of their use.
    spent: VecDeque<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    /// Shown by this node, which may try again until the transfer is complete.
    Taken {
        sender: NodeId,
        /// The transfer that it is good for, by its folder's name, once one was accepted under it.
        folder: Option<String>,
        /// Transfers under it that are complete and after which more were announced.
        complete: Vec<String>,
    },
    Spent,
}

impl Tickets {
    /// The tickets under which an earlier receiver left transfers unfinished.
    pub(super) fn of_unfinished(unfinished: Vec<Unfinished>) -> Self {
        let mut table = Table::default();
        for Unfinished { folder_name, note } in unfinished {
            let Some(ticket) = note.ticket else {
                continue;
            };
            let state = table.states.entry(ticket).or_insert(State::Taken {
                sender: note.sender,
                folder: None,
                complete: Vec::new(),
            });
            if let State::Taken {
                folder, complete, ..
            } = state
            {
                match note.is_complete && note.has_more {
                    true => complete.push(folder_name),
                    false => *folder = Some(folder_name),
                }
            }
        }
        Self(Mutex::new(table))
    }

    /// # Errors
    /// There are too many unused tickets.
    pub(super) fn issue(&self, secret: &Secret) -> Result<(), TransferError> {
        let mut table = self.lock();
        while table.states.len() >= TICKETS_MAX {
            let Some(oldest) = table.spent.pop_front() else {
                return Err(TransferError::Tickets { most: TICKETS_MAX });
            };
            table.states.remove(&oldest);
        }
        table.states.insert(Digest::of(secret), State::Fresh);
        Ok(())
    }

    /// Assigns the ticket in this text to `sender` from now on.
    ///
    /// # Errors
    /// [`TransferError::Unknown`] if there is no such ticket; it is not good for this sender.
    pub(super) fn take(&self, secret: &str, sender: NodeId) -> Result<Digest, TransferError> {
        let Some(Ok(bytes)) = decode_base32(secret).map(<[u8; SECRET_BYTES]>::try_from) else {
            return Err(TransferError::Unknown);
        };
        let digest = Digest::of(&Secret(bytes));
        let mut table = self.lock();
        let state = table.states.get_mut(&digest);
        let state = state.ok_or(TransferError::Unknown)?;
        match state {
            State::Fresh => {
                *state = State::Taken {
                    sender,
                    folder: None,
                    complete: Vec::new(),
                };
                Ok(digest)
            }
            State::Taken { sender: owner, .. } if *owner == sender => Ok(digest),
            State::Taken { .. } => Err(TransferError::Ticket(
                "this ticket was used already by another node; ask for a new one",
            )),
            State::Spent => Err(TransferError::Ticket(USED)),
        }
    }

    /// True if the transfer in this folder was accepted under the ticket before.
    pub(super) fn is_for(&self, digest: Digest, folder: &str) -> bool {
        let table = self.lock();
        matches!(
            table.states.get(&digest),
            Some(State::Taken { folder: bound, complete, .. })
                if bound.as_deref() == Some(folder) || complete.iter().any(|known| known == folder)
        )
    }

    /// Restricts a ticket that was taken to the transfer in this folder.
    ///
    /// # Errors
    /// It is good for another transfer, or used up.
    pub(super) fn bind(&self, digest: Digest, folder: &str) -> Result<(), TransferError> {
        let mut table = self.lock();
        match table.states.get_mut(&digest) {
            Some(State::Taken { complete, .. }) if complete.iter().any(|known| known == folder) => {
                Ok(())
            }
            Some(State::Taken { folder: bound, .. }) => {
                let bound = bound.get_or_insert_with(|| folder.to_owned());
                if bound != folder {
                    return Err(TransferError::Ticket(
                        "this ticket was used already for a transfer with another name; it is good for one \
                         transfer, ask for a new one",
                    ));
                }
                Ok(())
            }
            _ => Err(TransferError::Ticket(USED)),
        }
    }

    /// Lifts the restriction of a ticket to a transfer that was refused before anything of it was stored.
    pub(super) fn release(&self, digest: Digest) {
        if let Some(State::Taken { folder, .. }) = self.lock().states.get_mut(&digest) {
            *folder = None;
        }
    }

    /// Notes a transfer as complete after which the sender has announced more; the ticket is good for the next one.
    ///
    /// # Errors
    /// There are as many under it as a sender may announce.
    pub(super) fn complete(&self, digest: Digest, done: &str) -> Result<(), TransferError> {
        let mut table = self.lock();
        let Some(State::Taken {
            folder, complete, ..
        }) = table.states.get_mut(&digest)
        else {
            return Ok(());
        };
        if folder.as_deref() == Some(done) {
            *folder = None;
        }
        if !complete.iter().any(|known| known == done) {
            if complete.len() >= MORE_MAX as usize {
                return Err(TransferError::Protocol(
                    "too many transfers under one ticket",
                ));
            }
            complete.push(done.to_owned());
        }
        Ok(())
    }

    /// Marks a ticket as used, so that it is no longer valid. Returns the transfers under it that were noted as
    /// [complete](Self::complete).
    pub(super) fn spend(&self, digest: Digest) -> Vec<String> {
        let mut table = self.lock();
        let before = table.states.insert(digest, State::Spent);
        if before != Some(State::Spent) {
            table.spent.push_back(digest);
        }
        match before {
            Some(State::Taken { complete, .. }) => complete,
            _ => Vec::new(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::ids::encode_base32;

    use super::*;
    use crate::transfer::note::Note;

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
        tickets.issue(&SECRET).unwrap();
        let digest = tickets.take(&text(&SECRET), node(1)).unwrap();
        assert!(tickets.take(&text(&SECRET), node(2)).is_err());
        assert!(tickets.take(&text(&SECRET), node(1)).is_ok());
        tickets.spend(digest);
        assert!(tickets.take(&text(&SECRET), node(1)).is_err());
        assert!(tickets.take("nonsense", node(1)).is_err());
    }

    #[test]
    fn a_ticket_is_good_for_one_transfer() {
        let tickets = Tickets::default();
        tickets.issue(&SECRET).unwrap();
        let digest = tickets.take(&text(&SECRET), node(1)).unwrap();
        assert!(!tickets.is_for(digest, "film"));
        tickets.bind(digest, "film").unwrap();
        tickets.bind(digest, "film").unwrap();
        assert!(tickets.is_for(digest, "film"));
        tickets.release(digest);
        tickets.bind(digest, "film").unwrap();
        // Neither beside the first transfer nor after it does another one come under it.
        assert!(tickets.bind(digest, "book").is_err());
        tickets.spend(digest);
        assert!(tickets.bind(digest, "film").is_err());
    }

    #[test]
    fn a_ticket_is_good_for_all_that_were_announced_one_after_the_other() {
        let tickets = Tickets::default();
        tickets.issue(&SECRET).unwrap();
        let digest = tickets.take(&text(&SECRET), node(1)).unwrap();
        tickets.bind(digest, "a").unwrap();
        assert!(tickets.bind(digest, "b").is_err(), "a is not complete");
        tickets.complete(digest, "a").unwrap();
        tickets.bind(digest, "b").unwrap();
        // The same command again, after the sender was killed.
        tickets.bind(digest, "a").unwrap();
        assert!(tickets.is_for(digest, "a") && tickets.is_for(digest, "b"));
        tickets.complete(digest, "a").unwrap();
        assert!(tickets.bind(digest, "c").is_err(), "b is not complete");
        for n in 1..MORE_MAX {
            tickets.complete(digest, &n.to_string()).unwrap();
        }
        assert!(tickets.complete(digest, "more").is_err());
        assert_eq!(tickets.spend(digest).len(), MORE_MAX as usize);
        assert!(tickets.spend(digest).is_empty());

        let note = |is_complete, has_more| Note {
            sender: node(1),
            digest: blake3::hash(b"manifest"),
            ticket: Some(Digest::of(&SECRET)),
            is_complete,
            named: None,
            has_more,
        };
        let left = [("a", note(true, true)), ("b", note(false, true))];
        let left = left.map(|(name, note)| Unfinished {
            folder_name: name.to_owned(),
            note,
        });
        let tickets = Tickets::of_unfinished(left.into());
        tickets.bind(digest, "a").unwrap();
        tickets.bind(digest, "b").unwrap();
        assert!(tickets.bind(digest, "c").is_err());
    }

    #[test]
    fn a_ticket_of_an_unfinished_transfer_outlives_the_receiver() {
        let note = Note {
            sender: node(1),
            digest: blake3::hash(b"manifest"),
            ticket: Some(Digest::of(&SECRET)),
            is_complete: false,
            named: None,
            has_more: false,
        };
        let folder_name = "film".to_owned();
        let tickets = Tickets::of_unfinished(vec![Unfinished { folder_name, note }]);
        assert!(tickets.take(&text(&SECRET), node(2)).is_err());
        let digest = tickets.take(&text(&SECRET), node(1)).unwrap();
        assert!(tickets.is_for(digest, "film"));
        assert!(tickets.bind(digest, "book").is_err());
        let other = text(&Secret([8; SECRET_BYTES]));
        assert!(matches!(
            tickets.take(&other, node(1)),
            Err(TransferError::Unknown)
        ));
    }

    /// `recv --keep` issues tickets one after the other for as long as it runs.
    #[test]
    fn the_ticket_after_ten_thousand_is_good() {
        let tickets = Tickets::default();
        let secret = |n: u32| {
            let mut bytes = [0; SECRET_BYTES];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            Secret(bytes)
        };
        for n in 0..TICKETS_MAX as u32 + 100 {
            tickets.issue(&secret(n)).unwrap();
            let digest = tickets.take(&text(&secret(n)), node(1)).unwrap();
            tickets.spend(digest);
        }
        assert!(tickets.lock().states.len() <= TICKETS_MAX);
        assert!(tickets.lock().spent.len() <= TICKETS_MAX);
    }

    #[test]
    fn unused_tickets_are_not_forgotten_silently() {
        let tickets = Tickets::default();
        for n in 0..TICKETS_MAX as u32 {
            let mut bytes = [1; SECRET_BYTES];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            tickets.issue(&Secret(bytes)).unwrap();
        }
        let error = tickets.issue(&SECRET).unwrap_err().to_string();
        assert!(error.contains("10000"), "{error}");
        assert!(tickets.take(&text(&SECRET), node(1)).is_err());
    }
}
