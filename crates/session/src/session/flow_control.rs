//! Flow control of a session: credit of all reliable streams together, in both directions, and the memory that receive
//! streams share.
//!
//! Sending: `charged ≤ credit`. Receiving: `consumed ≤ seen ≤ granted ≤ consumed + window`; credit only grows.

use super::ProtocolError;
use crate::{
    config::{INITIAL_SESSION_CREDIT_BYTES, INITIAL_STREAM_CREDIT_BYTES, grant_step},
    recv::{Capacity, Load},
};

/// Most gaps between received ADUs that are recorded, of all reliable streams together; a peer that numbers its ADUs more
/// sparsely violates the protocol. Of unreliable streams about as many are recorded, divided evenly.
const GAPS_MAX: usize = 1 << 16;
/// Most and fewest gaps that an unreliable stream may have, whatever the number of streams.
const UNRELIABLE_GAPS_MAX: usize = 1024;
const UNRELIABLE_GAPS_MIN: usize = 8;
/// Part of the session's window that may be reserved for bytes of ADUs that have not arrived.
const RESERVED_PART: usize = 16;

/// Credit accounts. Key: session.
#[derive(Debug)]
pub(super) struct FlowControl {
    /// Credit used by this side, of that granted by the peer. Invariant: `charged ≤ credit`; both only grow.
    charged: u64,
    credit: u64,
    /// Credit that the application has consumed, of that granted by this side. Invariant: `consumed ≤ load.seen`; both
    /// totals only grow.
    consumed: u64,
    granted: u64,
    /// Sum of the receive streams' shared resources. Credit that was seen to be used stays in it when its
    /// stream is over.
    load: Load,
    /// Window of each stream at the peer; `None` before its HELLO.
    peer_stream_window: Option<u64>,
}

impl FlowControl {
    /// Accounts of a session that grants the peer `window` bytes.
    pub(super) fn new(window: u64) -> Self {
        Self {
            charged: 0,
            credit: INITIAL_SESSION_CREDIT_BYTES,
            consumed: 0,
            granted: window,
            load: Load::default(),
            peer_stream_window: None,
        }
    }

    /// Credit left for sending.
    pub(super) fn credit_left(&self) -> u64 {
        self.credit.saturating_sub(self.charged)
    }

    /// Uses credit for a fragment, which [`credit_left`](Self::credit_left) permitted.
    pub(super) fn charge(&mut self, bytes: u64) {
        self.charged += bytes;
        assert!(self.charged <= self.credit, "credit permitted it");
    }

    /// Raises the credit to `total`; a smaller one arrived late and changes nothing.
    pub(super) fn raise_credit(&mut self, total: u64) {
        self.credit = self.credit.max(total);
    }

    /// Applies the stream window of the peer's HELLO; true if it is larger than the one before.
    pub(super) fn raise_peer_stream_window(&mut self, window: u64) -> bool {
        let is_larger = self.peer_stream_window < Some(window);
        if is_larger {
            self.peer_stream_window = Some(window);
        }
        is_larger
    }

    /// Credit of a new send stream.
    pub(super) fn initial_stream_credit(&self) -> u64 {
        self.peer_stream_window
            .unwrap_or(INITIAL_STREAM_CREDIT_BYTES)
    }

    /// Total that the peer may use of this side's credit.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Grants at least `window` in all.
    pub(super) fn widen(&mut self, window: u64) {
        self.granted = self.granted.max(window);
    }

    /// Notes that the peer is known to have used `bytes` of credit.
    ///
    /// # Errors
    /// It used more than was granted.
    pub(super) fn see(&mut self, bytes: u64) -> Result<(), ProtocolError> {
        self.load.seen = self.load.seen.saturating_add(bytes);
        if self.load.seen > self.granted {
            return Err(ProtocolError::Rule(
                "more was sent than the session had credit for",
            ));
        }
        Ok(())
    }

    /// Notes that a receive stream which took `before` of the shared resources takes `after` now.
    ///
    /// # Errors
    /// More credit was used than was granted.
    pub(super) fn note_load(&mut self, before: Load, after: Load) -> Result<(), ProtocolError> {
        self.change_load(before, after);
        self.see(0)
    }

    /// As [`note_load`](Self::note_load), where nothing can have been received.
    pub(super) fn change_load(&mut self, before: Load, after: Load) {
        self.load.change(before, after);
    }

    /// Returns all resources of a receive stream, except the credit that was seen to be used.
    pub(super) fn release(&mut self, load: Load) {
        let seen = load.seen;
        let rest = Load {
            seen,
            ..Load::default()
        };
        self.load.change(load, rest);
    }

    /// Capacity left of the resources that `streams` receive streams share within `window`.
    pub(super) fn capacity(&self, window: u64, streams: usize) -> Capacity {
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        let each = GAPS_MAX / streams.max(1);
        Capacity {
            held_bytes: window.saturating_sub(self.load.held_bytes),
            reserve_bytes: (window / RESERVED_PART).saturating_sub(self.load.reserved_bytes),
            gaps: GAPS_MAX.saturating_sub(self.load.gaps),
            gaps_unreliable: each.clamp(UNRELIABLE_GAPS_MIN, UNRELIABLE_GAPS_MAX),
        }
    }

    /// Notes that `bytes` of reliable streams were consumed which had been seen. Returns the new total to announce when
    /// that is worth a frame.
    pub(super) fn consume(&mut self, bytes: u64, window: u64) -> Option<u64> {
        debug_assert!(self.consumed + bytes <= self.load.seen);
        self.consumed = self.consumed.saturating_add(bytes).min(self.load.seen);
        let target = self.consumed.saturating_add(window);
        if target.saturating_sub(self.granted) < grant_step(window) {
            return None;
        }
        debug_assert!(target >= self.granted, "granted credit only grows");
        self.granted = target;
        Some(target)
    }
}

#[cfg(test)]
impl FlowControl {
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    pub(super) fn load(&self) -> &Load {
        &self.load
    }
}
