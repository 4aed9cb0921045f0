//! Messages of a client in the order in which it sent them: data on the same stream may come in any.

use std::collections::BTreeMap;

use anabranch::local::client::Stream;
use bytes::Bytes;

use super::End;
use crate::wire::{MESSAGE_BYTES_MAX, WireError};

/// Messages that wait for one before them.
const HELD_MAX: usize = 4_096;

/// Messages of a stream.
#[derive(Debug)]
pub(super) struct Inbox<'s> {
    pub(super) stream: &'s Stream,
    next: u64,
    held: BTreeMap<u64, Bytes>,
}

impl<'s> Inbox<'s> {
    pub(super) fn new(stream: &'s Stream) -> Self {
        Self {
            stream,
            next: 0,
            held: BTreeMap::new(),
        }
    }

    /// The next message; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, End> {
        loop {
            if let Some(message) = self.held.remove(&self.next) {
                self.next += 1;
                return Ok(Some(message));
            }
            match self.stream.recv().await? {
                Some(adu) if adu.data.len() > MESSAGE_BYTES_MAX || self.held.len() >= HELD_MAX => {
                    return Err(WireError("more than a request has".to_owned()).into());
                }
                Some(adu) => {
                    self.held.insert(adu.sequence, adu.data);
                }
                None => return Ok(None),
            }
        }
    }
}
