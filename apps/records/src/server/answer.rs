//! Answers to requests: lists, manifests, hashes.

use std::{ops::Bound, sync::Arc};

use anabranch::{ClientError, local::client::Stream};

use super::{End, Inbox, Server, lock, refused};
use crate::{
    carry::{blocking, fault_of},
    shelf::entry,
    source::{Reading, Source},
    wire::{CHUNK_BYTES, Digest, Notice, Want, chunk, decode, encode},
};

/// Sets in one message.
const SETS_MAX: usize = 200;
/// Hashes in one message, about.
const HASHES_MAX: usize = 2_000;

/// Sends the manifest of a set.
pub(super) async fn manifest(stream: &Stream, source: &Source) -> Result<(), ClientError> {
    let text = source.text();
    let notice = Notice::Manifest {
        bytes: text.bytes.len() as u64,
        format: text.format,
        digest: text.digest,
    };
    stream.send(encode(&notice)).await?;
    for part in text.bytes.chunks(CHUNK_BYTES) {
        stream.send(chunk(part)).await?;
    }
    Ok(())
}

impl Server {
    /// Sends the sets behind a name.
    pub(super) async fn list(&self, stream: &Stream, after: &str) -> Result<(), ClientError> {
        self.look().await;
        let notice = {
            let sets = lock(&self.sets);
            let mut rest = sets.range::<str, _>((Bound::Excluded(after), Bound::<&str>::Unbounded));
            let first = rest.by_ref().take(SETS_MAX);
            Notice::Sets {
                sets: first.map(|(_, source)| entry(source)).collect(),
                has_more: rest.next().is_some(),
            }
        };
        stream.send(encode(&notice)).await.map(drop)
    }

    /// Sends the hashes of what the client wants to compare.
    pub(super) async fn hashes(
        &self,
        inbox: &mut Inbox<'_>,
        source: Arc<Source>,
        manifest: Digest,
    ) -> Result<(), End> {
        let stream = inbox.stream;
        if source.text().digest != manifest {
            return Ok(refused(stream, CHANGED.to_owned(), true).await?);
        }
        let mut reading = Reading::new(source);
        while let Some(adu) = inbox.next().await? {
            reading.want(decode::<Want>(&adu)?.items);
            loop {
                let (blocks, faults);
                let hashing = move || {
                    let (blocks, faults) = hashes_of(&mut reading);
                    (reading, blocks, faults)
                };
                let hashed = blocking(&self.readers, hashing).await;
                (reading, blocks, faults) = hashed.ok_or(End::Reading)?;
                if blocks.is_empty() && faults.is_empty() {
                    break;
                }
                for fault in faults {
                    stream.send(encode(&fault)).await?;
                }
                if !blocks.is_empty() {
                    stream.send(encode(&Notice::Hashes { blocks })).await?;
                }
            }
        }
        Ok(())
    }
}

/// Refusal of a request about another manifest.
pub(super) const CHANGED: &str = "the set has another manifest now; begin again";

/// Some hashes, and faults.
fn hashes_of(reading: &mut Reading) -> (Vec<crate::wire::Block>, Vec<Notice>) {
    let (mut blocks, mut faults, mut count) = (Vec::new(), Vec::new(), 0);
    while count < HASHES_MAX
        && let Some(next) = reading.next_hashes()
    {
        match next {
            Ok(block) => {
                count += 1 + block.hashes.len();
                blocks.push(block);
            }
            Err(fault) => {
                count += 1;
                faults.extend(fault_of(&fault));
            }
        }
    }
    (blocks, faults)
}
