//! Socket of the local interface: who may attach, and how many.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
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
};
use crate::{
    config::{LocalConfig, LocalUser},
    daemon::Handle,
    socket_file::{EVERYONE, OWNER_ONLY, SocketFile, SocketFileError, is_owner},
};

/// File with the names and numbers of users.
const USERS: &str = "/etc/passwd";

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
    users: BTreeSet<u32>,
    memory: Arc<Memory>,
}

/// Connections by user.
type Counts = Arc<Mutex<HashMap<u32, usize>>>;

/// A connection in the count of its user.
struct Counted(Counts, u32);

impl Counted {
    fn share(&self, memory: &Arc<Memory>) -> Share {
        memory.share(self.1)
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
        let users = config.users.iter().map(uid).collect::<Result<_, _>>()?;
        let mode = if config.users.is_empty() {
            OWNER_ONLY
        } else {
            EVERYONE
        };
        let opened = SocketFile::open(&config.path, mode).await;
        let socket = opened.map_err(|error| LocalError::of(config.path.clone(), error))?;
        Ok(Self {
            socket,
            users,
            memory: Memory::new(config.memory_bytes),
        })
    }

    /// Bytes that wait in the node for applications.
    pub fn held_bytes(&self) -> u64 {
        self.memory.held_bytes()
    }

    /// Serves applications until dropped.
    pub(crate) async fn serve(&self, node: &Handle) {
        let counts = Counts::default();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((socket, _)) => {
                        if let Some(counted) = self.admit(&socket, connections.len(), &counts) {
                            let (node, share) = (node.clone(), counted.share(&self.memory));
                            connections.spawn(async move {
                                connection::serve(socket, node, share).await;
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
        if !is_owner && !self.users.contains(&user) {
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

/// The number of a user.
fn uid(user: &LocalUser) -> Result<u32, LocalError> {
    let name = match user {
        LocalUser::Uid(uid) => return Ok(*uid),
        LocalUser::Name(name) => name,
    };
    let users = fs::read_to_string(USERS).unwrap_or_default();
    find(&users, name).ok_or_else(|| LocalError::User(name.clone()))
}

fn find(users: &str, name: &str) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let is_it = parts.next() == Some(name);
        let uid = parts.nth(1)?.parse().ok()?;
        is_it.then_some(uid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\nbroken\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(find(users, "ada"), Some(1000));
        assert_eq!(find(users, "root"), Some(0));
        assert_eq!(find(users, "ad"), None);
        assert_eq!(find(users, "broken"), None);
        let error = uid(&LocalUser::Name("no such user".to_owned())).unwrap_err();
        assert!(error.to_string().contains("no such user"), "{error}");
    }
}
