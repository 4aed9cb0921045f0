//! Establishment of a session: its initial channel, the token by which further channels join it, and the ids that it had before.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{ChannelId, Instant};

use crate::{
    token::Token,
    wire::{Control, VERSION, frame::TOKEN_BYTES},
};

/// Earlier ids of a session that are remembered. An initiator changes its initial channel as often as its paths fail before the
/// session is established: seldom more than once.
pub(crate) const FORMER_IDS_KEPT: usize = 8;

/// Establishment state. Key: session.
#[derive(Debug)]
pub(crate) struct Establishment {
    /// Secret that the initial channel gave the session; `None` before its handshake is complete.
    pub(crate) token: Option<Token>,
    /// Until the peer has acknowledged something on it, no other channel may carry data: the peer could not know which session
    /// the data belongs to.
    initial_channel: Option<ChannelId>,
    is_complete: bool,
    /// The version of the wire format in use: the older one of both ends. 1 until the peer's HELLO has come.
    version: u8,
    /// This end has stated that it has other sessions (NEIGHBOURS).
    pub(super) has_asked: bool,
    /// The peer has.
    pub(super) is_asked: bool,
    opened_at: Instant,
    /// Ids that the session had on earlier initial channels, the latest [`FORMER_IDS_KEPT`]. The initiator states them beside the
    /// present one; at the responder, a JOIN that arrives late does not open a session under them.
    former: VecDeque<[u8; TOKEN_BYTES]>,
}

impl Establishment {
    /// State of a session opened at `now`; one that the peer initiated is established from the start.
    pub(super) fn new(now: Instant, is_initiator: bool) -> Self {
        Self {
            token: None,
            initial_channel: None,
            is_complete: !is_initiator,
            version: 1,
            has_asked: false,
            is_asked: false,
            opened_at: now,
            former: VecDeque::new(),
        }
    }

    /// Takes note of the newest version that the peer understands, at least 1.
    pub(super) fn note_version(&mut self, of_peer: u64) {
        self.version = of_peer.min(VERSION) as u8;
    }

    /// The version of the wire format in use.
    pub(super) fn version(&self) -> u64 {
        u64::from(self.version)
    }

    /// True if the peer has let the session in.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Notes that the peer has let the session in; true the first time.
    pub(super) fn complete(&mut self) -> bool {
        !std::mem::replace(&mut self.is_complete, true)
    }

    /// True if `channel` may carry data.
    pub(super) fn permits(&self, channel: ChannelId) -> bool {
        self.is_complete || self.initial_channel == Some(channel)
    }

    /// Time at which a session that is not established yet is given up.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        (!self.is_complete).then(|| self.opened_at + timeout)
    }

    /// True if the session has to be given up at `now`, because it was not established in time.
    pub(super) fn is_overdue(&self, now: Instant, timeout: Duration) -> bool {
        let deadline = self.deadline(timeout);
        deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Time since the session was opened.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.since(self.opened_at)
    }

    /// Channel on which the session still has to be established: the first of the `usable` ones, when there is no initial channel
    /// or it is not among them any more.
    pub(super) fn next_initial_channel(
        &self,
        mut usable: impl Iterator<Item = ChannelId> + Clone,
        exists: impl Fn(ChannelId) -> bool,
    ) -> Option<ChannelId> {
        if self.is_complete {
            return None;
        }
        let first = usable.next()?;
        let is_settled = self.initial_channel.is_some_and(exists);
        (!is_settled).then_some(first)
    }

    /// Makes `channel` the initial channel, from which the token comes. Returns the previous one.
    pub(super) fn set_initial_channel(
        &mut self,
        channel: ChannelId,
        token: Option<Token>,
    ) -> Option<ChannelId> {
        if let Some(replaced) = std::mem::replace(&mut self.token, token) {
            self.note_former(replaced.session);
        }
        self.initial_channel.replace(channel)
    }

    /// Frames that follow the JOIN until the channel is introduced: the responder may know the session by an earlier id.
    pub(super) fn replacements(&self) -> impl Iterator<Item = Control> {
        let former = self.former.iter();
        former.map(|&session| Control::Replace { session })
    }

    /// Notes an earlier id of the session.
    pub(crate) fn note_former(&mut self, session: [u8; TOKEN_BYTES]) {
        if self.former.contains(&session) {
            return;
        }
        if self.former.len() >= FORMER_IDS_KEPT {
            self.former.pop_front();
        }
        self.former.push_back(session);
    }

    /// True if the session had that id.
    pub(crate) fn had(&self, session: &[u8; TOKEN_BYTES]) -> bool {
        self.former.contains(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_ids_are_remembered() {
        let mut establishment = Establishment::new(Instant::EPOCH, false);
        let id = |number: usize| [number as u8; TOKEN_BYTES];
        for number in 0..FORMER_IDS_KEPT + 2 {
            assert!(!establishment.had(&id(number)));
            establishment.note_former(id(number));
            establishment.note_former(id(number));
            assert!(establishment.had(&id(number)));
            assert!(establishment.replacements().count() <= FORMER_IDS_KEPT);
        }
        assert!(!establishment.had(&id(1)), "two were forgotten");
        assert!(establishment.had(&id(2)));
    }
}
