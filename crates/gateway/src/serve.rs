//! Server: makes and accepts the connections that peers ask for, as far as their right `forward` goes.

use std::{
    collections::HashMap,
    future::Future,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use anabranch::{
    Session, Stream,
    base::NodeId,
    rights::{Right, Rights, Table, Targets, Terms},
    service::{self, Serving},
};
use bytes::Bytes;
use tokio::time::timeout;

use crate::{
    connect::{Allowed, connect, open_flow},
    connections::{Connections, Means},
    endpoint::Endpoint,
    error::{Code, Refusal},
    flow::{self, refuse},
    limits::{LISTENERS_MAX, PER_PEER_MAX, REQUEST_TIMEOUT},
    notice::Notices,
    register::Begun,
    relay::{Phase, abort, relay, withdraw},
    reverse::{self, Expected},
    socket::Socket,
    wire::{Action, CODE_PROTOCOL, LABEL, Message, WireError},
};

/// The service for forwards.
#[derive(Debug)]
pub struct Server {
    rights: Rights,
    means: Means,
    expected: Expected,
    held: Mutex<HashMap<NodeId, Held>>,
}

/// Connections and listeners that a peer holds here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    connections: usize,
    listeners: usize,
}

/// Place of a peer's connection or listener, given back when dropped.
#[derive(Debug)]
struct Place<'s> {
    server: &'s Server,
    peer: NodeId,
    is_listener: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut held = self
            .server
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(of_peer) = held.get_mut(&self.peer) {
            of_peer.connections -= 1;
            of_peer.listeners -= usize::from(self.is_listener);
            if *of_peer == Held::default() {
                held.remove(&self.peer);
            }
        }
    }
}

fn no_right() -> Refusal {
    Refusal::new(Code::NotAllowed, "this peer has no right to forward here")
}

impl Server {
    /// Serves peers by these rights.
    pub fn new(rights: Rights) -> Self {
        Self::with(rights, Means::new(Notices::to_log()))
    }

    /// As [`Server::new`]; its connections are shown, and share what a session's connections share, with those accepted here.
    pub fn beside(rights: Rights, connections: &Connections) -> Self {
        Self::with(rights, connections.means().clone())
    }

    pub(crate) fn with(rights: Rights, means: Means) -> Self {
        Self {
            rights,
            means,
            expected: Expected::default(),
            held: Mutex::default(),
        }
    }

    /// Connections, flows and listeners of a peer.
    pub fn count(&self, peer: &NodeId) -> usize {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(peer).map_or(0, |held| held.connections)
    }

    /// Connections that this node has asked peers to accept.
    pub(crate) fn expected(&self) -> &Expected {
        &self.expected
    }

    fn place(&self, peer: NodeId, is_listener: bool) -> Result<Place<'_>, Refusal> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = held.entry(peer).or_default();
        let too_many = |what: &str, max: usize| {
            let text = format!("this node holds {max} {what} for the peer, the most that it takes");
            Err(Refusal::new(Code::TooMany, text))
        };
        if of_peer.connections >= PER_PEER_MAX {
            return too_many("connections", PER_PEER_MAX);
        }
        if is_listener && of_peer.listeners >= LISTENERS_MAX {
            return too_many("listeners", LISTENERS_MAX);
        }
        of_peer.connections += 1;
        of_peer.listeners += usize::from(is_listener);
        Ok(Place {
            server: self,
            peer,
            is_listener,
        })
    }

    fn terms(&self, peer: &NodeId) -> Result<Terms, Refusal> {
        let terms = self.rights.terms(peer, Right::Forward);
        terms.ok_or_else(|| {
            self.rights.note_refused(Right::Forward);
            no_right()
        })
    }

    /// Waits until the peer's right no longer allows what it has.
    async fn withdrawn(&self, peer: &NodeId, allows: impl Fn(&Terms) -> bool) {
        let holds = |table: &Table| table.terms(peer, Right::Forward).is_some_and(&allows);
        self.rights.until_not(holds).await;
    }

    /// Serves a stream on which a peer asks for one TCP connection, by rules other than the right to forward: to addresses for which
    /// `allows` is true, until `withdrawn` ends with the address. Connections of a peer count with its others.
    pub async fn connect_by<F>(
        &self,
        session: &Session,
        stream: &Stream,
        allows: impl Fn(IpAddr) -> bool + Sync,
        withdrawn: impl FnOnce(IpAddr) -> F,
    ) where
        F: Future<Output = ()>,
    {
        let first = timeout(REQUEST_TIMEOUT, stream.recv()).await;
        let Ok(Ok(Some(first))) = first else {
            return;
        };
        let target = match Message::decode(first.data) {
            Ok(Message::Request {
                action: Action::Connect(target),
                datagram: None,
            }) if stream.spec().duplex && !target.is_udp() => target,
            _ => {
                abort(stream, CODE_PROTOCOL);
                return;
            }
        };
        let meeting = async {
            check_spec(stream)?;
            let _place = self.place(session.peer(), false)?;
            let (socket, address) = connect(&target, Allowed::Addresses(&allows)).await?;
            let address = address.expect("a Unix socket is not allowed").ip();
            let made = (&target, socket);
            // Only a connection that was made takes the memory of its relay.
            Box::pin(self.connection(session, stream, made, withdrawn(address))).await;
            Ok::<_, Refusal>(())
        };
        if let Err(refusal) = meeting.await {
            tracing::debug!(peer = %session.peer(), %refusal, "a connection was not made");
            refuse(stream, refusal).await;
        }
    }

    async fn handle(&self, session: Session, stream: Stream) {
        let first = timeout(REQUEST_TIMEOUT, stream.recv()).await;
        let Ok(Ok(Some(first))) = first else {
            return;
        };
        let spec = stream.spec();
        let result = match Message::decode(first.data) {
            Err(error @ WireError::Version(_)) => {
                Err(Refusal::new(Code::Unsupported, error.to_string()))
            }
            Ok(Message::Request { action, datagram }) if spec.duplex => {
                self.meet(&session, &stream, action, datagram).await
            }
            _ => {
                abort(&stream, CODE_PROTOCOL);
                return;
            }
        };
        if let Err(refusal) = result {
            anabranch::net::limited!(info, peer = %session.peer(), %refusal, "request of a forward refused");
            refuse(&stream, refusal).await;
        }
    }

    /// Does what is requested, until it is over. The error is the answer.
    async fn meet(
        &self,
        session: &Session,
        stream: &Stream,
        action: Action,
        datagram: Option<Bytes>,
    ) -> Result<(), Refusal> {
        let peer = session.peer();
        let is_listener = matches!(action, Action::Listen { .. });
        let _place = self.place(peer, is_listener)?;
        match action {
            Action::Connect(target) if target.is_udp() => {
                self.flow(&peer, stream, target, datagram).await
            }
            Action::Connect(target) => {
                // The answer that nobody else could give comes first.
                check_spec(stream)?;
                let terms = self.terms(&peer)?;
                let (socket, address) = connect(&target, Allowed::Targets(&terms.to)).await?;
                drop(terms);
                let withdrawn = self.withdrawn(&peer, still(&target, address));
                Box::pin(self.connection(session, stream, (&target, socket), withdrawn)).await;
                Ok(())
            }
            Action::Listen {
                at,
                listener,
                lifetime_ms,
            } => {
                let terms = self.terms(&peer)?;
                if !allows(&terms.listen, &at) {
                    let text = format!("{at} is not in `listen` of this peer's right to forward");
                    return Err(Refusal::new(Code::NotAllowed, text));
                }
                let asked = reverse::Asked {
                    at: at.clone(),
                    listener,
                    lifetime_ms,
                };
                let listening = reverse::listen(session, stream, asked, &self.means);
                let allowed = |terms: &Terms| allows(&terms.listen, &at);
                tokio::select! {
                    result = listening => result,
                    () = self.withdrawn(&peer, allowed) => {
                        withdraw(stream);
                        Ok(())
                    }
                }
            }
            Action::Arrived { listener, is_udp } => {
                let Some(target) = self.expected.find(session.id(), listener, is_udp) else {
                    let text = "this node has not asked for these connections";
                    return Err(Refusal::new(Code::NotAllowed, text));
                };
                let from = (self.means.of(session), peer);
                reverse::make(stream, &target, datagram, &self.means, from).await
            }
        }
    }

    /// Carries a connection that was made, until it ends or `withdrawn` does.
    async fn connection(
        &self,
        session: &Session,
        stream: &Stream,
        (target, socket): (&Endpoint, Socket),
        withdrawn: impl Future<Output = ()>,
    ) {
        let peer = session.peer();
        let answer = Message::Answer(Ok(String::new())).encode();
        if stream.send(answer).await.is_err() {
            return;
        }
        let shared = self.means.of(session);
        let flow = self.means.register.enter(Begun::of_peer(peer, target));
        let relaying = relay(socket, stream, Phase::Open, shared, &flow);
        tokio::select! {
            result = relaying => {
                if let Err(broken) = result {
                    tracing::debug!(%peer, %target, %broken, "a connection ended");
                }
            }
            () = withdrawn => withdraw(stream),
        }
    }

    async fn flow(
        &self,
        peer: &NodeId,
        stream: &Stream,
        target: Endpoint,
        datagram: Option<Bytes>,
    ) -> Result<(), Refusal> {
        let terms = self.terms(peer)?;
        let (socket, address) = open_flow(&target, Allowed::Targets(&terms.to)).await?;
        drop(terms);
        let flow = self.means.register.enter(Begun::of_peer(*peer, &target));
        let idle = self.means.timeouts.flow_far();
        tokio::select! {
            () = flow::serve(stream, &socket, datagram, &flow, idle) => {}
            () = self.withdrawn(peer, still(&target, Some(address))) => withdraw(stream),
        }
        Ok(())
    }
}

/// Checks that a stream can carry a connection.
fn check_spec(stream: &Stream) -> Result<(), Refusal> {
    let spec = stream.spec();
    if !spec.reliable || spec.order != anabranch::Order::Ordered || spec.lifetime.is_some() {
        let text = "a connection needs a stream that is reliable and ordered";
        return Err(Refusal::new(Code::Unsupported, text));
    }
    Ok(())
}

/// True for terms that allow a target at the address that it was resolved to.
fn still(target: &Endpoint, address: Option<SocketAddr>) -> impl Fn(&Terms) -> bool + '_ {
    move |terms| Allowed::Targets(&terms.to).still(target, address)
}

/// True if connections may be accepted at an endpoint.
fn allows(listen: &Targets, at: &Endpoint) -> bool {
    match at {
        Endpoint::Unix(path) => listen.allows_path(path),
        Endpoint::Port {
            transport,
            host: crate::Host::Ip(address),
            port,
        } => listen.allows_address(*transport, SocketAddr::new(*address, *port)),
        Endpoint::Port { .. } => false,
    }
}

impl service::Service for Server {
    fn takes(&self, label: &str) -> bool {
        label == LABEL
    }

    fn serve(self: Arc<Self>, session: Session, stream: Stream) -> Serving {
        Box::pin(async move { self.handle(session, stream).await })
    }
}
