//! The sending halves, and which of them have changed since the pump looked last.

use std::{collections::BTreeMap, ops::Deref};

use anabranch_base::StreamId;

use crate::send::SendStream;

/// By stream; reads like the map that it is. Whoever gets hold of a half to change it leaves a mark, so that what a
/// run of the pump costs depends on the streams that changed and not on how many there are. Key: session.
#[derive(Debug, Default)]
pub(super) struct SendStreams {
    // Boxed: a map that grows at its end is half empty, and an entry in it costs almost twice its size.
    map: BTreeMap<StreamId, Box<SendStream>>,
    /// Each stream once, except one that was removed and comes again.
    touched: Vec<StreamId>,
}

impl Deref for SendStreams {
    type Target = BTreeMap<StreamId, Box<SendStream>>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl SendStreams {
    pub(super) fn insert(&mut self, stream: StreamId, half: Box<SendStream>) {
        self.map.insert(stream, half);
        self.get_mut(&stream);
    }

    pub(super) fn remove(&mut self, stream: &StreamId) -> Option<Box<SendStream>> {
        let half = self.map.remove(stream)?;
        if !half.touched {
            self.touched.push(*stream);
        }
        Some(half)
    }

    /// The half, which counts as changed from now on.
    pub(super) fn get_mut(&mut self, stream: &StreamId) -> Option<&mut SendStream> {
        let half = self.map.get_mut(stream)?;
        if !half.touched {
            half.touched = true;
            self.touched.push(*stream);
        }
        Some(half)
    }

    /// The half, for what changes nothing that the pump would see, or marks it otherwise.
    pub(super) fn peek_mut(&mut self, stream: &StreamId) -> Option<&mut SendStream> {
        self.map.get_mut(stream).map(|half| &mut **half)
    }

    /// All halves, which count as changed from now on.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut SendStream> {
        let touched = &mut self.touched;
        self.map.iter_mut().map(move |(&stream, half)| {
            if !half.touched {
                half.touched = true;
                touched.push(stream);
            }
            &mut **half
        })
    }

    /// What has changed, or is gone.
    pub(super) fn touched(&self) -> &[StreamId] {
        &self.touched
    }

    pub(super) fn sort_touched(&mut self) {
        self.touched.sort_unstable();
    }

    /// The pump has seen it all.
    pub(super) fn clear_touched(&mut self) {
        for stream in self.touched.drain(..) {
            if let Some(half) = self.map.get_mut(&stream) {
                half.touched = false;
            }
        }
    }
}
