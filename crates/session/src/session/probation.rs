//! Probation: what the session of a stranger may cost before the application says that its peer has shown its right.
//!
//! Such a session has small windows, one stream of the peer's, and takes in [`TAKEN_MAX`] of payload and frames. What the
//! peer sends beyond that is dropped by its channels unread, as if the network had lost it; the peer repeats it, and it
//! arrives once the session is let in. The windows grow with the HELLO that is said then, and its paths are measured from
//! then on: estimators are larger than all else that a session holds.

use anabranch_base::Instant;

use super::{ProtocolError, Session};
use crate::{
    config::{Config, INITIAL_SESSION_CREDIT_BYTES, INITIAL_STREAM_CREDIT_BYTES},
    wire::{Control, Frame, VERSION},
};

/// Payload that is taken in, with [`FRAME_BYTES`] for each frame.
const TAKEN_MAX: u64 = 3 << 10;
/// What a frame costs beside its payload.
const FRAME_BYTES: u64 = 128;
/// Streams that the peer may open.
const STREAMS_MAX: u64 = 1;

/// Key: session.
#[derive(Debug)]
pub(super) struct Probation {
    until: Instant,
    taken: u64,
    streams: u64,
    /// Windows to grant afterwards.
    stream_window_bytes: u64,
    session_window_bytes: u64,
}

impl Probation {
    /// Until then; `config` gets the windows of a session on probation, the smallest that every sender may assume.
    pub(super) fn new(until: Instant, config: &mut Config) -> Self {
        let probation = Self {
            until,
            taken: 0,
            streams: 0,
            stream_window_bytes: config.stream_window_bytes,
            session_window_bytes: config.session_window_bytes,
        };
        config.stream_window_bytes = INITIAL_STREAM_CREDIT_BYTES;
        config.session_window_bytes = INITIAL_SESSION_CREDIT_BYTES;
        probation
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Counts a frame. Nothing is dropped from a container that QUIC has acknowledged; one that is full of tiny frames
    /// ends the session instead.
    pub(super) fn take(&mut self, frame: &Frame) -> Result<(), ProtocolError> {
        let payload = match frame {
            Frame::Fragment(fragment) => fragment.payload.len() as u64,
            Frame::Control(_) => 0,
        };
        self.taken += payload + FRAME_BYTES;
        if self.taken > 2 * TAKEN_MAX {
            return Err(ProtocolError::Rule(
                "more frames than a peer may send before it is let in",
            ));
        }
        Ok(())
    }

    /// The peer opens one more stream.
    pub(super) fn open(&mut self) -> Result<(), ProtocolError> {
        if self.streams >= STREAMS_MAX {
            return Err(ProtocolError::Rule(
                "a second stream of a peer that was not let in yet",
            ));
        }
        self.streams += 1;
        Ok(())
    }
}

impl Session {
    pub(crate) fn is_on_probation(&self) -> bool {
        self.probation.is_some()
    }

    /// True if the peer has used up what it may cost before it is let in.
    pub(crate) fn is_sated(&self) -> bool {
        self.probation
            .as_ref()
            .is_some_and(|probation| probation.taken >= TAKEN_MAX)
    }

    /// From here on it is a session like others.
    pub(crate) fn end_probation(&mut self) {
        let Some(probation) = self.probation.take() else {
            return;
        };
        let (stream, session) = (
            probation.stream_window_bytes,
            probation.session_window_bytes,
        );
        self.config.stream_window_bytes = stream;
        self.config.session_window_bytes = session;
        self.flow.widen(session);
        for send in self.streams.recv.values_mut() {
            send.widen(stream);
        }
        self.control.push_back(Control::Hello {
            version: VERSION,
            stream_window_bytes: stream,
            session_window_bytes: session,
        });
        self.pump.is_due = true;
    }
}
