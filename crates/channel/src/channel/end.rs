//! End of a channel: closed by this node, by the peer, by QUIC, or by a panic of the library.

use anabranch_base::Instant;
use bytes::Bytes;
use noq_proto::{ConnectionError, VarInt};

use super::{Channel, CloseReason, Event};
use crate::contained::contain;

/// End of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    pub(super) is_closed: bool,
    /// It was closed here, and QUIC has not been asked for the packet that notifies the peer.
    owes_goodbye: bool,
    /// A panic of the library ended it; the library is not called again.
    pub(super) is_broken: bool,
    /// The endpoint keeps no state of its connection any more.
    is_given_up: bool,
}

impl Channel {
    /// Closes the channel; the peer receives `code` and `reason`.
    pub fn close(&mut self, now: Instant, code: u32, reason: &str) {
        self.close_because(now, code, reason, CloseReason::Local);
    }

    /// As [`Channel::close`]; this node reports `because` instead of [`CloseReason::Local`].
    pub fn close_because(&mut self, now: Instant, code: u32, reason: &str, because: CloseReason) {
        if self.end.is_closed {
            return;
        }
        let std_now = self.epoch.to_std(now);
        let code = VarInt::from_u32(code);
        let reason = Bytes::copy_from_slice(reason.as_bytes());
        self.contain(|connection| connection.close(std_now, code, reason));
        self.end.owes_goodbye = true;
        self.finish(because);
    }

    /// Notes that QUIC was asked for the packet that notifies the peer of the end.
    pub(super) fn note_goodbye(&mut self) {
        self.end.owes_goodbye = false;
    }

    /// True, once, if the channel was closed here and the peer has not been notified. QUIC forgets a closed connection after three
    /// probe time-outs, some milliseconds on a short path, and sends nothing then: a host that was busy for so long has to poll for
    /// packets first.
    pub(super) fn puts_timers_off(&mut self) -> bool {
        std::mem::take(&mut self.end.owes_goodbye)
    }

    /// True if the channel has nothing left to send or to wait for.
    pub fn is_drained(&self) -> bool {
        self.end.is_broken || self.connection.is_drained()
    }

    /// True if a panic of the library ended it.
    pub(crate) fn is_broken(&self) -> bool {
        self.end.is_broken
    }

    /// Marks that the endpoint keeps no state of its connection any more. False if it was marked before.
    pub(crate) fn give_up(&mut self) -> bool {
        !std::mem::replace(&mut self.end.is_given_up, true)
    }

    /// Calls the library; `None` if it has panicked on this channel.
    pub(super) fn contain<T>(
        &mut self,
        call: impl FnOnce(&mut noq_proto::Connection) -> T,
    ) -> Option<T> {
        if self.end.is_broken {
            return None;
        }
        let connection = &mut self.connection;
        let result = contain(|| call(connection));
        if let Err(words) = &result {
            self.end.is_broken = true;
            self.finish(CloseReason::Fault(words.clone()));
        }
        result.ok()
    }

    /// Reason for which QUIC gave the connection up, with the node that was refused.
    pub(super) fn reason_of(&self, error: ConnectionError) -> CloseReason {
        let is_ours = matches!(error, ConnectionError::TransportError(_));
        match CloseReason::from(error) {
            CloseReason::Unauthorized if is_ours => match self.handshake.refused.take() {
                Some(node) if self.handshake.is_dialled => CloseReason::OtherNode(node),
                Some(node) => CloseReason::Stranger(node),
                None => CloseReason::Unauthorized,
            },
            // Protected by the keys of a handshake in which the peer has proved its identity.
            CloseReason::Unauthorized if self.connected => CloseReason::NotListed,
            reason => reason,
        }
    }

    pub(super) fn finish(&mut self, reason: CloseReason) {
        if self.end.is_closed {
            return;
        }
        self.end.is_closed = true;
        self.tap.lock().abandon();
        self.events.push_back(Event::Closed(reason));
    }
}
