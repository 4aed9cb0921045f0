//! Sockets of the local interface: who may attach, and how many.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_net::{Host, limited};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use super::{
    CONNECTIONS_MAX, CONNECTIONS_OF_USER_MAX, LocalError, STRANGERS_MAX,
    change::Change,
    connection::{self, Arrival},
    frame::{self, Frame},
    memory::Memory,
    message::{self, Bye},
    policy::{self, Policy},
    socket::Halves,
    token::TokenFile,
};
use crate::{
    config::LocalConfig,
    daemon::Handle,
    socket_file::{Door, SocketFile, UnixStream, is_owner, own_uid, peer_uid, set_mode},
};

/// A local interface: its sockets, whose files are removed when this is dropped, and those who are attached.
#[derive(Debug)]
pub struct LocalServer {
    unix: Door<SocketFile>,
    tcp: Door<TcpListener>,
    token: Mutex<Option<TokenFile>>,
    /// Places for those that came over TCP and have not shown the token yet.
    strangers: Arc<Semaphore>,
    policy: Arc<Policy>,
    memory: Arc<Memory>,
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
    /// Opens the sockets, as that of [`Control`](crate::control::Control) is opened. Its mode lets others connect only if there are
    /// such users; who they are is checked in any case.
    ///
    /// # Errors
    /// Another node listens there, others could listen in its place, the file cannot be made, or a user does not exist.
    pub async fn open(config: &LocalConfig) -> Result<Self, LocalError> {
        let server = Self::closed(config.memory_bytes);
        let change = Change::prepare(None, Some(config)).await?;
        if let Some(users) = server.replace(change) {
            server.policy.replace(users);
        }
        Ok(server)
    }

    /// An interface without sockets, to which nobody can attach.
    pub(crate) fn closed(memory_bytes: u64) -> Self {
        Self {
            unix: Door::new(None),
            tcp: Door::new(None),
            token: Mutex::default(),
            strangers: Arc::new(Semaphore::new(STRANGERS_MAX)),
            policy: Policy::new(policy::Table::new()),
            memory: Memory::new(memory_bytes),
        }
    }

    /// Applies a change of a running node. Those who are attached stay, unless their user is not listed any more.
    pub(crate) fn apply(&self, change: Change, host: &Host) {
        if let Some(table) = self.replace(change) {
            policy::put_into_force(&self.policy, Some(table), host);
        }
    }

    /// Replaces the sockets; returns the users.
    fn replace(&self, change: Change) -> Option<policy::Table> {
        if let Some(draft) = change.token {
            let token = draft.map(|draft| {
                let (token, published) = draft.publish();
                if let Err(error) = published {
                    tracing::warn!(%error, "the token of the local interface has no file; applications cannot attach over TCP");
                }
                token
            });
            *self.token() = token;
        }
        if let Some(listener) = change.tcp {
            self.tcp.replace(listener);
        }
        if let Some(file) = change.unix {
            self.unix.replace(file);
        }
        if let Some((socket, mode)) = change.mode
            && let Err(error) = set_mode(&socket, mode)
        {
            tracing::warn!(%error, socket = %socket.display(), "mode not changed");
        }
        change.users
    }

    /// Closes the sockets. Those who are attached stay.
    pub(crate) fn close(&self) {
        self.unix.replace(None);
        self.tcp.replace(None);
        *self.token() = None;
    }

    /// True if applications can attach.
    pub(crate) fn is_open(&self) -> bool {
        self.unix.is_open()
    }

    /// Address of the TCP socket, if there is one.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Bytes that wait in the node for applications.
    pub fn held_bytes(&self) -> u64 {
        self.memory.held_bytes()
    }

    /// Serves applications until dropped.
    pub(crate) async fn serve(&self, node: &Handle) {
        policy::put_into_force(&self.policy, None, node.host());
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
        tokio::select! {
            accepted = self.unix.accept() => Ok(Accepted::Unix(accepted?)),
            accepted = self.tcp.accept() => Ok(Accepted::Tcp(accepted?)),
        }
    }

    fn token(&self) -> MutexGuard<'_, Option<TokenFile>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
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
                let token = self.token().as_ref()?.token;
                let place = self.strangers.clone().try_acquire_owned().ok()?;
                (own_uid(), Some((token, place)))
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
