//! Messages of a client in the order in which it sent them: an unordered stream delivers them in any.

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
    held: Held,
}

/// ADUs that have arrived and were not taken yet.
#[derive(Debug, Default)]
struct Held {
    next: u64,
    adus: BTreeMap<u64, Bytes>,
}

impl Held {
    /// The next in order, if it is there.
    fn in_order(&mut self) -> Option<Bytes> {
        let adu = self.adus.remove(&self.next)?;
        self.next += 1;
        Some(adu)
    }

    /// Whichever is there.
    fn any(&mut self) -> Option<Bytes> {
        self.adus.pop_first().map(|(_, adu)| adu)
    }
}

impl<'s> Inbox<'s> {
    pub(super) fn new(stream: &'s Stream) -> Self {
        Self {
            stream,
            held: Held::default(),
        }
    }

    /// The next message; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, End> {
        loop {
            if let Some(message) = self.held.in_order() {
                return Ok(Some(message));
            }
            match self.stream.recv().await? {
                Some(adu)
                    if adu.data.len() > MESSAGE_BYTES_MAX || self.held.adus.len() >= HELD_MAX =>
                {
                    return Err(WireError("more than a request has".to_owned()).into());
                }
                Some(adu) => {
                    self.held.adus.insert(adu.sequence, adu.data);
                }
                None => return Ok(None),
            }
        }
    }

    /// An ADU behind the first message, in any order; `None` after all of them. Some may have overtaken that message.
    pub(super) async fn any(&mut self) -> Result<Option<Bytes>, End> {
        match self.held.any() {
            Some(adu) => Ok(Some(adu)),
            None => Ok(self.stream.recv().await?.map(|adu| adu.data)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overtook_the_first_message_is_not_lost() {
        let mut held = Held::default();
        for (sequence, adu) in [(2, "c"), (1, "b")] {
            held.adus.insert(sequence, adu.into());
            assert_eq!(held.in_order(), None);
        }
        held.adus.insert(0, "a".into());
        assert_eq!(held.in_order(), Some("a".into()));
        let rest: Vec<Bytes> = std::iter::from_fn(|| held.any()).collect();
        assert_eq!(rest, ["b", "c"]);
    }
}
