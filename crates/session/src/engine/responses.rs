//! Responses that belong to no channel: stateless resets, Retry, version negotiation.

use std::collections::VecDeque;

use anabranch_channel::Transmit;

/// Stateless answers kept for sending; more are dropped, as an overloaded network would.
const RESPONSES_MAX: usize = 1024;
/// Bytes of them.
const RESPONSE_BYTES_MAX: usize = 256 << 10;

/// Responses that wait to be sent, oldest first.
#[derive(Debug, Default)]
pub(super) struct Responses {
    waiting: VecDeque<(Transmit, Vec<u8>)>,
    bytes: usize,
}

impl Responses {
    /// Adds a response, the first bytes of `buffer`, or drops it if too many wait.
    pub(super) fn push(&mut self, transmit: Transmit, buffer: &[u8]) {
        let bytes = self.bytes + transmit.size;
        if self.waiting.len() < RESPONSES_MAX && bytes <= RESPONSE_BYTES_MAX {
            self.bytes = bytes;
            let response = buffer[..transmit.size].to_vec();
            self.waiting.push_back((transmit, response));
        }
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<(Transmit, Vec<u8>)> {
        let (transmit, response) = self.waiting.pop_front()?;
        self.bytes -= response.len();
        Some((transmit, response))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
