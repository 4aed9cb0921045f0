//! Socket of the local interface: who may attach, and how many.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_net::limited;
use tokio::{net::UnixStream, task::JoinSet};

use super::{
    CONNECTIONS_MAX, CONNECTIONS_OF_USER_MAX, connection,
    frame::{self, Frame},
    memory::{Memory, Share},
    message::{self, Bye},
    policy::{self, Account, LocalPart, Policy},
};
use crate::{
    config::LocalConfig,
    daemon::Handle,
    socket_file::{SocketFile, SocketFileError, is_owner},
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
    /// A file that is no socket has the name.
    #[error("the socket of the local interface, {}: there is a file of this name that is no socket; remove it, or name another socket with --local", path.display())]
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

/// The open socket of a local interface; its file is removed when this is dropped.
#[derive(Debug)]
pub struct LocalServer {
    socket: SocketFile,
    path: PathBuf,
    policy: Arc<Policy>,
    memory: Arc<Memory>,
}

/// Connections by user.
type Counts = Arc<Mutex<HashMap<u32, usize>>>;

/// A connection in the count of its user.
struct Counted(Counts, u32);

impl Counted {
    /// Memory of the connection, and the account of its user.
    fn of(&self, memory: &Arc<Memory>, policy: &Arc<Policy>) -> (Share, Arc<Account>) {
        (memory.share(self.1), policy.account(self.1))
    }
}

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
        Ok(Self {
            socket,
            path: config.path.clone(),
            policy: Policy::new(users),
            memory: Memory::new(config.memory_bytes),
        })
    }

    /// Bytes that wait in the node for applications.
    pub fn held_bytes(&self) -> u64 {
        self.memory.held_bytes()
    }

    /// Serves applications until dropped.
    pub(crate) async fn serve(&self, node: &Handle) {
        node.attach(Arc::new(LocalPart::new(self.policy.clone(), &self.path)));
        let counts = Counts::default();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((socket, _)) => {
                        if let Some(counted) = self.admit(&socket, connections.len(), &counts) {
                            let node = node.clone();
                            let (share, account) = counted.of(&self.memory, &self.policy);
                            connections.spawn(async move {
                                connection::serve(socket, node, share, account).await;
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

    /// Counts a connection, if its user may attach and there is room.
    fn admit(&self, socket: &UnixStream, connections: usize, counts: &Counts) -> Option<Counted> {
        let user = socket.peer_cred().ok()?.uid();
        let is_owner = is_owner(user);
        if self.policy.limits(user).is_none() {
            limited!(
                warn,
                user,
                "another user was refused at the local interface"
            );
            let reason = "this user may not attach; see local_users in the node's configuration";
            turn_away(socket, "not_allowed", reason);
            return None;
        }
        let mut locked = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = locked.entry(user).or_default();
        let max = if is_owner {
            CONNECTIONS_MAX
        } else {
            CONNECTIONS_OF_USER_MAX
        };
        if *count >= max || connections >= CONNECTIONS_MAX {
            limited!(warn, user, "an application was refused: there are too many");
            turn_away(
                socket,
                "limit",
                "too many applications are attached; end one",
            );
            if *count == 0 {
                locked.remove(&user);
            }
            return None;
        }
        *count += 1;
        Some(Counted(counts.clone(), user))
    }
}

/// Writes the last message to an application whose greeting is not read.
fn turn_away(socket: &UnixStream, code: &str, reason: &str) {
    let bye = Bye {
        code: code.to_owned(),
        reason: reason.to_owned(),
        versions: None,
    };
    let mut bytes = Vec::new();
    let body = frame::encode(&Frame::Bye(message::json(&bye)), &mut bytes);
    bytes.extend_from_slice(&body);
    // The buffer of a new socket has room for it; if not, the end of the connection says enough.
    let _ = socket.try_write(&bytes);
}
