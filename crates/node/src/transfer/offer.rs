//! Offer of a transfer: sent in parts, and read.

use anabranch_net::Stream;

use super::{
    control::{read_message, send_message},
    error::TransferError,
    manifest::{ENTRIES_MAX, Manifest, PATHS_BYTES_MAX},
    message::{ENTRIES_PER_MESSAGE, Entry, Link, PATHS_PER_MESSAGE_BYTES, Request},
    update::Update,
};
use crate::api::AduStream;

/// Limit on the bytes of entries in an offer that follows the greeting of an unknown node at once.
const BRIEF_BYTES: usize = 1024;
/// Approximate bytes of an entry in addition to its path.
const ENTRY_BYTES: usize = 112;

/// Offers the manifest.
pub(super) async fn offer<S: AduStream>(
    control: &S,
    manifest: &Manifest,
    update: Option<Update>,
) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    let offer = Request::Offer {
        kind: manifest.kind,
        name: manifest.name.clone(),
        entries: manifest.entries.len() as u64,
        update,
    };
    send_message(control, &offer).await?;
    let mut rest = &manifest.entries[..];
    while !rest.is_empty() {
        let (list, after) = rest.split_at(batch(rest.iter().map(|entry| entry.path.len())));
        let from = manifest.entries.len() - rest.len();
        let attributes = manifest.attributes.get(from..from + list.len());
        let entries = Request::Entries {
            list: list.to_vec(),
            attributes: attributes.unwrap_or_default().to_vec(),
        };
        send_message(control, &entries).await?;
        rest = after;
    }
    let mut rest = &manifest.links[..];
    while !rest.is_empty() {
        let (list, after) = rest.split_at(batch(rest.iter().map(Link::bytes)));
        let list = list.to_vec();
        send_message(control, &Request::Links { list }).await?;
        rest = after;
    }
    send_message(control, &Request::OfferEnd).await
}

/// True if the offer is small enough to follow the greeting at once. The session of an unknown node is on probation until the
/// ticket was read: beyond a few packets, the rest would be dropped and sent again after a time-out.
pub(super) fn is_brief(manifest: &Manifest) -> bool {
    let entry = |entry: &Entry| entry.path.len() + ENTRY_BYTES;
    let mut entries = manifest.entries.iter().map(entry);
    let bytes = entries.try_fold(0, |sum, more| {
        let sum = sum + more;
        (sum <= BRIEF_BYTES).then_some(sum)
    });
    bytes.is_some()
}

/// Number of those with so many bytes of text that go into the next message; at least one.
pub(super) fn batch(texts_bytes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fitting = texts_bytes.take(ENTRIES_PER_MESSAGE).take_while(|bytes| {
        sum += bytes;
        sum <= PATHS_PER_MESSAGE_BYTES
    });
    fitting.count().max(1)
}

/// Reads an offer.
pub(super) async fn read_offer(
    control: &Stream,
) -> Result<(Manifest, Option<Update>), TransferError> {
    let Request::Offer {
        kind,
        name,
        entries: number,
        update,
    } = read_message(control).await?
    else {
        return Err(TransferError::Protocol("no offer"));
    };
    if number > ENTRIES_MAX {
        return Err(TransferError::TooMany {
            entries: number,
            most: ENTRIES_MAX,
        });
    }
    let (mut entries, mut attributes, mut links) = (Vec::new(), Vec::new(), Vec::new());
    let mut paths_bytes = 0;
    loop {
        match read_message(control).await? {
            Request::Entries {
                list,
                attributes: more,
            } if !list.is_empty() => {
                paths_bytes += list.iter().map(|entry| entry.path.len()).sum::<usize>();
                entries.extend(list);
                attributes.extend(more);
            }
            Request::Links { list } if !list.is_empty() => {
                paths_bytes += list.iter().map(Link::bytes).sum::<usize>();
                links.extend(list);
            }
            Request::OfferEnd => break,
            _ => return Err(TransferError::Protocol("an offer without end")),
        }
        if attributes.len() > entries.len() || links.len() as u64 > ENTRIES_MAX {
            return Err(TransferError::Protocol(
                "more attributes or links than are accepted",
            ));
        }
        if entries.len() as u64 > number {
            return Err(TransferError::Protocol("more entries than were offered"));
        }
        if paths_bytes > PATHS_BYTES_MAX {
            return Err(TransferError::Protocol("paths of more than 32 MiB"));
        }
    }
    let manifest = Manifest {
        kind,
        name,
        entries,
        attributes,
        links,
    };
    Ok((manifest, update))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::message::Attributes;

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
            let fitting = batch(entries.iter().map(|entry| entry.path.len()));
            let attributes = Attributes {
                mode: Some(u32::MAX),
                modified_ns: Some(i64::MIN),
            };
            let message = super::super::message::encode(&Request::Entries {
                list: entries[..fitting].to_vec(),
                attributes: vec![attributes; fitting],
            });
            assert!(message.len() <= super::super::message::MESSAGE_BYTES_MAX);
        }
    }
}
