//! Sender of a transfer.

use std::{io::Read, path::PathBuf, sync::Arc, time::Duration};

use anabranch_net::StreamFailure;
use anabranch_session::{Order, Priority, StreamSpec};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    answers::{answers, proceed},
    barrier::Count,
    control::{read_message, send_message},
    error::TransferError,
    exclude::Exclude,
    manifest::Manifest,
    message::{CONTROL_LABEL, DATA_LABEL, Entry, REVISION, Record, Reply, Request},
    names::path_fault,
    offer::{is_brief, offer},
    pace::Pace,
    probing::probe_while_waiting,
    progress::Progress,
    reading::{CHUNK_BYTES, Origins, Reading},
    receive::Completed,
    redial::Manner,
    selection::{LeftOut, Selection},
    source::Found,
    update::Plan,
};
use crate::{
    api::{AduSession, AduStream},
    ticket::Secret,
};

/// Chunks read ahead of the network.
const READ_AHEAD: usize = 8;

/// Time to wait for the receiver's acknowledgement of the final message.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);
/// Source of a transfer.
#[derive(Debug)]
pub enum Source {
    /// A file or directory.
    Path(PathBuf),
    /// A file or directory under another name, or without some of its paths.
    Selection(Selection),
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
    let manner = Manner {
        data: data.clone(),
        ..Manner::default()
    };
    send_in(session, secret, source, &manner, progress, observe).await
}

/// [`send_observed`], in this manner; once, without retries.
///
/// # Errors
/// As [`send_as`].
pub async fn send_in<S: AduSession>(
    session: &S,
    secret: Option<Secret>,
    source: Source,
    manner: &Manner,
    progress: &Progress,
    observe: impl FnOnce(&S::Stream) + Send,
) -> Result<Completed, TransferError>
where
    TransferError: From<S::Error>,
{
    tokio::select! {
        result = send_once(session, secret, source, manner, progress, observe) => result,
        () = probe_while_waiting(session, progress) => unreachable!("it probes until it is dropped"),
    }
}

async fn send_once<S: AduSession>(
    session: &S,
    secret: Option<Secret>,
    source: Source,
    manner: &Manner,
    progress: &Progress,
    observe: impl FnOnce(&S::Stream) + Send,
) -> Result<Completed, TransferError>
where
    TransferError: From<S::Error>,
{
    let data = &manner.data;
    if !data.reliable || data.order != Order::Ordered || data.lifetime.is_some() {
        return Err(TransferError::Lossy);
    }
    let selection = match source {
        Source::Path(path) => Ok(Selection::new(path)),
        Source::Selection(selection) => Ok(selection),
        Source::Reader { name, reader } => Err((name, reader)),
    };
    let exclude = match &selection {
        Ok(selection) => selection.exclude.clone(),
        Err(_) if manner.update.is_some() => return Err(TransferError::Incomparable),
        Err(_) => Exclude::default(),
    };
    let (mut manifest, origins, mut left_out) = match selection {
        Ok(selection) => {
            let read = tokio::task::spawn_blocking(move || Found::read(&selection));
            let found = read.await.expect("reading a directory does not panic")?;
            (
                found.manifest,
                Origins::Paths(found.origins),
                found.left_out,
            )
        }
        Err((name, reader)) => {
            if let Some(reason) = path_fault(&name) {
                let path = name.into();
                return Err(TransferError::Unsendable { path, reason });
            }
            let manifest = Manifest::stream(&name);
            (manifest, Origins::Reader(reader), LeftOut::default())
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
    greet(&control, secret, manner.more)
        .await
        .map_err(not_taken)?;
    let waits = (is_stranger && !is_brief(&manifest))
        || !manifest.links.is_empty()
        || manner.update.is_some();
    let revision = if waits {
        let revision = welcome(&control, manner.answer_within).await?;
        if revision < 2 && manner.update.is_some() {
            return Err(TransferError::NoUpdates);
        }
        if revision < 1 {
            for link in std::mem::take(&mut manifest.links) {
                left_out.add(link.path, "the receiver's version takes no symbolic links");
            }
        }
        offer(&control, &manifest, manner.update).await?;
        revision
    } else {
        // The offer follows without waiting for the welcome, which saves a round trip.
        let offered = offer(&control, &manifest, None).await;
        // A refusal explains an offer that was not read.
        let revision = welcome(&control, manner.answer_within).await?;
        offered?;
        revision
    };
    let manifest = Arc::new(manifest);
    let answers = answers(&control, &manifest, origins, manner.update, progress).await?;
    let (known, origins) = (answers.known, answers.origins);
    let mut changes = None;
    if let Some(update) = manner.update {
        let (present, extras) = (&answers.present, &answers.extras);
        let plan = Plan::new(&manifest, &known, present, extras, &exclude, &left_out)?;
        if update.dry_run {
            leave(&control).await;
            return Ok(Completed {
                left_out,
                changes: Some(plan.changes),
                ..Completed::of(&manifest)
            });
        }
        proceed(&control, &plan).await?;
        changes = Some(plan.changes);
    }

    let data = session.open_stream(StreamSpec {
        label: DATA_LABEL.to_owned(),
        duplex: false,
        ..data.clone()
    });
    let data = data.await?;
    observe(&data);
    let (records, queue) = mpsc::channel(READ_AHEAD);
    let pace = manner.limit.map(Pace::new);
    let chunk_bytes = pace.as_ref().map_or(CHUNK_BYTES, Pace::step_bytes);
    let reading = {
        let (manifest, progress) = (manifest.clone(), progress.clone());
        tokio::task::spawn_blocking(move || {
            let reading = Reading {
                manifest: &manifest,
                known: &known,
                records: &records,
                revision,
                chunk_bytes,
            };
            reading.all(origins, &progress)
        })
    };
    let pumping = async {
        let pumped = pump(&data, queue, &manifest.entries, progress, pace).await;
        // A read failure explains a queue that ended early.
        reading.await.expect("reading files does not panic")?;
        pumped?;
        data.finish()?;
        Ok::<_, TransferError>(())
    };
    let answer = answer(&control, progress);
    tokio::pin!(pumping, answer);
    let reply = tokio::select! {
        // Before the end, the receiver sends such a message only if it has failed.
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
            progress.durable_in_all(Count { files, bytes });
            // Our end of the stream confirms to the receiver that this was read, so that it can forget the transfer.
            leave(&control).await;
            Ok(Completed {
                files,
                bytes,
                left_out,
                changes,
                ..Completed::of(&manifest)
            })
        }
        Reply::Failed { reason } => Err(TransferError::Failed(reason)),
        Reply::Refused { reason } => Err(TransferError::Refused(reason)),
        _ => Err(TransferError::Protocol(
            "neither success nor failure at the end",
        )),
    }
}

/// Ends the control stream. The transfer is over whether or not the receiver gets to know it.
async fn leave<S: AduStream>(control: &S) {
    let _ = tokio::time::timeout(FAREWELL_TIMEOUT, async {
        control.finish()?;
        control.delivered().await
    })
    .await;
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

async fn greet<S: AduStream>(
    control: &S,
    secret: Option<Secret>,
    more: u32,
) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    let secret = secret.map(|secret| anabranch_base::ids::encode_base32(&secret.0));
    let hello = Request::Hello {
        secret: secret.unwrap_or_default(),
        revision: REVISION,
        more,
    };
    send_message(control, &hello).await
}

/// Waits for the welcome; returns the revision of the receiver.
async fn welcome<S: AduStream>(control: &S, within: Duration) -> Result<u32, TransferError>
where
    TransferError: From<S::Error>,
{
    let reply = tokio::time::timeout(within, read_message(control)).await;
    let reply = reply.map_err(|_| TransferError::Unanswered(within))?;
    match reply.map_err(not_taken)? {
        Reply::Welcome { revision } => Ok(revision),
        Reply::Refused { reason } => Err(TransferError::Refused(reason)),
        _ => Err(TransferError::Protocol("no welcome")),
    }
}

/// The message with which the receiver ends the transfer. What it reports before as durable is counted.
async fn answer<S: AduStream>(control: &S, progress: &Progress) -> Result<Reply, TransferError>
where
    TransferError: From<S::Error>,
{
    loop {
        match read_message(control).await? {
            Reply::Durable { files, bytes } => progress.durable_in_all(Count { files, bytes }),
            reply => return Ok(reply),
        }
    }
}

async fn pump<S: AduStream>(
    data: &S,
    mut queue: mpsc::Receiver<Bytes>,
    entries: &[Entry],
    progress: &Progress,
    mut pace: Option<Pace>,
) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    while let Some(record) = queue.recv().await {
        let reach = Record::reach(&record);
        let record_bytes = record.len();
        data.send(record).await?;
        if let Some(pace) = &mut pace {
            pace.sent(record_bytes).await;
        }
        if let Some((index, end, bytes)) = reach {
            progress.moved(bytes);
            if let Some(entry) = entries.get(index as usize) {
                progress.in_file(entry, end);
            }
        }
    }
    Ok(())
}
