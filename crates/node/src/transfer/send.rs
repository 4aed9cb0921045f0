//! Sender of a transfer.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_net::StreamFailure;
use anabranch_session::{Order, Priority, StreamSpec};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    area::hash_prefix,
    error::TransferError,
    manifest::Manifest,
    message::{
        CHUNK_HEADER_BYTES, CONTROL_LABEL, DATA_LABEL, ENTRIES_PER_MESSAGE, Entry,
        PATHS_PER_MESSAGE_BYTES, Record, Reply, Request,
    },
    names::path_fault,
    progress::Progress,
    receive::{Completed, read_message, send_message},
    source::Origin,
};
use crate::{
    api::{AduSession, AduStream},
    ticket::Secret,
};

/// Bytes of one chunk: large enough that the cost per ADU is negligible, small enough that losing one in an interruption is
/// cheap.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks read ahead of the network.
const READ_AHEAD: usize = 8;

/// Time to wait for the receiver's acknowledgement of the final message.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit on the bytes of entries in an offer that follows the greeting of an unknown node at once.
const BRIEF_BYTES: usize = 1024;
/// Approximate bytes of an entry in addition to its path.
const ENTRY_BYTES: usize = 64;

/// Source of a transfer.
#[derive(Debug)]
pub enum Source {
    /// A file or directory.
    Path(PathBuf),
    /// The output of a reader until its end, under this name. Cannot be resumed.
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

/// The part of one entry that the receiver has, just read from its disk.
#[derive(Clone, Copy, Debug)]
struct Known {
    bytes: u64,
    hash: blake3::Hash,
}

/// Sends over an open session; returns once the receiver has everything under its final name.
///
/// # Errors
/// The source cannot be read, the receiver refuses or fails, or the session ends.
pub async fn send<S: AduSession>(
    session: &S,
    secret: Option<Secret>,
    source: Source,
    progress: &Progress,
) -> Result<Completed, TransferError>
where
    TransferError: From<S::Error>,
{
    send_as(session, secret, source, &StreamSpec::bulk(""), progress).await
}

/// [`send`], with another spec for the stream that carries the data: its priority, path preferences and guarantee, for example. Its
/// label is [`DATA_LABEL`] whatever the spec states. `Session::explain` reports the performance of a guarantee while the stream is
/// open.
///
/// # Errors
/// As [`send`]; the spec loses or reorders data; its guarantee is refused and does not wait.
pub async fn send_as<S: AduSession>(
    session: &S,
    secret: Option<Secret>,
    source: Source,
    data: &StreamSpec,
    progress: &Progress,
) -> Result<Completed, TransferError>
where
    TransferError: From<S::Error>,
{
    send_observed(session, secret, source, data, progress, |_| {}).await
}

/// [`send_as`], with a call when the stream that carries the data is open: its clones report its promise, for example. They should
/// be dropped when the transfer ends.
///
/// # Errors
/// As [`send_as`].
pub async fn send_observed<S: AduSession>(
    session: &S,
    secret: Option<Secret>,
    source: Source,
    data: &StreamSpec,
    progress: &Progress,
    observe: impl FnOnce(&S::Stream) + Send,
) -> Result<Completed, TransferError>
where
    TransferError: From<S::Error>,
{
    if !data.reliable || data.order != Order::Ordered || data.lifetime.is_some() {
        return Err(TransferError::Lossy);
    }
    let (manifest, origins) = match source {
        Source::Path(path) => {
            let read = tokio::task::spawn_blocking(move || Manifest::read(&path));
            let (manifest, paths) = read.await.expect("reading a directory does not panic")?;
            (manifest, Origins::Paths(paths))
        }
        Source::Reader { name, reader } => {
            if let Some(reason) = path_fault(&name) {
                let path = name.into();
                return Err(TransferError::Unsendable { path, reason });
            }
            (Manifest::stream(&name), Origins::Reader(reader))
        }
    };
    progress.begin(&manifest.name, manifest.bytes(), manifest.files());
    let control = session.open_stream(StreamSpec {
        duplex: true,
        priority: Priority::NORMAL,
        order: Order::Ordered,
        label: CONTROL_LABEL.to_owned(),
        ..StreamSpec::default()
    });
    let control = control.await?;
    let is_stranger = secret.is_some();
    greet(&control, secret).await.map_err(not_taken)?;
    if is_stranger && !is_brief(&manifest) {
        welcome(&control).await.map_err(not_taken)?;
        offer(&control, &manifest).await?;
    } else {
        // The offer follows without waiting for the welcome, which saves a round trip.
        let offered = offer(&control, &manifest).await;
        // A refusal explains an offer that was not read.
        welcome(&control).await.map_err(not_taken)?;
        offered?;
    }
    let known = known(&control, manifest.entries.len()).await?;

    let data = session.open_stream(StreamSpec {
        label: DATA_LABEL.to_owned(),
        duplex: false,
        ..data.clone()
    });
    let data = data.await?;
    observe(&data);
    let (records, queue) = mpsc::channel(READ_AHEAD);
    let reading = {
        let (manifest, progress) = (manifest.clone(), progress.clone());
        tokio::task::spawn_blocking(move || {
            read_all(&manifest, origins, &known, &records, &progress)
        })
    };
    let pumping = async {
        let pumped = pump(&data, queue, &manifest.entries, progress).await;
        // A read failure explains a queue that ended early.
        reading.await.expect("reading files does not panic")?;
        pumped?;
        data.finish()?;
        Ok::<_, TransferError>(())
    };
    let answer = read_message::<Reply, _>(&control);
    tokio::pin!(pumping, answer);
    let reply = tokio::select! {
        // Before the end, the receiver sends a message only if it has failed.
        reply = &mut answer => reply?,
        pumped = &mut pumping => match pumped {
            Ok(()) => answer.await?,
            // The receiver stops the stream and reports the reason.
            Err(failure) if failure.is_interruption() => match answer.await {
                Ok(reply) => reply,
                Err(_) => return Err(failure),
            },
            Err(error) => return Err(error),
        },
    };
    match reply {
        Reply::Done { files, bytes } => {
            progress.verified();
            // Our end of the stream confirms to the receiver that this was read, so that it can forget the transfer. The
            // transfer is complete with or without it.
            let _ = tokio::time::timeout(FAREWELL_TIMEOUT, async {
                control.finish()?;
                control.delivered().await
            })
            .await;
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

/// The meaning of a failure before the welcome: a stream that is refused, and not cut off, was not wanted.
fn not_taken(failure: TransferError) -> TransferError {
    match failure {
        TransferError::Interrupted(StreamFailure::Reset(_) | StreamFailure::Stopped(_)) => {
            TransferError::NotTaken
        }
        other => other,
    }
}

async fn greet<S: AduStream>(control: &S, secret: Option<Secret>) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    let secret = secret.map(|secret| anabranch_base::ids::encode_base32(&secret.0));
    let hello = Request::Hello {
        secret: secret.unwrap_or_default(),
    };
    send_message(control, &hello).await
}

async fn welcome<S: AduStream>(control: &S) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    match read_message(control).await? {
        Reply::Welcome => Ok(()),
        Reply::Refused { reason } => Err(TransferError::Refused(reason)),
        _ => Err(TransferError::Protocol("no welcome")),
    }
}

/// Offers the manifest.
async fn offer<S: AduStream>(control: &S, manifest: &Manifest) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    let offer = Request::Offer {
        kind: manifest.kind,
        name: manifest.name.clone(),
        entries: manifest.entries.len() as u64,
    };
    send_message(control, &offer).await?;
    let mut rest = &manifest.entries[..];
    while !rest.is_empty() {
        let (list, after) = rest.split_at(batch(rest));
        let list = list.to_vec();
        send_message(control, &Request::Entries { list }).await?;
        rest = after;
    }
    send_message(control, &Request::OfferEnd).await
}

/// True if the offer is small enough to follow the greeting at once. The session of an unknown node is on probation until the
/// ticket was read: beyond a few packets, the rest would be dropped and sent again after a time-out.
fn is_brief(manifest: &Manifest) -> bool {
    let entry = |entry: &Entry| entry.path.len() + ENTRY_BYTES;
    let mut entries = manifest.entries.iter().map(entry);
    let bytes = entries.try_fold(0, |sum, more| {
        let sum = sum + more;
        (sum <= BRIEF_BYTES).then_some(sum)
    });
    bytes.is_some()
}

/// Number of the entries that go into the next message; at least one.
fn batch(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    let fitting = entries
        .iter()
        .take(ENTRIES_PER_MESSAGE)
        .take_while(|entry| {
            bytes += entry.path.len();
            bytes <= PATHS_PER_MESSAGE_BYTES
        });
    fitting.count().max(1)
}

/// The part of each of the `entries` that the receiver has.
async fn known<S: AduStream>(
    control: &S,
    entries: usize,
) -> Result<Vec<Option<Known>>, TransferError>
where
    TransferError: From<S::Error>,
{
    let mut known = vec![None; entries];
    loop {
        match read_message(control).await? {
            Reply::Have { index, bytes, hash } => {
                let entry = known.get_mut(index as usize);
                let entry = entry.ok_or(TransferError::Protocol("an unknown entry"))?;
                let hash = blake3::Hash::from_hex(hash);
                let hash = hash.map_err(|_| TransferError::Protocol("not a hash"))?;
                if entry.replace(Known { bytes, hash }).is_some() {
                    return Err(TransferError::Protocol("an entry reported twice"));
                }
            }
            Reply::Go => return Ok(known),
            Reply::Refused { reason } => return Err(TransferError::Refused(reason)),
            Reply::Failed { reason } => return Err(TransferError::Failed(reason)),
            _ => return Err(TransferError::Protocol("neither acceptance nor refusal")),
        }
    }
}

async fn pump<S: AduStream>(
    data: &S,
    mut queue: mpsc::Receiver<Bytes>,
    entries: &[Entry],
    progress: &Progress,
) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    while let Some(record) = queue.recv().await {
        let reach = Record::reach(&record);
        let bytes = record.len().saturating_sub(CHUNK_HEADER_BYTES);
        data.send(record).await?;
        if let Some((index, end)) = reach {
            progress.moved(bytes as u64);
            if let Some(entry) = entries.get(index as usize) {
                progress.in_file(entry, end);
            }
        }
    }
    Ok(())
}

enum Origins {
    Paths(Vec<Origin>),
    Reader(Box<dyn ReadSend>),
}

/// Turns everything into records, on a thread of its own. Ends quietly once no consumer takes them.
fn read_all(
    manifest: &Manifest,
    origins: Origins,
    known: &[Option<Known>],
    records: &mpsc::Sender<Bytes>,
    progress: &Progress,
) -> Result<(), TransferError> {
    match origins {
        Origins::Reader(mut reader) => {
            let path = Path::new(&manifest.name);
            let start = (0, blake3::Hasher::new());
            let mut chunks = Chunks {
                index: 0,
                path,
                records,
            };
            let Some((size, hash)) = chunks.read(&mut reader, start, None)? else {
                return Ok(());
            };
            if !chunks.end(size, hash) {
                return Ok(());
            }
            progress.file_done();
        }
        Origins::Paths(origins) => {
            for (index, (entry, origin)) in manifest.entries.iter().zip(&origins).enumerate() {
                let Some(size) = entry.size_bytes.filter(|_| !entry.is_directory) else {
                    continue;
                };
                let mut file = origin.open()?;
                let path = origin.path();
                let start = resume(&mut file, known[index]).map_err(TransferError::read(path))?;
                progress.resumed(start.0);
                let index = index as u32;
                let mut chunks = Chunks {
                    index,
                    path,
                    records,
                };
                let Some((read, hash)) = chunks.read(&mut file, start, Some(size))? else {
                    return Ok(());
                };
                if read != size {
                    return Err(origin.changed());
                }
                // The receiver confirms what was read, which must still be the content of the file.
                origin.check(&file)?;
                if !chunks.end(size, hash) {
                    return Ok(());
                }
                progress.file_done();
            }
        }
    }
    let _ = records.blocking_send(Record::End.encode());
    Ok(())
}

/// Position at which to start: after the part that the receiver has, if it matches the file. If the receiver has the whole
/// file, all of it is read and compared.
fn resume(file: &mut File, known: Option<Known>) -> std::io::Result<(u64, blake3::Hasher)> {
    let mut hasher = blake3::Hasher::new();
    if let Some(known) = known.filter(|known| known.bytes > 0) {
        let read = hash_prefix(file, known.bytes, &mut hasher)?;
        if read == known.bytes && hasher.finalize() == known.hash {
            return Ok((read, hasher));
        }
        file.seek(SeekFrom::Start(0))?;
        hasher.reset();
    }
    Ok((0, hasher))
}

/// The records of one file.
struct Chunks<'a> {
    index: u32,
    path: &'a Path,
    records: &'a mpsc::Sender<Bytes>,
}

impl Chunks<'_> {
    /// Reads from the current position to the end, or to one byte after `size`. Returns bytes and hash of the whole file;
    /// `None` once no consumer takes the records.
    fn read(
        &mut self,
        reader: &mut dyn Read,
        (mut offset, mut hasher): (u64, blake3::Hasher),
        size: Option<u64>,
    ) -> Result<Option<(u64, blake3::Hash)>, TransferError> {
        loop {
            let mut record = Vec::with_capacity(CHUNK_HEADER_BYTES + CHUNK_BYTES);
            Record::begin_chunk(&mut record, self.index, offset);
            let count = (&mut *reader)
                .take(CHUNK_BYTES as u64)
                .read_to_end(&mut record)
                .map_err(TransferError::read(self.path))?;
            hasher.update(&record[CHUNK_HEADER_BYTES..]);
            offset += count as u64;
            // A file that grows differs from the one offered.
            let is_longer = size.is_some_and(|size| offset > size);
            if count == 0 || is_longer {
                return Ok(Some((offset, hasher.finalize())));
            }
            if self.records.blocking_send(record.into()).is_err() {
                return Ok(None);
            }
        }
    }

    /// Sends size and hash of the file; false if there is no consumer.
    fn end(&self, size: u64, hash: blake3::Hash) -> bool {
        let end = Record::FileEnd {
            index: self.index,
            size,
            hash: *hash.as_bytes(),
        };
        self.records.blocking_send(end.encode()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    /// Changed while it is read, with the same size, and with the old time restored.
    #[test]
    fn a_source_that_changes_while_it_is_read_is_named_and_not_confirmed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, vec![1; 20 * CHUNK_BYTES]).unwrap();
        let (manifest, origins) = Manifest::read(&path).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let (records, mut queue) = mpsc::channel(2);
        let reading = std::thread::spawn(move || {
            let origins = Origins::Paths(origins);
            read_all(&manifest, origins, &[None], &records, &Progress::default())
        });
        queue.blocking_recv().unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::End(-1)).unwrap();
        file.write_all(&[2]).unwrap();
        file.set_modified(modified).unwrap();
        while let Some(record) = queue.blocking_recv() {
            assert_eq!(record[0], 0, "no record of the file's end");
        }
        let error = reading.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("log changed"), "{error}");
    }

    #[test]
    fn a_source_that_grows_without_end_is_not_read_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, vec![1; CHUNK_BYTES]).unwrap();
        let (records, mut queue) = mpsc::channel(100);
        let mut chunks = Chunks {
            index: 0,
            path: &path,
            records: &records,
        };
        let start = (0, blake3::Hasher::new());
        let read = chunks.read(&mut std::io::repeat(1), start, Some(10));
        assert!(read.unwrap().unwrap().0 > 10);
        assert!(queue.try_recv().is_err());
    }

    /// The longest possible paths, of characters that take two bytes in JSON.
    #[test]
    fn no_message_of_an_offer_is_too_long_to_be_read() {
        let entry = |bytes: usize| Entry {
            path: "\"".repeat(bytes),
            is_directory: false,
            size_bytes: Some(u64::MAX),
            modified_ns: u64::MAX,
            is_executable: true,
        };
        for (bytes, number) in [(4096, 1), (4096, 20), (10, 2_000), (100_000, 2)] {
            let entries = vec![entry(bytes); number];
            let list = entries[..batch(&entries)].to_vec();
            let message = super::super::message::encode(&Request::Entries { list });
            assert!(message.len() <= super::super::message::MESSAGE_BYTES_MAX);
        }
    }
}
