//! Discarding of a stream: its application has something newer to send, and gives up what waits, if it may be lost.
//!
//! Only ADUs that are not sent completely, so that none is delivered after its loss was reported. What the receiver is notified of is the
//! same as of an ADU that outlives its lifetime: SKIP on a reliable stream, which returns credit and ends the wait for it, and nothing on
//! others.

use std::collections::VecDeque;

use anabranch_base::{Instant, StreamId};
use bytes::Bytes;

use super::Session;
use crate::{
    event::{Event, StreamError},
    stats::Discarded,
};

impl Session {
    /// Gives up the ADUs that wait of a stream, and `more` behind it, which its application has handed over and the stream had no space for. Each
    /// ADU keeps its number. A stream that was finished takes no more.
    pub(crate) fn discard(
        &mut self,
        now: Instant,
        stream: StreamId,
        more: impl IntoIterator<Item = Bytes>,
        events: &mut VecDeque<Event>,
    ) -> Result<Discarded, StreamError> {
        let send = self.streams.send.get_mut(&stream);
        let send = send.ok_or(StreamError::UnknownStream(stream))?;
        if send.spec.reliable && send.spec.lifetime.is_none() {
            return Err(StreamError::Reliable(stream));
        }
        let more = match send.finish.is_asked {
            true => None,
            false => Some(more),
        };
        for data in more.into_iter().flatten() {
            let bytes = data.len();
            let sequence = send.push(now, data, 0);
            if let Some(recorder) = &mut self.scheduling.recorder {
                recorder.adu(now, stream, sequence, bytes);
            }
        }
        let mut settled = Vec::new();
        let discarded = send.discard(&mut settled);
        self.pump.is_due = true;
        self.settle(stream, settled, events);
        Ok(discarded)
    }
}
