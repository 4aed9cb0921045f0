//! Handles of the engine: one session, or one stream of it, for the commands of the application.
//!
//! ```text
//! engine.session(id)?.open_stream(now, spec)?
//! engine.session(id)?.stream(stream).send(now, data)?
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, SessionId, SocketId, StreamId};
use anabranch_hose::{Provided, Tally, json::Document};
use anabranch_sched::{AnyScheduler, Callback, Policy};
use anabranch_spec::{Guarantee, StreamSpec, Tenant};
use bytes::Bytes;

use super::{CODE_APPLICATION, Engine, Sessions};
use crate::{
    config::CHANNELS_MAX,
    event::{Adu, Event, SendError, SessionCloseReason, StreamError},
    journal::Entry,
    links::{Link, LinkState},
    objective::{self, FieldValue, Injected, ObjectiveError, ObjectiveId},
    parameters::StreamParameters,
    session::{Chances, PathError, Session, TakenOut},
    stats::{ChannelReport, Discarded, LatencyMode, SessionStats, StreamStats, latency_modes},
};
use anabranch_admission::{Explanation, Grant};

/// A session of an [`Engine`], from [`Engine::session`].
#[derive(Debug)]
pub struct SessionMut<'e> {
    engine: &'e mut Engine,
    id: SessionId,
}

/// A stream of a session, from [`SessionMut::stream`]. Its methods answer [`StreamError::UnknownStream`], or nothing, when the
/// session has no such stream.
#[derive(Debug)]
pub struct StreamMut<'e> {
    session: &'e mut Session,
    events: &'e mut VecDeque<Event>,
    id: StreamId,
}

/// The session with an id that was checked.
fn known(sessions: &mut Sessions, id: SessionId) -> &mut Session {
    sessions.get_mut(&id).expect("a handle borrows the engine")
}

impl Engine {
    /// Handle of a session.
    ///
    /// # Errors
    /// [`StreamError::UnknownSession`].
    pub fn session(&mut self, id: SessionId) -> Result<SessionMut<'_>, StreamError> {
        if !self.sessions.contains_key(&id) {
            return Err(StreamError::UnknownSession(id));
        }
        Ok(SessionMut { engine: self, id })
    }
}

impl<'e> SessionMut<'e> {
    fn state(&mut self) -> &mut Session {
        known(&mut self.engine.sessions, self.id)
    }

    fn parts(&mut self) -> (&mut Session, &mut VecDeque<Event>) {
        let Engine {
            sessions, events, ..
        } = &mut *self.engine;
        (known(sessions, self.id), events)
    }

    /// Handle of a stream.
    pub fn stream(self, id: StreamId) -> StreamMut<'e> {
        let Engine {
            sessions, events, ..
        } = self.engine;
        StreamMut {
            session: known(sessions, self.id),
            events,
            id,
        }
    }

    /// Opens one more channel for a session of ours, now and whenever it is lost. A session has 32 links at most: a new one
    /// takes the place of the one whose local socket has been down for longest. Returns false if all of them can be used.
    pub fn add_link(&mut self, now: Instant, link: Link) -> bool {
        let is_spent = self.engine.quotas.is_spent(link.socket);
        let links = &mut self.state().channels.links;
        if links.iter().any(|known| known.link == link) {
            return true;
        }
        if links.len() >= CHANNELS_MAX {
            let vacant = links.iter().enumerate();
            let vacant = vacant.filter_map(|(index, link)| Some((link.vacant_since()?, index)));
            let Some((_, oldest)) = vacant.min() else {
                return false;
            };
            links.remove(oldest);
        }
        if links.iter().all(|known| known.link.socket != link.socket) {
            // A new local address: other routes may be open to it as well.
            self.state().channels.wake_links(now);
        }
        let mut new = LinkState::new(now, link);
        if is_spent {
            new.set_up(now, false);
        }
        self.state().channels.links.push(new);
        self.engine.dial(now, self.id);
        true
    }

    /// Closes the channel of a link and does not dial it again.
    pub fn remove_link(&mut self, now: Instant, link: &Link) {
        let links = &mut self.state().channels.links;
        let Some(index) = links.iter().position(|known| known.link == *link) else {
            return;
        };
        if let Some(id) = links.remove(index).channel {
            self.engine.close_channel(now, id);
        }
    }

    /// The links of a session of ours, with or without a channel.
    pub fn links(&mut self) -> Vec<Link> {
        let links = self.state().channels.links.iter();
        links.map(|known| known.link).collect()
    }

    /// Local socket of each of its channels; true if the channel can carry data now, and the peer knows its session.
    pub fn sockets(&mut self) -> Vec<(SocketId, bool)> {
        let Engine {
            sessions, endpoint, ..
        } = &mut *self.engine;
        known(sessions, self.id).channels.sockets(endpoint)
    }

    /// Opens a stream. The peer learns of it with the first data, or with its end.
    ///
    /// # Errors
    /// The spec out of range, too many streams are open, or the guarantee that
    /// the spec asks for cannot be given and does not wait.
    pub fn open_stream(&mut self, now: Instant, spec: StreamSpec) -> Result<StreamId, StreamError> {
        if spec.guarantee.is_some() {
            self.engine.brief(now, self.id);
        }
        let (session, events) = self.parts();
        session.open_stream(now, spec, events)
    }

    /// The answer that [`SessionMut::open_stream`] would give to the spec's guarantee now. Nothing is opened or
    /// reserved.
    ///
    /// # Errors
    /// [`StreamError::Refused`] with the reason and what could be promised instead; or as
    /// [`SessionMut::open_stream`].
    pub fn admit(&mut self, now: Instant, spec: &StreamSpec) -> Result<Grant, StreamError> {
        self.engine.brief(now, self.id);
        self.state().admit(now, spec)
    }

    /// Changes the scheduling policy of a session.
    pub fn set_policy(&mut self, policy: Policy) {
        self.state().set_policy(policy);
    }

    /// Lets the application decide which ADU takes which slot of a session, until a policy is set.
    pub fn set_callback(&mut self, callback: Box<dyn Callback>) {
        self.set_scheduler(anabranch_sched::by_callback(callback));
    }

    /// Replaces the scheduler of a session by one that is no policy of ours, for experiments: a policy that
    /// knows the future, say.
    pub fn set_scheduler(&mut self, scheduler: AnyScheduler) {
        self.state().set_scheduler(scheduler);
    }

    /// From now on each channel of the session holds this rate if its controller holds one: it is the target of `ctcp` and the rate of
    /// `fixed`, in bytes of UDP payload, whatever is configured. It holds for channels that open later, too; other
    /// controllers take no notice. Below 1 kbit/s it is 1 kbit/s.
    ///
    /// If a session has several channels, each is held at the whole rate, those included that had one of their own
    /// ([`SessionMut::set_rate_of_channel`]); what they carry together is what streams offer.
    pub fn set_channel_rate(&mut self, rate: Rate) {
        let rate = rate.max(anabranch_spec::CAP_MIN);
        self.state().set_channel_rate(rate);
    }

    /// The same for one channel of a session, until it closes or [`SessionMut::set_channel_rate`] is called. False: the session has no
    /// such channel, any more perhaps.
    pub fn set_rate_of_channel(&mut self, channel: ChannelId, rate: Rate) -> bool {
        let rate = rate.max(anabranch_spec::CAP_MIN);
        self.state().set_rate_of_channel(channel, rate)
    }

    /// Takes a path out of use: its channel stays open and is kept alive, and carries no data of streams, until
    /// [`SessionMut::take_in`] or the time in the order. What is in flight on it is not sent again; promises are placed on the other
    /// paths at their next review, within a second, or their owners are warned. The order holds for later channels of the same link,
    /// as long as the session. Data waits while all paths are out of use.
    ///
    /// # Errors
    /// There is no such channel; or it is the last one in use, and `is_forced` is false.
    pub fn take_out(
        &mut self,
        now: Instant,
        channel: ChannelId,
        order: TakenOut,
        is_forced: bool,
    ) -> Result<(), PathError> {
        let Engine {
            sessions, endpoint, ..
        } = &mut *self.engine;
        known(sessions, self.id).take_out(now, endpoint, (channel, is_forced), order)
    }

    /// Uses a path again that was taken out.
    ///
    /// # Errors
    /// There is no such channel, or it is in use.
    pub fn take_in(&mut self, channel: ChannelId) -> Result<(), PathError> {
        let Engine {
            sessions, endpoint, ..
        } = &mut *self.engine;
        known(sessions, self.id).take_in(endpoint, channel)
    }

    /// Applies the objectives of a HOSE text in a session, all or none. They count under a policy that follows
    /// objectives, `assign` or `random_walk`. Streams are named by their ids; a `rate` item asks for a promise for
    /// its stream, now or when it opens; an event reports the result.
    ///
    /// # Errors
    /// the text has errors, or asks for what cannot be. Nothing has changed.
    pub fn inject_objectives(
        &mut self,
        now: Instant,
        text: &str,
    ) -> Result<Injected, ObjectiveError> {
        let (session, events) = self.parts();
        session.inject_objectives(now, text, events)
    }

    /// Removes an objective, and releases what a `rate` item was promised; false when it is not in force.
    pub fn remove_objective(&mut self, now: Instant, objective: ObjectiveId) -> bool {
        let (session, events) = self.parts();
        session.remove_objective(now, objective, events)
    }

    /// The objectives in force in a session.
    pub fn objectives(&mut self) -> Vec<objective::Entry> {
        self.state().objectives()
    }

    /// Contexts, utility and faults of each objective in force within the last minute: of ADUs that were sent while the policy
    /// followed objectives. Objectives over streams alone count once a second while something is sent, `rate` items not at all.
    pub fn tallies(&mut self, now: Instant) -> Vec<(ObjectiveId, Tally)> {
        self.state().tallies(now)
    }

    /// Names that objectives can refer to now: labels of the streams that send, fields that applications have given ADUs, technologies
    /// and attributes of channels. O(streams).
    pub fn provided(&mut self) -> Provided {
        self.state().provided()
    }

    /// Captures the next plan in which `least_adus` ADUs wait, or fragments of them; 0 counts as 1. An earlier capture is
    /// dropped. False if the policy plans nothing with the objectives in force. Costs nothing until then.
    pub fn capture_cycle(&mut self, least_adus: usize) -> bool {
        self.state().capture_cycle(least_adus)
    }

    /// The captured plan, once it was made; `None` before that, and when it was taken. It is a schedule as `anabranch hose eval`
    /// reads it, with the texts of the objectives.
    pub fn take_cycle(&mut self) -> Option<Document> {
        self.state().take_cycle()
    }

    /// Begins a [transcript](crate::transcript) of a session in memory of so many bytes, in place of one that is kept; the latest
    /// part stays when it is full. `None`: ends it. It begins in the middle of the session: to record from the start, set
    /// [`Config::transcript_bytes`](crate::Config::transcript_bytes).
    pub fn record(&mut self, now: Instant, bytes_max: Option<usize>) {
        self.state().record(now, bytes_max);
    }

    /// Bytes of the transcript so far; `None`: none is kept.
    pub fn transcript_bytes(&mut self) -> Option<usize> {
        self.state().transcript_bytes()
    }

    /// The transcript so far, as a file; `None`: none is kept.
    pub fn transcript(&mut self) -> Option<Vec<u8>> {
        self.state().transcript()
    }

    /// Begins or ends a journal of what a session sends, with the outcomes. While it is kept,
    /// each packet costs O(fragments) more; up to a million entries wait for [`SessionMut::take_journal`].
    pub fn keep_journal(&mut self, is_wanted: bool) {
        self.state().keep_journal(is_wanted);
    }

    /// Entries of the journal since the last call, in order of time; nothing unless [`SessionMut::keep_journal`] was called.
    pub fn take_journal(&mut self) -> Vec<Entry> {
        self.state().take_journal()
    }

    /// A session as a whole.
    pub fn stats(&mut self) -> SessionStats {
        self.state().stats()
    }

    /// The channels of a session, in the order in which they were opened.
    pub fn channel_stats(&mut self) -> Vec<ChannelReport> {
        let Engine {
            sessions, endpoint, ..
        } = &mut *self.engine;
        known(sessions, self.id).channel_stats(endpoint)
    }

    /// Sends a small packet on every channel, and reports for each when it was acknowledged, [`SessionEvent::Pong`]. Returns the
    /// channels. A channel that has fallen silent or has no capacity answers at once, with nothing.
    ///
    /// [`SessionEvent::Pong`]: crate::SessionEvent::Pong
    pub fn ping(&mut self) -> Vec<ChannelId> {
        self.state().ping()
    }

    /// The latencies that a session's packets meet: one for each channel, or for channels that are alike; see
    /// [`latency_modes`].
    pub fn latency_modes(&mut self) -> Vec<LatencyMode> {
        latency_modes(&self.channel_stats())
    }

    /// The open streams of a session.
    pub fn stream_stats(&mut self) -> Vec<StreamStats> {
        self.state().stream_stats()
    }

    /// The promises of the session's streams and the demands that wait, with the specifications of the streams.
    pub fn promises(&mut self) -> Vec<(Arc<StreamSpec>, Explanation)> {
        self.state().explain_all()
    }

    /// Ends a session at once; the peer learns `code` and `reason`. What was not delivered is lost:
    /// finish streams and wait for `Delivered` first where that matters.
    pub fn close(self, now: Instant, code: u32, reason: &str) {
        let engine = self.engine;
        if let Some(mut state) = engine.sessions.remove(&self.id) {
            let code = CODE_APPLICATION.saturating_add(code);
            state.close_channels(now, &mut engine.endpoint, code, reason);
            engine.forget_session(now, &state, SessionCloseReason::Local);
        }
    }
}

impl StreamMut<'_> {
    /// Queues an ADU and returns its sequence number in the stream.
    ///
    /// # Errors
    /// Nothing was queued; [`SendError`] states the cause and the remedy.
    pub fn send(&mut self, now: Instant, data: Bytes) -> Result<u64, SendError> {
        self.session.send(now, self.id, data, 0)
    }

    /// As [`StreamMut::send`], of this importance: where a stream drops the least important first, those of
    /// the smallest number go. [`StreamMut::send`] gives 0. It stays with the sender.
    ///
    /// # Errors
    /// As [`StreamMut::send`].
    pub fn send_important(
        &mut self,
        now: Instant,
        data: Bytes,
        importance: u8,
    ) -> Result<u64, SendError> {
        self.session.send(now, self.id, data, importance)
    }

    /// As [`StreamMut::send_important`], with header fields for objectives to see. They stay with the sender.
    ///
    /// # Errors
    /// As [`StreamMut::send`], and [`SendError::Field`].
    pub fn send_with_fields(
        &mut self,
        now: Instant,
        data: Bytes,
        importance: u8,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<u64, SendError> {
        self.session
            .send_with_fields(now, self.id, data, importance, fields)
    }

    /// As [`StreamMut::send`], but refuses an ADU that would miss its stream's lifetime, as far as the
    /// channels' queues and what the stream has waiting can tell.
    ///
    /// # Errors
    /// As [`StreamMut::send`], and [`SendError::WouldMiss`].
    pub fn send_if_timely(&mut self, now: Instant, data: Bytes) -> Result<u64, SendError> {
        if let Some(refusal) = self.session.would_miss(self.id, data.len()) {
            return Err(refusal);
        }
        self.session.send(now, self.id, data, 0)
    }

    /// Probability that an ADU of `bytes`, if it were handed over now, would arrive at the peer's node `within` this time: the share
    /// of earlier times like the present one in which the paths carried it in time, with what goes before it. `None` while too
    /// little is known of the paths (ten seconds with traffic), or of what they carry when they are full; or without such a stream.
    /// O(windows known · paths · number of windows in which the data is carried, or has to be).
    pub fn on_time(&self, now: Instant, bytes: usize, within: Duration) -> Option<f64> {
        let chances = self.chances(now, bytes, within);
        chances.map(|chances| chances.on_time)
    }

    /// As [`StreamMut::on_time`], with the probability that it holds unless a packet is lost: apart, as what a lost packet costs is
    /// no reason to send less. Complexity as there.
    pub fn chances(&self, now: Instant, bytes: usize, within: Duration) -> Option<Chances> {
        self.session.chances(now, self.id, bytes, within)
    }

    /// As [`StreamMut::send`], but refuses an ADU that will arrive within its stream's lifetime with a probability below `least`. An
    /// ADU of which that is not known, or of a stream without a lifetime, is taken.
    ///
    /// # Errors
    /// As [`StreamMut::send`], and [`SendError::Unlikely`].
    pub fn send_if_on_time(
        &mut self,
        now: Instant,
        data: Bytes,
        least: f64,
    ) -> Result<u64, SendError> {
        self.session.send_if_on_time(now, self.id, data, least)
    }

    /// Bytes that the stream's send buffer will take; one ADU more is accepted while it is not 0.
    pub fn send_capacity(&self) -> usize {
        self.session.send_capacity(self.id)
    }

    /// Changes the importance of an ADU that was handed over; false when its outcome is known already.
    ///
    /// # Errors
    /// No such stream.
    pub fn set_importance(&mut self, adu: u64, importance: u8) -> Result<bool, StreamError> {
        self.session.set_importance(self.id, adu, importance)
    }

    /// Sets header fields of an ADU that was handed over; others stay as they are. False when its outcome is known
    /// already.
    ///
    /// # Errors
    /// No such stream; a field's name or type.
    pub fn update_fields(
        &mut self,
        adu: u64,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<bool, ObjectiveError> {
        self.session.update_fields(self.id, adu, fields)
    }

    /// Changes weight, priority, lifetime, cap, drop order or pin of what this side sends on an open stream, from the next packet
    /// on, and the lifetime from the next ADU on. Nothing changes when this is refused.
    ///
    /// # Errors
    /// No such stream; a value is out of range.
    pub fn adjust(&mut self, parameters: StreamParameters) -> Result<(), StreamError> {
        self.session.adjust(self.id, parameters)
    }

    /// Changes what an open stream is to be promised; `None` releases it. What it was promised stays
    /// in force when this is refused. Of other sessions' promises on the same uplinks, those count that were in force when the
    /// session's last window of measurement ended.
    ///
    /// # Errors
    /// As [`SessionMut::open_stream`].
    pub fn change_guarantee(
        &mut self,
        now: Instant,
        guarantee: Option<Guarantee>,
    ) -> Result<(), StreamError> {
        self.session
            .change_guarantee(now, self.id, guarantee, self.events)
    }

    /// The answer that the stream's demand, which may wait, would get if it were made now; nothing changes.
    ///
    /// # Errors
    /// [`StreamError::Refused`] with the reason and what could be promised instead, also if the stream demands nothing; no such
    /// stream.
    pub fn admit_again(&mut self, now: Instant) -> Result<Grant, StreamError> {
        self.session.admit_again(now, self.id)
    }

    /// Gives an open stream to a tenant, for its next demand: a stream that the peer opened belongs to none. What it was promised
    /// before stays with its former tenant.
    ///
    /// # Errors
    /// No such stream.
    pub fn set_tenant(&mut self, tenant: Option<Tenant>) -> Result<(), StreamError> {
        self.session.set_tenant(self.id, tenant)
    }

    /// Reason why a stream is promised what it is, or not; `None` for one that asked for nothing.
    pub fn explain(&self) -> Option<Explanation> {
        self.session.explain(self.id)
    }

    /// Gives up what waits of a stream that may lose ADUs, in favour of something newer: every ADU that is not sent completely, of an
    /// unreliable stream or within a lifetime. Of an ADU that was begun, no more is sent, unless the stream delivers parts: then it is finished. What
    /// is sent completely arrives, is repaired or is lost as usual.
    ///
    /// Each ADU that is given up keeps its number, is reported as [`StreamEvent::Dropped`](crate::StreamEvent::Dropped) at once, counts in
    /// [`StreamStats::shed_adus`], and is never delivered. The peer is notified as of an ADU that outlived its lifetime: not at all by an
    /// unreliable stream. It may be called after [`StreamMut::finish`]. O(ADUs that wait).
    ///
    /// # Errors
    /// No such stream; [`StreamError::Reliable`]: it has no lifetime. Nothing has changed.
    pub fn discard(&mut self, now: Instant) -> Result<Discarded, StreamError> {
        self.discard_with(now, [])
    }

    /// As [`StreamMut::discard`], and gives up `more`, too: ADUs that a host keeps until the stream has space for them. They are numbered
    /// and counted as if they had been sent before ([`StreamMut::send`], of 1 byte to 16 MiB each, which is not checked).
    ///
    /// # Errors
    /// As [`StreamMut::discard`].
    pub fn discard_with(
        &mut self,
        now: Instant,
        more: impl IntoIterator<Item = Bytes>,
    ) -> Result<Discarded, StreamError> {
        self.session.discard(now, self.id, more, self.events)
    }

    /// Ends the sending half of a stream: what was queued is still sent; `Delivered` follows.
    ///
    /// # Errors
    /// No such stream.
    pub fn finish(&mut self) -> Result<(), StreamError> {
        self.session.finish(self.id)
    }

    /// Gives the sending half of a stream up: what was queued is dropped.
    ///
    /// # Errors
    /// No such stream.
    pub fn reset(&mut self, code: u32) -> Result<(), StreamError> {
        self.session.reset(self.id, code)
    }

    /// Asks the peer to stop sending on a stream; data that has arrived is dropped.
    ///
    /// # Errors
    /// No such stream.
    pub fn stop(&mut self, code: u32) -> Result<(), StreamError> {
        self.session.stop(self.id, code)
    }

    /// The next ADU of a stream, if one is complete (and in order, where asked).
    pub fn receive(&mut self) -> Option<Adu> {
        self.session.receive(self.id, self.events)
    }
}
