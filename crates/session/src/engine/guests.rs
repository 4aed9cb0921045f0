//! Channels of peers that have not shown their right: how many there may be, and which are closed.
//!
//! A peer's channel is a *guest* from the end of its handshake until its session is admitted: at once if the peer is
//! listed and introduces the channel, and by confirmation of the application if it is a stranger whose session is on probation.
//! A guest has [`SHOW_MAX`] for all that. Where there is no capacity for one more, the oldest guest of the same key, of the same
//! subnet or of all is closed. Listed peers have a capacity of their own, which strangers cannot take.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant, NodeId, SessionId};
use anabranch_channel::{Access, CloseReason, Subnet, endpoint::CHANNELS_MAX, gate};

use super::{
    CODE_BUSY, CODE_LATE, CODE_NOT_ALLOWED, Engine, find,
    refusals::{Refusals, Refused},
};
use crate::{
    event::{SessionCloseReason, StreamError},
    links::HANDSHAKE_MAX,
};

/// Time for a channel of a peer to complete its handshake.
pub(super) const ACCEPT_MAX: Duration = Duration::from_secs(5);
/// Time from then on for its session to be let in.
pub(super) const SHOW_MAX: Duration = Duration::from_secs(5);
/// Channels reserved for listed peers, whatever strangers hold.
const CHANNELS_RESERVED: usize = 1024;
/// Channels that strangers hold beside those that were let in.
const STRANGERS_WAITING: usize =
    STRANGERS.all + gate::UNPROVED_MAX + gate::PROVED_MAX + gate::KNOWN_MAX;
/// Channels of strangers that were let in.
const STRANGERS_LET_IN_MAX: usize = CHANNELS_MAX - CHANNELS_RESERVED - STRANGERS_WAITING;
/// Channels of one peer, over all its sessions.
const CHANNELS_PER_PEER_MAX: usize = 1024;
/// Sessions of one peer that it opened.
const SESSIONS_PER_PEER_MAX: usize = 256;

/// Number of guests.
struct Limits {
    all: usize,
    of_subnet: usize,
    of_peer: usize,
}

const STRANGERS: Limits = Limits {
    all: 256,
    of_subnet: 32,
    of_peer: 8,
};
const LISTED: Limits = Limits {
    all: 1024,
    of_subnet: 1024,
    of_peer: 64,
};

#[derive(Clone, Copy, Debug)]
struct Guest {
    peer: NodeId,
    subnet: Subnet,
    access: Access,
}

#[derive(Debug, Default)]
pub(super) struct Guests {
    /// Key: channel.
    waiting: BTreeMap<ChannelId, Guest>,
    /// Those that were refused.
    pub(super) refusals: Refusals,
}

impl Guests {
    /// One more; who has to leave for it. O(guests), once for each handshake.
    fn enter(&mut self, id: ChannelId, guest: Guest) -> Option<ChannelId> {
        let limits = match guest.access {
            Access::Stranger => STRANGERS,
            Access::Listed => LISTED,
        };
        let alike = self
            .waiting
            .iter()
            .filter(|(_, other)| other.access == guest.access);
        let (mut all, mut of_subnet, mut of_peer) = (0, 0, 0);
        let (mut oldest, mut oldest_of_subnet, mut oldest_of_peer) = (None, None, None);
        for (&id, other) in alike {
            all += 1;
            oldest = oldest.or(Some(id));
            if other.subnet == guest.subnet {
                of_subnet += 1;
                oldest_of_subnet = oldest_of_subnet.or(Some(id));
            }
            if other.peer == guest.peer {
                of_peer += 1;
                oldest_of_peer = oldest_of_peer.or(Some(id));
            }
        }
        self.waiting.insert(id, guest);
        if of_peer >= limits.of_peer {
            oldest_of_peer
        } else if of_subnet >= limits.of_subnet {
            oldest_of_subnet
        } else if all >= limits.all {
            oldest
        } else {
            None
        }
    }

    pub(super) fn leave(&mut self, id: ChannelId) {
        self.waiting.remove(&id);
    }

    pub(super) fn contains(&self, id: ChannelId) -> bool {
        self.waiting.contains_key(&id)
    }
}

impl Engine {
    /// A channel that a peer opened has completed its handshake.
    pub(super) fn receive_guest(&mut self, now: Instant, id: ChannelId) {
        if let Some(owner) = self.owners.get_mut(&id) {
            owner.deadline = Some(now + SHOW_MAX);
        }
        let Some(channel) = self.endpoint.channel(id) else {
            return;
        };
        let Some(peer) = channel.peer() else {
            return;
        };
        let subnet = Subnet::from(channel.remote().ip());
        let Some(access) = self.allowed.access(&peer) else {
            // It was taken off the list in the meantime.
            self.close_unknown(now, id, CODE_NOT_ALLOWED, NOT_ALLOWED);
            return;
        };
        let guest = Guest {
            peer,
            subnet,
            access,
        };
        if let Some(oldest) = self.guests.enter(id, guest) {
            self.close_unknown(
                now,
                oldest,
                CODE_BUSY,
                "others wait to be let in; dial again",
            );
        }
    }

    /// Closes a channel for which nothing is kept once its peer has been notified.
    pub(super) fn close_unknown(&mut self, now: Instant, id: ChannelId, code: u32, words: &str) {
        if let Some(cause) = Refused::by_code(code) {
            self.guests.refusals.add(cause);
        }
        if let Some(channel) = self.endpoint.channel(id) {
            channel.close(now, code, words);
        }
        self.touched.push_back(id);
        self.advance_closed(now, id);
    }

    /// The time of a channel's handshake or introduction may be over.
    pub(super) fn expire_channel(&mut self, now: Instant, id: ChannelId) {
        let Some(owner) = self.owners.get_mut(&id) else {
            return;
        };
        if owner.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        owner.deadline = None;
        let is_accepted = owner.is_accepted;
        let Some(channel) = self.endpoint.channel(id) else {
            return;
        };
        if !channel.is_handshaking() {
            self.close_unknown(now, id, CODE_LATE, "not introduced in time");
        } else if is_accepted {
            // Its address may be anybody's: not a word.
            self.guests.refusals.add(Refused::Late);
            self.endpoint.abandon(id);
            self.forget_owner(id);
        } else {
            let words = "the handshake took too long";
            channel.close_because(
                now,
                super::CODE_CHANNEL_ONLY,
                words,
                CloseReason::NoReply(HANDSHAKE_MAX),
            );
            self.touched.push_back(id);
            self.advance_closed(now, id);
        }
    }

    /// True if there is capacity for one more channel of this peer, or for one more session of it.
    pub(super) fn has_capacity(&self, peer: NodeId, access: Access, is_new: bool) -> bool {
        let (mut sessions, mut channels, mut of_strangers) = (0, 0, 0);
        for session in self.sessions.values().filter(|one| !one.is_initiator) {
            if session.peer == peer {
                sessions += 1;
                channels += session.channels.states.len();
            }
            if session.is_strangers {
                of_strangers += session.channels.states.len();
            }
        }
        channels < CHANNELS_PER_PEER_MAX
            && (!is_new || sessions < SESSIONS_PER_PEER_MAX)
            && (access == Access::Listed || of_strangers < STRANGERS_LET_IN_MAX)
    }

    /// The peer of a session has shown its right, by a ticket for example: the session is on probation no longer, and gets
    /// the windows, streams and time that others have. Nothing changes for sessions that are not on probation.
    ///
    /// # Errors
    /// No such session.
    pub fn end_probation(&mut self, session: SessionId) -> Result<(), StreamError> {
        let state = find(&mut self.sessions, session)?;
        state.end_probation();
        let channels: Vec<ChannelId> = state.channels.states.iter().map(|state| state.id).collect();
        for id in channels {
            self.let_in(id);
            self.measure(session, id);
        }
        Ok(())
    }

    /// A channel's peer has shown its right.
    pub(super) fn let_in(&mut self, id: ChannelId) {
        self.guests.leave(id);
        self.endpoint.remember_peer_of(id);
        if let Some(channel) = self.endpoint.channel(id) {
            channel.limit_input(None);
        }
        self.retime(id);
    }

    /// Begins to measure a channel.
    fn measure(&mut self, session: SessionId, id: ChannelId) {
        if let Some(channel) = self.endpoint.peek(id)
            && let Some(state) = self.sessions.get_mut(&session)
        {
            state.measure(id, channel.socket(), channel.remote());
        }
    }

    /// Stops the channels of a session on probation, whose allowance is used up, from taking in packets until it is admitted.
    pub(super) fn hold_off(&mut self, session: SessionId) {
        let Some(state) = self.sessions.get(&session) else {
            return;
        };
        for state in &state.channels.states {
            if let Some(channel) = self.endpoint.channel(state.id) {
                channel.limit_input(Some(0));
            }
        }
    }

    /// Follows changes of the allow-list: closes what keys opened that are no longer on it, and ends the probation of those
    /// that came onto it. The engine does so with every packet and timer; a host calls it to have it done at once. Sessions
    /// that this node opened stay: whom to dial is another question.
    pub fn follow_allow_list(&mut self, now: Instant) {
        let changes = self.allowed.changes();
        if std::mem::replace(&mut self.allowed_changes, changes) == changes {
            return;
        }
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            let Some(state) = self.sessions.get(&id).filter(|one| !one.is_initiator) else {
                continue;
            };
            match self.allowed.access(&state.peer) {
                None => self.end_session(now, id, SessionCloseReason::NotAllowed),
                Some(Access::Listed) if state.is_on_probation() => {
                    let _ = self.end_probation(id);
                }
                Some(_) => {}
            }
        }
        let waiting: Vec<(ChannelId, NodeId)> = self
            .guests
            .waiting
            .iter()
            .map(|(&id, g)| (id, g.peer))
            .collect();
        for (id, peer) in waiting {
            if self.allowed.access(&peer).is_none() && self.guests.contains(id) {
                self.close_unknown(now, id, CODE_NOT_ALLOWED, NOT_ALLOWED);
            }
        }
    }
}

/// Words of a close.
pub(super) const NOT_ALLOWED: &str = "this key is no longer on the allow-list";

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(peer: u8, address: u8, access: Access) -> Guest {
        Guest {
            peer: NodeId::from_public_key([peer; 32]),
            subnet: Subnet::from(std::net::IpAddr::from([192, 0, 2, address])),
            access,
        }
    }

    #[test]
    fn strangers_at_their_limits_leave_listed_peers_their_channels() {
        let strangers = STRANGERS_LET_IN_MAX + STRANGERS_WAITING;
        assert_eq!(strangers + CHANNELS_RESERVED, CHANNELS_MAX);
    }

    #[test]
    fn the_oldest_of_the_same_key_gives_way_then_of_the_subnet() {
        let mut guests = Guests::default();
        for id in 0..8 {
            let new = guest(1, id as u8, Access::Stranger);
            assert_eq!(guests.enter(ChannelId(id), new), None);
        }
        let ninth = guest(1, 200, Access::Stranger);
        assert_eq!(guests.enter(ChannelId(8), ninth), Some(ChannelId(0)));
        guests.leave(ChannelId(0));
        for id in 100..131 {
            let new = guest(id as u8, 200, Access::Stranger);
            assert_eq!(guests.enter(ChannelId(id), new), None);
        }
        let one_more = guest(250, 200, Access::Stranger);
        assert_eq!(guests.enter(ChannelId(131), one_more), Some(ChannelId(8)));
    }

    #[test]
    fn strangers_take_no_capacity_of_listed_peers() {
        let mut guests = Guests::default();
        let mut id = 0;
        for address in 0..=255 {
            for peer in 0..2 {
                let new = guest(address ^ (peer << 7), address, Access::Stranger);
                if let Some(oldest) = guests.enter(ChannelId(id), new) {
                    guests.leave(oldest);
                }
                id += 1;
            }
        }
        assert_eq!(guests.waiting.len(), STRANGERS.all);
        let listed = guest(99, 99, Access::Listed);
        assert_eq!(guests.enter(ChannelId(id), listed), None);
    }
}
