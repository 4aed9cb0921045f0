//! Decoders of transfers for fuzzing; not part of the library's interface.
//!
//! Each takes arbitrary bytes and returns what it decoded, encoded again; `None`: nothing was decoded.

use bytes::Bytes;

use super::{
    keyed::StateKey,
    manifest::Manifest,
    message::{self, HELLO_BYTES_MAX, Kind, MESSAGE_BYTES_MAX, Record, Reply, Request},
    note::Note,
};

/// A first message, from an unknown peer.
pub fn hello(bytes: &[u8]) -> Option<Bytes> {
    let read: Request = message::decode(bytes, HELLO_BYTES_MAX)?;
    Some(message::encode(&read))
}

/// A message from a sender.
pub fn request(bytes: &[u8]) -> Option<Bytes> {
    let read: Request = message::decode(bytes, MESSAGE_BYTES_MAX)?;
    Some(message::encode(&read))
}

/// A message from a receiver.
pub fn reply(bytes: &[u8]) -> Option<Bytes> {
    let read: Reply = message::decode(bytes, MESSAGE_BYTES_MAX)?;
    Some(message::encode(&read))
}

/// A record on the data stream.
pub fn record(bytes: &Bytes) -> Option<Bytes> {
    Record::decode(bytes).map(|record| record.encode())
}

/// An offer, one message per line; returns the paths of its entries if it passes the check.
pub fn manifest(bytes: &[u8]) -> Option<Vec<String>> {
    let mut manifest = Manifest {
        kind: Kind::File,
        name: String::new(),
        entries: Vec::new(),
        attributes: Vec::new(),
        links: Vec::new(),
    };
    for line in bytes.split(|&byte| byte == b'\n') {
        match message::decode(line, MESSAGE_BYTES_MAX)? {
            Request::Offer { kind, name, .. } => {
                manifest.kind = kind;
                manifest.name = name;
            }
            Request::Entries { list, attributes } => {
                manifest.entries.extend(list);
                manifest.attributes.extend(attributes);
            }
            Request::Links { list } => manifest.links.extend(list),
            Request::OfferEnd => break,
            Request::Hello { .. } | Request::Delete { .. } | Request::Proceed => return None,
        }
    }
    manifest.check().ok()?;
    let _ = (manifest.digest(), manifest.bytes(), manifest.files());
    let paths = manifest.entries.into_iter().map(|entry| entry.path);
    let links = manifest.links.into_iter().map(|link| link.path);
    Some(paths.chain(links).collect())
}

/// A note for this folder, encoded again, if it is trusted.
pub fn note(bytes: &[u8], key: &anabranch_session::SecretKey, folder: &str) -> Option<Vec<u8>> {
    let key = StateKey::of(key);
    Note::decode(bytes, &key, folder).map(|note| note.encode(&key, folder))
}

/// The text of a note with a valid signature added, so that the decoder reaches its content.
pub fn sign(text: &[u8], key: &anabranch_session::SecretKey, folder: &str) -> Vec<u8> {
    let signature = StateKey::of(key).sign(folder, text).to_hex();
    [text, b"\n", signature.as_bytes(), b"\n"].concat()
}
