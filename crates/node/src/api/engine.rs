//! The traits for sessions and streams in the process of the node.

use std::{collections::VecDeque, future::poll_fn, ops::Range, time::Duration};

use anabranch_base::{NodeId, StreamId};
use anabranch_net::{
    Outgoing, PromiseEvent, Session, SessionEvent, Stream, StreamEvent, StreamFailure,
};
use anabranch_session::{
    Adu, Chances, Discarded, Explanation, FieldValue, Grant, Guarantee, ObjectiveError,
    ObjectiveId, Refusal, SendError, SessionCloseReason, StreamError, StreamParameters, StreamSpec,
    objective::{Entry, Tally},
};

use super::{AduListener, AduSession, AduStream, Failure};
use crate::service::label_matches;

/// An error of a session or a stream in this process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineFailure {
    /// Of the session or the stream.
    #[error(transparent)]
    Stream(#[from] StreamFailure),
    /// About objectives or header fields.
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
}

impl EngineFailure {
    fn stream(&self) -> Option<&StreamFailure> {
        match self {
            Self::Stream(failure) => Some(failure),
            Self::Objective(_) => None,
        }
    }
}

impl Failure for EngineFailure {
    fn reset_code(&self) -> Option<u32> {
        match self.stream()? {
            StreamFailure::Reset(code) => Some(*code),
            _ => None,
        }
    }

    fn stop_code(&self) -> Option<u32> {
        match self.stream()? {
            StreamFailure::Stopped(code) => Some(*code),
            _ => None,
        }
    }

    fn is_session_over(&self) -> bool {
        let is_unknown = |error: &StreamError| matches!(error, StreamError::UnknownSession(_));
        match self {
            Self::Stream(StreamFailure::Closed(_)) => true,
            Self::Stream(StreamFailure::Stream(error))
            | Self::Stream(StreamFailure::Send(SendError::Stream(error)))
            | Self::Objective(ObjectiveError::Stream(error)) => is_unknown(error),
            _ => false,
        }
    }

    fn refusal(&self) -> Option<&Refusal> {
        self.stream()?.refusal()
    }

    fn send_error(&self) -> Option<&SendError> {
        match self.stream()? {
            StreamFailure::Send(error) => Some(error),
            _ => None,
        }
    }
}

impl AduStream for Stream {
    type Error = EngineFailure;

    fn id(&self) -> StreamId {
        self.id()
    }

    fn spec(&self) -> &StreamSpec {
        self.spec()
    }

    fn can_send(&self) -> bool {
        self.can_send()
    }

    fn can_receive(&self) -> bool {
        self.can_receive()
    }

    async fn send(&self, adu: impl Into<Outgoing> + Send) -> Result<u64, EngineFailure> {
        let mut adus = VecDeque::from([adu.into()]);
        Ok(self.send_many(&mut adus).await?.start)
    }

    fn try_send(&self, adu: impl Into<Outgoing>) -> Result<u64, EngineFailure> {
        let adu = adu.into();
        let fields = adu.field_values();
        Ok(self.try_send_with_fields(adu.data.clone(), adu.importance, &fields)?)
    }

    async fn chances(
        &self,
        bytes: usize,
        within: Duration,
    ) -> Result<Option<Chances>, EngineFailure> {
        Ok(self.chances(bytes, within))
    }

    async fn discard(&self) -> Result<Discarded, EngineFailure> {
        Ok(self.discard()?)
    }

    async fn send_many(&self, adus: &mut VecDeque<Outgoing>) -> Result<Range<u64>, EngineFailure> {
        if adus.is_empty() {
            return Ok(0..0);
        }
        Ok(poll_fn(|cx| self.poll_send_many(cx, adus)).await?)
    }

    async fn recv(&self) -> Result<Option<Adu>, EngineFailure> {
        Ok(self.recv().await?)
    }

    fn finish(&self) -> Result<(), EngineFailure> {
        Ok(self.finish()?)
    }

    fn reset(&self, code: u32) -> Result<(), EngineFailure> {
        Ok(self.reset(code)?)
    }

    fn stop(&self, code: u32) -> Result<(), EngineFailure> {
        Ok(self.stop(code)?)
    }

    async fn delivered(&self) -> Result<(), EngineFailure> {
        Ok(self.delivered().await?)
    }

    async fn next_event(&self) -> Result<StreamEvent, EngineFailure> {
        Ok(self.next_event().await?)
    }

    async fn next_promise(&self) -> Result<PromiseEvent, EngineFailure> {
        Ok(self.next_promise().await?)
    }

    async fn explain(&self) -> Result<Option<Explanation>, EngineFailure> {
        Ok(self.explain())
    }

    async fn adjust(&self, parameters: StreamParameters) -> Result<(), EngineFailure> {
        Ok(self.adjust(parameters)?)
    }

    async fn change_guarantee(&self, guarantee: Option<Guarantee>) -> Result<(), EngineFailure> {
        Ok(self.change_guarantee(guarantee)?)
    }

    async fn update_fields(
        &self,
        adu: u64,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<bool, EngineFailure> {
        Ok(self.update_fields(adu, fields)?)
    }
}

impl AduSession for Session {
    type Stream = Stream;
    type Error = EngineFailure;

    fn peer(&self) -> NodeId {
        self.peer()
    }

    async fn open_stream(&self, spec: StreamSpec) -> Result<Stream, EngineFailure> {
        Ok(self.open_stream(spec)?)
    }

    async fn probe(&self) -> Result<(), EngineFailure> {
        self.probe();
        Ok(())
    }

    async fn next_event(&self) -> Result<SessionEvent, EngineFailure> {
        Ok(self.next_event().await.map_err(StreamFailure::from)?)
    }

    async fn closed(&self) -> Result<SessionCloseReason, EngineFailure> {
        Ok(self.closed().await)
    }

    async fn admit(&self, spec: &StreamSpec) -> Result<Grant, EngineFailure> {
        Ok(self.admit(spec)?)
    }

    async fn inject_objectives(&self, text: &str) -> Result<Vec<ObjectiveId>, EngineFailure> {
        Ok(self.inject_objectives(text)?.ids)
    }

    async fn remove_objective(&self, objective: ObjectiveId) -> Result<bool, EngineFailure> {
        Ok(self.remove_objective(objective)?)
    }

    async fn objectives(&self) -> Result<Vec<Entry>, EngineFailure> {
        Ok(self.objectives())
    }

    async fn tallies(&self) -> Result<Vec<(ObjectiveId, Tally)>, EngineFailure> {
        Ok(self.tallies())
    }
}

/// The streams with a label that the peer of one session opens; an [`AduListener`] in the process of the node.
#[derive(Clone, Debug)]
pub struct Listener {
    session: Session,
    label: String,
}

impl Listener {
    /// Selects the streams with this label, or with this beginning of a label if it ends with `*`.
    pub fn new(session: Session, label: &str) -> Self {
        Self {
            session,
            label: label.to_owned(),
        }
    }
}

impl AduListener for Listener {
    type Stream = Stream;
    type Error = EngineFailure;

    async fn accept(&self) -> Result<(NodeId, Stream), EngineFailure> {
        let is_wanted = |spec: &StreamSpec| label_matches(&self.label, &spec.label);
        let stream = self.session.accept_stream_where(is_wanted).await;
        let stream = stream.map_err(StreamFailure::from)?;
        Ok((self.session.peer(), stream))
    }
}
