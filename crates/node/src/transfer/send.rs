//! The sending side.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

use anabranch_net::{Session, Stream};
use anabranch_session::{Guarantee, Order, Priority, StreamSpec};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    area::hash_prefix,
    error::TransferError,
    manifest::Manifest,
    message::{
        CHUNK_HEADER_BYTES, CONTROL_LABEL, DATA_LABEL, ENTRIES_PER_MESSAGE, Record, Reply, Request,
    },
    progress::Progress,
    receive::{Completed, hear, say},
};
use crate::ticket::Secret;

/// Bytes of one chunk: large enough that the cost per ADU vanishes, small enough to be lost cheaply on
/// an interruption.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks read ahead of the network.
const READ_AHEAD: usize = 8;

/// What to send.
#[derive(Debug)]
pub enum Source {
    /// A file or directory.
    Path(PathBuf),
    /// What a reader gives until its end, under this name. Cannot be resumed.
    Reader {
        /// Name at the receiver.
        name: String,
        /// Read on a thread of its own.
        reader: Box<dyn ReadSend>,
    },
}

/// Anything that can be read on another thread.
pub trait ReadSend: Read + Send + std::fmt::Debug {}
impl<T: Read + Send + std::fmt::Debug> ReadSend for T {}

/// What the receiver has of one entry.
#[derive(Clone, Debug, Default)]
struct Known {
    bytes: u64,
    hash: String,
    is_complete: bool,
}

/// Sends over an open session; returns when the receiver has everything under its final name.
///
/// # Errors
/// The source cannot be read, the receiver refuses or fails, or the session ends.
pub async fn send(
    session: &Session,
    secret: Option<Secret>,
    source: Source,
    progress: &Progress,
) -> Result<Completed, TransferError> {
    send_promised(session, secret, source, None, progress).await
}

/// [`send`], with what is to be promised to the stream that carries the data, labelled
/// [`DATA_LABEL`]. `Session::explain` tells how it fares while it is open.
///
/// # Errors
/// As [`send`]; the guarantee is refused and does not wait.
pub async fn send_promised(
    session: &Session,
    secret: Option<Secret>,
    source: Source,
    guarantee: Option<Guarantee>,
    progress: &Progress,
) -> Result<Completed, TransferError> {
    let (manifest, origins) = match source {
        Source::Path(path) => {
            let read = tokio::task::spawn_blocking(move || Manifest::read(&path));
            let (manifest, paths) = read.await.expect("reading a directory does not panic")?;
            (manifest, Origins::Paths(paths))
        }
        Source::Reader { name, reader } => (Manifest::stream(&name), Origins::Reader(reader)),
    };
    progress.begin(&manifest.name, manifest.bytes(), manifest.files());
    let control = session.open_stream(StreamSpec {
        duplex: true,
        priority: Priority::NORMAL,
        order: Order::Ordered,
        label: CONTROL_LABEL.to_owned(),
        ..StreamSpec::default()
    })?;
    greet(&control, secret).await?;
    // The offer follows without waiting for the welcome: that saves a round trip.
    let offered = offer(&control, &manifest).await;
    // A refusal explains an offer that nobody takes.
    welcome(&control).await?;
    offered?;
    let known = known(&control, manifest.entries.len()).await?;

    let data = session.open_stream(StreamSpec {
        guarantee: guarantee.map(Box::new),
        ..StreamSpec::bulk(DATA_LABEL)
    })?;
    let (records, queue) = mpsc::channel(READ_AHEAD);
    let reading = {
        let (manifest, progress) = (manifest.clone(), progress.clone());
        tokio::task::spawn_blocking(move || {
            read_all(&manifest, origins, &known, &records, &progress)
        })
    };
    let pumping = async {
        let pumped = pump(&data, queue, progress).await;
        // A failure to read explains a queue that ended early.
        reading.await.expect("reading files does not panic")?;
        pumped?;
        data.finish()?;
        Ok::<_, TransferError>(())
    };
    let answer = hear::<Reply>(&control);
    tokio::pin!(pumping, answer);
    let reply = tokio::select! {
        // The receiver speaks before the end only to say that it failed.
        reply = &mut answer => reply?,
        pumped = &mut pumping => match pumped {
            Ok(()) => answer.await?,
            // The receiver stops the stream and says why.
            Err(TransferError::Interrupted(failure)) => match answer.await {
                Ok(reply) => reply,
                Err(_) => return Err(TransferError::Interrupted(failure)),
            },
            Err(error) => return Err(error),
        },
    };
    match reply {
        Reply::Done { files, bytes } => {
            control.finish()?;
            Ok(Completed {
                name: manifest.name,
                path: None,
                files,
                bytes,
                blake3: None,
            })
        }
        Reply::Failed { reason } => Err(TransferError::Failed(reason)),
        Reply::Refused { reason } => Err(TransferError::Refused(reason)),
        _ => Err(TransferError::Protocol(
            "neither success nor failure at the end",
        )),
    }
}

async fn greet(control: &Stream, secret: Option<Secret>) -> Result<(), TransferError> {
    let secret = secret.map(|secret| anabranch_base::ids::encode_base32(&secret.0));
    let hello = Request::Hello {
        secret: secret.unwrap_or_default(),
    };
    say(control, &hello).await
}

async fn welcome(control: &Stream) -> Result<(), TransferError> {
    match hear(control).await? {
        Reply::Welcome => Ok(()),
        Reply::Refused { reason } => Err(TransferError::Refused(reason)),
        _ => Err(TransferError::Protocol("no welcome")),
    }
}

/// Offers the manifest.
async fn offer(control: &Stream, manifest: &Manifest) -> Result<(), TransferError> {
    let offer = Request::Offer {
        kind: manifest.kind,
        name: manifest.name.clone(),
        entries: manifest.entries.len() as u64,
    };
    say(control, &offer).await?;
    for list in manifest.entries.chunks(ENTRIES_PER_MESSAGE) {
        let list = list.to_vec();
        say(control, &Request::Entries { list }).await?;
    }
    say(control, &Request::OfferEnd).await
}

/// What the receiver has of each of the `entries`.
async fn known(control: &Stream, entries: usize) -> Result<Vec<Known>, TransferError> {
    let mut known = vec![Known::default(); entries];
    loop {
        match hear(control).await? {
            Reply::Have {
                index,
                bytes,
                hash,
                is_complete,
            } => {
                let entry = known.get_mut(index as usize);
                let entry = entry.ok_or(TransferError::Protocol("an unknown entry"))?;
                *entry = Known {
                    bytes,
                    hash,
                    is_complete,
                };
            }
            Reply::Go => return Ok(known),
            Reply::Refused { reason } => return Err(TransferError::Refused(reason)),
            Reply::Failed { reason } => return Err(TransferError::Failed(reason)),
            _ => return Err(TransferError::Protocol("neither go nor no")),
        }
    }
}

async fn pump(
    data: &Stream,
    mut queue: mpsc::Receiver<Bytes>,
    progress: &Progress,
) -> Result<(), TransferError> {
    while let Some(record) = queue.recv().await {
        let bytes = match record[0] {
            0 => record.len() - CHUNK_HEADER_BYTES,
            _ => 0,
        };
        data.send(record).await?;
        progress.moved(bytes as u64);
    }
    Ok(())
}

enum Origins {
    Paths(Vec<PathBuf>),
    Reader(Box<dyn ReadSend>),
}

/// On a thread of its own: turns everything into records. Ends quietly when nobody takes them.
fn read_all(
    manifest: &Manifest,
    origins: Origins,
    known: &[Known],
    records: &mpsc::Sender<Bytes>,
    progress: &Progress,
) -> Result<(), TransferError> {
    match origins {
        Origins::Reader(mut reader) => {
            let name = PathBuf::from(&manifest.name);
            let start = (0, blake3::Hasher::new());
            if read_file(0, &mut reader, start, &name, records)?.is_none() {
                return Ok(());
            }
            progress.file_done();
        }
        Origins::Paths(paths) => {
            for (index, (entry, path)) in manifest.entries.iter().zip(&paths).enumerate() {
                let Some(size) = entry.size_bytes.filter(|_| !entry.is_directory) else {
                    continue;
                };
                let known = &known[index];
                if known.is_complete {
                    progress.resumed(size);
                    progress.file_done();
                    continue;
                }
                let mut file = File::open(path).map_err(TransferError::read(path))?;
                let start = resume(&mut file, known).map_err(TransferError::read(path))?;
                progress.resumed(start.0);
                match read_file(index as u32, &mut file, start, path, records)? {
                    None => return Ok(()),
                    Some(read) if read != size => {
                        return Err(TransferError::Changed { path: path.clone() });
                    }
                    Some(_) => progress.file_done(),
                }
            }
        }
    }
    let _ = records.blocking_send(Record::End.encode());
    Ok(())
}

/// Where to begin: after what the receiver has, if that is what is here.
fn resume(file: &mut File, known: &Known) -> std::io::Result<(u64, blake3::Hasher)> {
    let mut hasher = blake3::Hasher::new();
    if known.bytes > 0 {
        let read = hash_prefix(file, known.bytes, &mut hasher)?;
        if read == known.bytes && hasher.finalize().to_hex().as_str() == known.hash {
            return Ok((read, hasher));
        }
        file.seek(SeekFrom::Start(0))?;
        hasher.reset();
    }
    Ok((0, hasher))
}

/// Bytes of the whole file; `None` when nobody takes the records any more.
fn read_file(
    index: u32,
    reader: &mut dyn Read,
    (mut offset, mut hasher): (u64, blake3::Hasher),
    path: &std::path::Path,
    records: &mpsc::Sender<Bytes>,
) -> Result<Option<u64>, TransferError> {
    loop {
        let mut record = Vec::with_capacity(CHUNK_HEADER_BYTES + CHUNK_BYTES);
        Record::begin_chunk(&mut record, index, offset);
        let count = (&mut *reader)
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut record)
            .map_err(TransferError::read(path))?;
        if count == 0 {
            break;
        }
        hasher.update(&record[CHUNK_HEADER_BYTES..]);
        offset += count as u64;
        if records.blocking_send(record.into()).is_err() {
            return Ok(None);
        }
    }
    let end = Record::FileEnd {
        index,
        size: offset,
        hash: *hasher.finalize().as_bytes(),
    };
    if records.blocking_send(end.encode()).is_err() {
        return Ok(None);
    }
    Ok(Some(offset))
}
