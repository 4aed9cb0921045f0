//! Receiver of a transfer.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anabranch_base::NodeId;
use anabranch_net::{Host, Session, Stream, limited};
use anabranch_session::SecretKey;
use tokio::sync::mpsc;

use super::{
    active::{Active, REPLACED},
    admission::{Admitted, HELLO_TIMEOUT},
    area::Named,
    attempts::Attempts,
    control::{accept, farewell},
    digest::Digest,
    earlier,
    error::TransferError,
    keyed::StateKey,
    manifest::Manifest,
    message::{CONTROL_LABEL, Kind, Reply},
    offer::read_offer,
    progress::Progress,
    rules::{self, Offered, Rules, Updates},
    selection::LeftOut,
    taking::Accepted,
    tickets::Tickets,
    update::{Changes, Update},
};
use crate::{
    keys::KeyError,
    rights::{Right, Rights},
    ticket::{ADDRESSES_MAX, SECRET_BYTES, Secret, Ticket},
};

/// Time that the final message of a failed transfer may take.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a complete transfer: a sender that does not receive the message assumes an interruption, and finds the name
/// taken when it comes back.
const FAREWELL_DONE_TIMEOUT: Duration = Duration::from_secs(30);

/// A transfer that is complete and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Its name.
    pub name: String,
    /// Path of the transfer; `None` at the sender.
    pub path: Option<PathBuf>,
    /// Files in it.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Its hash in hexadecimal, if it is a single file.
    pub blake3: Option<String>,
    /// Paths that were not transferred, or not entirely: at the sender those that cannot be sent, at the receiver those that had bits
    /// that were dropped.
    pub left_out: LeftOut,
    /// Transfers that the sender has announced after this one; 0 at the sender.
    pub more: u32,
    /// Of an update, what it changed, or at the sender of a dry run, what it would change.
    pub changes: Option<Changes>,
}

impl Completed {
    /// All of it, as it was offered.
    pub(super) fn of(manifest: &Manifest) -> Self {
        Self {
            name: manifest.name.clone(),
            path: None,
            files: manifest.files(),
            bytes: manifest.bytes(),
            blake3: None,
            left_out: LeftOut::default(),
            more: 0,
            changes: None,
        }
    }
}

/// Receives transfers into a directory, from holders of tickets and from trusted nodes.
#[derive(Debug)]
pub struct Receiver {
    pub(super) directory: PathBuf,
    pub(super) key: StateKey,
    pub(super) rights: Rights,
    pub(super) rules: Rules,
    /// Channel to the consumer that decides about every new transfer; `None`: all that keep to the rules are accepted.
    asked: Option<mpsc::Sender<Offered>>,
    pub(super) tickets: Tickets,
    pub(super) attempts: Attempts,
    active: Arc<Active>,
}

impl Receiver {
    /// Receives into `directory`, which must exist and be writable. Nodes in `trusted` need no ticket. Tickets of transfers
    /// that an earlier receiver with the same `key` left unfinished there remain valid for their senders.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn new(
        directory: PathBuf,
        key: &SecretKey,
        trusted: impl IntoIterator<Item = NodeId>,
    ) -> Result<Self, TransferError> {
        Self::with_rights(directory, key, Rights::only(Right::SendFiles, trusted))
    }

    /// The same; nodes with [`Right::SendFiles`] need no ticket, for as long as they have it.
    ///
    /// # Errors
    /// As [`Receiver::new`].
    pub fn with_rights(
        directory: PathBuf,
        key: &SecretKey,
        rights: Rights,
    ) -> Result<Self, TransferError> {
        earlier::probe(&directory).map_err(TransferError::write(&directory))?;
        let key = StateKey::of(key);
        Ok(Self {
            tickets: Tickets::of_unfinished(earlier::unfinished(&directory, &key)),
            directory,
            key,
            rights,
            rules: Rules::default(),
            asked: None,
            attempts: Attempts::default(),
            active: Arc::default(),
        })
    }

    /// The same with other limits than the default ones.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// The same, with every transfer offered to the other end of `whom` before anything of it is accepted. One that resumes
    /// after an interruption is not offered again.
    #[must_use]
    pub fn asking(mut self, whom: mpsc::Sender<Offered>) -> Self {
        self.asked = Some(whom);
        self
    }

    /// The directory that files go into.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Default port: the same for the same node and directory, so that a ticket also leads to a receiver that was restarted. In
    /// the range for private use (RFC 6335 §6); another program may have it.
    pub fn port(&self, node: NodeId) -> u16 {
        const FIRST: u16 = 49_152;
        let directory = std::path::absolute(&self.directory);
        let directory = directory.as_ref().unwrap_or(&self.directory);
        let mut hasher = blake3::Hasher::new();
        hasher.update(node.public_key());
        hasher.update(directory.as_os_str().as_encoded_bytes());
        let [high, low, ..] = *hasher.finalize().as_bytes();
        FIRST | (u16::from_be_bytes([high, low]) & !FIRST)
    }

    /// A new ticket with which one node can send one transfer.
    ///
    /// # Errors
    /// The operating system provides no random numbers, or there are 10,000 unused tickets.
    pub fn issue(&self, host: &Host) -> Result<Ticket, TransferError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| KeyError::Entropy(error.to_string()))?;
        let secret = Secret(secret);
        self.tickets.issue(&secret)?;
        let mut addresses = host.addresses();
        addresses.truncate(ADDRESSES_MAX);
        Ok(Ticket {
            hosts: Vec::new(),
            via: None,
            node: host.node_id(),
            secret: Some(secret),
            addresses,
        })
    }

    /// Receives one transfer from a session that was accepted. The peer is informed of every refusal.
    ///
    /// # Errors
    /// The ticket is not valid, the disk fails, or the session ends; data that has arrived is kept for the next attempt.
    pub async fn receive(
        &self,
        session: &Session,
        progress: &Progress,
    ) -> Result<Completed, TransferError> {
        let control = tokio::time::timeout(HELLO_TIMEOUT, accept(session, CONTROL_LABEL));
        let control = control
            .await
            .map_err(|_| TransferError::Protocol("no greeting"))??;
        self.receive_on(session, control, progress).await
    }

    /// The same, for a session that may be idle for as long as it likes.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub async fn receive_when_offered(
        &self,
        session: &Session,
        progress: &Progress,
    ) -> Result<Completed, TransferError> {
        let control = Self::offered(session).await?;
        self.receive_on(session, control, progress).await
    }

    /// Waits for a sender that wants to send, for [`Receiver::receive_on`] of whichever receiver is then in force. Nothing is lost if
    /// this is dropped.
    ///
    /// # Errors
    /// The session ends, or the peer opens another stream of a transfer.
    pub(crate) async fn offered(session: &Session) -> Result<Stream, TransferError> {
        accept(session, CONTROL_LABEL).await
    }

    /// Receives one transfer whose control stream was accepted.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub(crate) async fn receive_on(
        &self,
        session: &Session,
        control: Stream,
        progress: &Progress,
    ) -> Result<Completed, TransferError> {
        // The right to send comes first; before a peer has shown it, nothing else of it is read or stored.
        let result = match self.greet(session, &control).await {
            Ok(right) => {
                progress.announced(right.more);
                let start = Instant::now();
                let served = self.serve(session, &control, &right, progress).await;
                served.map(|(mut done, named)| {
                    done.more = right.more;
                    note(&done, right.sender, start.elapsed());
                    (done, named, right.ticket)
                })
            }
            Err(error) => Err(error),
        };
        match result {
            Ok((done, named, ticket)) => {
                let last = Reply::Done {
                    files: done.files,
                    bytes: done.bytes,
                };
                if farewell(&control, &last, FAREWELL_DONE_TIMEOUT).await {
                    self.confirmed(ticket, done.more, named).await?;
                }
                // Otherwise the sender may come back and ask; the note in the folder has the answer.
                Ok(done)
            }
            Err(error) => {
                let reason = error.to_string();
                let last = match error {
                    TransferError::Interrupted(_) | TransferError::DryRun => return Err(error),
                    TransferError::Ticket(_)
                    | TransferError::Unknown
                    | TransferError::Declined
                    | TransferError::Unpermitted(_) => Reply::Refused { reason },
                    _ => Reply::Failed { reason },
                };
                farewell(&control, &last, FAREWELL_TIMEOUT).await;
                Err(error)
            }
        }
    }

    /// Forgets a transfer of which the sender has the confirmation, or keeps it in mind while more are to come.
    async fn confirmed(
        &self,
        ticket: Option<Digest>,
        more: u32,
        named: Named,
    ) -> Result<(), TransferError> {
        let earlier = match ticket {
            Some(ticket) if more > 0 => {
                return self.tickets.complete(ticket, named.folder_name());
            }
            Some(ticket) => self.tickets.spend(ticket),
            None => Vec::new(),
        };
        let forgetting = tokio::task::spawn_blocking(move || named.forget(&earlier));
        forgetting.await.expect("removing a folder does not panic");
        Ok(())
    }

    async fn serve(
        &self,
        session: &Session,
        control: &Stream,
        right: &Admitted,
        progress: &Progress,
    ) -> Result<(Completed, Named), TransferError> {
        let (mut manifest, update) = read_offer(control).await?;
        manifest.check()?;
        self.rules.check(&manifest)?;
        if let Some(update) = update {
            let terms = || self.rights.terms(&right.sender, Right::SendFiles);
            let by_right = match right.ticket {
                Some(_) => None,
                None => Some(terms().map_or(Updates::Refused, |terms| terms.updates)),
            };
            self.rules.check_update(update, by_right)?;
            if manifest.kind == Kind::Stream {
                return Err(TransferError::Protocol("an update by a stream"));
            }
        }
        let mut left_out = LeftOut::default();
        if cfg!(windows) {
            for link in std::mem::take(&mut manifest.links) {
                left_out.add(
                    link.path,
                    "a symbolic link, for which Windows wants a right",
                );
            }
        }
        if !self.rules.allow_special_bits {
            left_out.join(manifest.drop_special_bits());
        }
        self.accept_offer(right, &manifest, update).await?;
        progress.begin(&manifest.name, manifest.bytes(), manifest.files());
        let (hold, mut replaced) = self
            .active
            .enter(right.sender, &manifest.name, session.id())
            .await?;
        let offered = Accepted {
            manifest,
            update,
            hold,
        };
        let (mut done, named) = tokio::select! {
            taken = self.take(session, control, offered, right, progress) => taken?,
            () = replaced.wait() => return Err(TransferError::Ticket(REPLACED)),
        };
        done.left_out.join(left_out);
        Ok((done, named))
    }

    /// Asks about a new transfer, and binds the ticket to it.
    async fn accept_offer(
        &self,
        right: &Admitted,
        manifest: &Manifest,
        update: Option<Update>,
    ) -> Result<(), TransferError> {
        let folder = self.folder_name(right, manifest, update);
        let is_accepted = right
            .ticket
            .is_some_and(|ticket| self.tickets.is_for(ticket, &folder));
        if let Some(whom) = self.asked.as_ref().filter(|_| !is_accepted) {
            let answer = rules::ask(whom, right.sender, manifest, update).await;
            if let (Err(TransferError::Declined), Some(ticket)) = (&answer, right.ticket) {
                self.tickets.spend(ticket);
            }
            answer?;
        }
        match right.ticket {
            // What follows a dry run is asked about again.
            Some(ticket) if update.is_none_or(|update| !update.dry_run) => {
                self.tickets.bind(ticket, &folder)
            }
            _ => Ok(()),
        }
    }

    /// Name of the folder of a transfer. An update has another one than a transfer that needs a free name.
    pub(super) fn folder_name(
        &self,
        right: &Admitted,
        manifest: &Manifest,
        update: Option<Update>,
    ) -> String {
        let name = &manifest.name;
        match update {
            None => self.key.folder_name(right.sender, name),
            // No name contains a separator.
            Some(_) => self
                .key
                .folder_name(right.sender, &format!("{name}/update")),
        }
    }
}

/// Logs a transfer that is complete.
fn note(done: &Completed, from: NodeId, took: Duration) {
    limited!(
        info,
        name = ?done.name,
        bytes = done.bytes,
        files = done.files,
        %from,
        took_s = took.as_secs_f64(),
        "received"
    );
}
