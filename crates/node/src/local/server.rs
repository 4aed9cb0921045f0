//! Sockets of the local interface: who may attach, and how many.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_net::limited;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use super::{
    CONNECTIONS_MAX, CONNECTIONS_OF_USER_MAX, STRANGERS_MAX,
    connection::{self, Arrival},
    frame::{self, Frame},
    memory::Memory,
    message::{self, Bye},
    policy::{self, LocalPart, Policy},
    socket::Halves,
    token::TokenFile,
};
use crate::{
    config::{LocalConfig, LocalTcp},
    daemon::Handle,
    socket_file::{SocketFile, SocketFileError, UnixStream, is_owner, own_uid, peer_uid},
};

/// The socket of the local interface cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// It cannot be opened for listening.
    #[error("cannot listen on the socket of the local interface, {}: {source}; name another one with --local, or '' for none", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another user could put a socket there, or listen in its place.
    #[error("the socket of the local interface, {}: others can write to its folder; name one with --local in a folder that only this user can write to, or `chmod go-w` the folder", path.display())]
    Exposed {
        /// The socket.
        path: PathBuf,
    },
    /// A file that is not a socket has the name.
    #[error("the socket of the local interface, {}: there is a file of this name that is not a socket; remove it, or name another socket with --local", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Another node listens there.
    #[error("a node is running on the local interface {} already; stop it, or name another socket with --local", path.display())]
    Running {
        /// The socket.
        path: PathBuf,
    },
    /// The TCP socket cannot be opened.
    #[error(
        "cannot listen on {address} for local applications: {source}; name another address with `local_tcp`"
    )]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The token for it cannot be made.
    #[error("the token of the local interface, {}: {source}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A user does not exist.
    #[error("local_users: there is no user '{0}' on this system; give another name, or a number")]
    User(String),
}

impl LocalError {
    fn of(path: PathBuf, error: SocketFileError) -> Self {
        match error {
            SocketFileError::Io(source) => Self::Listen { path, source },
            SocketFileError::Exposed => Self::Exposed { path },
            SocketFileError::Taken => Self::Taken { path },
            SocketFileError::Running => Self::Running { path },
        }
    }
}

/// The open sockets of a local interface; their files are removed when this is dropped.
#[derive(Debug)]
pub struct LocalServer {
    socket: SocketFile,
    path: PathBuf,
    tcp: Option<Tcp>,
    policy: Arc<Policy>,
    memory: Arc<Memory>,
}

/// The TCP socket of a local interface.
#[derive(Debug)]
struct Tcp {
    listener: TcpListener,
    token: TokenFile,
    /// Places for those that have not shown the token yet.
    strangers: Arc<Semaphore>,
}

impl Tcp {
    async fn open(config: &LocalTcp) -> Result<Self, LocalError> {
        let listener = TcpListener::bind(config.address).await;
        let listener = listener.map_err(|source| LocalError::Tcp {
            address: config.address,
            source,
        })?;
        let token = TokenFile::create(&config.token);
        Ok(Self {
            listener,
            token: token.map_err(|source| LocalError::Token {
                path: config.token.clone(),
                source,
            })?,
            strangers: Arc::new(Semaphore::new(STRANGERS_MAX)),
        })
    }
}

/// A connection of either socket.
#[derive(Debug)]
enum Accepted {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Connections by user.
type Counts = Arc<Mutex<HashMap<u32, usize>>>;

/// A connection in the count of its user.
struct Counted(Counts, u32);

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

impl LocalServer {
    /// Opens the socket, as that of [`Control`](crate::control::Control) is opened. Its mode lets others connect only if there are
    /// such users; who they are is checked in any case.
    ///
    /// # Errors
    /// Another node listens there, others could listen in its place, the file cannot be made, or a user does not exist.
    pub async fn open(config: &LocalConfig) -> Result<Self, LocalError> {
        let users = policy::resolve(config)?;
        let opened = SocketFile::open(&config.path, policy::mode(config)).await;
        let socket = opened.map_err(|error| LocalError::of(config.path.clone(), error))?;
        let tcp = match &config.tcp {
            Some(config) => Some(Tcp::open(config).await?),
            None => None,
        };
        Ok(Self {
            tcp,
            socket,
            path: config.path.clone(),
            policy: Policy::new(users),
            memory: Memory::new(config.memory_bytes),
        })
    }

    /// Address of the TCP socket, if there is one.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref()?.listener.local_addr().ok()
    }

    /// Bytes that wait in the node for applications.
    pub fn held_bytes(&self) -> u64 {
        self.memory.held_bytes()
    }

    /// Serves applications until dropped.
    pub(crate) async fn serve(&self, node: &Handle) {
        node.attach(Arc::new(LocalPart::new(
            self.policy.clone(),
            &self.path,
            node.host().clone(),
        )));
        let counts = Counts::default();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.accept() => match accepted {
                    Ok(accepted) => {
                        let admitted = self.admit(accepted, connections.len(), &counts, node);
                        if let Some((arrival, counted)) = admitted {
                            connections.spawn(async move {
                                connection::serve(arrival).await;
                                drop(counted);
                            });
                        }
                    }
                    Err(error) => {
                        limited!(warn, %error, "local interface");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// The next connection.
    async fn accept(&self) -> io::Result<Accepted> {
        let over_tcp = async {
            match &self.tcp {
                Some(tcp) => tcp.listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.socket.accept() => Ok(Accepted::Unix(accepted?.0)),
            accepted = over_tcp => Ok(Accepted::Tcp(accepted?.0)),
        }
    }

    /// Counts a connection, if its user may attach and fewer than the maximum are open.
    fn admit(
        &self,
        accepted: Accepted,
        connections: usize,
        counts: &Counts,
        node: &Handle,
    ) -> Option<(Arrival, Counted)> {
        let (user, stranger) = match &accepted {
            Accepted::Unix(socket) => (peer_uid(socket)?, None),
            Accepted::Tcp(_) => {
                // Whoever shows the token is taken for the one who runs the node. Beyond the places for those who have not shown it
                // yet, no connection is accepted: any user of the machine can connect.
                let tcp = self.tcp.as_ref()?;
                let place = tcp.strangers.clone().try_acquire_owned().ok()?;
                (own_uid(), Some((tcp.token.token, place)))
            }
        };
        let counted = match self.count(user, connections, counts) {
            Ok(counted) => counted,
            Err(bye) => {
                turn_away(&accepted, &bye);
                return None;
            }
        };
        let socket = match accepted {
            Accepted::Unix(socket) => Halves::from(socket),
            Accepted::Tcp(socket) => Halves::from(socket),
        };
        let arrival = Arrival {
            socket,
            node: node.clone(),
            share: self.memory.share(user),
            account: self.policy.account(user),
            stranger,
        };
        Some((arrival, counted))
    }

    /// Counts a connection of this user; otherwise the reason why it is turned away.
    fn count(&self, user: u32, connections: usize, counts: &Counts) -> Result<Counted, Bye> {
        if self.policy.limits(user).is_none() {
            limited!(
                warn,
                user,
                "another user was refused at the local interface"
            );
            let reason = "this user may not attach; see local_users in the node's configuration";
            return Err(bye("not_allowed", reason));
        }
        let mut locked = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = locked.entry(user).or_default();
        let max = if is_owner(user) {
            CONNECTIONS_MAX
        } else {
            CONNECTIONS_OF_USER_MAX
        };
        if *count >= max || connections >= CONNECTIONS_MAX {
            limited!(warn, user, "an application was refused: there are too many");
            if *count == 0 {
                locked.remove(&user);
            }
            let reason = "too many applications are attached; end one";
            return Err(bye("limit", reason));
        }
        *count += 1;
        Ok(Counted(counts.clone(), user))
    }
}

fn bye(code: &str, reason: &str) -> Bye {
    Bye {
        code: code.to_owned(),
        reason: reason.to_owned(),
        versions: None,
    }
}

/// Writes the last message to an application whose greeting is not read.
fn turn_away(socket: &Accepted, bye: &Bye) {
    let mut bytes = Vec::new();
    let body = frame::encode(&Frame::Bye(message::json(bye)), &mut bytes);
    bytes.extend_from_slice(&body);
    // It fits the buffer of a new socket; if not, the end of the connection is all that the application sees.
    let _ = match socket {
        Accepted::Unix(socket) => socket.try_write(&bytes),
        Accepted::Tcp(socket) => socket.try_write(&bytes),
    };
}
