//! Receiver of a transfer.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anabranch_base::NodeId;
use anabranch_net::{Host, Session, Stream};
use anabranch_session::SecretKey;
use tokio::sync::mpsc;

use super::{
    active::{Active, Hold, REPLACED},
    admission::{Admitted, HELLO_TIMEOUT},
    area::{Area, Named, Opening},
    attempts::Attempts,
    barrier::Count,
    control::{accept, farewell, send_message},
    digest::Digest,
    earlier,
    error::TransferError,
    keyed::StateKey,
    manifest::Manifest,
    message::{CONTROL_LABEL, DATA_LABEL, Reply},
    offer::read_offer,
    progress::Progress,
    rules::{self, Offered, Rules},
    selection::LeftOut,
    tickets::Tickets,
    writing::{Writing, have_all, pump, write_all},
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
/// Interval between two reports of what is durable.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// Limit on the records that wait between the network and the disk.
const WRITE_BEHIND: usize = 8;
/// Limit on the `Have` messages that wait between the disk and the network.
const HAVE_AHEAD: usize = 64;

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
}

/// Receives transfers into a directory, from holders of tickets and from trusted nodes.
#[derive(Debug)]
pub struct Receiver {
    directory: PathBuf,
    key: StateKey,
    pub(super) rights: Rights,
    rules: Rules,
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
        let control = accept(session, CONTROL_LABEL).await?;
        self.receive_on(session, control, progress).await
    }

    async fn receive_on(
        &self,
        session: &Session,
        control: Stream,
        progress: &Progress,
    ) -> Result<Completed, TransferError> {
        // The right to send comes first; before a peer has shown it, nothing else of it is read or stored.
        let result =
            match self.greet(session, &control).await {
                Ok(right) => self.serve(session, &control, &right, progress).await.map(
                    |(mut done, named)| {
                        done.more = right.more;
                        (done, named, right.ticket)
                    },
                ),
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
                    TransferError::Interrupted(_) => return Err(error),
                    TransferError::Ticket(_) | TransferError::Unknown | TransferError::Declined => {
                        Reply::Refused { reason }
                    }
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
        let mut manifest = read_offer(control).await?;
        manifest.check()?;
        self.rules.check(&manifest)?;
        let mut left_out = LeftOut::default();
        if !self.rules.allow_special_bits {
            left_out = manifest.drop_special_bits();
        }
        self.accept_offer(right, &manifest).await?;
        progress.begin(&manifest.name, manifest.bytes(), manifest.files());
        let (hold, mut replaced) = self
            .active
            .enter(right.sender, &manifest.name, session.id())
            .await?;
        let (mut done, named) = tokio::select! {
            taken = self.take(session, control, manifest, right, hold, progress) => taken?,
            () = replaced.wait() => return Err(TransferError::Ticket(REPLACED)),
        };
        done.left_out = left_out;
        Ok((done, named))
    }

    /// Asks about a new transfer, and binds the ticket to it.
    async fn accept_offer(
        &self,
        right: &Admitted,
        manifest: &Manifest,
    ) -> Result<(), TransferError> {
        let folder = self.key.folder_name(right.sender, &manifest.name);
        let is_accepted = right
            .ticket
            .is_some_and(|ticket| self.tickets.is_for(ticket, &folder));
        if let Some(whom) = self.asked.as_ref().filter(|_| !is_accepted) {
            let answer = rules::ask(whom, right.sender, manifest).await;
            if let (Err(TransferError::Declined), Some(ticket)) = (&answer, right.ticket) {
                self.tickets.spend(ticket);
            }
            answer?;
        }
        match right.ticket {
            Some(ticket) => self.tickets.bind(ticket, &folder),
            None => Ok(()),
        }
    }

    /// Receives the data offered. Dropping the future leaves the data that has arrived for the next attempt, and `hold` is
    /// released after the last write.
    async fn take(
        &self,
        session: &Session,
        control: &Stream,
        manifest: Manifest,
        right: &Admitted,
        hold: Hold,
        progress: &Progress,
    ) -> Result<(Completed, Named), TransferError> {
        let (name, files) = (manifest.name.clone(), manifest.files());
        if let Some(ticket) = right.ticket {
            // An older attempt under it may have ended while this one waited.
            let folder = self.key.folder_name(right.sender, &name);
            self.tickets.bind(ticket, &folder)?;
        }
        let (directory, key) = (self.directory.clone(), self.key.clone());
        let (sender, ticket) = (right.sender, right.ticket);
        let (reporter, mut reports) = mpsc::channel(HAVE_AHEAD);
        let (counted, clash, has_more) = (progress.clone(), self.rules.clash, right.more > 0);
        let opening = tokio::task::spawn_blocking(move || {
            let opening = Opening {
                directory: &directory,
                key: &key,
                sender,
                ticket,
                clash,
                has_more,
                progress: &counted,
            };
            let area = Area::open(&opening, manifest)?;
            let (area, have) = have_all(area, &reporter)?;
            Ok::<_, TransferError>((area, have, hold))
        });
        while let Some(reply) = reports.recv().await {
            send_message(control, &reply).await?;
        }
        let opened = opening.await.expect("opening files does not panic");
        if let (Err(TransferError::Exists { .. }), Some(ticket)) = (&opened, right.ticket) {
            self.tickets.release(ticket);
        }
        let (area, have, hold) = opened?;
        send_message(control, &Reply::Go).await?;

        let data = accept(session, DATA_LABEL).await?;
        let (records, queue) = mpsc::channel(WRITE_BEHIND);
        let writing = Writing {
            area,
            have,
            rules: self.rules,
            progress: progress.clone(),
        };
        let mut writing = tokio::task::spawn_blocking(move || {
            let _hold = hold;
            write_all(writing, queue)
        });
        // A failing disk, or a sender that breaks the rules, ends it at once.
        let moving = async {
            tokio::select! {
                written = &mut writing => (written, Ok(())),
                pumped = pump(&data, records) => (writing.await, pumped),
            }
        };
        let (written, pumped) = tokio::select! {
            moved = moving => moved,
            () = report(control, progress), if right.revision >= 1 => unreachable!("it reports until dropped"),
        };
        let named = match (written.expect("writing files does not panic"), pumped) {
            (Err(TransferError::Protocol(_)), Err(error)) => return Err(error),
            (written, _) => written?,
        };
        let completed = Completed {
            name,
            path: Some(named.path.clone()),
            files,
            bytes: named.bytes,
            blake3: named.hash.map(|hash| hash.to_hex().to_string()),
            left_out: LeftOut::default(),
            more: 0,
        };
        Ok((completed, named))
    }
}

/// Reports what is durable until dropped.
async fn report(control: &Stream, progress: &Progress) {
    let mut reported = Count::default();
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        let now = progress.durable_count();
        if now == reported {
            continue;
        }
        reported = now;
        let Count { files, bytes } = now;
        if send_message(control, &Reply::Durable { files, bytes })
            .await
            .is_err()
        {
            // The session is over; the stream of data ends, too.
            std::future::pending::<()>().await;
        }
    }
}
