//! Applications on a node.

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_session::{Adu, Engine, Event, Link, SendError, StreamError, StreamSpec};
use bytes::Bytes;

/// An application in a simulated node. All of its state is its own; it acts through the [`Context`].
pub trait App {
    /// Handles an event.
    fn on_event(&mut self, context: &mut Context<'_>, event: Event);

    /// Called at the time returned by [`App::next_wake`].
    fn on_wake(&mut self, _context: &mut Context<'_>) {}

    /// Time at which to call [`App::on_wake`]; asked after every call.
    fn next_wake(&self) -> Option<Instant> {
        None
    }
}

/// Interface of an application to its node: the engine's commands, at the current time.
pub struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) engine: &'a mut Engine,
    pub(crate) departed: Option<Instant>,
}

impl Context<'_> {
    /// The current time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time at which the packet that caused this call was sent; `None` if no packet did.
    pub fn departed(&self) -> Option<Instant> {
        self.departed
    }

    /// The engine, for what the other calls do not cover.
    pub fn engine(&mut self) -> &mut Engine {
        self.engine
    }

    /// Opens a session; see [`Engine::connect`].
    ///
    /// # Panics
    /// If an address cannot be dialled: a mistake of the scenario.
    pub fn connect(&mut self, peer: NodeId, links: Vec<Link>) -> SessionId {
        self.engine
            .connect(self.now, peer, links)
            .expect("a scenario names addresses that exist")
    }

    /// Opens a stream; see [`SessionMut::open_stream`](anabranch_session::SessionMut::open_stream).
    ///
    /// # Errors
    /// Those of the engine.
    pub fn open(&mut self, session: SessionId, spec: StreamSpec) -> Result<StreamId, StreamError> {
        self.engine.session(session)?.open_stream(self.now, spec)
    }

    /// Sends an ADU; see [`StreamMut::send`](anabranch_session::StreamMut::send).
    ///
    /// # Errors
    /// Those of the engine.
    pub fn send(
        &mut self,
        session: SessionId,
        stream: StreamId,
        data: Bytes,
    ) -> Result<u64, SendError> {
        self.engine
            .session(session)?
            .stream(stream)
            .send(self.now, data)
    }

    /// Takes an ADU; see [`StreamMut::receive`](anabranch_session::StreamMut::receive).
    pub fn receive(&mut self, session: SessionId, stream: StreamId) -> Option<Adu> {
        self.engine
            .session(session)
            .ok()
            .and_then(|session| session.stream(stream).receive())
    }

    /// Finishes a stream; see [`StreamMut::finish`](anabranch_session::StreamMut::finish). A stream that is over
    /// already is ignored.
    pub fn finish(&mut self, session: SessionId, stream: StreamId) {
        let _ = self
            .engine
            .session(session)
            .and_then(|session| session.stream(stream).finish());
    }
}
