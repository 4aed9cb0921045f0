//! Client of the local interface: an application's connection to a running node.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use anabranch::{Client, StreamSpec};
//!
//! let client = Client::attach_default("weather").await?;
//! let session = client.connect("studio").await?;
//! let stream = session.open_stream(StreamSpec::messages("telemetry")).await?;
//! stream.send("21.5 °C").await?;
//! stream.finish()?;
//! stream.delivered().await?;
//! # Ok(()) }
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Client`]: attaching, sessions with peers, services |
//! | `address` | [`LocalAddress`]: where the node is |
//! | `core` | the connection: its tasks, requests, and what arrives |
//! | `session` | [`Session`]; `session_state`: its events and its end |
//! | `stream` | [`Stream`] |
//! | `service` | [`Service`]: the streams of peers |
//! | `error` | [`ClientError`] |

mod address;
mod core;
mod error;
mod service;
mod session;
mod session_state;
mod stream;

use std::{io, path::Path, sync::Arc};

use anabranch_base::NodeId;
use anabranch_net::Remotes;
use tokio::{io::AsyncReadExt, net::TcpStream};

use self::core::{Core, Expected, Reply, Tasks};
pub use self::{
    address::LocalAddress, error::ClientError, service::Service, session::Session, stream::Stream,
};
use super::{
    GREETING_TIME,
    frame::{Decoder, Frame, Side},
    message::{self, Bye, Hello, LoadBody, PROTOCOL, Request, Versions, Welcome},
    socket::{Halves, Reading},
    token,
};
use crate::socket_file::UnixStream;

/// An application's connection to a running node. Clones share it; it ends when the last clone and the last session, stream and
/// service of it are dropped. What was finished by then is still sent.
#[derive(Clone, Debug)]
pub struct Client {
    tasks: Arc<Tasks>,
}

impl Client {
    /// Attaches to the node that listens at this socket. `program` is the name of the application, for the node's log.
    ///
    /// # Errors
    /// No node listens there, this user may not attach, or the node supports no protocol version that this library does.
    pub async fn attach(path: impl AsRef<Path>, program: &str) -> Result<Self, ClientError> {
        let path = path.as_ref();
        let socket = UnixStream::connect(path).await;
        Self::greet(socket.map_err(unreachable(path))?.into(), program, None).await
    }

    /// Attaches to the node at this place.
    ///
    /// # Errors
    /// As [`Client::attach`]; the token cannot be read, or is not that of the node.
    pub async fn attach_at(place: &LocalAddress, program: &str) -> Result<Self, ClientError> {
        let (address, token) = match place {
            LocalAddress::Unix(path) => return Self::attach(path, program).await,
            LocalAddress::Tcp { address, token } => (address, token),
        };
        let secret = token::read(token).map_err(|source| ClientError::Token {
            path: token.clone(),
            source: Arc::new(source),
        })?;
        let socket = TcpStream::connect(address).await;
        let socket = socket.map_err(unreachable(format!("tcp:{address}").as_ref()))?;
        Self::greet(socket.into(), program, Some(secret)).await
    }

    /// Attaches to the node of this user: at the place that the environment variables `ANABRANCH_LOCAL` and `ANABRANCH_LOCAL_TOKEN`
    /// name, or else at [`config::default_local`](crate::config::default_local).
    ///
    /// # Errors
    /// As [`Client::attach_at`]; there is no default for this user.
    pub async fn attach_default(program: &str) -> Result<Self, ClientError> {
        let place = LocalAddress::usual(|name| std::env::var(name).ok())?;
        Self::attach_at(&place, program).await
    }

    async fn greet(
        socket: Halves,
        program: &str,
        token: Option<String>,
    ) -> Result<Self, ClientError> {
        let Halves {
            mut reading,
            writing,
        } = socket;
        let hello = Hello {
            protocol: PROTOCOL.to_owned(),
            versions: Versions::OURS,
            program: program.to_owned(),
            token,
        };
        let core = Arc::new(Core::default());
        core.outbox.push(&Frame::Hello(message::json(&hello)));
        let tasks = Tasks::start(core, writing);
        let mut decoder = Decoder::new(Side::Application);
        let greeting = greeted(&mut reading, &mut decoder);
        let welcome = match tokio::time::timeout(GREETING_TIME, greeting).await {
            Ok(welcome) => welcome?,
            Err(_) => return Err(ClientError::Protocol("the node does not answer".to_owned())),
        };
        let node = welcome.node.parse::<NodeId>();
        let node = node.map_err(|error| ClientError::Protocol(error.to_string()))?;
        tasks.greeted(node, welcome.credit, reading, decoder);
        Ok(Self { tasks })
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        self.tasks.node()
    }

    /// A session with a peer: its name in the node's configuration, its id, or a ticket. The node shares the session among all
    /// its applications; it opens one if there is none.
    ///
    /// # Errors
    /// The node does not know the peer, or cannot reach it.
    pub async fn connect(&self, peer: &str) -> Result<Session, ClientError> {
        self.connect_at(peer, Remotes::default()).await
    }

    /// As [`Client::connect`], at these addresses if there is no session yet. The node resolves names of hosts.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect_at(
        &self,
        peer: &str,
        addresses: impl Into<Remotes>,
    ) -> Result<Session, ClientError> {
        let Remotes { addresses, hosts } = addresses.into();
        let addresses = addresses.iter().map(ToString::to_string);
        let hosts = hosts.iter().map(ToString::to_string);
        let request = Request::Connect {
            peer: peer.to_owned(),
            addresses: addresses.chain(hosts).collect(),
            events: true,
        };
        match self.tasks.core.ask(request, Expected::Session).await? {
            Reply::Session(state, peer) => Ok(Session::new(self.tasks.clone(), state, peer)),
            _ => Err(ClientError::Protocol("no session in the answer".to_owned())),
        }
    }

    /// Takes the streams that peers open with this label, or with its beginning if it ends with `*`, until the [`Service`] is
    /// dropped. The node hands on those of peers with the right `use-service` for the label.
    ///
    /// # Errors
    /// The label is empty, too long, or belongs to the node; there are too many services.
    pub async fn register(&self, label: &str) -> Result<Service, ClientError> {
        let request = Request::Register {
            label: label.to_owned(),
            backlog: message::backlog(),
        };
        match self.tasks.core.ask(request, Expected::Service).await? {
            Reply::Service(state) => Ok(Service::new(self.tasks.clone(), state)),
            _ => Err(ClientError::Protocol("no service in the answer".to_owned())),
        }
    }

    /// States the load of this program, which processes streams, for ten seconds: its node publishes it in the overlay. Returns false if the
    /// node is in none. The program has registered a service.
    ///
    /// # Errors
    /// Another program states the load of this node; a number is out of range; the node does not know the request; the connection is over.
    pub async fn state_load(&self, load: LoadBody) -> Result<bool, ClientError> {
        let request = Request::StateLoad { load };
        let reply = self.tasks.core.ask(request, Expected::Value).await?;
        reply.field("is_published")
    }

    /// Waits until the connection is over; returns the reason.
    pub async fn closed(&self) -> String {
        self.tasks.core.closed().await
    }
}

/// The error that no node answers at this place.
fn unreachable(place: &Path) -> impl FnOnce(io::Error) -> ClientError {
    let path = place.to_owned();
    |source| ClientError::Attach {
        path,
        source: Arc::new(source),
    }
}

/// Reads the answer to the greeting.
async fn greeted(socket: &mut Reading, decoder: &mut Decoder) -> Result<Welcome, ClientError> {
    let protocol = |error: &dyn ToString| ClientError::Protocol(error.to_string());
    loop {
        match decoder.next_frame().map_err(|error| protocol(&error))? {
            Some(Frame::Welcome(body)) => {
                let welcome: Welcome =
                    serde_json::from_slice(&body).map_err(|error| protocol(&error))?;
                if !(Versions::OURS.min..=Versions::OURS.max).contains(&welcome.version) {
                    let error = format!("the node chose version {}", welcome.version);
                    return Err(ClientError::Protocol(error));
                }
                return Ok(welcome);
            }
            Some(Frame::Bye(body)) => {
                let bye: Bye = serde_json::from_slice(&body).unwrap_or_default();
                return Err(ClientError::TurnedAway(bye.reason));
            }
            Some(_) => return Err(protocol(&"the node does not greet")),
            None => {}
        }
        let read = socket.read_buf(decoder.space()).await;
        if read.map_err(|error| protocol(&error))? == 0 {
            return Err(protocol(&"the node closed the connection"));
        }
    }
}
