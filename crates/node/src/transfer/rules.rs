//! Rules of a receiver: limits on what it accepts, and offers that wait for an answer.

use anabranch_base::NodeId;
use tokio::sync::{mpsc, oneshot};

use super::{
    error::TransferError, manifest::Manifest, message::Kind, names::is_hidden, update::Update,
};

/// Limits on what is accepted from any sender. By default any size, no hidden names, and no special bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Limit on the bytes of one transfer; `None`: the capacity of the disk.
    pub bytes_max: Option<u64>,
    /// Accept a transfer whose own name begins with a dot, such as `.bashrc`, which programs may read unasked. Inside a
    /// directory that is received such names are always accepted.
    pub allow_hidden: bool,
    /// Keep the set-user-ID, set-group-ID and sticky bits of files and directories. Otherwise they are dropped, because a program
    /// with such a bit acts with the rights of the receiver's user.
    pub allow_special_bits: bool,
    /// Reaction to a name that exists.
    pub clash: Clash,
    /// Updates of what exists that senders may ask for.
    pub updates: Updates,
}

/// Reaction of a receiver to a transfer whose name exists in its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clash {
    /// The transfer is refused.
    #[default]
    Refuse,
    /// Replacement: the existing entry gives way in one step when the transfer is complete; a directory with everything in it.
    Overwrite,
    /// The transfer gets a free name, such as `film (2).mp4`.
    Rename,
}

/// Updates that a receiver permits, each with those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Updates {
    /// None.
    #[default]
    Refused,
    /// Those that add and replace.
    Permitted,
    /// Those that delete, too.
    WithDeletion,
}

impl Rules {
    /// Checks that an update is permitted. A dry run shows names, so it needs the same permission. `right`: the sender is here by its
    /// right to send files, with these updates in its terms.
    pub(super) fn check_update(
        &self,
        update: Update,
        right: Option<Updates>,
    ) -> Result<(), TransferError> {
        let permitted = self.updates.max(right.unwrap_or_default());
        let reason = match (permitted, update.delete, right.is_some()) {
            (Updates::Refused, _, false) => {
                "this receiver updates nothing that it has; start it with `recv --update`"
            }
            (Updates::Refused, _, true) => {
                "this node updates nothing that it has for this one; there, write { right = \"send-files\", update = true } in `may`"
            }
            (Updates::Permitted, true, false) => {
                "this receiver deletes nothing; start it with `recv --update --delete`, or send without --delete"
            }
            (Updates::Permitted, true, true) => {
                "this node deletes nothing for this one; there, add delete = true beside update = true, or send without --delete"
            }
            _ => return Ok(()),
        };
        Err(TransferError::Unpermitted(reason))
    }

    pub(super) fn check(&self, manifest: &Manifest) -> Result<(), TransferError> {
        if !self.allow_hidden && is_hidden(&manifest.name) {
            return Err(TransferError::Hidden {
                name: manifest.name.clone(),
            });
        }
        self.check_bytes(manifest.bytes())
    }

    /// Checks the number of bytes that have arrived, or are to arrive.
    pub(super) fn check_bytes(&self, bytes: u64) -> Result<(), TransferError> {
        match self.bytes_max {
            Some(most) if bytes > most => Err(TransferError::TooLarge { bytes, most }),
            _ => Ok(()),
        }
    }
}

/// A transfer that is offered and waits for an answer. If dropped without one, it is refused.
#[derive(Debug)]
#[non_exhaustive]
pub struct Offered {
    /// The sender.
    pub sender: NodeId,
    /// Its name in the directory. Its characters are harmless; its meaning is chosen by the sender.
    pub name: String,
    /// File, directory or stream.
    pub kind: Kind,
    /// Files in it.
    pub files: u64,
    /// Files and directories inside it whose names begin with a dot.
    pub hidden: u64,
    /// Bytes in them; `None` if the sender does not know.
    pub bytes: Option<u64>,
    /// The update that it is, of what has its name.
    pub update: Option<Update>,
    answer: oneshot::Sender<bool>,
}

impl Offered {
    /// Accepts or refuses the transfer.
    pub fn answer(self, takes: bool) {
        // The sender may have gone in the meantime.
        let _ = self.answer.send(takes);
    }

    /// Ready when the sender has gone and no answer is needed any more.
    pub async fn over(&mut self) {
        self.answer.closed().await;
    }
}

/// Asks, and waits for the answer.
///
/// # Errors
/// It is refused.
pub(super) async fn ask(
    whom: &mpsc::Sender<Offered>,
    sender: NodeId,
    manifest: &Manifest,
    update: Option<Update>,
) -> Result<(), TransferError> {
    let (answer, answered) = oneshot::channel();
    let inside = manifest.entries.iter().skip(1);
    let hidden = inside.filter(|entry| {
        let name = entry.path.rsplit('/').next();
        name.is_some_and(is_hidden)
    });
    let offered = Offered {
        sender,
        name: manifest.name.clone(),
        kind: manifest.kind,
        files: manifest.files(),
        hidden: hidden.count() as u64,
        bytes: (manifest.kind != Kind::Stream).then(|| manifest.bytes()),
        update,
        answer,
    };
    if whom.send(offered).await.is_err() || !answered.await.unwrap_or(false) {
        return Err(TransferError::Declined);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_and_sizes_are_refused_unless_allowed() {
        let bashrc = Manifest::stream(".bashrc");
        let error = Rules::default().check(&bashrc).unwrap_err().to_string();
        assert!(error.contains("--allow-hidden"), "{error}");
        let open = Rules {
            allow_hidden: true,
            bytes_max: Some(10),
            ..Rules::default()
        };
        open.check(&bashrc).unwrap();
        let mut film = Manifest::stream("film");
        film.kind = Kind::File;
        film.entries[0].size_bytes = Some(10);
        open.check(&film).unwrap();
        film.entries[0].size_bytes = Some(u64::MAX);
        let error = open.check(&film).unwrap_err().to_string();
        assert!(error.contains("--max-size"), "{error}");
    }

    #[tokio::test]
    async fn no_answer_is_a_refusal() {
        let (asking, mut asked) = mpsc::channel(1);
        let sender = NodeId::from_public_key([1; 32]);
        let film = Manifest::stream("film");
        let (answer, ()) = tokio::join!(ask(&asking, sender, &film, None), async {
            asked.recv().await.unwrap().answer(true);
        });
        answer.unwrap();
        let (answer, ()) = tokio::join!(ask(&asking, sender, &film, None), async {
            drop(asked.recv().await);
        });
        assert!(matches!(answer, Err(TransferError::Declined)));
        drop(asked);
        let answer = ask(&asking, sender, &film, None).await;
        assert!(matches!(answer, Err(TransferError::Declined)));
    }
}
