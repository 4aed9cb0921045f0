//! One application: its greeting, its frames until it leaves, and what happens to its streams then.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU32},
    time::Duration,
};

use anabranch_net::{Stream, limited};
use tokio::{io::AsyncReadExt, sync::OwnedSemaphorePermit, task::JoinSet};

use super::{
    CONNECTION_CREDIT, GREETING_TIME, LINGER, REQUESTS_MAX,
    frame::{Decoder, End, Frame, FrameError, Side},
    inbox::{Local, StreamViolation},
    link::Link,
    memory::{Part, Share},
    message::{
        self, Bye, ErrorBody, Hello, Number, Numbered, PROTOCOL, Request, Versions, Welcome,
    },
    policy::{Account, Reservation},
    request::{answer, value},
    socket::{Halves, Reading},
    stream,
    tables::{Tables, error},
    token::Token,
};
use crate::{daemon::Handle, overlay::Author, ticket::ADDRESSES_MAX};

/// Longest name, id or ticket of a peer.
const PEER_BYTES_MAX: usize = 4 << 10;

/// Time for an application to take the last frame.
const BYE_TIME: Duration = Duration::from_secs(1);

/// An application that is attached.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) node: Handle,
    pub(super) link: Arc<Link>,
    pub(super) account: Arc<Account>,
    pub(super) author: Author,
    tables: Mutex<Tables>,
    /// Tasks of its streams.
    streams: Mutex<JoinSet<()>>,
}

/// Reason why a connection ends.
#[derive(Debug, thiserror::Error)]
enum Leaving {
    #[error("it has left")]
    Left,
    #[error("it was cut off: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("no greeting within {GREETING_TIME:?}")]
    Silent,
    #[error("the greeting is not one of this protocol: {0}")]
    Greeting(String),
    #[error(
        "it supports versions {} to {} of the protocol, this node {} to {}; update the older one",
        .0.min, .0.max, Versions::OURS.min, Versions::OURS.max
    )]
    Version(Versions),
    #[error("stream {1}: {0}")]
    Stream(StreamViolation, u32),
    #[error("more was sent than the credit of the connection permits")]
    Credit,
    #[error("a frame for handle {0}, which was never given")]
    Handle(u32),
    #[error("a request without a number: {0}")]
    Request(serde_json::Error),
    #[error(
        "{} KiB of the memory that all applications share wait for it, and others need them; read what arrives, and send less at a \
         time", .0 >> 10
    )]
    Memory(u64),
    #[error("this user may not attach any more; see local_users in the node's configuration")]
    NotAllowed,
    #[error("the token is not that of this node; a node makes a new one at each start")]
    Token,
}

impl Leaving {
    /// The last message to the application; `None` if it does not expect one.
    fn bye(&self) -> Option<Bye> {
        let (code, versions) = match self {
            Self::Left | Self::Io(_) => return None,
            Self::Version(_) => ("version", Some(Versions::OURS)),
            Self::Memory(_) => ("limit", None),
            Self::NotAllowed | Self::Token => ("not_allowed", None),
            _ => ("violation", None),
        };
        Some(Bye {
            code: code.to_owned(),
            reason: self.to_string(),
            versions,
        })
    }
}

/// An application that has connected.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) socket: Halves,
    pub(super) node: Handle,
    /// Account of the memory that it holds.
    pub(super) share: Share,
    /// Account of the streams that it has open.
    pub(super) account: Arc<Account>,
    /// The token that it has to show, and its place among those that have not.
    pub(super) stranger: Option<(Token, OwnedSemaphorePermit)>,
}

/// Serves an application until it has left, and its finished streams are sent.
pub(super) async fn serve(arrival: Arrival) {
    let Halves {
        reading: mut socket,
        writing,
    } = arrival.socket;
    let stranger = arrival.stranger;
    let connection = Arc::new(Connection {
        node: arrival.node,
        link: Arc::new(Link::new(arrival.share)),
        account: arrival.account,
        author: Author::default(),
        tables: Mutex::default(),
        streams: Mutex::default(),
    });
    let link = connection.link.clone();
    let mut writer = JoinSet::new();
    writer.spawn(async move { link.outbox.write_to(writing).await });
    let mut program = String::new();
    let leaving = tokio::select! {
        leaving = connection.read(&mut socket, stranger, &mut program) => leaving,
        Some(Ok(written)) = writer.join_next() => match written {
            Ok(()) => Leaving::Left,
            Err(error) => Leaving::Io(error),
        },
        bytes = connection.link.share.evicted() => Leaving::Memory(bytes),
        () = connection.account.until_not_allowed() => Leaving::NotAllowed,
    };
    if let Some(bye) = leaving.bye() {
        let program = anabranch_base::text::printable(&program, 60);
        limited!(warn, program, %leaving, "application disconnected");
        connection
            .link
            .outbox
            .push(&Frame::Bye(message::json(&bye)));
    }
    connection.link.outbox.close();
    let is_evicted = matches!(leaving, Leaving::Memory(_));
    if !is_evicted || connection.link.outbox.has_capacity() {
        // One that does not read goes without it.
        let _ = tokio::time::timeout(BYE_TIME, writer.join_next()).await;
    }
    writer.shutdown().await;
    connection.link.outbox.discard();
    connection.link.share.set(Part::Frame, 0);
    drop(socket);
    for local in connection.tables().end() {
        local.detach();
    }
    let mut streams = {
        let mut streams = connection.streams();
        std::mem::take(&mut *streams)
    };
    let flushed = async { while streams.join_next().await.is_some() {} };
    // Those that are not sent by then are dropped, which resets them.
    tokio::select! {
        () = flushed => {}
        () = tokio::time::sleep(LINGER) => {}
        _ = connection.link.share.evicted() => {}
    }
}

impl Connection {
    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stream for which the application has given this credit, and starts its task.
    pub(super) fn add_stream(
        &self,
        stream: Stream,
        reservation: Reservation,
        given: u32,
        waiting: Option<Arc<AtomicU32>>,
    ) -> Result<Arc<Local>, ErrorBody> {
        let local = self.tables().add_stream(stream.clone(), |handle, credit| {
            let link = self.link.clone();
            Local::new(handle, credit, given, link, reservation).waiting_in(waiting)
        })?;
        let mut streams = self.streams();
        while streams.try_join_next().is_some() {}
        streams.spawn(stream::run(stream, local.clone()));
        Ok(local)
    }

    /// Reads frames until the connection ends.
    async fn read(
        self: &Arc<Self>,
        socket: &mut Reading,
        stranger: Option<(Token, OwnedSemaphorePermit)>,
        program: &mut String,
    ) -> Leaving {
        let mut decoder = Decoder::new(Side::Node);
        let token = stranger.as_ref().map(|(token, _)| token);
        let greeting = self.greet(socket, &mut decoder, token);
        match tokio::time::timeout(GREETING_TIME, greeting).await {
            Ok(Ok(name)) => *program = name,
            Ok(Err(leaving)) => return leaving,
            Err(_) => return Leaving::Silent,
        }
        drop(stranger);
        let mut requests = JoinSet::new();
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    self.link.share.set(Part::Frame, decoder.buffered_bytes());
                    if let Err(leaving) = self.take(frame, &mut requests) {
                        return leaving;
                    }
                    continue;
                }
                Ok(None) => {}
                Err(error) => return error.into(),
            }
            while requests.try_join_next().is_some() {}
            // Without capacity, only connections that have something to send wait.
            if let Err(error) = socket.readable().await {
                return error.into();
            }
            self.link.share.capacity_to_read().await;
            match socket.read_buf(decoder.space()).await {
                // A frame that arrived in part is not one.
                Ok(0) => return Leaving::Left,
                Ok(_) => self.link.share.set(Part::Frame, decoder.buffered_bytes()),
                Err(error) => return error.into(),
            }
        }
    }

    /// Reads the greeting and answers it; returns the name of the program.
    async fn greet(
        &self,
        socket: &mut Reading,
        decoder: &mut Decoder,
        token: Option<&Token>,
    ) -> Result<String, Leaving> {
        let hello = loop {
            match decoder.next_frame()? {
                Some(Frame::Hello(hello)) => break hello,
                Some(_) => return Err(Leaving::Left),
                None => {}
            }
            if socket.read_buf(decoder.space()).await? == 0 {
                return Err(Leaving::Left);
            }
        };
        let hello: Result<Hello, _> = serde_json::from_slice(&hello);
        let hello = hello.map_err(|error| Leaving::Greeting(error.to_string()))?;
        if hello.protocol != PROTOCOL {
            return Err(Leaving::Greeting(format!("protocol is not {PROTOCOL}")));
        }
        if let Some(token) = token
            && !token.is(hello.token.as_deref().unwrap_or_default())
        {
            return Err(Leaving::Token);
        }
        let version = Versions::OURS.common(hello.versions);
        let version = version.ok_or(Leaving::Version(hello.versions))?;
        let welcome = Welcome {
            version,
            node: self.node.host().node_id().to_string(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            credit: CONNECTION_CREDIT,
        };
        self.link
            .outbox
            .push(&Frame::Welcome(message::json(&welcome)));
        Ok(hello.program)
    }

    fn take(self: &Arc<Self>, frame: Frame, requests: &mut JoinSet<()>) -> Result<(), Leaving> {
        match frame {
            Frame::Send(send) => {
                if !self.link.take_credit(send.cost) {
                    return Err(Leaving::Credit);
                }
                let (handle, cost) = (send.stream, send.cost);
                match self.local(handle)? {
                    Some(local) => local
                        .send(send)
                        .map_err(|violation| Leaving::Stream(violation, handle))?,
                    None => self.link.return_credit(cost),
                }
            }
            Frame::Credit { stream, bytes } => {
                if let Some(local) = self.local(stream)? {
                    local
                        .give(bytes)
                        .map_err(|violation| Leaving::Stream(violation, stream))?;
                }
            }
            Frame::End { stream, end } => {
                if let Some(local) = self.local(stream)? {
                    local.end(end);
                }
                if end == End::Close {
                    self.tables().remove_stream(stream);
                }
            }
            Frame::Request(body) => self.request(&body, requests)?,
            Frame::Bye(_) => return Err(Leaving::Left),
            // The decoder refuses all others.
            _ => {}
        }
        Ok(())
    }

    /// The stream with this handle; `None` if it is closed.
    fn local(&self, handle: u32) -> Result<Option<Arc<Local>>, Leaving> {
        let tables = self.tables();
        if !tables.was_given(handle) {
            return Err(Leaving::Handle(handle));
        }
        Ok(tables.stream(handle).ok().map(|(_, local)| local.clone()))
    }

    fn request(self: &Arc<Self>, body: &[u8], requests: &mut JoinSet<()>) -> Result<(), Leaving> {
        let Number { id } = serde_json::from_slice(body).map_err(Leaving::Request)?;
        let read: Result<Numbered, _> = serde_json::from_slice(body);
        let done = match read {
            Ok(Numbered {
                request:
                    Request::Connect {
                        peer,
                        addresses,
                        events,
                    },
                ..
            }) if requests.len() < REQUESTS_MAX
                && peer.len() <= PEER_BYTES_MAX
                && addresses.len() <= ADDRESSES_MAX =>
            {
                let connection = self.clone();
                requests.spawn(async move {
                    let done = connection.connect(&peer, addresses, events).await;
                    let watched = done.as_ref().ok().filter(|_| events);
                    let watched = watched.map(|connected| connected.session);
                    connection.answer(id, done.and_then(value));
                    if let Some(session) = watched {
                        connection.watch(session);
                    }
                });
                return Ok(());
            }
            Ok(Numbered {
                request: Request::Connect { .. },
                ..
            }) => Err(error(
                "limit",
                format!(
                    "{REQUESTS_MAX} requests may wait for peers at a time, each with a name of {PEER_BYTES_MAX} bytes and \
                     {ADDRESSES_MAX} addresses at most; wait for an answer"
                ),
            )),
            Ok(Numbered {
                request: Request::Discard { stream },
                ..
            }) => match self.discard(id, stream, requests) {
                Ok(()) => return Ok(()),
                Err(why) => Err(why),
            },
            Ok(Numbered { request, .. }) => self.execute(request),
            Err(why) => Err(error("request", why)),
        };
        self.answer(id, done);
        Ok(())
    }

    pub(super) fn answer(&self, id: u64, done: Result<serde_json::Value, ErrorBody>) {
        self.link.outbox.push(&Frame::Answer(answer(id, done)));
    }
}
