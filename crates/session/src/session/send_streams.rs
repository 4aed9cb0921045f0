//! Send streams of a session, with marks on those that have changed since the last run of the pump.

use std::{collections::BTreeMap, ops::Deref};

use anabranch_base::StreamId;

use crate::send::SendStream;

/// Map of send streams by id. Mutable access to a send stream leaves a mark, so that the cost of a
/// run of the pump depends on the streams that changed and not on how many there are. Key: session.
#[derive(Debug, Default)]
pub(super) struct SendStreams {
    // Boxed: a map that grows at its end is half empty, and an entry in it costs almost twice its size.
    map: BTreeMap<StreamId, Box<SendStream>>,
    /// Streams that have changed, each once, except one that was removed and inserted again.
    touched: Vec<StreamId>,
}

impl Deref for SendStreams {
    type Target = BTreeMap<StreamId, Box<SendStream>>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl SendStreams {
    pub(super) fn insert(&mut self, stream: StreamId, send: Box<SendStream>) {
        self.map.insert(stream, send);
        self.get_mut(&stream);
    }

    pub(super) fn remove(&mut self, stream: &StreamId) -> Option<Box<SendStream>> {
        let send = self.map.remove(stream)?;
        if !send.touched {
            self.touched.push(*stream);
        }
        Some(send)
    }

    /// The send stream, which counts as changed from now on.
    pub(super) fn get_mut(&mut self, stream: &StreamId) -> Option<&mut SendStream> {
        let send = self.map.get_mut(stream)?;
        if !send.touched {
            send.touched = true;
            self.touched.push(*stream);
        }
        Some(send)
    }

    /// The send stream, for changes that the pump need not see, or that are marked otherwise.
    pub(super) fn peek_mut(&mut self, stream: &StreamId) -> Option<&mut SendStream> {
        self.map.get_mut(stream).map(|send| &mut **send)
    }

    /// All send streams, which count as changed from now on.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut SendStream> {
        let touched = &mut self.touched;
        self.map.iter_mut().map(move |(&stream, send)| {
            if !send.touched {
                send.touched = true;
                touched.push(stream);
            }
            &mut **send
        })
    }

    /// Streams that have changed or were removed.
    pub(super) fn touched(&self) -> &[StreamId] {
        &self.touched
    }

    pub(super) fn sort_touched(&mut self) {
        self.touched.sort_unstable();
    }

    /// Removes all marks, once the pump has seen them.
    pub(super) fn clear_touched(&mut self) {
        for stream in self.touched.drain(..) {
            if let Some(send) = self.map.get_mut(&stream) {
                send.touched = false;
            }
        }
    }
}
