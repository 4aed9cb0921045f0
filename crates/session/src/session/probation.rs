//! Probation: limits of the cost of a stranger's session until the application reports that its peer has shown its right.
//!
//! Such a session has small windows, one stream of the peer's, and accepts [`TAKEN_MAX`] of payload and frames. Data that
//! the peer sends beyond that is dropped by its channels unread, as if the network had lost it; the peer repeats it, and it
//! arrives once the session is admitted. The windows grow with the HELLO that is sent then, and its paths are measured from
//! then on: estimators are larger than all other state of a session.

use anabranch_base::Instant;

use super::{ProtocolError, Session};
use crate::{
    config::{Config, INITIAL_SESSION_CREDIT_BYTES, INITIAL_STREAM_CREDIT_BYTES},
    wire::{Control, Frame, VERSION},
};

/// Most payload that is accepted, with [`FRAME_BYTES`] for each frame.
const TAKEN_MAX: u64 = 3 << 10;
/// Cost of a frame beside its payload.
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
    /// Starts a probation until `until`; `config` gets the windows of a session on probation, the smallest that every sender may
    /// assume.
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

    /// Counts a frame. No frame is dropped from a container that QUIC has acknowledged; a container full of tiny frames
    /// ends the session instead.
    pub(super) fn take(&mut self, frame: &Frame) -> Result<(), ProtocolError> {
        let payload = match frame {
            Frame::Fragment(fragment) => fragment.payload.len() as u64,
            Frame::Control(_) => 0,
        };
        self.taken += payload + FRAME_BYTES;
        if self.taken > 2 * TAKEN_MAX {
            return Err(ProtocolError::Rule(
                "more frames than a peer may send before it is admitted",
            ));
        }
        Ok(())
    }

    /// Counts a stream that the peer opens.
    pub(super) fn open(&mut self) -> Result<(), ProtocolError> {
        if self.streams >= STREAMS_MAX {
            return Err(ProtocolError::Rule(
                "a second stream of a peer that was not admitted yet",
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

    /// True if the peer has used up its allowance.
    pub(crate) fn is_sated(&self) -> bool {
        self.probation
            .as_ref()
            .is_some_and(|probation| probation.taken >= TAKEN_MAX)
    }

    /// Ends the probation: from now on the session is like others.
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
