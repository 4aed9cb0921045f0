//! Handle to a session.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use anabranch_base::{ChannelId, NodeId, Rate, SessionId, StreamId};
use anabranch_session::{
    Callback, ChannelReport, Explanation, Grant, Link, ObjectiveError, ObjectiveId, Policy,
    SessionCloseReason, SessionEvent, SessionStats, Share, StreamSpec, StreamStats, Tenant,
    objective::{self, Injected},
};

use crate::{
    error::{Closed, StreamFailure},
    handles::{HostInner, SessionInner, entry_of},
    links,
    state::{SessionEntry, StreamEntry},
    stream::Stream,
};

/// A session with another node. Clones share it; when the last one and the last of its streams is
/// dropped, the session is closed.
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) inner: Arc<SessionInner>,
}

/// Reference to a session that does not keep it open.
#[derive(Clone, Debug)]
pub struct WeakSession(Weak<SessionInner>);

impl WeakSession {
    /// The session; `None` once its last handle and the last of its streams are dropped.
    pub fn upgrade(&self) -> Option<Session> {
        self.0.upgrade().map(|inner| Session { inner })
    }
}

impl Session {
    /// A reference that does not keep the session open.
    pub fn downgrade(&self) -> WeakSession {
        WeakSession(Arc::downgrade(&self.inner))
    }

    /// Number of handles to the session and to its streams, this one included; other threads may change it at any time.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.inner)
    }

    pub(crate) fn new(host: Arc<HostInner>, id: SessionId, peer: NodeId) -> Self {
        Self {
            inner: Arc::new(SessionInner { host, id, peer }),
        }
    }

    /// Its number at this node.
    pub fn id(&self) -> SessionId {
        self.inner.id
    }

    /// The node at the other end, authenticated by its key.
    pub fn peer(&self) -> NodeId {
        self.inner.peer
    }

    /// Opens a stream; nothing is sent before the first ADU.
    ///
    /// With a guarantee in its spec, the stream opens only if that is promised, or if the guarantee may
    /// wait (`Guarantee::waiting`); [`Stream::next_promise`] reports later changes.
    ///
    /// # Errors
    /// The session is over, the spec is not valid, or its guarantee cannot be promised: then
    /// [`StreamFailure::refusal`] has the reason, and what could be promised instead.
    pub fn open_stream(&self, spec: StreamSpec) -> Result<Stream, StreamFailure> {
        let can_receive = spec.duplex;
        let id = self.inner.host.shared.command(|state, now| {
            let entry = entry_of(state, self.inner.id)?;
            if let Some(reason) = &entry.closed {
                return Err(Closed(reason.clone()).into());
            }
            let id = state
                .engine
                .session(self.inner.id)?
                .open_stream(now, spec.clone())?;
            entry_of(state, self.inner.id)?
                .streams
                .insert(id, StreamEntry::default());
            Ok::<_, StreamFailure>(id)
        })?;
        Ok(Stream::new(self.inner.clone(), id, spec, true, can_receive))
    }

    /// [`Host::set_promised_share`](crate::Host::set_promised_share) of the session's host.
    pub fn set_promised_share(&self, tenant: Tenant, share: Option<Share>) {
        self.inner
            .host
            .shared
            .command(|state, _| state.engine.set_promised_share(tenant, share));
    }

    /// Decision that [`Session::open_stream`] would make on the spec's guarantee now: the duration of the
    /// promise, and its channels. Nothing is opened or reserved. Nothing can be promised before about
    /// twenty seconds of traffic, because the capacity of the paths is not known earlier.
    ///
    /// A refusal costs a few dozen mappings, less than a millisecond each with a hundred promised streams;
    /// do not ask for every packet.
    ///
    /// ```no_run
    /// # use anabranch_net::{Session, StreamFailure, session::{Guarantee, StreamSpec}};
    /// # fn example(session: &Session) -> Result<(), StreamFailure> {
    /// let wanted = Guarantee::rate("22 Mbit/s".parse().expect("a rate"), 0.95);
    /// let mut spec = StreamSpec::messages("frames").with_guarantee(wanted);
    /// if let Err(error) = session.admit(&spec) {
    ///     // Accept the offer, or continue without a promise.
    ///     let offered = error.refusal().and_then(|refusal| refusal.offer.rate);
    ///     spec.guarantee = offered.map(|rate| Box::new(Guarantee::rate(rate, 0.95)));
    /// }
    /// let stream = session.open_stream(spec)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Session::open_stream`], and a refusal if the spec has no guarantee, or one that may wait and
    /// would have to.
    pub fn admit(&self, spec: &StreamSpec) -> Result<Grant, StreamFailure> {
        self.inner.host.shared.command(|state, now| {
            if let Some(reason) = &entry_of(state, self.inner.id)?.closed {
                return Err(Closed(reason.clone()).into());
            }
            Ok(state.engine.session(self.inner.id)?.admit(now, spec)?)
        })
    }

    /// Ends the probation of a session, because the peer has shown its right, by a ticket for example. A session that an unknown
    /// node opened, at a host that accepts everyone ([`AllowList::everyone`](anabranch_session::AllowList::everyone)), is on
    /// probation until then: the peer may open one stream and send about 2 kB, and the session is closed after 5 s. Has no effect
    /// on other sessions.
    ///
    /// # Errors
    /// The session is over.
    pub fn end_probation(&self) -> Result<(), StreamFailure> {
        self.inner.host.shared.command(|state, _| {
            if let Some(reason) = &entry_of(state, self.inner.id)?.closed {
                return Err(Closed(reason.clone()).into());
            }
            Ok(state.engine.end_probation(self.inner.id)?)
        })
    }

    /// Explanation of a stream's promise or refusal, with counts of its windows; `None` for a stream that asked for no
    /// promise, or is over. Times are those of `Host::clock`.
    pub fn explain(&self, stream: StreamId) -> Option<Explanation> {
        let shared = &self.inner.host.shared;
        shared.read_session(self.inner.id, |session| session.stream(stream).explain())?
    }

    /// Waits for a stream that the peer opens.
    ///
    /// # Errors
    /// The session is over.
    pub async fn accept_stream(&self) -> Result<Stream, Closed> {
        self.accept_stream_where(|_| true).await
    }

    /// As [`Session::accept_stream`], for streams whose specs `is_wanted` selects, for example by their labels. Others wait for
    /// another call that selects them, so that each stream should be selected by one.
    ///
    /// # Errors
    /// The session is over.
    pub async fn accept_stream_where(
        &self,
        is_wanted: impl Fn(&StreamSpec) -> bool,
    ) -> Result<Stream, Closed> {
        let (id, spec) = poll_fn(|cx| {
            self.poll(
                cx,
                |entry| {
                    let mut waiting = entry.incoming.iter();
                    let at = waiting.position(|(_, spec)| is_wanted(spec))?;
                    entry.incoming.remove(at)
                },
                |entry, cx| {
                    entry.accepting.register(cx);
                },
            )
        })
        .await?;
        let can_send = spec.duplex;
        Ok(Stream::new(self.inner.clone(), id, spec, can_send, true))
    }

    /// Waits for the next change of the session's channels. At most 1024 are kept; the oldest are dropped.
    ///
    /// # Errors
    /// The session is over and all its events were read.
    pub async fn next_event(&self) -> Result<SessionEvent, Closed> {
        poll_fn(|cx| {
            self.poll(
                cx,
                |entry| entry.events.pop_front(),
                |entry, cx| {
                    entry.observing.register(cx);
                },
            )
        })
        .await
    }

    /// Waits until the session is over.
    pub async fn closed(&self) -> SessionCloseReason {
        let closed: Result<(), Closed> =
            poll_fn(|cx| self.poll(cx, |_| None, |entry, cx| entry.changing.register(cx))).await;
        match closed {
            Err(Closed(reason)) => reason,
            Ok(()) => unreachable!("only the end of the session ends the wait"),
        }
    }

    /// Reason for the end of the session; `None` while it is open.
    pub fn close_reason(&self) -> Option<SessionCloseReason> {
        let state = self.inner.host.shared.lock();
        state.sessions.get(&self.inner.id)?.closed.clone()
    }

    /// Closes the session now, with a code and a reason for the peer. Undelivered data is lost.
    pub fn close(&self, code: u32, reason: &str) {
        self.inner.host.shared.command(|state, now| {
            if let Ok(session) = state.engine.session(self.inner.id) {
                session.close(now, code, reason);
            }
        });
    }

    /// Changes the scheduling policy of what this side sends.
    ///
    /// # Errors
    /// The session is over.
    pub fn set_policy(&self, policy: Policy) -> Result<(), StreamFailure> {
        self.inner.host.shared.command(|state, _| {
            state.engine.session(self.inner.id)?.set_policy(policy);
            Ok(())
        })
    }

    /// Makes each channel hold this rate from now on, the target of `ctcp` and the rate of `fixed`; see
    /// [`SessionMut::set_channel_rate`](anabranch_session::SessionMut::set_channel_rate).
    ///
    /// # Errors
    /// The session is over.
    pub fn set_channel_rate(&self, rate: Rate) -> Result<(), StreamFailure> {
        self.inner.host.shared.command(|state, _| {
            state.engine.session(self.inner.id)?.set_channel_rate(rate);
            Ok(())
        })
    }

    /// As [`Session::set_channel_rate`], for one channel, until it closes or that method is called. Returns false if the session
    /// has no such channel.
    ///
    /// # Errors
    /// The session is over.
    pub fn set_rate_of_channel(
        &self,
        channel: ChannelId,
        rate: Rate,
    ) -> Result<bool, StreamFailure> {
        self.inner.host.shared.command(|state, _| {
            let engine = &mut state.engine;
            Ok(engine
                .session(self.inner.id)?
                .set_rate_of_channel(channel, rate))
        })
    }

    /// Makes `callback` assign the ADUs of this side to slots, until a policy is set. It is called under the
    /// host's lock, for every slot: it must be quick, and must not call the host.
    ///
    /// # Errors
    /// The session is over.
    pub fn set_callback(&self, callback: Box<dyn Callback>) -> Result<(), StreamFailure> {
        self.inner.host.shared.command(|state, _| {
            state.engine.session(self.inner.id)?.set_callback(callback);
            Ok(())
        })
    }

    /// Applies the objectives of a HOSE text to the data that this side sends: all of them, or none if there is
    /// an error. They have an effect under [`Policy::Assign`] and [`Policy::RandomWalk`]. `rate` items ask for
    /// promises; [`SessionEvent::ObjectiveRefused`] reports a refusal.
    ///
    /// # Errors
    /// The text has errors, which are given with their places, or it asks for the impossible; the session is over.
    pub fn inject_objectives(&self, text: &str) -> Result<Injected, ObjectiveError> {
        self.inner.host.shared.command(|state, now| {
            state
                .engine
                .session(self.inner.id)?
                .inject_objectives(now, text)
        })
    }

    /// Removes an objective. Returns false if it is not in force.
    ///
    /// # Errors
    /// The session is over.
    pub fn remove_objective(&self, objective: ObjectiveId) -> Result<bool, StreamFailure> {
        self.inner.host.shared.command(|state, now| {
            let engine = &mut state.engine;
            Ok(engine
                .session(self.inner.id)?
                .remove_objective(now, objective))
        })
    }

    /// The objectives in force.
    pub fn objectives(&self) -> Vec<objective::Entry> {
        let shared = &self.inner.host.shared;
        shared
            .read_session(self.inner.id, |mut session| session.objectives())
            .unwrap_or_default()
    }

    /// Contexts, utility and faults of each objective within the last minute; rates have none.
    pub fn tallies(&self) -> Vec<(ObjectiveId, objective::Tally)> {
        let shared = &self.inner.host.shared;
        let now = shared.clock.now();
        shared
            .read_session(self.inner.id, |mut session| session.tallies(now))
            .unwrap_or_default()
    }

    /// Offers a further link; it becomes a channel when the peer answers on it.
    pub fn add_link(&self, link: Link) {
        self.inner.host.shared.command(|state, now| {
            if let Ok(mut session) = state.engine.session(self.inner.id) {
                session.add_link(now, link);
            }
        });
    }

    /// Offers links to a further address of the peer, from every local address that may reach it, and returns them. If the
    /// address serves one sender only, as that of a relay's circuit does, one of them becomes a channel.
    pub fn add_remote(&self, remote: SocketAddr) -> Vec<Link> {
        self.inner.host.shared.command(|state, now| {
            let links = crate::links::pair(&state.sockets, &[remote]);
            for &link in &links {
                if let Ok(mut session) = state.engine.session(self.inner.id) {
                    session.add_link(now, link);
                }
            }
            links
        })
    }

    /// Removes the links to an address.
    pub(crate) fn remove_remote(&self, remote: SocketAddr) {
        self.inner.host.shared.command(|state, now| {
            if let Ok(mut session) = state.engine.session(self.inner.id) {
                let links = session.links();
                for link in links.iter().filter(|link| link.remote == remote) {
                    session.remove_link(now, link);
                }
            }
        });
    }

    /// Removes a link from the session.
    pub fn remove_link(&self, link: &Link) {
        self.inner.host.shared.command(|state, now| {
            if let Ok(mut session) = state.engine.session(self.inner.id) {
                session.remove_link(now, link);
            }
        });
    }

    /// Addresses of the peer to which new local addresses will open links, too.
    pub fn remotes(&self) -> Vec<SocketAddr> {
        let state = self.inner.host.shared.lock();
        let entry = state.sessions.get(&self.inner.id);
        entry.map(|entry| entry.remotes.clone()).unwrap_or_default()
    }

    /// Adds addresses of the peer, with links from every local address that can reach them; those that are known change nothing.
    pub(crate) fn add_remotes(&self, found: &[SocketAddr]) {
        self.inner.host.shared.command(|state, now| {
            let Some(entry) = state.sessions.get_mut(&self.inner.id) else {
                return;
            };
            let is_new = |remote: &&SocketAddr| !entry.remotes.contains(*remote);
            let new: Vec<SocketAddr> = found.iter().filter(is_new).copied().collect();
            entry.remotes.extend(&new);
            for link in links::pair(&state.sockets, &new) {
                if let Ok(mut session) = state.engine.session(self.inner.id) {
                    session.add_link(now, link);
                }
            }
        });
    }

    /// Totals of the session; `None` once the engine has forgotten it.
    pub fn stats(&self) -> Option<SessionStats> {
        let shared = &self.inner.host.shared;
        shared.read_session(self.inner.id, |mut session| session.stats())
    }

    /// Measurements of every channel.
    pub fn channels(&self) -> Vec<ChannelReport> {
        let shared = &self.inner.host.shared;
        shared
            .read_session(self.inner.id, |mut session| session.channel_stats())
            .unwrap_or_default()
    }

    /// Statistics of every stream.
    pub fn streams(&self) -> Vec<StreamStats> {
        let shared = &self.inner.host.shared;
        shared
            .read_session(self.inner.id, |mut session| session.stream_stats())
            .unwrap_or_default()
    }

    /// Ready with the value that `take` returns, or with the end of the session.
    fn poll<T>(
        &self,
        cx: &Context<'_>,
        take: impl FnOnce(&mut SessionEntry) -> Option<T>,
        wait: impl FnOnce(&mut SessionEntry, &Context<'_>),
    ) -> Poll<Result<T, Closed>> {
        let mut state = self.inner.host.shared.lock();
        let entry = match entry_of(&mut state, self.inner.id) {
            Ok(entry) => entry,
            Err(closed) => return Poll::Ready(Err(closed)),
        };
        if let Some(found) = take(entry) {
            return Poll::Ready(Ok(found));
        }
        if let Some(reason) = &entry.closed {
            return Poll::Ready(Err(Closed(reason.clone())));
        }
        wait(entry, cx);
        Poll::Pending
    }
}
