//! Handle to a stream.

use std::{
    collections::VecDeque,
    future::poll_fn,
    ops::Range,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anabranch_base::{Instant, StreamId};
use anabranch_session::{
    Adu, Chances, Discarded, Explanation, FieldValue, Guarantee, ObjectiveError, PromiseEvent,
    SendError, StreamEvent, StreamParameters, StreamSpec, Tenant,
};
use bytes::Bytes;

use crate::{
    error::{Closed, StreamFailure},
    handles::{SessionInner, entry_of},
    outgoing::Outgoing,
    state::{State, StreamEntry, WakePriority},
};

/// Application code with which a dropped handle resets and stops its stream.
pub const CODE_DROPPED: u32 = 0x11;

/// A stream of ADUs. Clones share it; when the last one is dropped, it is reset unless it was finished, and
/// stopped unless it was read to its end.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

#[derive(Debug)]
struct StreamInner {
    session: Arc<SessionInner>,
    id: StreamId,
    spec: StreamSpec,
    can_send: bool,
    can_receive: bool,
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        self.session.host.shared.command(|state, _| {
            let Some(session) = state.sessions.get_mut(&self.session.id) else {
                return;
            };
            let entry = session.streams.remove(&self.id).unwrap_or_default();
            // An error means that this direction is over already.
            if self.can_receive && !entry.is_finished {
                let _ = state
                    .engine
                    .session(self.session.id)
                    .and_then(|session| session.stream(self.id).stop(CODE_DROPPED));
            }
            if self.can_send && !entry.is_send_finished {
                let _ = state
                    .engine
                    .session(self.session.id)
                    .and_then(|session| session.stream(self.id).reset(CODE_DROPPED));
            }
        });
    }
}

impl Stream {
    pub(crate) fn new(
        session: Arc<SessionInner>,
        id: StreamId,
        spec: StreamSpec,
        can_send: bool,
        can_receive: bool,
    ) -> Self {
        Self {
            inner: Arc::new(StreamInner {
                session,
                id,
                spec,
                can_send,
                can_receive,
            }),
        }
    }

    /// Its number, the same at both nodes.
    pub fn id(&self) -> StreamId {
        self.inner.id
    }

    /// Spec that its opener declared, without later changes ([`Stream::adjust`]). A changed guarantee
    /// is in [`Stream::explain`].
    pub fn spec(&self) -> &StreamSpec {
        &self.inner.spec
    }

    /// True if this node may send on it.
    pub fn can_send(&self) -> bool {
        self.inner.can_send
    }

    /// True if this node may receive from it.
    pub fn can_receive(&self) -> bool {
        self.inner.can_receive
    }

    /// Queues an ADU as soon as the stream's buffer has space, and returns its number. A future dropped before it is
    /// ready has queued nothing.
    ///
    /// # Errors
    /// The ADU is empty or too large, would miss its deadline, or the stream is over; [`SendError::Warned`] if it was finished
    /// because its promise was warned.
    pub async fn send(&self, data: Bytes) -> Result<u64, StreamFailure> {
        let mut data = Some(data);
        poll_fn(|cx| self.poll_send(cx, &mut data)).await
    }

    /// Queues an ADU now or not at all; `SendError::Full` returns it.
    ///
    /// # Errors
    /// As [`Stream::send`], or there is no space.
    pub fn try_send(&self, data: Bytes) -> Result<u64, StreamFailure> {
        self.command(|state, now| self.offer(state, now, data, 0))
    }

    /// Probability that an ADU of `bytes`, if it were handed over now, would arrive at the peer's node `within` this time: the share
    /// of earlier times like the present one in which the paths carried it in time, with what goes before it. `None` while too
    /// little is known of the paths (ten seconds with traffic), or of what they carry when they are full; and if the stream is over,
    /// or only the peer sends on it. It takes some 100 µs with three paths, and some
    /// milliseconds at most, for data that takes many seconds.
    pub fn on_time(&self, bytes: usize, within: Duration) -> Option<f64> {
        let chances = self.chances(bytes, within);
        chances.map(|chances| chances.on_time)
    }

    /// As [`Stream::on_time`], with the probability that it holds unless a packet is lost: apart, as what a lost packet costs is no
    /// reason to send less.
    pub fn chances(&self, bytes: usize, within: Duration) -> Option<Chances> {
        let (shared, stream) = (&self.inner.session.host.shared, self.inner.id);
        let now = shared.clock.now();
        shared.read_session(self.inner.session.id, |session| {
            session.stream(stream).chances(now, bytes, within)
        })?
    }

    /// As [`Stream::try_send`], but refuses an ADU that will arrive within the stream's lifetime with a probability below `least`
    /// ([`Stream::on_time`]). One of which that is not known, or of a stream without a lifetime, is taken.
    ///
    /// # Errors
    /// As [`Stream::try_send`]; [`SendError::Unlikely`], and nothing was queued.
    pub fn send_if_on_time(&self, data: Bytes, least: f64) -> Result<u64, StreamFailure> {
        self.command(|state, now| {
            self.check_sending(state)?;
            let (session, stream) = (self.inner.session.id, self.inner.id);
            let of_session = state.engine.session(session)?;
            Ok(of_session
                .stream(stream)
                .send_if_on_time(now, data, least)?)
        })
    }

    /// As [`Stream::try_send`], with an importance: a stream that drops the least important ADUs first drops those
    /// with the smallest number. The other methods set 0. The importance is not sent to the peer.
    ///
    /// # Errors
    /// As [`Stream::try_send`].
    pub fn try_send_important(&self, data: Bytes, importance: u8) -> Result<u64, StreamFailure> {
        self.command(|state, now| self.offer(state, now, data, importance))
    }

    /// As [`Stream::try_send_important`], with header fields that objectives may use. They are not sent to the peer; a field
    /// has one type, that of its declaration in an objectives' text or of its first use.
    ///
    /// # Errors
    /// As [`Stream::try_send`], or the name or type of a field is not valid.
    pub fn try_send_with_fields(
        &self,
        data: Bytes,
        importance: u8,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<u64, StreamFailure> {
        self.command(|state, now| self.offer_with(state, now, data, importance, fields))
    }

    /// Sets header fields of a queued ADU; its other fields are kept. Returns false if its outcome is known already.
    ///
    /// # Errors
    /// The name or type of a field is not valid; the stream is over, or only the peer sends on it.
    pub fn update_fields(
        &self,
        adu: u64,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<bool, ObjectiveError> {
        let (session, stream) = (self.inner.session.id, self.inner.id);
        let shared = &self.inner.session.host.shared;
        shared.command(|state, _| {
            state
                .engine
                .session(session)?
                .stream(stream)
                .update_fields(adu, fields)
        })
    }

    /// Changes the weight, cap or drop order of this side's data, from the next packet on.
    ///
    /// # Errors
    /// A value is out of range, and nothing was changed; the stream is over, or only the peer sends on it.
    pub fn adjust(&self, parameters: StreamParameters) -> Result<(), StreamFailure> {
        let (session, stream) = (self.inner.session.id, self.inner.id);
        self.command(|state, _| {
            Ok(state
                .engine
                .session(session)?
                .stream(stream)
                .adjust(parameters)?)
        })
    }

    /// Gives up what waits of a stream that may lose ADUs, in favour of something newer: every ADU that is not sent completely, of an
    /// unreliable stream or within a lifetime. Of one that was begun, no more is sent, unless the stream delivers parts. Each ADU that is given
    /// up is reported as [`StreamEvent::Dropped`], and is never delivered. O(ADUs that wait).
    ///
    /// # Errors
    /// The stream is reliable without a lifetime, so that what it was given is delivered; it is over, or only the peer sends on it. Nothing was given up.
    pub fn discard(&self) -> Result<Discarded, StreamFailure> {
        self.discard_with([])
    }

    /// As [`Stream::discard`], and gives up `more`, too: ADUs, of 1 byte to 16 MiB, that the caller keeps until the stream has space for them
    /// ([`Stream::poll_send_many`]). They are numbered and counted as if they had been queued before.
    ///
    /// # Errors
    /// As [`Stream::discard`].
    pub fn discard_with(
        &self,
        more: impl IntoIterator<Item = Bytes>,
    ) -> Result<Discarded, StreamFailure> {
        let (session, stream) = (self.inner.session.id, self.inner.id);
        self.command(|state, now| {
            Ok(state
                .engine
                .session(session)?
                .stream(stream)
                .discard_with(now, more)?)
        })
    }

    /// [`Stream::send`] for hand-written futures. Takes `data` once it is queued.
    ///
    /// # Panics
    /// If `data` is `None`.
    pub fn poll_send(
        &self,
        cx: &Context<'_>,
        data: &mut Option<Bytes>,
    ) -> Poll<Result<u64, StreamFailure>> {
        let adu = data.take().expect("polled with data until it is queued");
        self.command(|state, now| match self.offer(state, now, adu, 0) {
            Err(StreamFailure::Send(SendError::Full(back))) => {
                *data = Some(back);
                self.entry(state)?.writing.register(cx);
                Poll::Pending
            }
            result => Poll::Ready(result),
        })
    }

    /// Queues ADUs from the front of `adus`, as many as the stream's buffer has space for, in one command; ready when at least
    /// one was queued, with the numbers of those that were. Queued ADUs leave `adus`.
    ///
    /// # Errors
    /// The ADU at the front is refused, as by [`Stream::try_send_with_fields`]; it has left `adus`, and nothing was queued.
    pub fn poll_send_many(
        &self,
        cx: &Context<'_>,
        adus: &mut VecDeque<Outgoing>,
    ) -> Poll<Result<Range<u64>, StreamFailure>> {
        self.command(|state, now| {
            let mut numbers: Option<Range<u64>> = None;
            while let Some(adu) = adus.pop_front() {
                match self.offer_outgoing(state, now, &adu) {
                    Ok(number) => {
                        let first = numbers.map_or(number, |numbers| numbers.start);
                        numbers = Some(first..number + 1);
                    }
                    Err(StreamFailure::Send(SendError::Full(_))) => {
                        adus.push_front(adu);
                        break;
                    }
                    Err(failure) if numbers.is_none() => return Poll::Ready(Err(failure)),
                    // It fails again as the first one of the next call.
                    Err(_) => {
                        adus.push_front(adu);
                        break;
                    }
                }
            }
            match numbers {
                Some(numbers) => Poll::Ready(Ok(numbers)),
                None => {
                    self.entry(state)?.writing.register(cx);
                    Poll::Pending
                }
            }
        })
    }

    /// Bytes that [`Stream::try_send`] would accept now.
    pub fn send_capacity(&self) -> usize {
        let inner = &self.inner;
        let capacity = inner
            .session
            .host
            .shared
            .read_session(inner.session.id, |session| {
                session.stream(inner.id).send_capacity()
            });
        capacity.unwrap_or(0)
    }

    /// Waits for the next ADU; `None` once the peer has finished and everything was read. ADUs that arrived before the
    /// peer closed the session can still be read.
    ///
    /// # Errors
    /// The peer reset the stream, or the session is over.
    pub async fn recv(&self) -> Result<Option<Adu>, StreamFailure> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// [`Stream::recv`] for hand-written futures.
    pub fn poll_recv(&self, cx: &Context<'_>) -> Poll<Result<Option<Adu>, StreamFailure>> {
        self.command(|state, now| self.receive(state, now, cx))
    }

    /// Appends the ADUs that can be read now to `adus`, in one command, until they have `bytes_max` bytes or more; ready with true
    /// when at least one was appended, and with false once the peer has finished and everything was read.
    ///
    /// # Errors
    /// As [`Stream::recv`]; nothing was appended.
    pub fn poll_recv_many(
        &self,
        cx: &Context<'_>,
        adus: &mut Vec<Adu>,
        bytes_max: usize,
    ) -> Poll<Result<bool, StreamFailure>> {
        let before = adus.len();
        self.command(|state, now| {
            let mut bytes = 0;
            while bytes < bytes_max {
                match self.receive(state, now, cx) {
                    Poll::Ready(Ok(Some(adu))) => {
                        bytes += adu.data.len();
                        adus.push(adu);
                    }
                    // What ended the reading is reported by the next call.
                    _ if adus.len() > before => break,
                    Poll::Ready(Ok(None)) => return Poll::Ready(Ok(false)),
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(true))
        })
    }

    fn receive(
        &self,
        state: &mut State,
        now: Instant,
        cx: &Context<'_>,
    ) -> Poll<Result<Option<Adu>, StreamFailure>> {
        let ids = (self.inner.session.id, self.inner.id);
        if let Some(adu) = state
            .engine
            .session(ids.0)
            .ok()
            .and_then(|session| session.stream(ids.1).receive())
        {
            return Poll::Ready(Ok(Some(adu)));
        }
        state.dispatch_events(now);
        let closed = entry_of(state, ids.0)?.closed.clone();
        let entry = self.entry(state)?;
        if let Some(adu) = entry.remainder.pop_front() {
            return Poll::Ready(Ok(Some(adu)));
        }
        if entry.is_finished {
            return Poll::Ready(Ok(None));
        }
        if let Some(code) = entry.reset {
            return Poll::Ready(Err(StreamFailure::Reset(code)));
        }
        if let Some(reason) = closed {
            return Poll::Ready(Err(Closed(reason).into()));
        }
        entry.reading.register(cx);
        Poll::Pending
    }

    /// Finishes the stream: no ADU follows; queued ones are still delivered. One that was finished because its promise was warned
    /// stays so.
    ///
    /// # Errors
    /// The stream is over, or only the peer sends on it.
    pub fn finish(&self) -> Result<(), StreamFailure> {
        let (session, stream) = (self.inner.session.id, self.inner.id);
        self.command(|state, _| {
            if self.entry(state)?.closed_for.is_some() {
                return Ok(());
            }
            state.engine.session(session)?.stream(stream).finish()?;
            self.entry(state)?.is_send_finished = true;
            Ok(())
        })
    }

    /// Resets the stream: data that the peer has not read is lost.
    ///
    /// # Errors
    /// The stream is over, or only the peer sends on it.
    pub fn reset(&self, code: u32) -> Result<(), StreamFailure> {
        let (session, stream) = (self.inner.session.id, self.inner.id);
        self.command(|state, _| Ok(state.engine.session(session)?.stream(stream).reset(code)?))
    }

    /// Stops the stream: asks the peer to send no more.
    ///
    /// # Errors
    /// The stream is over, or only this side sends on it.
    pub fn stop(&self, code: u32) -> Result<(), StreamFailure> {
        let (session, stream) = (self.inner.session.id, self.inner.id);
        self.command(|state, _| Ok(state.engine.session(session)?.stream(stream).stop(code)?))
    }

    /// Waits, after [`Stream::finish`], until the peer's node has received everything.
    ///
    /// # Errors
    /// The peer stopped the stream, or the session is over.
    pub async fn delivered(&self) -> Result<(), StreamFailure> {
        poll_fn(|cx| {
            self.poll_entry(cx, |entry, cx| {
                if entry.is_delivered {
                    return Some(());
                }
                entry.delivering.register(cx);
                None
            })
        })
        .await
    }

    /// Waits for the next event of the stream; see `StreamSpec::notify`. At most 65,536 are kept; the oldest are
    /// dropped.
    ///
    /// # Errors
    /// The stream is over and all its events were read.
    pub async fn next_event(&self) -> Result<StreamEvent, StreamFailure> {
        poll_fn(|cx| {
            self.poll_entry(cx, |entry, cx| {
                let event = entry.events.pop_front();
                if event.is_none() {
                    entry.observing.register(cx);
                }
                event
            })
        })
        .await
    }

    /// Waits for the next event of the stream's promise. At most 256 are kept; the oldest are dropped. A stream that is
    /// promised at once begins with [`PromiseEvent::Promised`]; renewals are not reported.
    ///
    /// # Errors
    /// The stream is over and all its events were read.
    pub async fn next_promise(&self) -> Result<PromiseEvent, StreamFailure> {
        poll_fn(|cx| {
            self.poll_entry(cx, |entry, cx| {
                let event = entry.promises.pop_front();
                if event.is_none() {
                    entry.promising.register(cx);
                }
                event
            })
        })
        .await
    }

    /// [`Stream::next_promise`] without waiting; `None` if there is no event now.
    pub fn try_next_promise(&self) -> Option<PromiseEvent> {
        let mut state = self.inner.session.host.shared.lock();
        self.entry(&mut state).ok()?.promises.pop_front()
    }

    /// Asks for another guarantee for this side's data; `None` releases the promise. Nothing else changes for the
    /// stream before the next window: queued ADUs stay queued.
    ///
    /// # Errors
    /// The guarantee is not valid; it cannot be promised and does not wait ([`StreamFailure::refusal`] has
    /// the reason and what could be promised instead); the stream is over, or only the peer sends on it. Then the
    /// old promise stays in force.
    pub fn change_guarantee(&self, guarantee: Option<Guarantee>) -> Result<(), StreamFailure> {
        let (session, stream) = (self.inner.session.id, self.inner.id);
        self.command(|state, now| {
            if let Some(reason) = &entry_of(state, session)?.closed {
                return Err(Closed(reason.clone()).into());
            }
            let engine = &mut state.engine;
            Ok(engine
                .session(session)?
                .stream(stream)
                .change_guarantee(now, guarantee)?)
        })
    }

    /// Gives the stream to a tenant, for the guarantees that this side asks for from now on: a stream that the peer opened belongs to
    /// none.
    ///
    /// # Errors
    /// The stream is over, or only the peer sends on it.
    pub fn set_tenant(&self, tenant: Option<Tenant>) -> Result<(), StreamFailure> {
        let (session, stream) = (self.inner.session.id, self.inner.id);
        self.command(|state, _| {
            let found = state.engine.session(session)?;
            Ok(found.stream(stream).set_tenant(tenant)?)
        })
    }

    /// Explanation of the stream's promise or refusal, with counts of its windows; `None` if it asked for no promise, or
    /// if all its data has arrived after [`Stream::finish`]. Times are those of `Host::clock`.
    pub fn explain(&self) -> Option<Explanation> {
        let (shared, stream) = (&self.inner.session.host.shared, self.inner.id);
        shared.read_session(self.inner.session.id, |session| {
            session.stream(stream).explain()
        })?
    }

    fn poll_entry<T>(
        &self,
        cx: &Context<'_>,
        look: impl FnOnce(&mut StreamEntry, &Context<'_>) -> Option<T>,
    ) -> Poll<Result<T, StreamFailure>> {
        let mut state = self.inner.session.host.shared.lock();
        let closed = entry_of(&mut state, self.inner.session.id)?.closed.clone();
        let entry = self.entry(&mut state)?;
        if let Some(found) = look(entry, cx) {
            return Poll::Ready(Ok(found));
        }
        if let Some(code) = entry.stopped {
            return Poll::Ready(Err(StreamFailure::Stopped(code)));
        }
        match closed {
            Some(reason) => Poll::Ready(Err(Closed(reason).into())),
            None => Poll::Pending,
        }
    }

    fn offer(
        &self,
        state: &mut State,
        now: Instant,
        data: Bytes,
        importance: u8,
    ) -> Result<u64, StreamFailure> {
        self.offer_with(state, now, data, importance, &[])
    }

    fn offer_outgoing(
        &self,
        state: &mut State,
        now: Instant,
        adu: &Outgoing,
    ) -> Result<u64, StreamFailure> {
        let (data, importance) = (adu.data.clone(), adu.importance);
        if adu.fields.is_empty() {
            return self.offer(state, now, data, importance);
        }
        self.offer_with(state, now, data, importance, &adu.field_values())
    }

    /// Checks that neither the session nor this direction of the stream is over.
    fn check_sending(&self, state: &mut State) -> Result<(), StreamFailure> {
        if let Some(reason) = &entry_of(state, self.inner.session.id)?.closed {
            return Err(Closed(reason.clone()).into());
        }
        let entry = self.entry(state)?;
        if let Some(code) = entry.stopped {
            return Err(StreamFailure::Stopped(code));
        }
        match &entry.closed_for {
            Some(refusal) => Err(SendError::Warned(refusal.clone()).into()),
            None => Ok(()),
        }
    }

    fn offer_with(
        &self,
        state: &mut State,
        now: Instant,
        data: Bytes,
        importance: u8,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<u64, StreamFailure> {
        self.check_sending(state)?;
        let (session, stream) = (self.inner.session.id, self.inner.id);
        let engine = &mut state.engine;
        if fields.is_empty() {
            return Ok(engine
                .session(session)?
                .stream(stream)
                .send_important(now, data, importance)?);
        }
        Ok(engine
            .session(session)?
            .stream(stream)
            .send_with_fields(now, data, importance, fields)?)
    }

    fn command<T>(&self, run: impl FnOnce(&mut State, Instant) -> T) -> T {
        let priority = if self.inner.spec.is_urgent() {
            WakePriority::Now
        } else {
            WakePriority::Soon
        };
        self.inner.session.host.shared.command_in(priority, run)
    }

    fn entry<'a>(&self, state: &'a mut State) -> Result<&'a mut StreamEntry, StreamFailure> {
        let session = entry_of(state, self.inner.session.id)?;
        Ok(session.streams.entry(self.inner.id).or_default())
    }
}
