//! Handle to a stream of the node; `state` is what the node has reported of it.

mod state;

use std::{collections::VecDeque, ops::Range, sync::Arc, time::Duration};

use anabranch_base::StreamId;
use anabranch_net::{CODE_DROPPED, Outgoing, PromiseEvent, StreamEvent};
use anabranch_session::{
    Adu, Chances, Discarded, Explanation, FieldValue, Guarantee, SendError, StreamParameters,
    StreamSpec,
};

use self::state::Inner;
pub(super) use self::state::{StreamState, WINDOW};
use super::{
    ClientError,
    core::{Core, Expected, Tasks},
};
use crate::{
    local::{
        frame::{End, Frame},
        message::{ChancesBody, Changes, DiscardedBody, ExplanationBody, FieldBody, Request},
    },
    spec::GuaranteeText,
};

/// A stream of the node. Clones share it; when the last one is dropped, it is reset unless it was finished, and stopped unless it
/// was read to its end.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    tasks: Arc<Tasks>,
    state: Arc<StreamState>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let stream = self.state.handle;
        // The opener may ask whether all of it was read.
        if self.state.can_receive && self.state.lock().has_unread() {
            let end = End::Stop(CODE_DROPPED);
            self.tasks.core.outbox.push(&Frame::End { stream, end });
        }
        self.tasks.core.forget_stream(stream);
    }
}

/// An ADU whose acceptance is awaited, until this is dropped.
struct Confirming<'a>(&'a StreamState, u64);

impl Drop for Confirming<'_> {
    fn drop(&mut self) {
        self.0.lock().confirming.remove(&self.1);
    }
}

impl Stream {
    pub(super) fn new(tasks: Arc<Tasks>, state: Arc<StreamState>) -> Self {
        Self {
            inner: Arc::new(Handle { tasks, state }),
        }
    }

    /// Gives the first credit for a stream that a peer opened.
    pub(super) fn accept(&self) {
        self.core().outbox.push(&Frame::Credit {
            stream: self.state().handle,
            bytes: WINDOW,
        });
    }

    fn state(&self) -> &StreamState {
        &self.inner.state
    }

    fn core(&self) -> &Core {
        &self.inner.tasks.core
    }

    /// Its number in its session, the same at both nodes.
    pub fn id(&self) -> StreamId {
        self.state().id
    }

    /// Spec that its opener declared, without later changes.
    pub fn spec(&self) -> &StreamSpec {
        &self.state().spec
    }

    /// True if this node may send on it.
    pub fn can_send(&self) -> bool {
        self.state().can_send
    }

    /// True if this node may receive from it.
    pub fn can_receive(&self) -> bool {
        self.state().can_receive
    }

    /// Hands an ADU to the node as soon as it takes it, and returns its number. If the ADU has header fields, waits until the
    /// node has checked them. A future dropped before it is ready has sent nothing, unless it waits for that check.
    ///
    /// # Errors
    /// The ADU is empty or too large, a header field is not valid, or the stream is over.
    pub async fn send(&self, adu: impl Into<Outgoing> + Send) -> Result<u64, ClientError> {
        let adu = adu.into();
        let confirm = !adu.fields.is_empty();
        let mut adus = VecDeque::from([adu]);
        let number = self.send_from(&mut adus, confirm).await?.start;
        if !confirm {
            return Ok(number);
        }
        let _confirming = Confirming(self.state(), number);
        self.wait(|inner| {
            let answer = inner.confirming.get(&number)?.clone();
            let closed_for = inner.closed_for.as_ref();
            answer
                .map(Ok)
                .or_else(|| Some(Err(SendError::Warned(closed_for?.clone()))))
        })
        .await??
        .map(|()| number)
        .map_err(ClientError::NotAccepted)
    }

    /// Hands ADUs from the front of `adus` to the node, as many as it takes; ready when it took at least one, or when there are
    /// none. Returns the numbers of those that it took, which have left `adus`.
    ///
    /// # Errors
    /// As [`Stream::send`], about the first ADU, which has left `adus`; those with header fields that are not valid are in
    /// [`Stream::try_next_refused`].
    pub async fn send_many(
        &self,
        adus: &mut VecDeque<Outgoing>,
    ) -> Result<Range<u64>, ClientError> {
        if adus.is_empty() {
            return Ok(0..0);
        }
        self.send_from(adus, false).await
    }

    async fn send_from(
        &self,
        adus: &mut VecDeque<Outgoing>,
        confirm: bool,
    ) -> Result<Range<u64>, ClientError> {
        loop {
            let changed = self.state().changed.notified();
            let connection = self.core().changed.notified();
            let sent = self.state().send(self.core(), adus, confirm)?;
            if !sent.is_empty() {
                return Ok(sent);
            }
            tokio::select! {
                () = changed => {}
                () = connection => {}
            }
        }
    }

    /// Hands an ADU to the node now or not at all; `SendError::Full` returns it. If it has header fields that are not valid,
    /// [`Stream::try_next_refused`] reports it later.
    ///
    /// # Errors
    /// As [`Stream::send`], or the node does not take more now.
    pub fn try_send(&self, adu: impl Into<Outgoing>) -> Result<u64, ClientError> {
        let mut adus = VecDeque::from([adu.into()]);
        let sent = self.state().send(self.core(), &mut adus, false)?;
        match adus.pop_front() {
            Some(adu) => Err(SendError::Full(adu.data).into()),
            None => Ok(sent.start),
        }
    }

    /// The next ADU that was refused after it had been handed to the node, with the reason. At most 256 are kept.
    pub fn try_next_refused(&self) -> Option<(u64, String)> {
        self.state().lock().refused.pop_front()
    }

    /// Waits for the next ADU; `None` once the peer has finished and everything was read.
    ///
    /// # Errors
    /// The peer reset the stream, or the session or the connection is over.
    pub async fn recv(&self) -> Result<Option<Adu>, ClientError> {
        loop {
            let readable = self.state().readable.notified();
            {
                let mut inner = self.state().lock();
                if let Some((adu, cost)) = inner.received.pop_front() {
                    inner.owed += cost;
                    if inner.owed >= WINDOW / 4 {
                        let bytes = std::mem::take(&mut inner.owed);
                        let stream = self.state().handle;
                        self.core().outbox.push(&Frame::Credit { stream, bytes });
                    }
                    return Ok(Some(adu));
                }
                if inner.is_finished {
                    return Ok(None);
                }
                if let Some(code) = inner.reset {
                    return Err(ClientError::Reset(code));
                }
                if inner.is_drained {
                    let over = inner.over.clone();
                    return Err(over.unwrap_or_else(|| self.core().detached()));
                }
            }
            readable.await;
        }
    }

    /// Finishes the stream: no ADU follows; those handed over are still delivered. One that was finished because its promise was
    /// warned stays so.
    ///
    /// # Errors
    /// The stream is over, or only the peer sends on it.
    pub fn finish(&self) -> Result<(), ClientError> {
        self.end_sending(End::Finish)
    }

    /// Resets the stream: data that the peer has not read is lost.
    ///
    /// # Errors
    /// The stream is over, or only the peer sends on it.
    pub fn reset(&self, code: u32) -> Result<(), ClientError> {
        self.end_sending(End::Reset(code))
    }

    fn end_sending(&self, end: End) -> Result<(), ClientError> {
        let mut inner = self.state().lock();
        if let Some(error) = &inner.over {
            return Err(error.clone());
        }
        if end == End::Finish && inner.closed_for.is_some() {
            return Ok(());
        }
        let is_again = end == End::Finish && inner.is_send_over;
        if is_again || !self.can_send() {
            return Err(SendError::Closed.into());
        }
        inner.is_send_over = true;
        let stream = self.state().handle;
        self.core().outbox.push(&Frame::End { stream, end });
        Ok(())
    }

    /// Stops the stream: asks the peer to send no more.
    ///
    /// # Errors
    /// The stream is over, or only this side sends on it.
    pub fn stop(&self, code: u32) -> Result<(), ClientError> {
        let inner = self.state().lock();
        if let Some(error) = &inner.over {
            return Err(error.clone());
        }
        if !self.can_receive() {
            return Err(SendError::Closed.into());
        }
        let stream = self.state().handle;
        let end = End::Stop(code);
        self.core().outbox.push(&Frame::End { stream, end });
        Ok(())
    }

    /// Waits, after [`Stream::finish`], until the peer's node has received everything.
    ///
    /// # Errors
    /// The peer stopped the stream, or the session or the connection is over.
    pub async fn delivered(&self) -> Result<(), ClientError> {
        self.wait(|inner| inner.is_delivered.then_some(())).await
    }

    /// Waits for the next event of the stream; see `StreamSpec::notify`. At most 65,536 are kept; the oldest are dropped.
    ///
    /// # Errors
    /// The stream is over and all its events were read.
    pub async fn next_event(&self) -> Result<StreamEvent, ClientError> {
        self.wait(|inner| inner.events.pop_front()).await
    }

    /// Waits for the next event of the stream's promise. At most 256 are kept; the oldest are dropped.
    ///
    /// # Errors
    /// The stream is over and all its events were read.
    pub async fn next_promise(&self) -> Result<PromiseEvent, ClientError> {
        self.wait(|inner| inner.promises.pop_front()).await
    }

    async fn wait<T>(
        &self,
        mut look: impl FnMut(&mut Inner) -> Option<T>,
    ) -> Result<T, ClientError> {
        loop {
            let changed = self.state().changed.notified();
            {
                let mut inner = self.state().lock();
                if let Some(found) = look(&mut inner) {
                    return Ok(found);
                }
                if let Some(code) = inner.stopped {
                    return Err(ClientError::Stopped(code));
                }
                if let Some(error) = &inner.over {
                    return Err(error.clone());
                }
            }
            changed.await;
        }
    }

    /// Explanation of the stream's promise or refusal; `None` if it asked for no promise. Times are those of the node's clock.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn explain(&self) -> Result<Option<Explanation>, ClientError> {
        let request = Request::Explain {
            stream: self.state().handle,
        };
        let reply = self.core().ask(request, Expected::Value).await?;
        let body: Option<ExplanationBody> = reply.field("explanation")?;
        let resolved = body.map(|body| body.resolve()).transpose();
        resolved.map_err(|error| ClientError::Protocol(error.to_string()))
    }

    /// Changes the weight, cap or drop order of this side's data.
    ///
    /// # Errors
    /// A value is out of range, and nothing was changed; the stream is over, or only the peer sends on it.
    pub async fn adjust(&self, parameters: StreamParameters) -> Result<(), ClientError> {
        let request = Request::Adjust {
            stream: self.state().handle,
            changes: Changes::of(&parameters),
        };
        self.core().request(request).await.map(drop)
    }

    /// Probability that an ADU of `bytes`, if it were handed over now, would arrive at the peer's node `within` this time; `None` while
    /// too little is known of the paths. A node of an earlier release refuses the request.
    ///
    /// # Errors
    /// The connection is over, or the node does not know the request.
    pub async fn on_time(
        &self,
        bytes: usize,
        within: Duration,
    ) -> Result<Option<f64>, ClientError> {
        let chances = self.chances(bytes, within).await?;
        Ok(chances.map(|chances| chances.on_time))
    }

    /// As [`Stream::on_time`], with the probability that it holds unless a packet is lost. Of a node that does not know that one, both
    /// are the same.
    ///
    /// # Errors
    /// As [`Stream::on_time`].
    pub async fn chances(
        &self,
        bytes: usize,
        within: Duration,
    ) -> Result<Option<Chances>, ClientError> {
        let request = Request::OnTime {
            stream: self.state().handle,
            bytes: bytes as u64,
            within: Some(format!("{} ns", within.as_nanos())),
        };
        let reply = self.core().ask(request, Expected::Value).await?;
        let body: ChancesBody = reply.value()?;
        Ok(body.into())
    }

    /// Gives up what was handed over before on a stream that may lose ADUs, in favour of something newer: every ADU that is not sent
    /// completely, wherever it waits. Each is reported as [`StreamEvent::Dropped`]. What is handed over from now on is sent, although the answer has not come. A
    /// node of an older release gives up nothing.
    ///
    /// # Errors
    /// The stream is reliable without a lifetime, is over, or only the peer sends on it; the connection is over.
    pub async fn discard(&self) -> Result<Discarded, ClientError> {
        let request = Request::Discard {
            stream: self.state().handle,
        };
        match self.core().ask(request, Expected::Value).await {
            Ok(reply) => reply.value::<DiscardedBody>().map(DiscardedBody::into),
            Err(ClientError::Node { kind, .. }) if kind == "request" => Ok(Discarded::default()),
            Err(error) => Err(error),
        }
    }

    /// Hands an ADU to the node unless it will arrive within the stream's lifetime with a probability below `least`
    /// ([`Stream::on_time`]). One of which that is not known, or of a stream without a lifetime, is taken.
    ///
    /// # Errors
    /// As [`Stream::send`]; [`SendError::Unlikely`], and the node got nothing.
    pub async fn send_if_on_time(
        &self,
        adu: impl Into<Outgoing> + Send,
        least: f64,
    ) -> Result<u64, ClientError> {
        let adu = adu.into();
        if let Some(lifetime) = self.spec().lifetime
            && let Some(probability) = self.on_time(adu.data.len(), lifetime).await?
            && probability < least
        {
            return Err(SendError::Unlikely { probability, least }.into());
        }
        self.send(adu).await
    }

    /// Asks for another guarantee for this side's data; `None` releases the promise.
    ///
    /// # Errors
    /// The guarantee is not valid, or cannot be promised and does not wait; then the old promise stays in force. The stream is
    /// over, or only the peer sends on it.
    pub async fn change_guarantee(&self, guarantee: Option<Guarantee>) -> Result<(), ClientError> {
        let request = Request::ChangeGuarantee {
            stream: self.state().handle,
            guarantee: guarantee.as_ref().map(GuaranteeText::of),
        };
        self.core().request(request).await.map(drop)
    }

    /// Sets header fields of a queued ADU; its other fields are kept. Returns false if its outcome is known already.
    ///
    /// # Errors
    /// The name or type of a field is not valid; the stream is over, or only the peer sends on it.
    pub async fn update_fields(
        &self,
        adu: u64,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<bool, ClientError> {
        let body = |value: &FieldValue<'_>| match *value {
            FieldValue::Number(number) => FieldBody::Number(number),
            FieldValue::Boolean(is_true) => FieldBody::Boolean(is_true),
            FieldValue::Text(text) => FieldBody::Text(text.to_owned()),
        };
        let request = Request::UpdateFields {
            stream: self.state().handle,
            adu,
            fields: (fields.iter())
                .map(|(name, value)| ((*name).to_owned(), body(value)))
                .collect(),
        };
        let reply = self.core().ask(request, Expected::Value).await?;
        reply.field("known")
    }
}
