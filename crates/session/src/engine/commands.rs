//! What applications ask of the engine.

use anabranch_base::{ChannelId, Instant, NodeId, Rate, SessionId, SocketId, StreamId};
use anabranch_channel::ConnectError;
use anabranch_sched::{Callback, Guarantee, Policy, Scheduler, StreamSpec};
use bytes::Bytes;

use super::{CODE_APPLICATION, CODE_CHANNEL_ONLY, Engine, find};
use crate::{
    config::CHANNELS_MAX,
    event::{Adu, SendError, SessionCloseReason, StreamError},
    journal::Entry,
    links::{Link, LinkState},
    objective::{self, FieldValue, Injected, ObjectiveError, ObjectiveId},
    parameters::StreamParameters,
    promise::{Explanation, Grant},
    session::{Parts, Session},
    stats::{ChannelReport, LatencyMode, SessionStats, StreamStats, latency_modes},
};

impl Engine {
    /// Opens a session to `peer` over every one of `links`; `Connected` follows with the first
    /// channel, `Closed` if none can be opened in time.
    ///
    /// # Errors
    /// An address cannot be dialled.
    pub fn connect(
        &mut self,
        now: Instant,
        peer: NodeId,
        links: Vec<Link>,
    ) -> Result<SessionId, ConnectError> {
        for link in &links {
            if link.remote.port() == 0 || link.remote.ip().is_unspecified() {
                return Err(ConnectError::Address(link.remote));
            }
        }
        let id = self.new_session(now, peer, true, None);
        for link in links {
            self.add_link(now, id, link);
        }
        Ok(id)
    }

    pub(super) fn new_session(
        &mut self,
        now: Instant,
        peer: NodeId,
        is_initiator: bool,
        probation: Option<Instant>,
    ) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        let parts = Parts {
            id,
            peer,
            is_initiator,
            config: self.config.clone(),
            probation,
            seed: self.seed.child(&id.to_string()),
        };
        let mut session = Session::new(now, parts);
        if let Some(text) = &self.config.objectives {
            // Of no effect if it has errors, as the setting says.
            let _ = session.inject_objectives(now, text, &mut self.events);
        }
        self.sessions.insert(id, Box::new(session));
        id
    }

    /// Opens one more channel for a session of ours, now and whenever it is lost.
    pub fn add_link(&mut self, now: Instant, session: SessionId, link: Link) {
        if let Some(state) = self.sessions.get_mut(&session)
            && !state.links.iter().any(|known| known.link == link)
            && state.links.len() < CHANNELS_MAX
        {
            let mut new = LinkState::new(now, link);
            if self.budgets.is_spent(link.socket) {
                new.set_up(now, false);
            }
            state.links.push(new);
            self.dial(now, session);
        }
    }

    /// Closes the channel of a link and does not dial it again.
    pub fn remove_link(&mut self, now: Instant, session: SessionId, link: &Link) {
        let Some(state) = self.sessions.get_mut(&session) else {
            return;
        };
        let Some(index) = state.links.iter().position(|known| known.link == *link) else {
            return;
        };
        if let Some(id) = state.links.remove(index).channel {
            self.close_channel(now, id);
        }
    }

    /// A local socket can no longer be used: its interface went. Channels on it are closed at once.
    pub fn socket_down(&mut self, now: Instant, socket: SocketId) {
        for session in self.sessions.values_mut() {
            session.set_socket_up(now, socket, false);
        }
        let channels: Vec<ChannelId> = self.endpoint.channel_ids().collect();
        for id in channels {
            if self
                .endpoint
                .channel(id)
                .is_some_and(|channel| channel.socket() == socket)
            {
                self.close_channel(now, id);
            }
        }
    }

    /// A local socket can be used again; not before its next period, if its budget is spent.
    pub fn socket_up(&mut self, now: Instant, socket: SocketId) {
        if self.budgets.is_spent(socket) {
            return;
        }
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.set_socket_up(now, socket, true);
            }
            self.dial(now, id);
        }
    }

    /// What objectives call the channels of a local socket that connect from now on (`channel::name`): its interface, say.
    /// Without this they are called by their ids, such as `channel-3`.
    pub fn set_socket_name(&mut self, socket: SocketId, name: &str) {
        self.names.insert(socket, name.into());
    }

    fn close_channel(&mut self, now: Instant, id: ChannelId) {
        if let Some(channel) = self.endpoint.channel(id) {
            channel.close(now, CODE_CHANNEL_ONLY, "this path is going away");
            self.touched.push_back(id);
            self.advance(now, id);
        }
    }

    pub(super) fn session(&mut self, id: SessionId) -> Result<&mut Session, StreamError> {
        find(&mut self.sessions, id)
    }

    /// Opens a stream. The peer learns of it with the first data, or with its end.
    ///
    /// # Errors
    /// The session is unknown, the spec out of range, too many streams are open, or the guarantee that
    /// the spec asks for cannot be given and does not wait.
    pub fn open_stream(
        &mut self,
        now: Instant,
        session: SessionId,
        spec: StreamSpec,
    ) -> Result<StreamId, StreamError> {
        let session = find(&mut self.sessions, session)?;
        session.open_stream(now, spec, &mut self.events)
    }

    /// What [`Engine::open_stream`] would answer to the spec's guarantee now. Nothing is opened or
    /// reserved.
    ///
    /// # Errors
    /// [`StreamError::Refused`] with the reason and what could be promised instead; or as
    /// [`Engine::open_stream`].
    pub fn admit(
        &mut self,
        now: Instant,
        session: SessionId,
        spec: &StreamSpec,
    ) -> Result<Grant, StreamError> {
        self.session(session)?.admit(now, spec)
    }

    /// Changes what an open stream is to be promised; `None` releases it. What it was promised stays
    /// in force when this is refused.
    ///
    /// # Errors
    /// As [`Engine::open_stream`].
    pub fn change_guarantee(
        &mut self,
        now: Instant,
        session: SessionId,
        stream: StreamId,
        guarantee: Option<Guarantee>,
    ) -> Result<(), StreamError> {
        let session = find(&mut self.sessions, session)?;
        session.change_guarantee(now, stream, guarantee, &mut self.events)
    }

    /// Why a stream is promised what it is, or not; `None` for one that asked for nothing.
    pub fn explain(&self, session: SessionId, stream: StreamId) -> Option<Explanation> {
        self.sessions.get(&session)?.explain(stream)
    }

    /// Queues an ADU and returns its sequence number in the stream.
    ///
    /// # Errors
    /// Nothing was queued; [`SendError`] says why and what to do.
    pub fn send(
        &mut self,
        now: Instant,
        session: SessionId,
        stream: StreamId,
        data: Bytes,
    ) -> Result<u64, SendError> {
        self.session(session)?.send(now, stream, data, 0)
    }

    /// As [`Engine::send`], of this importance: where a stream drops the least important first, those of
    /// the smallest number go. [`Engine::send`] gives 0. It stays with the sender.
    ///
    /// # Errors
    /// As [`Engine::send`].
    pub fn send_important(
        &mut self,
        now: Instant,
        session: SessionId,
        stream: StreamId,
        data: Bytes,
        importance: u8,
    ) -> Result<u64, SendError> {
        self.session(session)?.send(now, stream, data, importance)
    }

    /// Changes the importance of an ADU that was handed over; false when its fate is known already.
    ///
    /// # Errors
    /// No such session or stream.
    pub fn set_importance(
        &mut self,
        session: SessionId,
        stream: StreamId,
        adu: u64,
        importance: u8,
    ) -> Result<bool, StreamError> {
        self.session(session)?
            .set_importance(stream, adu, importance)
    }

    /// Changes weight, cap or drop order of what this side sends on an open stream, from the next packet
    /// on. Nothing changes when this is refused.
    ///
    /// # Errors
    /// No such session or stream; a value is out of range.
    pub fn adjust(
        &mut self,
        _now: Instant,
        session: SessionId,
        stream: StreamId,
        parameters: StreamParameters,
    ) -> Result<(), StreamError> {
        self.session(session)?.adjust(stream, parameters)
    }

    /// As [`Engine::send`], but refuses an ADU that would miss its stream's lifetime, as far as the
    /// channels' queues and what the stream has waiting can tell.
    ///
    /// # Errors
    /// As [`Engine::send`], and [`SendError::WouldMiss`].
    pub fn send_if_timely(
        &mut self,
        now: Instant,
        session: SessionId,
        stream: StreamId,
        data: Bytes,
    ) -> Result<u64, SendError> {
        let session = self.session(session)?;
        if let Some(refusal) = session.would_miss(stream, data.len()) {
            return Err(refusal);
        }
        session.send(now, stream, data, 0)
    }

    /// Bytes that the stream's send buffer will take; one ADU more is accepted while it is not 0.
    pub fn send_room(&self, session: SessionId, stream: StreamId) -> usize {
        self.sessions
            .get(&session)
            .map_or(0, |session| session.send_room(stream))
    }

    /// Ends the sending half of a stream: what was queued is still sent; `Delivered` follows.
    ///
    /// # Errors
    /// No such session or stream.
    pub fn finish(
        &mut self,
        _now: Instant,
        session: SessionId,
        stream: StreamId,
    ) -> Result<(), StreamError> {
        self.session(session)?.finish(stream)
    }

    /// Gives the sending half of a stream up: what was queued is dropped.
    ///
    /// # Errors
    /// No such session or stream.
    pub fn reset(
        &mut self,
        _now: Instant,
        session: SessionId,
        stream: StreamId,
        code: u32,
    ) -> Result<(), StreamError> {
        self.session(session)?.reset(stream, code)
    }

    /// Tells the peer that no more of a stream is wanted; what has arrived is dropped.
    ///
    /// # Errors
    /// No such session or stream.
    pub fn stop(
        &mut self,
        _now: Instant,
        session: SessionId,
        stream: StreamId,
        code: u32,
    ) -> Result<(), StreamError> {
        self.session(session)?.stop(stream, code)
    }

    /// The next ADU of a stream, if one is complete (and in order, where asked).
    pub fn receive(&mut self, _now: Instant, session: SessionId, stream: StreamId) -> Option<Adu> {
        self.sessions
            .get_mut(&session)?
            .receive(stream, &mut self.events)
    }

    /// Ends a session at once; the peer learns `code` and `reason`. What was not delivered is lost:
    /// finish streams and wait for `Delivered` first where that matters.
    pub fn close(&mut self, now: Instant, session: SessionId, code: u32, reason: &str) {
        if let Some(mut state) = self.sessions.remove(&session) {
            state.close_channels(
                now,
                &mut self.endpoint,
                CODE_APPLICATION.saturating_add(code),
                reason,
            );
            self.forget_session(now, &state, SessionCloseReason::Local);
        }
    }

    /// Changes the scheduling policy of a session.
    ///
    /// # Errors
    /// No such session.
    pub fn set_policy(&mut self, session: SessionId, policy: Policy) -> Result<(), StreamError> {
        self.session(session)?.set_policy(policy);
        Ok(())
    }

    /// From now on each channel of the session holds this rate if its controller holds one: it is the target of `ctcp` and the rate of
    /// `fixed`, in bytes of UDP payload, whatever is configured. It holds for channels that open later, too; other
    /// controllers take no notice. Below 1 kbit/s it is 1 kbit/s.
    ///
    /// Where a session has several channels, each is held at the whole rate, those included that had one of their own
    /// ([`Engine::set_rate_of_channel`]); what they carry together is what streams offer.
    ///
    /// # Errors
    /// No such session.
    pub fn set_channel_rate(&mut self, session: SessionId, rate: Rate) -> Result<(), StreamError> {
        let rate = rate.max(anabranch_sched::spec::CAP_MIN);
        self.session(session)?.set_channel_rate(rate);
        Ok(())
    }

    /// The same for one channel of a session, until it closes or [`Engine::set_channel_rate`] is called. False: the session has no
    /// such channel, any more perhaps.
    ///
    /// # Errors
    /// No such session.
    pub fn set_rate_of_channel(
        &mut self,
        session: SessionId,
        channel: ChannelId,
        rate: Rate,
    ) -> Result<bool, StreamError> {
        let rate = rate.max(anabranch_sched::spec::CAP_MIN);
        let session = self.session(session)?;
        Ok(session.set_rate_of_channel(channel, rate))
    }

    /// Puts the objectives of a HOSE text into force in a session, all or none. They count under a policy that follows
    /// objectives, `assign` or `random_walk`. Streams are named by their ids; a `rate` item asks for a promise for
    /// its stream, now or when it opens, and an event tells what came of it.
    ///
    /// # Errors
    /// No such session; the text has errors, or asks for what cannot be. Nothing has changed.
    pub fn inject_objectives(
        &mut self,
        now: Instant,
        session: SessionId,
        text: &str,
    ) -> Result<Injected, ObjectiveError> {
        let session = find(&mut self.sessions, session)?;
        session.inject_objectives(now, text, &mut self.events)
    }

    /// Takes an objective out of force, and releases what a `rate` item was promised; false when it is not in force.
    ///
    /// # Errors
    /// No such session.
    pub fn remove_objective(
        &mut self,
        now: Instant,
        session: SessionId,
        objective: ObjectiveId,
    ) -> Result<bool, StreamError> {
        let session = find(&mut self.sessions, session)?;
        Ok(session.remove_objective(now, objective, &mut self.events))
    }

    /// The objectives in force in a session.
    pub fn objectives(&self, session: SessionId) -> Vec<objective::Entry> {
        self.sessions
            .get(&session)
            .map_or_else(Vec::new, |session| session.objectives())
    }

    /// As [`Engine::send_important`], with header fields for objectives to see. They stay with the sender.
    ///
    /// # Errors
    /// As [`Engine::send`], and [`SendError::Field`].
    pub fn send_with_fields(
        &mut self,
        now: Instant,
        session: SessionId,
        stream: StreamId,
        data: Bytes,
        importance: u8,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<u64, SendError> {
        self.session(session)?
            .send_with_fields(now, stream, data, importance, fields)
    }

    /// Sets header fields of an ADU that was handed over; others stay as they are. False when its fate is known
    /// already.
    ///
    /// # Errors
    /// No such session or stream; a field's name or type.
    pub fn update_fields(
        &mut self,
        session: SessionId,
        stream: StreamId,
        adu: u64,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<bool, ObjectiveError> {
        self.session(session)?.update_fields(stream, adu, fields)
    }

    /// Lets the application decide which ADU takes which slot of a session, until a policy is set.
    ///
    /// # Errors
    /// No such session.
    pub fn set_callback(
        &mut self,
        session: SessionId,
        callback: Box<dyn Callback>,
    ) -> Result<(), StreamError> {
        let scheduler = anabranch_sched::by_callback(callback);
        self.set_scheduler(session, scheduler)
    }

    /// Replaces the scheduler of a session by one that is no policy of ours, for experiments: a policy that
    /// knows the future, say.
    ///
    /// # Errors
    /// No such session.
    pub fn set_scheduler(
        &mut self,
        session: SessionId,
        scheduler: Box<dyn Scheduler>,
    ) -> Result<(), StreamError> {
        self.session(session)?.set_scheduler(scheduler);
        Ok(())
    }

    /// Begins to keep a journal of what a session sends and of what becomes of it, or ends it. While it is kept,
    /// each packet costs O(fragments) more; up to a million entries wait for [`Engine::take_journal`].
    ///
    /// # Errors
    /// No such session.
    pub fn keep_journal(&mut self, session: SessionId, is_wanted: bool) -> Result<(), StreamError> {
        self.session(session)?.keep_journal(is_wanted);
        Ok(())
    }

    /// What happened since the last call, in order of time; nothing unless [`Engine::keep_journal`] was called.
    pub fn take_journal(&mut self, session: SessionId) -> Vec<Entry> {
        match self.sessions.get_mut(&session) {
            Some(session) => session.take_journal(),
            None => Vec::new(),
        }
    }

    /// Channels that exist, those included whose handshake goes on or whose end has not been acknowledged yet.
    pub fn channel_count(&self) -> usize {
        self.owners.len()
    }

    /// Ids of all sessions.
    pub fn session_ids(&self) -> Vec<SessionId> {
        self.sessions.keys().copied().collect()
    }

    /// A session as a whole.
    pub fn session_stats(&self, session: SessionId) -> Option<SessionStats> {
        self.sessions.get(&session).map(|session| session.stats())
    }

    /// The channels of a session, in the order in which they were opened.
    pub fn channel_stats(&mut self, session: SessionId) -> Vec<ChannelReport> {
        match self.sessions.get_mut(&session) {
            Some(session) => session.channel_stats(&mut self.endpoint),
            None => Vec::new(),
        }
    }

    /// The latencies that a session's packets meet: one for each channel, or for channels that are alike; see
    /// [`latency_modes`].
    pub fn latency_modes(&mut self, session: SessionId) -> Vec<LatencyMode> {
        latency_modes(&self.channel_stats(session))
    }

    /// The open streams of a session.
    pub fn stream_stats(&self, session: SessionId) -> Vec<StreamStats> {
        self.sessions
            .get(&session)
            .map_or_else(Vec::new, |session| session.stream_stats())
    }
}
