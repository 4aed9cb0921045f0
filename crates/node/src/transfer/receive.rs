//! The receiving side.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::{NodeId, ids::decode_base32};
use anabranch_net::{Host, Session, Stream};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::mpsc;

use super::{
    area::{Area, Have, Sink},
    error::TransferError,
    manifest::{ENTRIES_MAX, Manifest},
    message::{CONTROL_LABEL, DATA_LABEL, Record, Reply, Request},
    progress::Progress,
};
use crate::{
    keys::KeyError,
    ticket::{ADDRESSES_MAX, SECRET_BYTES, Secret, Ticket},
};

/// A sender that says nothing for this long after connecting is sent away.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the last word of a failed transfer may take.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);
/// Records between the network and the disk.
const WRITE_BEHIND: usize = 8;
/// Tickets remembered; more are not issued.
const TICKETS_MAX: usize = 10_000;

/// A transfer that is complete and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Its name.
    pub name: String,
    /// Where it is now; `None` at the sender.
    pub path: Option<PathBuf>,
    /// Files in it.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Its hash in hexadecimal, where it is a single file.
    pub blake3: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TicketState {
    Fresh,
    /// Shown by this node, which may try again until it is done.
    Taken(NodeId),
    Spent,
}

/// Receives transfers into a directory, from those who hold a ticket and from trusted nodes.
#[derive(Debug)]
pub struct Receiver {
    directory: PathBuf,
    trusted: HashSet<NodeId>,
    tickets: Mutex<HashMap<[u8; SECRET_BYTES], TicketState>>,
    /// Transfers under way, by sender and name: two at once would write the same partial files.
    active: Mutex<HashSet<(NodeId, String)>>,
}

impl Receiver {
    /// Receives into `directory`, which must exist and be writable. Nodes in `trusted` need no ticket.
    ///
    /// # Errors
    /// Nothing can be written to the directory.
    pub fn new(
        directory: PathBuf,
        trusted: impl IntoIterator<Item = NodeId>,
    ) -> Result<Self, TransferError> {
        let probe = directory.join(format!(".anabranch-probe-{}", std::process::id()));
        std::fs::write(&probe, b"").map_err(TransferError::write(&directory))?;
        // It may be gone already; it does not matter.
        let _ = std::fs::remove_file(&probe);
        Ok(Self {
            directory,
            trusted: trusted.into_iter().collect(),
            tickets: Mutex::default(),
            active: Mutex::default(),
        })
    }

    /// A new ticket with which one node can send one transfer.
    ///
    /// # Errors
    /// The operating system has no randomness.
    pub fn issue(&self, host: &Host) -> Result<Ticket, KeyError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| KeyError::Entropy(error.to_string()))?;
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() < TICKETS_MAX {
            tickets.insert(secret, TicketState::Fresh);
        }
        let mut addresses = host.addresses();
        addresses.truncate(ADDRESSES_MAX);
        Ok(Ticket {
            node: host.node_id(),
            secret: Some(Secret(secret)),
            addresses,
        })
    }

    /// Receives one transfer from a session that was accepted. The peer is told of every refusal.
    ///
    /// # Errors
    /// The ticket is not good, the disk fails, or the session ends; what has arrived is kept for the next
    /// attempt.
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
        let result = self.serve(session, &control, progress).await;
        let last = match &result {
            Ok((done, _)) => Reply::Done {
                files: done.files,
                bytes: done.bytes,
            },
            Err(TransferError::Interrupted(_)) => return result.map(|(done, _)| done),
            Err(error @ TransferError::Ticket(_)) => Reply::Refused {
                reason: error.to_string(),
            },
            Err(error) => Reply::Failed {
                reason: error.to_string(),
            },
        };
        let farewell = async {
            say(&control, &last).await?;
            control.finish()?;
            control.delivered().await?;
            Ok::<_, TransferError>(())
        };
        // The files are in place whether or not the sender hears of it.
        let _ = tokio::time::timeout(FAREWELL_TIMEOUT, farewell).await;
        if let Ok((_, Some(secret))) = &result {
            self.set_ticket(secret, TicketState::Spent);
        }
        result.map(|(done, _)| done)
    }

    async fn serve(
        &self,
        session: &Session,
        control: &Stream,
        progress: &Progress,
    ) -> Result<(Completed, Option<Secret>), TransferError> {
        let hello = tokio::time::timeout(HELLO_TIMEOUT, hear(control));
        let Request::Hello { secret } = hello
            .await
            .map_err(|_| TransferError::Protocol("no greeting"))??
        else {
            return Err(TransferError::Protocol("no greeting"));
        };
        let secret = self.admit(session.peer(), &secret)?;
        say(control, &Reply::Welcome).await?;
        let manifest = hear_offer(control).await?;
        manifest.check()?;
        progress.begin(&manifest.name, manifest.bytes(), manifest.files());
        let _guard = ActiveGuard::enter(self, session.peer(), &manifest.name)?;

        let name = manifest.name.clone();
        let (directory, sender) = (self.directory.clone(), session.peer());
        let opening = tokio::task::spawn_blocking(move || {
            let area = Area::open(&directory, sender, manifest)?;
            let have = have_all(&area)?;
            Ok::<_, TransferError>((area, have))
        });
        let (area, have) = opening.await.expect("opening files does not panic")?;
        for (&index, have) in &have {
            progress.resumed(have.bytes);
            if have.is_complete {
                progress.file_done();
            }
            let reply = Reply::Have {
                index,
                bytes: have.bytes,
                hash: have.hasher.finalize().to_hex().to_string(),
                is_complete: have.is_complete,
            };
            say(control, &reply).await?;
        }
        say(control, &Reply::Go).await?;

        let data = accept(session, DATA_LABEL).await?;
        let (records, queue) = mpsc::channel(WRITE_BEHIND);
        let writing = {
            let progress = progress.clone();
            tokio::task::spawn_blocking(move || write_all(area, have, queue, &progress))
        };
        let pumped = pump(&data, records).await;
        let written = writing.await.expect("writing files does not panic");
        let (path, files, bytes, blake3) = match written {
            Err(TransferError::Protocol(_)) if pumped.is_err() => {
                return Err(pumped.expect_err("just seen"));
            }
            written => written?,
        };
        let completed = Completed {
            name,
            path: Some(path),
            files,
            bytes,
            blake3,
        };
        Ok((completed, secret))
    }

    /// Whether this node may send, by its ticket or by its name.
    fn admit(&self, peer: NodeId, secret: &str) -> Result<Option<Secret>, TransferError> {
        if secret.is_empty() {
            let is_trusted = self.trusted.contains(&peer);
            return if is_trusted {
                Ok(None)
            } else {
                Err(TransferError::Ticket(
                    "this node takes transfers from listed nodes and from holders of a ticket only",
                ))
            };
        }
        let unknown = TransferError::Ticket(
            "the receiver does not know this ticket; it was issued by an earlier run, ask for a new one",
        );
        let Some(Ok(bytes)) = decode_base32(secret).map(<[u8; SECRET_BYTES]>::try_from) else {
            return Err(unknown);
        };
        let secret = Secret(bytes);
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tickets
            .iter_mut()
            .find(|(known, _)| Secret(**known).matches(&secret));
        match found.map(|(_, state)| state) {
            None => Err(unknown),
            Some(TicketState::Spent) => Err(TransferError::Ticket(
                "this ticket was used already; it is good for one transfer, ask for a new one",
            )),
            Some(TicketState::Taken(owner)) if *owner != peer => Err(TransferError::Ticket(
                "this ticket was used already by another node; ask for a new one",
            )),
            Some(state) => {
                *state = TicketState::Taken(peer);
                Ok(Some(secret))
            }
        }
    }

    fn set_ticket(&self, secret: &Secret, state: TicketState) {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.insert(secret.0, state);
    }
}

/// Marks a transfer as under way until it is dropped.
struct ActiveGuard<'a> {
    receiver: &'a Receiver,
    key: (NodeId, String),
}

impl<'a> ActiveGuard<'a> {
    fn enter(receiver: &'a Receiver, peer: NodeId, name: &str) -> Result<Self, TransferError> {
        let key = (peer, name.to_owned());
        let mut active = receiver
            .active
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !active.insert(key.clone()) {
            return Err(TransferError::Ticket(
                "the same transfer is under way already; wait for it to end",
            ));
        }
        Ok(Self { receiver, key })
    }
}

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        let active = &self.receiver.active;
        active
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.key);
    }
}

/// The next stream, which must have this label.
async fn accept(session: &Session, label: &str) -> Result<Stream, TransferError> {
    let stream = session.accept_stream().await?;
    if stream.spec().label != label {
        return Err(TransferError::Protocol("an unexpected stream"));
    }
    Ok(stream)
}

async fn hear_offer(control: &Stream) -> Result<Manifest, TransferError> {
    let Request::Offer {
        kind,
        name,
        entries: number,
    } = hear(control).await?
    else {
        return Err(TransferError::Protocol("no offer"));
    };
    if number > ENTRIES_MAX {
        return Err(TransferError::TooMany {
            entries: number,
            most: ENTRIES_MAX,
        });
    }
    let mut entries = Vec::new();
    loop {
        match hear(control).await? {
            Request::Entries { list } => entries.extend(list),
            Request::OfferEnd => break,
            _ => return Err(TransferError::Protocol("an offer without end")),
        }
        if entries.len() as u64 > number {
            return Err(TransferError::Protocol("more entries than were offered"));
        }
    }
    Ok(Manifest {
        kind,
        name,
        entries,
    })
}

fn have_all(area: &Area) -> Result<HashMap<u32, Have>, TransferError> {
    let mut all = HashMap::new();
    for index in 0.. {
        let Some(entry) = area.entry(index) else {
            break;
        };
        if !entry.is_directory {
            let have = area.have(index, entry)?;
            if have.bytes > 0 || have.is_complete {
                all.insert(index, have);
            }
        }
    }
    Ok(all)
}

async fn pump(data: &Stream, records: mpsc::Sender<Bytes>) -> Result<(), TransferError> {
    while let Some(adu) = data.recv().await? {
        if records.send(adu.data).await.is_err() {
            // The disk has failed; its own error says how.
            break;
        }
    }
    Ok(())
}

type Written = (PathBuf, u64, u64, Option<String>);

/// On a thread of its own: writes what arrives, and gives it its name at the end.
fn write_all(
    mut area: Area,
    mut have: HashMap<u32, Have>,
    mut queue: mpsc::Receiver<Bytes>,
    progress: &Progress,
) -> Result<Written, TransferError> {
    let mut open: Option<(u32, Sink)> = None;
    while let Some(bytes) = queue.blocking_recv() {
        let record = Record::decode(&bytes).ok_or(TransferError::Protocol("not a record"))?;
        match record {
            Record::Chunk {
                index,
                offset,
                data,
            } => {
                let (_, sink) = match &mut open {
                    Some(current) if current.0 == index => current,
                    Some(_) => return Err(TransferError::Protocol("two files at once")),
                    None => open.insert((index, begin(&area, &mut have, index, offset)?)),
                };
                if offset != sink.position {
                    return Err(TransferError::Protocol("a gap in a file"));
                }
                let most = area.entry(index).and_then(|entry| entry.size_bytes);
                if most.is_some_and(|most| offset + data.len() as u64 > most) {
                    return Err(TransferError::Protocol("a file longer than offered"));
                }
                sink.write(&data)?;
                progress.moved(data.len() as u64);
            }
            Record::FileEnd { index, size, hash } => {
                let sink = match open.take() {
                    Some((current, sink)) if current == index => sink,
                    Some(_) => return Err(TransferError::Protocol("two files at once")),
                    // All of it was here, or it is empty.
                    None => begin(&area, &mut have, index, size)?,
                };
                area.close_file(index, sink, size, hash)?;
                progress.file_done();
            }
            Record::End => {
                let (path, bytes, hash) = area.finish()?;
                return Ok((path, progress.snapshot().files_total, bytes, hash));
            }
        }
    }
    Err(TransferError::Protocol("the data ended early"))
}

/// Opens a file that begins at `offset`: anew, or after what is here.
fn begin(
    area: &Area,
    have: &mut HashMap<u32, Have>,
    index: u32,
    offset: u64,
) -> Result<Sink, TransferError> {
    let entry = area.entry(index).filter(|entry| !entry.is_directory);
    let entry = entry.ok_or(TransferError::Protocol("an unknown file"))?;
    let anew = Have {
        bytes: 0,
        hasher: blake3::Hasher::new(),
        is_complete: false,
    };
    let start = match have.remove(&index) {
        Some(have) if have.bytes == offset && !have.is_complete => have,
        Some(have) if have.is_complete => {
            return Err(TransferError::Protocol("a file that is complete already"));
        }
        _ => anew,
    };
    area.open_file(entry, start)
}

/// Sends one message.
pub(super) async fn say(stream: &Stream, message: &impl Serialize) -> Result<(), TransferError> {
    let text = serde_json::to_vec(message).expect("messages are made of texts and numbers");
    stream.send(text.into()).await?;
    Ok(())
}

/// Waits for one message.
pub(super) async fn hear<T: DeserializeOwned>(stream: &Stream) -> Result<T, TransferError> {
    let adu = stream.recv().await?;
    let adu = adu.ok_or(TransferError::Protocol("the conversation ended early"))?;
    serde_json::from_slice(&adu.data).map_err(|_| TransferError::Protocol("not a message"))
}
