//! Traits of sessions and streams: the same program runs in the process of a node and attached to a running one.
//!
//! [`Session`](crate::Session) and [`Stream`](crate::Stream) of this process implement them, and so do
//! [`client::Session`](crate::local::client::Session) and [`client::Stream`](crate::local::client::Stream). A program that
//! is written against the traits changes the line in which it gets its session, and nothing else:
//!
//! ```no_run
//! use anabranch::{AduSession, AduStream, StreamSpec};
//!
//! async fn report<S: AduSession>(session: &S) -> Result<(), S::Error> {
//!     let stream = session.open_stream(StreamSpec::messages("telemetry")).await?;
//!     stream.send("21.5 °C").await?;
//!     stream.finish()?;
//!     stream.delivered().await
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # let host: anabranch::Host = unimplemented!();
//! # let peer: anabranch::base::NodeId = unimplemented!();
//! // In the process of the node:
//! report(&host.connect(peer, &[]).await?).await?;
//! // Attached to a running one:
//! let client = anabranch::Client::attach_default("weather").await?;
//! report(&client.connect("studio").await?).await?;
//! # Ok(()) }
//! ```

mod attached;
mod engine;

use std::{collections::VecDeque, future::Future, ops::Range, time::Duration};

use anabranch_base::{NodeId, StreamId};
use anabranch_net::{Outgoing, PromiseEvent, SessionEvent, StreamEvent};
use anabranch_session::{
    Adu, Chances, Discarded, Explanation, FieldValue, Grant, Guarantee, ObjectiveId, Refusal,
    SendError, SessionCloseReason, StreamParameters, StreamSpec,
    objective::{Entry, Tally},
};

pub use self::engine::{EngineFailure, Listener};

/// An error of a session or a stream.
pub trait Failure: std::error::Error + Send + Sync + 'static {
    /// Code with which the peer reset the stream.
    fn reset_code(&self) -> Option<u32>;
    /// Code with which the peer stopped the stream.
    fn stop_code(&self) -> Option<u32>;
    /// True if the session is over, or the connection to the node.
    fn is_session_over(&self) -> bool;
    /// Reason why a guarantee is refused, and what could be promised instead.
    fn refusal(&self) -> Option<&Refusal>;
    /// Reason why an ADU was not accepted, if the engine gave one.
    fn send_error(&self) -> Option<&SendError>;
}

/// A stream of ADUs. The methods are those of [`Stream`](crate::Stream), where their errors are described.
pub trait AduStream: Clone + Send + Sync + 'static {
    /// Its errors.
    type Error: Failure;

    /// Its number in its session, the same at both nodes.
    fn id(&self) -> StreamId;
    /// Spec that its opener declared.
    fn spec(&self) -> &StreamSpec;
    /// True if this side may send on it.
    fn can_send(&self) -> bool;
    /// True if this side may receive from it.
    fn can_receive(&self) -> bool;
    /// Queues an ADU as soon as there is space, and returns its number.
    fn send(
        &self,
        adu: impl Into<Outgoing> + Send,
    ) -> impl Future<Output = Result<u64, Self::Error>> + Send;
    /// Queues an ADU now or not at all; [`SendError::Full`] returns it.
    ///
    /// # Errors
    /// As [`AduStream::send`], or there is no space.
    fn try_send(&self, adu: impl Into<Outgoing>) -> Result<u64, Self::Error>;
    /// Probability that an ADU of `bytes`, if it were sent now, would arrive at the peer's node `within` this time; `None` while too
    /// little is known.
    fn on_time(
        &self,
        bytes: usize,
        within: Duration,
    ) -> impl Future<Output = Result<Option<f64>, Self::Error>> + Send {
        let chances = self.chances(bytes, within);
        async { Ok(chances.await?.map(|chances| chances.on_time)) }
    }
    /// As [`AduStream::on_time`], with the probability that it holds unless a packet is lost.
    fn chances(
        &self,
        bytes: usize,
        within: Duration,
    ) -> impl Future<Output = Result<Option<Chances>, Self::Error>> + Send;
    /// Gives up what waits of a stream that may lose ADUs, in favour of something newer: every ADU that is not sent completely. Each is
    /// reported as [`StreamEvent::Dropped`], and never delivered. Attached to a node of an older release, nothing is given up.
    fn discard(&self) -> impl Future<Output = Result<Discarded, Self::Error>> + Send;
    /// Queues ADUs from the front of `adus`, as many as there is space for; ready when at least one was queued, or when there are
    /// none. Returns the numbers of those that were, which have left `adus`.
    fn send_many(
        &self,
        adus: &mut VecDeque<Outgoing>,
    ) -> impl Future<Output = Result<Range<u64>, Self::Error>> + Send;
    /// Waits for the next ADU; `None` once the peer has finished and everything was read.
    fn recv(&self) -> impl Future<Output = Result<Option<Adu>, Self::Error>> + Send;
    /// Finishes the stream: no ADU follows; queued ones are still delivered.
    ///
    /// # Errors
    /// The stream is over, or only the peer sends on it.
    fn finish(&self) -> Result<(), Self::Error>;
    /// Resets the stream: data that the peer has not read is lost.
    ///
    /// # Errors
    /// As [`AduStream::finish`].
    fn reset(&self, code: u32) -> Result<(), Self::Error>;
    /// Stops the stream: asks the peer to send no more.
    ///
    /// # Errors
    /// The stream is over, or only this side sends on it.
    fn stop(&self, code: u32) -> Result<(), Self::Error>;
    /// Waits, after [`AduStream::finish`], until the peer's node has received everything.
    fn delivered(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;
    /// Waits for the next event of the stream.
    fn next_event(&self) -> impl Future<Output = Result<StreamEvent, Self::Error>> + Send;
    /// Waits for the next event of the stream's promise.
    fn next_promise(&self) -> impl Future<Output = Result<PromiseEvent, Self::Error>> + Send;
    /// Explanation of the stream's promise; `None` if it asked for none.
    fn explain(&self) -> impl Future<Output = Result<Option<Explanation>, Self::Error>> + Send;
    /// Changes weight, priority, lifetime, cap, drop order or pin of this side's data.
    fn adjust(
        &self,
        parameters: StreamParameters,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
    /// Asks for another guarantee for this side's data; `None` releases the promise.
    fn change_guarantee(
        &self,
        guarantee: Option<Guarantee>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
    /// Sets header fields of a queued ADU; false if its outcome is known already.
    fn update_fields(
        &self,
        adu: u64,
        fields: &[(&str, FieldValue<'_>)],
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// A session with another node. The methods are those of [`Session`](crate::Session), where their errors are described.
pub trait AduSession: Clone + Send + Sync + 'static {
    /// Its streams.
    type Stream: AduStream<Error = Self::Error>;
    /// Its errors.
    type Error: Failure;

    /// The node at the other end.
    fn peer(&self) -> NodeId;
    /// Opens a stream.
    fn open_stream(
        &self,
        spec: StreamSpec,
    ) -> impl Future<Output = Result<Self::Stream, Self::Error>> + Send;
    /// Asks every path for an acknowledgement, without waiting for it, so that the silence of the peer is found out although there is nothing
    /// to send. A node of an older release does nothing.
    fn probe(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;
    /// Waits for the next change of the session's channels and objectives.
    fn next_event(&self) -> impl Future<Output = Result<SessionEvent, Self::Error>> + Send;
    /// Waits until the session is over; returns the cause. The error is that it cannot be known, because the connection to the node
    /// is over.
    fn closed(&self) -> impl Future<Output = Result<SessionCloseReason, Self::Error>> + Send;
    /// Decision that [`AduSession::open_stream`] would make on the spec's guarantee now.
    fn admit(&self, spec: &StreamSpec) -> impl Future<Output = Result<Grant, Self::Error>> + Send;
    /// Applies the objectives of a HOSE text for what this node sends.
    fn inject_objectives(
        &self,
        text: &str,
    ) -> impl Future<Output = Result<Vec<ObjectiveId>, Self::Error>> + Send;
    /// Removes an objective; false if it is not in force.
    fn remove_objective(
        &self,
        objective: ObjectiveId,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;
    /// The objectives in force.
    fn objectives(&self) -> impl Future<Output = Result<Vec<Entry>, Self::Error>> + Send;
    /// Contexts, utility and faulty contexts of each objective within the last minute; `rate` items have none. Attached to a node, the
    /// kinds of faults are not known, and one of an older release has no tallies.
    fn tallies(
        &self,
    ) -> impl Future<Output = Result<Vec<(ObjectiveId, Tally)>, Self::Error>> + Send;
}

/// Streams that peers open with a label.
pub trait AduListener: Send + Sync + 'static {
    /// The streams.
    type Stream: AduStream<Error = Self::Error>;
    /// The errors.
    type Error: Failure;

    /// Waits for the next stream, with the peer that opened it.
    fn accept(&self) -> impl Future<Output = Result<(NodeId, Self::Stream), Self::Error>> + Send;
}
