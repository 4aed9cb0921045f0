//! The side that asks for record sets.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Records`]: the sets of a peer; requests that are answered at once |
//! | `fetch` | [`Fetch`]: a set, or a part of it, into a directory |
//! | `late` | parts of a watched set that were late |
//! | `flow` | streams with data, by layout |
//! | `verify` | comparison of a directory with the set |
//! | `put` | [`Put`]: a set that is sent to the peer |
//! | `copy` | a set that the peer sends to a third node |

mod copy;
mod fetch;
mod flow;
mod late;
mod put;
mod verify;

use anabranch::{AduSession, AduStream, Order, Priority, StreamSpec};
use bytes::{Bytes, BytesMut};

pub use copy::Copied;
pub use fetch::{Fetch, Fetched, Plan, Settled};
pub use put::{Put, Sent};
pub use verify::{Difference, Verified};

pub use crate::{error::RecordsError, writer::Up};
use crate::{
    shelf::Text,
    wire::{Kind, Label, Notice, Purpose, Request, SetEntry, decode, encode, from_json},
};

/// The record sets of a peer.
#[derive(Clone, Debug)]
pub struct Records<S> {
    session: S,
}

impl<S: AduSession> Records<S> {
    /// Those of the peer of a session.
    pub fn new(session: S) -> Self {
        Self { session }
    }

    /// The session.
    pub fn session(&self) -> &S {
        &self.session
    }

    /// Opens a stream and makes a request on it.
    pub(crate) async fn request(
        &self,
        label: &Label,
        order: Order,
        priority: Priority,
        request: &Request,
    ) -> Result<S::Stream, RecordsError> {
        let spec = StreamSpec {
            order,
            priority,
            ..StreamSpec::default()
        };
        self.request_as(label, spec, request).await
    }

    /// As [`Records::request`], with a spec, by which the peer sends, too.
    async fn request_as(
        &self,
        label: &Label,
        spec: StreamSpec,
        request: &Request,
    ) -> Result<S::Stream, RecordsError> {
        let spec = StreamSpec {
            duplex: true,
            label: label.to_string(),
            ..spec
        };
        let stream = self.session.open_stream(spec).await;
        let stream = stream.map_err(|error| RecordsError::of(&error))?;
        let sent = stream.send(encode(request)).await;
        sent.map_err(|error| RecordsError::of(&error))?;
        Ok(stream)
    }

    /// Makes a request that has one answer.
    async fn ask(&self, label: &Label, request: &Request) -> Result<Notice, RecordsError> {
        let stream = self
            .request(label, Order::Ordered, Priority::NORMAL, request)
            .await?;
        // An error shows in what is received.
        let _ = stream.finish();
        let adu = received(&stream).await?;
        let adu = adu.ok_or(RecordsError::Protocol("no answer".to_owned()))?;
        answered(decode(&adu)?)
    }

    /// The sets that the peer serves, by name.
    ///
    /// # Errors
    /// The peer does not serve sets, or not to this node; the session is over.
    pub async fn list(&self) -> Result<Vec<SetEntry>, RecordsError> {
        let label = Label::new(Purpose::List, "");
        let mut all: Vec<SetEntry> = Vec::new();
        loop {
            let after = all
                .last()
                .map_or_else(String::new, |last| last.name.clone());
            match self.ask(&label, &Request::List { after }).await? {
                Notice::Sets { sets, has_more } => {
                    let is_last = !has_more || sets.is_empty();
                    all.extend(sets);
                    if is_last {
                        return Ok(all);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// The manifest of a set.
    ///
    /// # Errors
    /// As [`Records::list`]; there is no such set.
    pub async fn manifest(&self, set: &str) -> Result<Text, RecordsError> {
        let label = Label::new(Purpose::Get, set);
        let stream = self
            .request(&label, Order::Ordered, Priority::NORMAL, &Request::Manifest)
            .await?;
        // An error shows in what is received.
        let _ = stream.finish();
        let missing = || RecordsError::Protocol("a manifest without its text".to_owned());
        let first = received(&stream).await?.ok_or_else(missing)?;
        let (bytes, format, digest) = match answered(decode(&first)?)? {
            Notice::Manifest {
                bytes,
                format,
                digest,
            } => (bytes, format, digest),
            other => return Err(unexpected(&other)),
        };
        if bytes > anabranch_recordset::manifest::TEXT_BYTES_MAX as u64 {
            let words = format!("a manifest of {bytes} bytes");
            return Err(RecordsError::Protocol(words));
        }
        let mut text = BytesMut::new();
        while (text.len() as u64) < bytes {
            let adu = received(&stream).await?.ok_or_else(missing)?;
            match Kind::of(&adu)? {
                Kind::Chunk(chunk) if (text.len() + chunk.len()) as u64 <= bytes => {
                    text.extend_from_slice(&chunk);
                }
                _ => return Err(missing()),
            }
        }
        let text = Text::new(text.freeze(), format);
        match text.digest == digest {
            true => Ok(text),
            false => Err(RecordsError::Protocol(
                "a manifest with another hash than its text has".to_owned(),
            )),
        }
    }

    /// The channels on which the peer can pin a lane.
    async fn paths(&self, set: &str) -> Result<Vec<u64>, RecordsError> {
        let label = Label::new(Purpose::Get, set);
        match self.ask(&label, &Request::Paths).await? {
            Notice::Paths { channels } => Ok(channels),
            other => Err(unexpected(&other)),
        }
    }
}

/// The next ADU of a stream.
async fn received<T: AduStream>(stream: &T) -> Result<Option<Bytes>, RecordsError> {
    let adu = stream.recv().await;
    let adu = adu.map_err(|error| RecordsError::of(&error))?;
    Ok(adu.map(|adu| adu.data))
}

/// An answer, if it is no refusal.
fn answered(notice: Notice) -> Result<Notice, RecordsError> {
    match notice {
        Notice::Refused {
            why,
            offer_bps,
            is_changed,
        } => Err(RecordsError::Refused {
            why,
            offer_bps,
            is_changed,
        }),
        notice => Ok(notice),
    }
}

fn unexpected(notice: &Notice) -> RecordsError {
    let words = format!("{notice:?}");
    RecordsError::Protocol(words.chars().take(100).collect())
}

/// A message of a stream with data.
fn message(json: &[u8]) -> Result<Notice, RecordsError> {
    answered(from_json(json)?)
}
