//! Introduction of accepted channels: the session to which each belongs, by its first container (`spec/wire.md` §6).

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, NodeId, SessionId};
use anabranch_channel::Access;
use bytes::Bytes;

use super::{
    CODE_BUSY, CODE_CHANNEL_ONLY, CODE_FORGOTTEN, CODE_NOT_ALLOWED, Engine, guests::NOT_ALLOWED,
};
use crate::{
    config::CHANNELS_MAX,
    event::{Event, SessionEvent},
    session::{FORMER_IDS_KEPT, ProtocolError},
    token::Token,
    wire::{self, Control, Frame, Reader, frame::TOKEN_BYTES},
};

/// A channel on which nothing has arrived for so long may be closed in favour of a new one.
const SILENT_FOR: Duration = Duration::from_secs(1);

type Id = [u8; TOKEN_BYTES];

/// The frames that introduce a channel.
struct Introduction {
    session: Id,
    proof: [u8; TOKEN_BYTES],
    /// Ids of the session on earlier initial channels.
    former: Vec<Id>,
}

impl Introduction {
    fn read(mut container: Bytes) -> Result<Self, ProtocolError> {
        wire::read_header(&mut container)?;
        let mut frames = Reader::new(container);
        let Some(Frame::Control(Control::Join { session, proof })) = frames.next_frame()? else {
            return Err(ProtocolError::Rule("a channel's first frame is not a join"));
        };
        let mut former = Vec::new();
        while former.len() < FORMER_IDS_KEPT
            && let Some(Frame::Control(Control::Replace { session })) = frames.next_frame()?
        {
            former.push(session);
        }
        Ok(Self {
            session,
            proof,
            former,
        })
    }
}

impl Engine {
    /// Assigns a channel to the session that its first container names. If no session has that id, the channel is an initial one,
    /// and derives the same id from its own secret: the session that had one of the earlier ids continues on it, or a new one
    /// begins.
    pub(super) fn introduce(
        &mut self,
        now: Instant,
        id: ChannelId,
        container: Bytes,
    ) -> Result<Option<SessionId>, ProtocolError> {
        let introduction = Introduction::read(container)?;
        let Some(channel) = self.endpoint.channel(id) else {
            return Ok(None);
        };
        let Some(peer) = channel.peer() else {
            return Ok(None);
        };
        let (socket, remote) = (channel.socket(), channel.remote());
        let own = Token::of_first_channel(channel);
        let known = self.tokens.get(&introduction.session).copied();
        let continued = known.or_else(|| self.with_former_id(peer, &introduction.former));
        let Some(access) = self.allowed.access(&peer) else {
            self.close_unknown(now, id, CODE_NOT_ALLOWED, NOT_ALLOWED);
            return Ok(None);
        };
        if !self.has_capacity(peer, access, continued.is_none()) {
            let words = "too many channels or sessions of this key, or of keys that are not listed";
            self.close_unknown(now, id, CODE_BUSY, words);
            return Ok(None);
        }
        let Some(channel) = self.endpoint.channel(id) else {
            return Ok(None);
        };
        let Introduction { session, proof, .. } = introduction;
        let mut is_initial = false;
        let session_id = if let Some(known) = known {
            let state = &self.sessions[&known];
            let token = state.establishment.token.as_ref();
            let belongs =
                state.peer == peer && token.is_some_and(|token| token.accepts(channel, &proof));
            if !belongs {
                return Err(ProtocolError::Rule("a join with a wrong token"));
            }
            if !self.make_space(now, known) {
                self.close_unknown(now, id, CODE_BUSY, "too many channels of this session");
                return Ok(None);
            }
            known
        } else if let Some(token) =
            own.filter(|token| token.session == session && token.accepts(channel, &proof))
        {
            if self.is_former(peer, &session) {
                // A later initial channel overtook its JOIN.
                let words = "the session was established on another path";
                self.close_unknown(now, id, CODE_CHANNEL_ONLY, words);
                return Ok(None);
            }
            is_initial = true;
            let chosen = continued.unwrap_or_else(|| self.begin_session(now, id, peer, access));
            self.rename(chosen, token, introduction.former);
            chosen
        } else {
            self.close_unknown(now, id, CODE_FORGOTTEN, "no such session here");
            return Ok(None);
        };
        if let Some(owner) = self.owners.get_mut(&id) {
            owner.session = Some(session_id);
            owner.deadline = None;
        }
        self.retime(id);
        let session = self.sessions.get(&session_id);
        if session.is_some_and(|session| !session.is_on_probation()) {
            self.let_in(id);
        }
        if let Some(state) = self.sessions.get_mut(&session_id) {
            state.add_channel(now, id);
            state.describe_channel(id, self.descriptions.get(&socket).cloned());
            state.on_connected(id, (socket, remote), true);
        }
        self.events.push_back(Event::Session {
            session: session_id,
            event: SessionEvent::ChannelUp {
                channel: id,
                socket,
                remote,
            },
        });
        if is_initial {
            self.close_others(now, session_id, id);
        }
        Ok(Some(session_id))
    }

    /// The session with this peer that has one of these ids, of which a newer initial channel is being introduced.
    fn with_former_id(&self, peer: NodeId, ids: &[Id]) -> Option<SessionId> {
        let mut known = ids.iter().rev().filter_map(|id| self.tokens.get(id));
        let is_theirs =
            |id: &&SessionId| (self.sessions.get(*id)).is_some_and(|one| one.peer == peer);
        known.find(is_theirs).copied()
    }

    /// True if a session of this peer had that id on an earlier initial channel. O(sessions).
    fn is_former(&self, peer: NodeId, id: &Id) -> bool {
        let mut theirs = self.sessions.values().filter(|one| one.peer == peer);
        theirs.any(|session| session.establishment.had(id))
    }

    /// Opens the session that the peer initiates on this channel.
    fn begin_session(
        &mut self,
        now: Instant,
        id: ChannelId,
        peer: NodeId,
        access: Access,
    ) -> SessionId {
        let is_stranger = access == Access::Stranger;
        let until = self.owners.get(&id).and_then(|owner| owner.deadline);
        let probation = until.filter(|_| is_stranger);
        let new = self.new_session(now, peer, false, probation);
        self.events.push_back(Event::Connected {
            session: new,
            peer,
            incoming: true,
        });
        new
    }

    /// Gives a session the token of its initial channel in place of the one that it had.
    fn rename(&mut self, session: SessionId, token: Token, former: Vec<Id>) {
        self.tokens.insert(token.session, session);
        let Some(state) = self.sessions.get_mut(&session) else {
            return;
        };
        for id in former {
            state.establishment.note_former(id);
        }
        if let Some(before) = state.establishment.token.replace(token) {
            self.tokens.remove(&before.session);
            state.establishment.note_former(before.session);
        }
    }

    /// Closes all channels of a session but one: those on which the peer gave up to establish it.
    fn close_others(&mut self, now: Instant, session: SessionId, kept: ChannelId) {
        let Some(session) = self.sessions.get(&session) else {
            return;
        };
        let channels = session.channels.states.iter().map(|state| state.id);
        let others: Vec<ChannelId> = channels.filter(|id| *id != kept).collect();
        for id in others {
            self.close_channel(now, id);
        }
    }

    /// True if a session can have one more channel. If it has as many as it may, the one on which nothing has arrived for longest
    /// is closed: a peer whose address changed cannot close those on its earlier addresses.
    fn make_space(&mut self, now: Instant, session: SessionId) -> bool {
        let channels = &self.sessions[&session].channels.states;
        if channels.len() < CHANNELS_MAX {
            return true;
        }
        let received_at = |id: ChannelId| Some((self.endpoint.peek(id)?.received_at(), id));
        let oldest = channels.iter().filter_map(|state| received_at(state.id));
        let silent = oldest.min().filter(|(at, _)| now.since(*at) >= SILENT_FOR);
        if let Some((_, id)) = silent {
            self.close_channel(now, id);
        }
        silent.is_some()
    }
}
