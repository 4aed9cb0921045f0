//! Set of the host's sockets: the addresses that they are for, opening, moving, taking out of use.

use std::net::SocketAddr;

use anabranch_base::{Instant, SocketId};

use crate::{
    error::StartError,
    socket::{Bind, BindError, Socket, SocketStats},
    state::{Shared, SocketEntry, Stage, State},
    watch,
};

/// Local addresses that a host uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locals {
    /// One socket on each of these.
    Fixed(Vec<Bind>),
    /// One socket on each address of each interface that is up, except loopback and link-local addresses;
    /// changes of the interfaces are followed (Linux only).
    Interfaces {
        /// Port on every address; 0 lets the kernel choose.
        port: u16,
        /// Only interfaces with these names; empty: all.
        only: Vec<String>,
    },
}

/// A local socket as the host sees it.
#[derive(Clone, Debug)]
pub struct SocketReport {
    /// Its number.
    pub id: SocketId,
    /// Name of its interface or place; `None` if it has the addresses of several.
    pub interface: Option<String>,
    /// Its address and port.
    pub local: SocketAddr,
    /// True if its interface and address are there.
    pub is_up: bool,
    /// True if its address is no longer one of the host's local addresses ([`Prepared`](crate::Prepared)): it is open for what has
    /// no other path.
    pub is_retired: bool,
    /// Its statistics.
    pub stats: SocketStats,
}

impl SocketReport {
    pub(crate) fn of(entry: &SocketEntry) -> Self {
        Self {
            id: entry.id,
            interface: entry.interface.clone(),
            local: entry.local,
            is_up: entry.is_up,
            is_retired: entry.is_retired(),
            stats: entry.stats,
        }
    }
}

/// Settings by which the host opens its sockets.
#[derive(Debug)]
pub(crate) struct Binding {
    /// Local addresses in force.
    pub(crate) locals: Locals,
    /// Mark of the packets of its sockets.
    pub(crate) mark: Option<u32>,
    /// Interfaces that are not used.
    pub(crate) unused: Vec<String>,
    /// Task that follows the interfaces, where they are followed.
    pub(crate) watcher: Option<tokio::task::AbortHandle>,
    /// Time of the next look at retired sockets; `None`: there are none.
    pub(crate) look_due: Option<Instant>,
    /// Number of sockets opened so far; the engine knows a socket by its number beyond its end.
    opened: u64,
}

impl Binding {
    pub(crate) fn new(locals: Locals, mark: Option<u32>, unused: Vec<String>) -> Self {
        Self {
            locals,
            mark,
            unused,
            watcher: None,
            look_due: None,
            opened: 0,
        }
    }

    fn next_id(&mut self) -> SocketId {
        let id = SocketId(self.opened);
        self.opened += 1;
        id
    }
}

/// A socket that was opened, and is not in use yet.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) socket: Socket,
    /// Interface of its address.
    pub(crate) interface: Option<String>,
}

/// A socket whose reports of packets that cannot be delivered the driver takes.
fn open(id: SocketId, bind: Bind, mark: Option<u32>) -> Result<Socket, BindError> {
    let mut socket = Socket::bind(id, bind, mark)?;
    socket.keep_reports();
    Ok(socket)
}

impl State {
    /// Takes an opened socket into use; its links are not offered yet.
    pub(crate) fn adopt(&mut self, now: Instant, opened: Opened) {
        let Opened { socket, interface } = opened;
        let id = socket.id;
        // Before any packet can leave.
        self.pay_for(now, id, &socket.bind, interface.as_deref());
        let description = self.description(socket.bind.address.ip(), interface.as_deref());
        let name = description.name.clone();
        self.engine.describe_socket(id, description);
        self.sockets.push(SocketEntry {
            id,
            bind: socket.bind.clone(),
            device: interface,
            interface: name.map(|name| name.to_string()),
            local: socket.local,
            is_up: true,
            stage: Stage::InUse,
            stats: SocketStats::default(),
        });
        self.sockets_new.push(socket);
    }
}

impl Shared {
    /// Opens a socket and offers its links to the sessions that this node opened.
    pub(crate) fn add_socket(&self, bind: Bind) -> Result<SocketId, StartError> {
        let opened = self.open_socket(bind)?;
        let (id, local) = (opened.socket.id, opened.socket.local);
        self.command(|state, now| {
            state.adopt(now, opened);
            state.offer_links(now, id, local);
        });
        Ok(id)
    }

    /// Opens a socket for [`State::adopt`].
    pub(crate) fn open_socket(&self, bind: Bind) -> Result<Opened, BindError> {
        let (id, mark) = {
            let binding = &mut self.lock().binding;
            (binding.next_id(), binding.mark)
        };
        let socket = open(id, bind, mark)?;
        // An unspecified address belongs to no interface.
        let interface = socket.bind.interface.clone();
        let interface = interface.or_else(|| watch::interface_of(socket.bind.address.ip()));
        Ok(Opened { socket, interface })
    }

    /// Reopens a socket that was lost, on its previous port if that is free.
    pub(crate) fn reopen_socket(&self, id: SocketId) -> Result<(), StartError> {
        let (bind, mark) = {
            let state = self.lock();
            let entry = state.sockets.iter().find(|entry| entry.id == id);
            let entry = entry.expect("only known sockets are reopened");
            let bind = Bind {
                address: entry.local,
                interface: entry.bind.interface.clone(),
            };
            (bind, state.binding.mark)
        };
        let socket = open(id, bind, mark)?;
        self.command(|state, _| state.sockets_new.push(socket));
        self.set_socket_up(id, true);
        Ok(())
    }

    /// Opens a lost socket on another address of its interface: what is known of its paths stays, and addresses that come
    /// and go do not add up.
    pub(crate) fn move_socket(&self, id: SocketId, bind: Bind) -> Result<(), StartError> {
        let mark = self.lock().binding.mark;
        let socket = open(id, bind, mark)?;
        self.command(|state, now| {
            let interface = socket.bind.interface.as_deref();
            let description = state.description(socket.bind.address.ip(), interface);
            state.engine.describe_socket(id, description);
            if let Some(entry) = state.sockets.iter_mut().find(|entry| entry.id == id) {
                entry.bind = socket.bind.clone();
                entry.local = socket.local;
            }
            state.offer_links(now, id, socket.local);
            state.sockets_new.push(socket);
        });
        self.set_socket_up(id, true);
        Ok(())
    }

    pub(crate) fn set_socket_up(&self, id: SocketId, up: bool) {
        self.command(|state, now| {
            let Some(entry) = state.sockets.iter_mut().find(|entry| entry.id == id) else {
                return;
            };
            if std::mem::replace(&mut entry.is_up, up) == up {
                return;
            }
            if up {
                state.engine.socket_up(now, id);
            } else {
                state.engine.socket_down(now, id);
            }
        });
    }
}
