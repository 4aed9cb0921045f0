//! Reverse forwards (`-R`): connections accepted by a peer and made here.
//!
//! The node that asks opens a control stream for each listener, and the peer opens a stream back for each connection. A listener, and
//! what it accepted, ends with its control stream.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch::{
    Session, Stream, StreamFailure,
    base::{NodeId, SessionId},
};
use bytes::Bytes;
use tokio::{sync::watch, time::timeout};

use crate::{
    connect::{Allowed, connect, open_flow},
    connections::{Connections, Means, OfSession},
    endpoint::Endpoint,
    error::{Code, Refusal},
    flow::{self, refuse},
    forward::Forward,
    limits::{CONNECT_TIMEOUT, REQUEST_TIMEOUT},
    notice::{Notice, Notices},
    register::Begun,
    relay::{Phase, abort, relay},
    route::{Route, Switch},
    rules::Rules,
    service::{LIFETIME, Service},
    target::Mapping,
    uplink::OneSession,
    wire::{Action, CODE_PROTOCOL, CODE_RESET, LABEL, Message},
};

/// A listener that a peer asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) at: Endpoint,
    pub(crate) listener: u32,
    pub(crate) lifetime_ms: u32,
}

/// Accepts connections for the peer of a session until its control stream ends.
///
/// # Errors
/// The endpoint cannot be opened.
pub(crate) async fn listen(
    session: &Session,
    stream: &Stream,
    asked: Asked,
    means: &Means,
) -> Result<(), Refusal> {
    let Asked {
        at,
        listener,
        lifetime_ms,
    } = asked;
    // Dropped with everything that was accepted.
    let connections = Connections::with(Means {
        notices: crate::Notices::to_log(),
        rules: Rules::default(),
        ..means.clone()
    });
    let forward = Forward::open(&at, connections.clone());
    let forward = forward.map_err(|refused| {
        let mut refusal = Refusal::of_io(&refused.error);
        refusal.text = refused.to_string();
        refusal
    })?;
    let is_udp = at.is_udp();
    let lifetime_ms = match (is_udp, lifetime_ms) {
        (false, _) => 0,
        (true, 0) => u32::try_from(LIFETIME.as_millis()).unwrap_or(u32::MAX),
        (true, given) => given,
    };
    let route = Route::by(
        Action::Arrived { listener, is_udp },
        at,
        Some(Service::like(stream, lifetime_ms)),
        Arc::new(OneSession::new(session)),
    );
    let answer = Message::Answer(Ok(forward.local().to_string())).encode();
    if stream.send(answer).await.is_err() {
        return Ok(());
    }
    let outage = means.of(session).outage;
    tokio::select! {
        () = forward.run(Switch::new(route)) => {}
        // Nothing is sent on it: this waits for its end.
        _ = stream.recv() => {}
        // The peer asks again when it is back. If it was restarted, it needs the address.
        _ = outage.too_long() => abort(stream, CODE_RESET),
    }
    Ok(())
}

/// Waits for the end of a listener at a peer, and returns it as a refusal.
pub(crate) async fn end_of(control: &Stream, session: &Session) -> Refusal {
    // Nothing more is sent on it.
    let end = control.recv().await;
    match (session.close_reason(), end) {
        (Some(reason), _) => Refusal::new(Code::Unreachable, reason.to_string()),
        (None, Err(StreamFailure::Reset(CODE_RESET))) => {
            let text = "the peer has ended the listener after an outage";
            Refusal::new(Code::TimedOut, text)
        }
        (None, _) => Refusal::new(Code::NotAllowed, "the peer has ended the listener"),
    }
}

/// Connections that peers accept for this node.
#[derive(Debug)]
pub struct Reverse {
    mappings: Vec<(Mapping, Service)>,
    connections: Connections,
}

impl Reverse {
    /// Asks for these listeners.
    pub fn new(mappings: Vec<(Mapping, Service)>, connections: Connections) -> Self {
        Self {
            mappings,
            connections,
        }
    }

    /// Asks the peer of a session for all listeners, again after outages, and makes the connections that arrive, until the session is
    /// over or the peer ends a listener.
    ///
    /// # Errors
    /// The peer refuses one of them.
    pub async fn serve(&self, session: &Session) -> Result<(), Refusal> {
        let notices = self.connections.notices();
        let asking = async {
            while !self.mappings.is_empty() {
                let mut controls = Vec::new();
                for (number, (mapping, service)) in (0..).zip(&self.mappings) {
                    controls.push(ask(session, number, mapping, service, notices).await?);
                }
                // An outage ends all of them.
                for control in &controls {
                    let end = end_of(control, session).await;
                    match end.code {
                        Code::TimedOut => {}
                        // The end of the session ends the other branch.
                        Code::Unreachable => pending().await,
                        _ => return Err(end),
                    }
                }
            }
            pending().await
        };
        tokio::select! {
            result = asking => result,
            () = self.accept(session) => Ok(()),
        }
    }

    /// Makes the connections that arrive until the session is over.
    async fn accept(&self, session: &Session) {
        while let Ok(stream) = session.accept_stream().await {
            if stream.spec().label != LABEL || !stream.spec().duplex {
                abort(&stream, CODE_PROTOCOL);
                continue;
            }
            let place = self.connections.place().await;
            let mappings: Vec<Endpoint> = self
                .mappings
                .iter()
                .map(|(mapping, _)| mapping.to.clone())
                .collect();
            let (means, from) = (
                self.connections.means().clone(),
                (self.connections.means().of(session), session.peer()),
            );
            self.connections.spawn(async move {
                let _place = place;
                if let Err((to, refusal)) = arrived(&stream, &mappings, &means, from).await {
                    if let Some(to) = to {
                        let refusal = refusal.clone();
                        means.notices.show(&Notice::Failed { to, refusal });
                    }
                    refuse(&stream, refusal).await;
                }
            });
        }
    }
}

/// Asks for one listener, and returns its control stream.
pub(crate) async fn ask(
    session: &Session,
    listener: u32,
    mapping: &Mapping,
    service: &Service,
    notices: &Notices,
) -> Result<Stream, Refusal> {
    let failed =
        |failure: anabranch::StreamFailure| Refusal::new(Code::Failed, failure.to_string());
    let lifetime = service.spec().lifetime.filter(|_| mapping.accept.is_udp());
    let lifetime_ms = lifetime.map_or(0, |lifetime| lifetime.as_millis());
    let request = Message::request(Action::Listen {
        at: mapping.accept.clone(),
        listener,
        lifetime_ms: u32::try_from(lifetime_ms).unwrap_or(u32::MAX),
    });
    // The control stream is reliable whatever the data need; its priority is theirs.
    let mut spec = Service::bytes().spec().clone();
    spec.priority = service.spec().priority;
    spec.weight = service.spec().weight;
    let control = session.open_stream(spec).map_err(failed)?;
    control.send(request.encode()).await.map_err(failed)?;
    let answer = timeout(CONNECT_TIMEOUT, control.recv()).await;
    let Ok(answer) = answer else {
        return Err(Refusal::new(Code::TimedOut, "the peer does not answer"));
    };
    let answer = answer.map_err(failed)?;
    match answer.map(|adu| Message::decode(adu.data)) {
        Some(Ok(Message::Answer(Ok(at)))) => {
            notices.show(&Notice::Listening {
                at: at.parse().unwrap_or_else(|_| mapping.accept.clone()),
                to: Some(mapping.to.clone()),
                is_remote: true,
            });
            Ok(control)
        }
        Some(Ok(Message::Answer(Err(refusal)))) => Err(refusal),
        _ => Err(Refusal::new(
            Code::Unsupported,
            "the peer does not understand the request",
        )),
    }
}

/// Makes one connection, and carries it.
async fn arrived(
    stream: &Stream,
    targets: &[Endpoint],
    means: &Means,
    from: (OfSession, NodeId),
) -> Result<(), (Option<Endpoint>, Refusal)> {
    let first = timeout(REQUEST_TIMEOUT, stream.recv()).await;
    let Ok(Ok(Some(first))) = first else {
        return Ok(());
    };
    let Ok(Message::Request {
        action: Action::Arrived { listener, is_udp },
        datagram,
    }) = Message::decode(first.data)
    else {
        let text = "only connections at listeners are expected";
        return Err((None, Refusal::new(Code::NotAllowed, text)));
    };
    let target = usize::try_from(listener)
        .ok()
        .and_then(|at| targets.get(at));
    let Some(target) = target.filter(|target| target.is_udp() == is_udp) else {
        let text = "there is no such listener";
        return Err((None, Refusal::new(Code::NotAllowed, text)));
    };
    let made = make(stream, target, datagram, means, from).await;
    made.map_err(|refusal| (Some(target.clone()), refusal))
}

/// Makes a connection that a peer has accepted, and carries it until it is over. The error is that of the attempt.
pub(crate) async fn make(
    stream: &Stream,
    target: &Endpoint,
    datagram: Option<Bytes>,
    means: &Means,
    (shared, peer): (OfSession, NodeId),
) -> Result<(), Refusal> {
    if target.is_udp() {
        let (socket, _) = open_flow(target, Allowed::All).await?;
        let flow = means.register.enter(Begun::of_peer(peer, target));
        flow::serve(stream, &socket, datagram, &flow, means.timeouts.flow_far()).await;
        return Ok(());
    }
    let (socket, _) = connect(target, Allowed::All).await?;
    let flow = means.register.enter(Begun::of_peer(peer, target));
    let answer = Message::Answer(Ok(String::new())).encode();
    if stream.send(answer).await.is_ok()
        && let Err(broken) = relay(socket, stream, Phase::Open, shared, &flow).await
    {
        tracing::debug!(%broken, "a connection ended");
    }
    Ok(())
}

/// Targets of the connections that peers accept for a node, by session and listener. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected(Arc<Mutex<Targets>>);

#[derive(Debug, Default)]
struct Targets {
    targets: HashMap<(SessionId, u32), watch::Receiver<Endpoint>>,
    next: u32,
}

/// Expectation of connections at one listener, until this is dropped.
#[derive(Debug)]
pub(crate) struct Expectation {
    expected: Expected,
    session: SessionId,
    pub(crate) listener: u32,
}

impl Drop for Expectation {
    fn drop(&mut self) {
        let key = (self.session, self.listener);
        self.expected.lock().targets.remove(&key);
    }
}

impl Expected {
    fn lock(&self) -> MutexGuard<'_, Targets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects connections on a session at a new listener, for a target that may change.
    pub(crate) fn add(&self, session: SessionId, target: watch::Receiver<Endpoint>) -> Expectation {
        let mut all = self.lock();
        let listener = all.next;
        all.next = all.next.wrapping_add(1);
        all.targets.insert((session, listener), target);
        Expectation {
            expected: self.clone(),
            session,
            listener,
        }
    }

    /// The target of a connection that has arrived; `None`: it was not asked for.
    pub(crate) fn find(&self, session: SessionId, listener: u32, is_udp: bool) -> Option<Endpoint> {
        let all = self.lock();
        let target = all.targets.get(&(session, listener))?.borrow().clone();
        (target.is_udp() == is_udp).then_some(target)
    }
}
