//! The receiving side.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anabranch_base::NodeId;
use anabranch_net::{Host, Session, Stream};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::mpsc;

use super::{
    active::{Active, Hold},
    area::{Area, Have, Sink},
    error::TransferError,
    manifest::{ENTRIES_MAX, Manifest},
    message::{CONTROL_LABEL, DATA_LABEL, Record, Reply, Request},
    progress::Progress,
    tickets::{Digest, Tickets},
};
use crate::{
    keys::KeyError,
    overlay::LABELS,
    ticket::{ADDRESSES_MAX, SECRET_BYTES, Secret, Ticket},
};

/// A sender that says nothing for this long after connecting is sent away.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the last word of a failed transfer may take.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);
/// The same of a complete one: a sender that does not hear it takes the transfer for interrupted, and
/// finds the name taken when it comes back.
const FAREWELL_DONE_TIMEOUT: Duration = Duration::from_secs(30);
/// Records between the network and the disk.
const WRITE_BEHIND: usize = 8;

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

/// Receives transfers into a directory, from those who hold a ticket and from trusted nodes.
#[derive(Debug)]
pub struct Receiver {
    directory: PathBuf,
    trusted: HashSet<NodeId>,
    tickets: Tickets,
    active: Arc<Active>,
}

impl Receiver {
    /// Receives into `directory`, which must exist and be writable. Nodes in `trusted` need no ticket.
    /// Tickets of transfers that an earlier receiver left unfinished there stay good for their senders.
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
            tickets: Tickets::of_unfinished(&directory),
            directory,
            trusted: trusted.into_iter().collect(),
            active: Arc::default(),
        })
    }

    /// The port at which to listen where nobody chose one: the same for the same node and directory,
    /// so that a ticket leads to a receiver that was restarted, too. In the range for private use
    /// (RFC 6335 §6); another program may have it.
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
    /// The operating system has no randomness.
    pub fn issue(&self, host: &Host) -> Result<Ticket, KeyError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| KeyError::Entropy(error.to_string()))?;
        let secret = Secret(secret);
        self.tickets.issue(&secret);
        let mut addresses = host.addresses();
        addresses.truncate(ADDRESSES_MAX);
        Ok(Ticket {
            node: host.node_id(),
            secret: Some(secret),
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
            // What the sender has not read when the session ends is lost to it, so its own end of the
            // stream is waited for.
            while control.recv().await?.is_some() {}
            Ok::<_, TransferError>(())
        };
        // The files are in place whether or not the sender hears of it.
        let patience = match last {
            Reply::Done { .. } => FAREWELL_DONE_TIMEOUT,
            _ => FAREWELL_TIMEOUT,
        };
        let _ = tokio::time::timeout(patience, farewell).await;
        if let Ok((_, Some(ticket))) = &result {
            self.tickets.spend(*ticket);
        }
        result.map(|(done, _)| done)
    }

    async fn serve(
        &self,
        session: &Session,
        control: &Stream,
        progress: &Progress,
    ) -> Result<(Completed, Option<Digest>), TransferError> {
        let hello = tokio::time::timeout(HELLO_TIMEOUT, hear(control));
        let Request::Hello { secret } = hello
            .await
            .map_err(|_| TransferError::Protocol("no greeting"))??
        else {
            return Err(TransferError::Protocol("no greeting"));
        };
        let ticket = self.admit(session.peer(), &secret)?;
        say(control, &Reply::Welcome).await?;
        let manifest = hear_offer(control).await?;
        manifest.check()?;
        progress.begin(&manifest.name, manifest.bytes(), manifest.files());
        let (hold, mut replaced) = self.active.enter(session.peer(), &manifest.name).await?;
        let completed = tokio::select! {
            completed = self.take(session, control, manifest, ticket, hold, progress) => completed?,
            () = replaced.wait() => return Err(TransferError::Ticket(
                "the same node has begun the same transfer again; the newer attempt goes on",
            )),
        };
        Ok((completed, ticket))
    }

    /// Takes in what is offered. Dropping the future leaves what has arrived for the next attempt, and
    /// `hold` is let go when the last write is done.
    async fn take(
        &self,
        session: &Session,
        control: &Stream,
        manifest: Manifest,
        ticket: Option<Digest>,
        hold: Hold,
        progress: &Progress,
    ) -> Result<Completed, TransferError> {
        let name = manifest.name.clone();
        let (directory, sender) = (self.directory.clone(), session.peer());
        let opening = tokio::task::spawn_blocking(move || {
            let area = Area::open(&directory, sender, manifest)?;
            if let Some(ticket) = ticket {
                area.note(ticket, sender)?;
            }
            let have = have_all(&area)?;
            Ok::<_, TransferError>((area, have, hold))
        });
        let (area, have, hold) = opening.await.expect("opening files does not panic")?;
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
            tokio::task::spawn_blocking(move || {
                let _hold = hold;
                write_all(area, have, queue, &progress)
            })
        };
        let pumped = pump(&data, records).await;
        let written = writing.await.expect("writing files does not panic");
        let (path, files, bytes, blake3) = match written {
            Err(TransferError::Protocol(_)) if pumped.is_err() => {
                return Err(pumped.expect_err("just seen"));
            }
            written => written?,
        };
        Ok(Completed {
            name,
            path: Some(path),
            files,
            bytes,
            blake3,
        })
    }

    /// Whether this node may send, by its ticket or by its name.
    fn admit(&self, peer: NodeId, secret: &str) -> Result<Option<Digest>, TransferError> {
        if !secret.is_empty() {
            return self.tickets.take(secret, peer).map(Some);
        }
        if !self.trusted.contains(&peer) {
            return Err(TransferError::Ticket(
                "this node takes transfers from listed nodes and from holders of a ticket only",
            ));
        }
        Ok(None)
    }
}

/// The next stream that is not the overlay's, which must have this label.
async fn accept(session: &Session, label: &str) -> Result<Stream, TransferError> {
    let own = session.accept_stream_where(|spec| !spec.label.starts_with(LABELS));
    let stream = own.await?;
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
