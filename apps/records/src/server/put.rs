//! Sets that clients send: written beside the others, and served when they are complete.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anabranch::{
    base::{
        NodeId,
        text::{REASON_CHARS, printable},
    },
    net::limited,
};
use bytes::BytesMut;
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{End, Inbox, Server, lock, refused};
use crate::{
    error::RecordsError,
    shelf::{Text, is_set_name},
    sink::{Selection, Sink},
    wire::{Digest, Format, Kind, Notice, Request, WireError, decode, encode, from_json},
    writer::{Input, Writer},
};

/// Sets that are taken at a time.
const PUTS_MAX: usize = 32;
/// Sets of one peer that are taken at a time.
const PUTS_OF_PEER_MAX: usize = 4;
/// Longest manifest of a set that is taken.
const TEXT_BYTES_MAX: u64 = 64 << 20;
/// Items in one message.
const ITEMS_MAX: usize = 500;
/// Interval between two times at which what arrived is made durable.
const DURABLE_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// A set that is being taken.
#[derive(Clone, Debug)]
pub(super) struct Taking {
    peer: NodeId,
    digest: Digest,
    input: mpsc::Sender<Input>,
}

/// Registration of a set that is being taken.
struct Entry<'s> {
    server: &'s Server,
    set: String,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        lock(&self.server.taking).remove(&self.set);
    }
}

impl Server {
    /// Takes a set: its manifest first, and then what is lacking of it, on streams of its own.
    pub(super) async fn put(
        &self,
        peer: NodeId,
        inbox: &mut Inbox<'_>,
        set: &str,
        (bytes, format, digest): (u64, Format, Digest),
    ) -> Result<(), End> {
        let stream = inbox.stream;
        let Some(shelf) = self.accepts_sets().then_some(&self.shelf) else {
            let why = "the peer takes no sets: its `records serve` is without --accept";
            return Ok(refused(stream, why.to_owned(), false).await?);
        };
        if !is_set_name(set) {
            let why = "the name of a set that is sent has 1 to 64 bytes, does not begin with a dot and has no slash or colon";
            return Ok(refused(stream, why.to_owned(), false).await?);
        }
        if bytes > TEXT_BYTES_MAX {
            let why = format!("a manifest of {bytes} bytes is too long; 64 MiB are taken");
            return Ok(refused(stream, why, false).await?);
        }
        let text = Text::new(manifest(inbox, bytes).await?, format);
        if text.digest != digest {
            return Err(WireError("a manifest with another hash".to_owned()).into());
        }
        let opened = open(shelf, set, text).await;
        let sink = match opened {
            Ok(sink) => sink,
            Err(why) => return Ok(refused(stream, why, false).await?),
        };
        let selection = Selection::all(sink.manifest());
        let writer = Writer::start(sink, selection.components.clone(), None);
        let taking = Taking {
            peer,
            digest,
            input: writer.input.clone(),
        };
        let entered = {
            let mut all = lock(&self.taking);
            let of_peer = all.values().filter(|other| other.peer == peer).count();
            let has_room = all.len() < PUTS_MAX && of_peer < PUTS_OF_PEER_MAX;
            let is_free = has_room && !all.contains_key(set);
            if is_free {
                all.insert(set.to_owned(), taking);
            }
            is_free
        };
        if !entered {
            let why = "the set is being sent already, or too many others are; try again later";
            return Ok(refused(stream, why.to_owned(), false).await?);
        }
        let entry = Entry {
            server: self,
            set: set.to_owned(),
        };
        limited!(info, %peer, set, "a set is being taken");
        let conversing = converse(inbox, &writer, &selection);
        let conversed = conversing.await;
        drop(entry);
        let Writer { input, task, .. } = writer;
        drop(input);
        let written = task.await.unwrap_or(Err(RecordsError::Internal));
        if let Err(error) = written {
            let words = printable(&error.to_string(), REASON_CHARS);
            limited!(warn, %peer, set, error = words, "a set cannot be taken");
            let why = match error {
                RecordsError::Sink(crate::sink::SinkError::Write { source, .. }) => {
                    format!("the peer cannot write the set: {source}")
                }
                error => error.to_string(),
            };
            return Ok(refused(stream, why, false).await?);
        }
        conversed?;
        limited!(info, %peer, set, "a set was taken");
        Ok(())
    }

    /// Takes data of a set that is being taken.
    pub(super) async fn put_data(
        &self,
        peer: NodeId,
        inbox: &mut Inbox<'_>,
        set: &str,
        manifest: Digest,
    ) -> Result<(), End> {
        let taking = lock(&self.taking).get(set).cloned();
        let taking = taking.filter(|taking| (taking.peer, taking.digest) == (peer, manifest));
        let Some(taking) = taking else {
            let why = "the set is not being taken from this node".to_owned();
            return Ok(refused(inbox.stream, why, false).await?);
        };
        while let Some(adu) = inbox.any().await? {
            let input = match Kind::of(&adu)? {
                Kind::Pieces(adu) => Input::Pieces(adu),
                Kind::Message(json) => match Input::of_notice(&from_json(&json)?) {
                    Some(fault) => fault,
                    None => continue,
                },
                Kind::Chunk(_) => return Err(WireError("a chunk among data".to_owned()).into()),
            };
            if taking.input.send(input).await.is_err() {
                // The writer has failed; the first stream has the reason.
                let why = "the set cannot be written".to_owned();
                return Ok(refused(inbox.stream, why, false).await?);
            }
        }
        Ok(())
    }
}

/// Tells the client what is lacking, until nothing is.
async fn converse(
    inbox: &mut Inbox<'_>,
    writer: &Writer,
    selection: &Selection,
) -> Result<(), End> {
    let mut ticks = interval(DURABLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let settled = writer.ask(Input::Finish).await;
        let state = settled.map_err(|_| End::Reading)?;
        for ((record, component), fault) in state.faults {
            let notice = Notice::Fault {
                record,
                component,
                fault,
                version: None,
            };
            inbox.stream.send(encode(&notice)).await?;
        }
        let missing = writer.ask(|answer| Input::Missing(selection.clone(), false, answer));
        let missing = missing.await.map_err(|_| End::Reading)?;
        let mut items = missing.into_iter().peekable();
        loop {
            let some = items.by_ref().take(ITEMS_MAX).collect();
            let has_more = items.peek().is_some();
            let notice = Notice::Wanted {
                items: some,
                has_more,
            };
            inbox.stream.send(encode(&notice)).await?;
            if !has_more {
                break;
            }
        }
        loop {
            tokio::select! {
                said = inbox.next() => match said? {
                    None => return Ok(()),
                    Some(adu) => match decode(&adu)? {
                        Request::Done => break,
                        _ => return Err(WireError("another request".to_owned()).into()),
                    },
                },
                _ = ticks.tick() => {
                    if writer.input.send(Input::Tick).await.is_err() {
                        return Err(End::Reading);
                    }
                }
            }
        }
    }
}

/// Reads the text of a manifest.
async fn manifest(inbox: &mut Inbox<'_>, bytes: u64) -> Result<bytes::Bytes, End> {
    let mut text = BytesMut::new();
    while (text.len() as u64) < bytes {
        let adu = inbox.next().await?.ok_or(End::Silent)?;
        match Kind::of(&adu)? {
            Kind::Chunk(chunk) if (text.len() + chunk.len()) as u64 <= bytes => {
                text.extend_from_slice(&chunk);
            }
            _ => return Err(WireError("no chunk of a manifest".to_owned()).into()),
        }
    }
    Ok(text.freeze())
}

/// Opens the place of a set; the error is for the client.
async fn open(shelf: &Path, set: &str, text: Text) -> Result<Sink, String> {
    let (path, set) = (shelf.join(set), set.to_owned());
    let opening = spawn_blocking(move || {
        let manifest = text.parse().map_err(|error| error.to_string())?;
        if manifest.name.as_deref().is_some_and(|name| name != set) {
            return Err("the manifest has another name than the set that is sent".to_owned());
        }
        Sink::open(&path, Arc::new(manifest), &text).map_err(|error| match error {
            crate::sink::SinkError::Occupied { why, .. } => {
                format!("the peer has something of this name already: {why}")
            }
            crate::sink::SinkError::Write { source, .. } => {
                format!("the peer cannot write the set: {source}")
            }
            error => error.to_string(),
        })
    });
    opening
        .await
        .unwrap_or_else(|_| Err("the peer cannot open the set".to_owned()))
}

/// Sets that are being taken, by name.
pub(super) type AllTaken = BTreeMap<String, Taking>;
