//! Events carried from channels to sessions and back.

use anabranch_base::{ChannelId, Instant, SessionId};
use anabranch_channel::{self as channel, Acknowledgement, CloseReason};
use bytes::Bytes;

use super::{
    CODE_APPLICATION, CODE_BUSY, CODE_CHANNEL_ONLY, CODE_FORGOTTEN, CODE_LATE, CODE_NOT_ADMITTED,
    CODE_NOT_ALLOWED, CODE_PROTOCOL, CODE_VERSION, Engine, Owner, Refused,
};
use crate::{
    event::{Event, SessionCloseReason, SessionEvent},
    links::HANDSHAKE_MAX,
    session::{ProtocolError, Session},
    token::Token,
};

impl Engine {
    /// Passes the events of a channel to its session.
    pub(super) fn advance(&mut self, now: Instant, id: ChannelId) {
        if !self.touched.contains(&id) {
            self.touched.push_back(id);
        }
        self.retime(id);
        self.take_outcomes(now, id);
        while let Some(event) = self.endpoint.channel(id).and_then(|c| c.poll_event()) {
            self.on_channel_event(now, id, event);
        }
        while let Some(container) = self.endpoint.channel(id).and_then(|c| c.receive()) {
            if let Err(error) = self.on_container(now, id, container) {
                self.on_violation(now, id, error);
                return;
            }
        }
    }

    fn take_outcomes(&mut self, now: Instant, id: ChannelId) {
        let Some(session_id) = self.owners.get(&id).and_then(|owner| owner.session) else {
            return;
        };
        let mut acked_bytes = 0;
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let mut evidence = Acknowledgement::default();
        if let Some(channel) = self.endpoint.channel(id) {
            channel.take_outcomes(&mut outcomes);
            evidence = channel.acknowledgement(outcomes.len());
        }
        if let Some(session) = self.sessions.get_mut(&session_id) {
            for outcome in outcomes.drain(..) {
                acked_bytes += session.on_outcome(now, id, (outcome, evidence), &mut self.events);
            }
        }
        self.note_acked(now, id, session_id, acked_bytes);
        outcomes.clear();
        self.outcomes = outcomes;
    }

    fn on_channel_event(&mut self, now: Instant, id: ChannelId, event: channel::Event) {
        match event {
            channel::Event::Connected => self.on_connected(now, id),
            channel::Event::Suspected => {
                if let Some(session) = self.owner(id) {
                    session.on_suspected(id);
                    let session = session.id;
                    self.settle_initial_channel(now, session);
                    self.events.push_back(Event::Session {
                        session,
                        event: SessionEvent::ChannelSuspected { channel: id },
                    });
                }
            }
            channel::Event::Recovered { silence } => {
                if let Some(session) = self.owner(id) {
                    session.on_recovered(id);
                    let session = session.id;
                    self.events.push_back(Event::Session {
                        session,
                        event: SessionEvent::ChannelRecovered {
                            channel: id,
                            silence,
                        },
                    });
                }
            }
            channel::Event::Closed(reason) => self.on_channel_closed(now, id, &reason),
        }
    }

    /// Founds the session on a channel, if it has no foundation yet.
    fn settle_initial_channel(&mut self, now: Instant, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if let Some(initial) = session.next_initial_channel()
            && let Some(channel) = self.endpoint.channel(initial)
        {
            let token = Token::of_first_channel(channel);
            let before = session.set_initial_channel(initial, token);
            if let Some(before) = before
                && let Some(channel) = self.endpoint.channel(before)
            {
                let words = "the session is established on another path";
                channel.close(now, CODE_CHANNEL_ONLY, words);
                self.touched.push_back(before);
                self.advance_closed(now, before);
            }
        }
    }

    fn owner(&mut self, id: ChannelId) -> Option<&mut Session> {
        let session = self.owners.get(&id)?.session?;
        self.sessions
            .get_mut(&session)
            .map(|session| &mut **session)
    }

    /// A handshake is complete. Our own channels are introduced with their first container; those
    /// of the peer wait for its first word.
    fn on_connected(&mut self, now: Instant, id: ChannelId) {
        let Some(owner) = self.owners.get_mut(&id) else {
            return;
        };
        owner.deadline = None;
        let Some(session_id) = owner.session else {
            self.receive_guest(now, id);
            return;
        };
        let Some(channel) = self.endpoint.channel(id) else {
            return;
        };
        let (socket, remote) = (channel.socket(), channel.remote());
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return;
        };
        session.describe_channel(id, self.descriptions.get(&socket).cloned());
        session.on_connected(id, (socket, remote), false);
        self.settle_initial_channel(now, session_id);
        self.events.push_back(Event::Session {
            session: session_id,
            event: SessionEvent::ChannelUp {
                channel: id,
                socket,
                remote,
            },
        });
    }

    fn on_container(
        &mut self,
        now: Instant,
        id: ChannelId,
        container: Bytes,
    ) -> Result<(), ProtocolError> {
        let session_id = match self.owners.get(&id) {
            Some(Owner {
                session: Some(session),
                ..
            }) => *session,
            Some(_) => match self.introduce(now, id, container.clone())? {
                Some(session) => session,
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        self.note_received(now, id, session_id, container.len());
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return Ok(());
        };
        session.on_container(now, id, container, &mut self.events)?;
        let is_sated = session.is_sated();
        let announced = session.take_announced();
        if is_sated {
            self.hold_off(session_id);
        }
        if !announced.is_empty() {
            self.follow_announced(now, session_id, announced);
        }
        Ok(())
    }

    /// Takes the `Closed` event of a channel that was just closed.
    pub(super) fn advance_closed(&mut self, now: Instant, id: ChannelId) {
        while let Some(event) = self.endpoint.channel(id).and_then(|c| c.poll_event()) {
            self.on_channel_event(now, id, event);
        }
    }

    fn on_violation(&mut self, now: Instant, id: ChannelId, error: ProtocolError) {
        let code = match error {
            ProtocolError::Version(_) => CODE_VERSION,
            _ => CODE_PROTOCOL,
        };
        let words = error.to_string();
        let session = self.owners.get(&id).and_then(|owner| owner.session);
        match session.and_then(|session| self.sessions.remove(&session)) {
            Some(mut session) => {
                session.close_channels(now, &mut self.endpoint, code, &words);
                self.forget_session(now, &session, error.into_reason());
            }
            None => {
                if self.guests.contains(id) {
                    self.guests.refusals.add(Refused::Protocol);
                }
                if let Some(channel) = self.endpoint.channel(id) {
                    channel.close(now, code, &words);
                }
                self.advance_closed(now, id);
            }
        }
    }

    fn on_channel_closed(&mut self, now: Instant, id: ChannelId, reason: &CloseReason) {
        self.take_outcomes(now, id);
        self.retime(id);
        self.report_stranger(id, reason);
        if let Some(owner) = self.owners.get_mut(&id) {
            // Nothing is kept for who has shown nothing.
            owner.is_leaving |= self.guests.contains(id) || owner.is_new();
            owner.deadline = None;
        }
        self.guests.leave(id);
        let Some(session) = self.owner(id) else {
            return;
        };
        let session_id = session.id;
        session.on_channel_closed(now, id, reason);
        self.settle_initial_channel(now, session_id);
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return;
        };
        let is_over = session.channels.states.is_empty() && session.is_on_probation();
        let is_refused = *reason == CloseReason::NotListed
            && session.is_initiator
            && !session.channels.is_connected();
        let impossible = session.impossible(now);
        self.events.push_back(Event::Session {
            session: session_id,
            event: SessionEvent::ChannelClosed {
                channel: id,
                reason: reason.clone(),
            },
        });
        let end = match reason {
            CloseReason::Peer { code, reason } => match u32::try_from(*code) {
                Ok(CODE_CHANNEL_ONLY | CODE_BUSY | CODE_LATE) => None,
                Ok(CODE_NOT_ALLOWED) => Some(SessionCloseReason::NotAllowed),
                Ok(CODE_NOT_ADMITTED) => Some(SessionCloseReason::NotAdmitted),
                Ok(CODE_FORGOTTEN) => Some(SessionCloseReason::Forgotten),
                Ok(CODE_VERSION) => Some(SessionCloseReason::VersionRefused),
                Ok(CODE_PROTOCOL) => Some(SessionCloseReason::Protocol(format!(
                    "the peer says: {reason}"
                ))),
                _ => Some(SessionCloseReason::Peer {
                    code: code.saturating_sub(u64::from(CODE_APPLICATION)),
                    reason: reason.clone(),
                }),
            },
            _ if is_refused => Some(SessionCloseReason::NotListed(self.node_id())),
            _ => impossible,
        };
        let is_theirs = matches!(reason, CloseReason::Peer { .. });
        let end = end.or(is_over.then_some(match is_theirs {
            true => SessionCloseReason::Abandoned,
            false => SessionCloseReason::NotAdmitted,
        }));
        if let Some(end) = end {
            self.end_session(now, session_id, end);
        }
    }

    pub(super) fn end_session(
        &mut self,
        now: Instant,
        id: SessionId,
        mut reason: SessionCloseReason,
    ) {
        if let SessionCloseReason::Unreachable(attempts) = &mut reason {
            self.name_interfaces(attempts);
        }
        if let Some(mut session) = self.sessions.remove(&id) {
            // What was acknowledged can still be read, however the session ended without this node.
            let is_read = matches!(
                reason,
                SessionCloseReason::Peer { .. }
                    | SessionCloseReason::TimedOut(_)
                    | SessionCloseReason::Forgotten
            );
            if is_read {
                session.hand_over_remainders(&mut self.events);
            }
            let code = match reason {
                SessionCloseReason::NotAllowed => CODE_NOT_ALLOWED,
                SessionCloseReason::NotAdmitted => CODE_NOT_ADMITTED,
                _ => CODE_APPLICATION,
            };
            session.close_channels(now, &mut self.endpoint, code, &reason.to_string());
            self.forget_session(now, &session, reason);
        }
    }

    /// Detaches a session's channels, which then drain by themselves.
    pub(super) fn forget_session(
        &mut self,
        now: Instant,
        session: &Session,
        reason: SessionCloseReason,
    ) {
        self.uplinks.forget(session.id);
        if let Some(token) = &session.establishment.token {
            self.tokens.remove(&token.session);
        }
        for state in &session.channels.states {
            if let Some(owner) = self.owners.get_mut(&state.id) {
                owner.session = None;
            }
            self.touched.push_back(state.id);
            self.advance_closed(now, state.id);
        }
        self.events.push_back(Event::Closed {
            session: session.id,
            reason,
        });
    }

    /// Dials the links of a session that are due.
    pub(super) fn dial(&mut self, now: Instant, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let peer = session.peer;
        let mut dialled = Vec::new();
        for index in 0..session.channels.links.len() {
            if !session.channels.links[index].is_due(now) {
                continue;
            }
            let link = session.channels.links[index].link;
            match self
                .endpoint
                .connect(now, link.socket, link.remote, peer, None)
            {
                Ok(channel) => {
                    session.channels.links[index].on_dialled(now, channel);
                    session.add_channel(now, channel);
                    let owner = Owner::new(Some(id), now + HANDSHAKE_MAX);
                    self.owners.insert(channel, owner);
                    self.touched.push_back(channel);
                    dialled.push(channel);
                }
                Err(error) => {
                    let is_spare = session.channels.is_connected();
                    let reason = CloseReason::Protocol(error.to_string());
                    session.channels.links[index].on_closed(now, reason, is_spare);
                }
            }
        }
        for channel in dialled {
            self.retime(channel);
        }
    }

    /// Forgets a channel of which nothing is left.
    pub(super) fn reap(&mut self, id: ChannelId) {
        let channel = self.endpoint.channel(id);
        if channel.is_none_or(|channel| channel.is_drained()) {
            self.endpoint.settle_channel(id);
            self.endpoint.forget(id);
            self.forget_owner(id);
        }
    }
}
