//! Forwards: connections accepted here and made by a peer.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use anabranch::{
    DropOrder, Order, Session, Stream, StreamSpec, config::ConfigError, spec::SpecText,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

pub use crate::listener::ListenError;
use crate::{
    credit::Pools,
    endpoint::Endpoint,
    error::{Code, Refusal},
    flow::{DATAGRAM_BYTES_MAX, framed},
    flows::{Beginning, Flows},
    limits::CONNECTIONS_MAX,
    listener::Listener,
    notice::{Notice, Notices},
    relay::{Broken, Phase, relay},
    socket::Socket,
    uplink::Uplink,
    wire::{Action, LABEL, Message},
};

/// Lifetime of datagrams unless another one is asked for.
pub const LIFETIME: Duration = Duration::from_secs(1);
/// Attempts to open a stream when sessions end in between.
const ATTEMPTS: usize = 3;

/// The service that the data of a forward gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Service(StreamSpec);

impl Service {
    /// The preset for byte streams: reliable and ordered, of normal priority.
    pub fn bytes() -> Self {
        Self(StreamSpec {
            duplex: true,
            label: LABEL.to_owned(),
            ..StreamSpec::default()
        })
    }

    /// The preset for datagrams: each by itself, of normal priority, given up after a second; too many for the paths are dropped,
    /// oldest first.
    pub fn datagrams() -> Self {
        Self(StreamSpec {
            reliable: false,
            order: Order::Unordered,
            lifetime: Some(LIFETIME),
            drop: Some(DropOrder::Oldest),
            ..Self::bytes().0
        })
    }

    /// The preset for an endpoint.
    pub fn of(endpoint: &Endpoint) -> Self {
        match endpoint.is_udp() {
            true => Self::datagrams(),
            false => Self::bytes(),
        }
    }

    /// The preset for an endpoint, changed by a specification in text form.
    ///
    /// # Errors
    /// A value is refused, or does not fit byte streams.
    pub fn from_text(endpoint: &Endpoint, text: &SpecText) -> Result<Self, ConfigError> {
        let refused = |key: &str, reason: &str| ConfigError::Value {
            key: key.to_owned(),
            value: String::new(),
            reason: reason.to_owned(),
        };
        if text.label.is_some() || text.duplex == Some(false) {
            return Err(refused(
                "label, duplex",
                "are set by the forward; leave them out",
            ));
        }
        let mut text = text.clone();
        if endpoint.is_udp() {
            text.reliable = text.reliable.or(Some(false));
            text.order = text.order.or(Some("unordered".to_owned()));
            text.lifetime = text.lifetime.or(Some("1 s".to_owned()));
            if text.reliable == Some(false) {
                text.drop = text.drop.or(Some("oldest".to_owned()));
            }
        }
        let mut spec = text.resolve()?;
        if !endpoint.is_udp() {
            if !spec.reliable || spec.order != Order::Ordered || spec.lifetime.is_some() {
                let reason =
                    "a byte stream is reliable, ordered and without a lifetime; leave these out";
                return Err(refused("reliable, order, lifetime", reason));
            }
        } else if spec.partial {
            return Err(refused(
                "partial",
                "a datagram arrives whole or not at all; leave it out",
            ));
        }
        spec.duplex = true;
        LABEL.clone_into(&mut spec.label);
        Ok(Self(spec))
    }

    /// The service of what a peer sends on this stream, for streams opened back.
    pub(crate) fn like(stream: &Stream, lifetime_ms: u32) -> Self {
        let (asked, mut service) = match lifetime_ms {
            0 => (stream.spec(), Self::bytes()),
            _ => (stream.spec(), Self::datagrams()),
        };
        service.0.priority = asked.priority;
        service.0.weight = asked.weight;
        if lifetime_ms > 0 {
            let longest = Duration::from_secs(3600);
            service.0.lifetime = Some(Duration::from_millis(lifetime_ms.into()).min(longest));
        }
        service
    }

    /// The specification of streams.
    pub fn spec(&self) -> &StreamSpec {
        &self.0
    }
}

/// The connections of a gateway: their tasks and their number. Clones share them; they end when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    places: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
    pools: Pools,
    notices: Notices,
}

/// Reference to connections that does not keep them; for their own tasks.
#[derive(Clone, Debug)]
pub(crate) struct WeakConnections(Weak<Shared>);

impl WeakConnections {
    pub(crate) fn upgrade(&self) -> Option<Connections> {
        self.0.upgrade().map(Connections)
    }
}

impl Connections {
    pub(crate) fn downgrade(&self) -> WeakConnections {
        WeakConnections(Arc::downgrade(&self.0))
    }

    /// No connections yet.
    pub fn new(notices: Notices) -> Self {
        Self::sharing(notices, Pools::default())
    }

    /// As [`Connections::new`], with the windows of sessions that others use, too.
    pub(crate) fn sharing(notices: Notices, pools: Pools) -> Self {
        Self(Arc::new(Shared {
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            tasks: Mutex::default(),
            pools,
            notices,
        }))
    }

    /// Connections and flows at present.
    pub fn count(&self) -> usize {
        CONNECTIONS_MAX - self.0.places.available_permits()
    }

    pub(crate) fn notices(&self) -> &Notices {
        &self.0.notices
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.0.pools
    }

    /// Waits for a place.
    pub(crate) async fn place(&self) -> OwnedSemaphorePermit {
        let place = self.0.places.clone().acquire_owned().await;
        place.expect("the semaphore is not closed")
    }

    /// Waits until there is a place, without taking it: no connection is accepted that would wait for one.
    pub(crate) async fn room(&self) {
        drop(self.place().await);
    }

    pub(crate) fn try_place(&self) -> Option<OwnedSemaphorePermit> {
        self.0.places.clone().try_acquire_owned().ok()
    }

    /// Runs a connection. It must not hold these connections, which would never end.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// Opens a stream with its request.
pub(crate) async fn open(
    uplink: &dyn Uplink,
    service: &Service,
    action: &Action,
) -> Result<(Session, Stream), Refusal> {
    let mut attempt = 1;
    loop {
        let session = uplink.session().await?;
        let opening = async {
            let stream = session.open_stream(service.spec().clone())?;
            let request = Message::request(action.clone());
            stream.send(request.encode()).await?;
            Ok::<_, anabranch::StreamFailure>(stream)
        };
        match opening.await {
            Ok(stream) => return Ok((session, stream)),
            // The session may have ended a moment ago.
            Err(_) if attempt < ATTEMPTS && session.close_reason().is_some() => attempt += 1,
            Err(failure) => return Err(Refusal::new(Code::Failed, failure.to_string())),
        }
    }
}

/// Destination of accepted connections.
#[derive(Debug)]
pub struct Route {
    /// Target, for display and as the key of flows.
    to: Endpoint,
    action: Action,
    service: Service,
    uplink: Arc<dyn Uplink>,
}

impl Route {
    /// Connections to a target, made by the peer of an uplink.
    pub fn to(target: &Endpoint, service: Service, uplink: Arc<dyn Uplink>) -> Self {
        Self::by(
            Action::Connect(target.clone()),
            target.clone(),
            service,
            uplink,
        )
    }

    pub(crate) fn by(
        action: Action,
        to: Endpoint,
        service: Service,
        uplink: Arc<dyn Uplink>,
    ) -> Self {
        Self {
            to,
            action,
            service,
            uplink,
        }
    }
}

/// The route of an endpoint, which can be changed while connections are accepted. Clones share it.
#[derive(Clone, Debug)]
pub struct Switch(Arc<Mutex<Arc<Route>>>);

impl Switch {
    /// Begins with this route.
    pub fn new(route: Route) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(route))))
    }

    /// Sends connections that are accepted from now on to another route.
    pub fn turn(&self, route: Route) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(route);
    }

    fn route(&self) -> Arc<Route> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Endpoint at which connections are accepted for a peer to make.
#[derive(Debug)]
pub struct Forward {
    listener: Listener,
    local: Endpoint,
    connections: Connections,
}

impl Forward {
    /// Opens an endpoint. Must be called within a runtime; connections are accepted while [`Forward::run`] runs.
    ///
    /// # Errors
    /// The endpoint cannot be opened.
    pub fn open(at: &Endpoint, connections: Connections) -> Result<Self, ListenError> {
        let listener = Listener::open(at)?;
        let local = listener.local().map_err(|error| ListenError {
            at: at.clone(),
            error,
        })?;
        Ok(Self {
            listener,
            local,
            connections,
        })
    }

    /// The endpoint, with the port that was assigned.
    pub fn local(&self) -> &Endpoint {
        &self.local
    }

    /// Accepts connections until dropped; those that are open then go on.
    pub async fn run(self, switch: Switch) {
        match &self.listener {
            Listener::Udp(_) => self.datagrams(switch).await,
            _ => self.streams(switch).await,
        }
    }

    async fn streams(self, switch: Switch) {
        let notices = self.connections.notices();
        loop {
            self.connections.room().await;
            let socket = self.listener.accept(notices).await.into();
            let place = self.connections.place().await;
            let (route, pools) = (switch.route(), self.connections.pools().clone());
            let notices = notices.clone();
            self.connections.spawn(async move {
                let _place = place;
                let Route {
                    to,
                    action,
                    service,
                    uplink,
                } = &*route;
                if let Err(refusal) = carry(socket, &**uplink, service, action, &pools).await {
                    let to = to.clone();
                    notices.show(&Notice::Failed { to, refusal });
                }
            });
        }
    }

    async fn datagrams(self, switch: Switch) {
        let Listener::Udp(socket) = self.listener else {
            return;
        };
        let socket = Arc::new(socket);
        let mut route = switch.route();
        let mut flows = Flows::new(self.connections.downgrade());
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            // An error is that of an earlier answer, such as a client that is gone.
            let Ok((count, client)) = socket.recv_from(&mut buffer).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let now = switch.route();
            if !Arc::ptr_eq(&route, &now) {
                // Flows begin again on the new route.
                flows = Flows::new(self.connections.downgrade());
                route = now;
            }
            let key = (client, route.to.clone());
            flows.forward(key, framed(&buffer[..count]), |_| {
                let socket = socket.clone();
                let reply = move |datagram: &[u8]| drop(socket.try_send_to(datagram, client));
                Beginning {
                    uplink: route.uplink.clone(),
                    spec: route.service.spec().clone(),
                    action: route.action.clone(),
                    reply: Arc::new(reply),
                }
            });
        }
    }
}

/// Carries one connection. The failure to make it is the error; what happens later ends it only.
async fn carry(
    socket: Socket,
    uplink: &dyn Uplink,
    service: &Service,
    action: &Action,
    pools: &Pools,
) -> Result<(), Refusal> {
    let (session, stream) = tokio::select! {
        opened = open(uplink, service, action) => opened?,
        // The program did not wait.
        _ = socket.failed() => return Ok(()),
    };
    let pool = pools.of(session.id());
    drop(session);
    match relay(socket, &stream, Phase::Asked, pool).await {
        Err(Broken::Refused(refusal)) => Err(refusal),
        Err(broken) => {
            tracing::debug!(%broken, "a connection ended");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
