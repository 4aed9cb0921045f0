//! The traits for sessions and streams of a running node, to which this application is attached.

use std::{collections::VecDeque, ops::Range, time::Duration};

use anabranch_base::{NodeId, StreamId};
use anabranch_net::{Outgoing, PromiseEvent, SessionEvent, StreamEvent};
use anabranch_session::{
    Adu, Chances, Discarded, Explanation, FieldValue, Grant, Guarantee, ObjectiveId,
    SessionCloseReason, StreamParameters, StreamSpec,
    objective::{Entry, Tally},
};

use super::{AduListener, AduSession, AduStream};
use crate::local::client;

impl AduStream for client::Stream {
    type Error = client::ClientError;

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

    async fn send(&self, adu: impl Into<Outgoing> + Send) -> Result<u64, Self::Error> {
        self.send(adu).await
    }

    fn try_send(&self, adu: impl Into<Outgoing>) -> Result<u64, Self::Error> {
        self.try_send(adu)
    }

    async fn chances(
        &self,
        bytes: usize,
        within: Duration,
    ) -> Result<Option<Chances>, Self::Error> {
        self.chances(bytes, within).await
    }

    async fn discard(&self) -> Result<Discarded, Self::Error> {
        self.discard().await
    }

    async fn send_many(&self, adus: &mut VecDeque<Outgoing>) -> Result<Range<u64>, Self::Error> {
        self.send_many(adus).await
    }

    async fn recv(&self) -> Result<Option<Adu>, Self::Error> {
        self.recv().await
    }

    fn finish(&self) -> Result<(), Self::Error> {
        self.finish()
    }

    fn reset(&self, code: u32) -> Result<(), Self::Error> {
        self.reset(code)
    }

    fn stop(&self, code: u32) -> Result<(), Self::Error> {
        self.stop(code)
    }

    async fn delivered(&self) -> Result<(), Self::Error> {
        self.delivered().await
    }

    async fn next_event(&self) -> Result<StreamEvent, Self::Error> {
        self.next_event().await
    }

    async fn next_promise(&self) -> Result<PromiseEvent, Self::Error> {
        self.next_promise().await
    }

    async fn explain(&self) -> Result<Option<Explanation>, Self::Error> {
        self.explain().await
    }

    async fn adjust(&self, parameters: StreamParameters) -> Result<(), Self::Error> {
        self.adjust(parameters).await
    }

    async fn change_guarantee(&self, guarantee: Option<Guarantee>) -> Result<(), Self::Error> {
        self.change_guarantee(guarantee).await
    }

    async fn update_fields(
        &self,
        adu: u64,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<bool, Self::Error> {
        self.update_fields(adu, fields).await
    }
}

impl AduSession for client::Session {
    type Stream = client::Stream;
    type Error = client::ClientError;

    fn peer(&self) -> NodeId {
        self.peer()
    }

    async fn open_stream(&self, spec: StreamSpec) -> Result<client::Stream, Self::Error> {
        self.open_stream(spec).await
    }

    async fn probe(&self) -> Result<(), Self::Error> {
        self.probe().await
    }

    async fn next_event(&self) -> Result<SessionEvent, Self::Error> {
        self.next_event().await
    }

    async fn closed(&self) -> Result<SessionCloseReason, Self::Error> {
        self.closed().await
    }

    async fn admit(&self, spec: &StreamSpec) -> Result<Grant, Self::Error> {
        self.admit(spec).await
    }

    async fn inject_objectives(&self, text: &str) -> Result<Vec<ObjectiveId>, Self::Error> {
        self.inject_objectives(text).await
    }

    async fn remove_objective(&self, objective: ObjectiveId) -> Result<bool, Self::Error> {
        self.remove_objective(objective).await
    }

    async fn objectives(&self) -> Result<Vec<Entry>, Self::Error> {
        self.objectives().await
    }

    async fn tallies(&self) -> Result<Vec<(ObjectiveId, Tally)>, Self::Error> {
        self.tallies().await
    }
}

impl AduListener for client::Service {
    type Stream = client::Stream;
    type Error = client::ClientError;

    async fn accept(&self) -> Result<(NodeId, client::Stream), Self::Error> {
        self.accept().await
    }
}
