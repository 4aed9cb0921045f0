//! Connection of a client: its tasks, the requests that wait for answers, and the streams and services that frames are for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use anabranch_base::NodeId;
use anabranch_net::Outgoing;
use anabranch_session::StreamSpec;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    io::AsyncReadExt,
    sync::{Notify, oneshot},
    task::AbortHandle,
};

use super::{ClientError, service::ServiceState, session_state::SessionState, stream::StreamState};
use crate::local::{
    frame::{Decoder, End, Frame},
    message::{self, Answer, Bye, Connected, Event, EventBody, Numbered, Opened, Request},
    outbox::Outbox,
    socket::{Reading, Writing},
};

/// State of a connection.
#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) outbox: Outbox,
    state: Mutex<State>,
    /// Credit of the connection has come, or it is over.
    pub(super) changed: Notify,
    node: OnceLock<NodeId>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that may be sent on all streams together.
    credit: i64,
    next_request: u64,
    requests: HashMap<u64, (Expected, oneshot::Sender<Answered>)>,
    sessions: HashMap<u32, Arc<SessionState>>,
    streams: HashMap<u32, Arc<StreamState>>,
    services: HashMap<u32, Arc<ServiceState>>,
    over: Option<String>,
}

type Answered = Result<Reply, ClientError>;

/// Kind of the answer to a request.
#[derive(Debug)]
pub(super) enum Expected {
    Value,
    Session,
    Stream(Box<StreamSpec>),
    Service,
}

/// An answer.
#[derive(Debug)]
pub(super) enum Reply {
    Value(Value),
    Session(Arc<SessionState>, NodeId),
    Stream(Arc<StreamState>),
    Service(Arc<ServiceState>),
}

impl Reply {
    /// The answer as a message.
    pub(super) fn value<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        match self {
            Self::Value(value) => serde_json::from_value(value)
                .map_err(|error| ClientError::Protocol(error.to_string())),
            _ => Err(ClientError::Protocol(
                "another answer was expected".to_owned(),
            )),
        }
    }

    /// One field of the answer.
    pub(super) fn field<T: DeserializeOwned>(self, name: &str) -> Result<T, ClientError> {
        let mut value: Value = self.value()?;
        Self::Value(value[name].take()).value()
    }
}

/// The tasks of a connection, which end with the last handle to it.
#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) core: Arc<Core>,
    reading: OnceLock<AbortHandle>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // The writer ends when everything is written, then the node closes the connection, and the reader ends.
        self.core.outbox.close();
        if self.reading.get().is_none() {
            self.core.end("it did not begin");
        }
    }
}

impl Tasks {
    /// Starts to write.
    pub(super) fn start(core: Arc<Core>, writing: Writing) -> Arc<Self> {
        let writer = core.clone();
        tokio::spawn(async move {
            if let Err(error) = writer.outbox.write_to(writing).await {
                writer.end(&error.to_string());
            }
        });
        let reading = OnceLock::new();
        Arc::new(Self { core, reading })
    }

    /// Starts to read what follows the greeting.
    pub(super) fn greeted(&self, node: NodeId, credit: u32, reading: Reading, decoder: Decoder) {
        let core = self.core.clone();
        core.lock().credit = i64::from(credit);
        // Nothing else sets them.
        let _ = core.node.set(node);
        let task = tokio::spawn(async move {
            let reason = core.read(reading, decoder).await;
            core.end(&reason);
        });
        let _ = self.reading.set(task.abort_handle());
    }

    pub(super) fn node(&self) -> NodeId {
        *self.core.node.get().expect("it is set by the greeting")
    }
}

impl Core {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and waits for the answer.
    pub(super) async fn ask(&self, request: Request, expected: Expected) -> Answered {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            if let Some(reason) = &state.over {
                return Err(ClientError::Detached(reason.clone()));
            }
            let id = state.next_request;
            state.next_request += 1;
            state.requests.insert(id, (expected, sender));
            let numbered = Numbered { id, request };
            self.outbox.push(&Frame::Request(message::json(&numbered)));
        }
        match receiver.await {
            Ok(answer) => answer,
            Err(_) => Err(self.detached()),
        }
    }

    /// As [`Core::ask`], for a request whose answer has nothing of interest.
    pub(super) async fn request(&self, request: Request) -> Result<Value, ClientError> {
        self.ask(request, Expected::Value).await?.value()
    }

    /// Sends a request whose answer is not awaited.
    pub(super) fn notify(&self, request: Request) {
        let mut state = self.lock();
        let id = state.next_request;
        state.next_request += 1;
        let numbered = Numbered { id, request };
        self.outbox.push(&Frame::Request(message::json(&numbered)));
    }

    /// Appends the frames that `frame` makes of ADUs from the front of a queue, for as long as the connection has credit. Returns
    /// their number.
    pub(super) fn send(
        &self,
        mut next: impl FnMut() -> Option<(Frame, u32)>,
    ) -> Result<usize, ClientError> {
        let mut frames = Vec::new();
        let mut state = self.lock();
        if let Some(reason) = &state.over {
            return Err(ClientError::Detached(reason.clone()));
        }
        while state.credit > 0
            && let Some((frame, cost)) = next()
        {
            state.credit -= i64::from(cost);
            frames.push(frame);
        }
        // Under the lock: the node counts in the order in which they arrive.
        self.outbox.push_all(&frames);
        Ok(frames.len())
    }

    pub(super) fn forget_stream(&self, handle: u32) {
        self.lock().streams.remove(&handle);
        self.outbox.push(&Frame::End {
            stream: handle,
            end: End::Close,
        });
    }

    pub(super) fn forget_session(&self, handle: u32) {
        self.lock().sessions.remove(&handle);
        self.notify(Request::Release { session: handle });
    }

    pub(super) fn forget_service(&self, handle: u32) {
        self.lock().services.remove(&handle);
        self.notify(Request::Unregister { service: handle });
    }

    pub(super) fn detached(&self) -> ClientError {
        let reason = self.lock().over.clone();
        ClientError::Detached(reason.unwrap_or_default())
    }

    pub(super) async fn closed(&self) -> String {
        loop {
            let changed = self.changed.notified();
            if let Some(reason) = &self.lock().over {
                return reason.clone();
            }
            changed.await;
        }
    }

    /// Reads frames until the connection ends; returns the reason.
    async fn read(&self, mut socket: Reading, mut decoder: Decoder) -> String {
        loop {
            match decoder.next_frame() {
                Ok(Some(Frame::Bye(body))) => {
                    let bye: Bye = serde_json::from_slice(&body).unwrap_or_default();
                    return bye.reason;
                }
                Ok(Some(frame)) => {
                    if let Err(error) = self.take(frame) {
                        return error.to_string();
                    }
                    continue;
                }
                Ok(None) => {}
                Err(error) => return error.to_string(),
            }
            match socket.read_buf(decoder.space()).await {
                Ok(0) => return "the node has closed it; is it still running?".to_owned(),
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
        }
    }

    fn take(&self, frame: Frame) -> Result<(), serde_json::Error> {
        match frame {
            Frame::Answer(body) => self.answer(serde_json::from_slice(&body)?),
            Frame::Event(body) => self.event(serde_json::from_slice(&body)?),
            Frame::Adu(adu) => {
                if let Some(stream) = self.stream(adu.stream) {
                    stream.received(adu.adu, adu.cost);
                }
            }
            Frame::Credit { stream: 0, bytes } => {
                self.lock().credit += i64::from(bytes);
                self.changed.notify_waiters();
            }
            Frame::Credit { stream, bytes } => {
                if let Some(stream) = self.stream(stream) {
                    stream.credited(bytes);
                }
            }
            Frame::End { stream, end } => {
                if let Some(stream) = self.stream(stream) {
                    stream.ended(end);
                }
            }
            // The decoder refuses all others.
            _ => {}
        }
        Ok(())
    }

    /// The stream with this handle; `None` if it was dropped.
    fn stream(&self, handle: u32) -> Option<Arc<StreamState>> {
        self.lock().streams.get(&handle).cloned()
    }

    fn answer(&self, answer: Answer) {
        let Some((expected, sender)) = self.lock().requests.remove(&answer.id) else {
            return;
        };
        let reply = match (answer.ok, answer.error) {
            (_, Some(error)) => Err(error.into()),
            (ok, None) => self.reply(expected, ok.unwrap_or_default()),
        };
        if let Err(Ok(abandoned)) = sender.send(reply) {
            self.abandon(abandoned);
        }
    }

    fn reply(&self, expected: Expected, value: Value) -> Answered {
        let unclear = |error: serde_json::Error| ClientError::Protocol(error.to_string());
        Ok(match expected {
            Expected::Value => Reply::Value(value),
            Expected::Session => {
                let connected: Connected = serde_json::from_value(value).map_err(unclear)?;
                let peer = connected.peer.parse::<NodeId>();
                let peer = peer.map_err(|error| ClientError::Protocol(error.to_string()))?;
                let state = Arc::new(SessionState::new(&connected));
                self.lock().sessions.insert(state.handle, state.clone());
                Reply::Session(state, peer)
            }
            Expected::Stream(spec) => {
                let opened: Opened = serde_json::from_value(value).map_err(unclear)?;
                let can_receive = spec.duplex;
                Reply::Stream(self.add(&opened, *spec, true, can_receive))
            }
            Expected::Service => {
                let handle = Reply::Value(value).field("service")?;
                let state = Arc::new(ServiceState::new(handle));
                self.lock().services.insert(handle, state.clone());
                Reply::Service(state)
            }
        })
    }

    /// Gives back what was asked for by somebody who has stopped waiting.
    fn abandon(&self, reply: Reply) {
        match reply {
            Reply::Stream(stream) => self.forget_stream(stream.handle),
            Reply::Service(service) => self.forget_service(service.handle),
            Reply::Session(session, _) => self.forget_session(session.handle),
            Reply::Value(_) => {}
        }
    }

    fn add(
        &self,
        opened: &Opened,
        spec: StreamSpec,
        can_send: bool,
        can_receive: bool,
    ) -> Arc<StreamState> {
        let state = Arc::new(StreamState::new(opened, spec, can_send, can_receive));
        self.lock().streams.insert(opened.stream, state.clone());
        state
    }

    fn event(&self, event: Event) {
        if let (Some(handle), EventBody::Incoming { .. }) = (event.service, &event.body) {
            return self.incoming(handle, event.body);
        }
        if let Some(handle) = event.session {
            let session = self.lock().sessions.get(&handle).cloned();
            if let Some(session) = session {
                session.event(event.body);
            }
            return;
        }
        if let Some(stream) = event.stream.and_then(|handle| self.stream(handle)) {
            stream.event(event.body);
        }
    }

    fn incoming(&self, service: u32, body: EventBody) {
        let EventBody::Incoming {
            opened, peer, spec, ..
        } = body
        else {
            return;
        };
        let service = self.lock().services.get(&service).cloned();
        let (Some(service), Ok(spec), Ok(peer)) = (service, spec.resolve(), peer.parse()) else {
            self.outbox.push(&Frame::End {
                stream: opened.stream,
                end: End::Close,
            });
            return;
        };
        let can_send = spec.duplex;
        service.push(peer, self.add(&opened, spec, can_send, true));
    }

    /// Ends the connection: everything that waits fails.
    fn end(&self, reason: &str) {
        let mut state = self.lock();
        state.over.get_or_insert_with(|| reason.to_owned());
        state.requests.clear();
        let streams: Vec<_> = state.streams.values().cloned().collect();
        let services: Vec<_> = state.services.values().cloned().collect();
        let sessions: Vec<_> = state.sessions.values().cloned().collect();
        drop(state);
        self.outbox.close();
        for stream in streams {
            stream.detached(reason);
        }
        for service in services {
            service.wake();
        }
        for session in sessions {
            session.detached(reason);
        }
        self.changed.notify_waiters();
    }

    /// True if the connection is over.
    pub(super) fn is_over(&self) -> bool {
        self.lock().over.is_some()
    }
}

/// Header fields in the form of the frames.
pub(super) fn fields(adu: &Outgoing) -> bytes::Bytes {
    if adu.fields.is_empty() {
        return bytes::Bytes::new();
    }
    let fields = adu.fields.iter();
    let fields: message::Fields = fields
        .map(|(name, field)| (name.clone(), field.into()))
        .collect();
    message::json(&fields)
}
