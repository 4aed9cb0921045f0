//! Forwards: connections accepted here and made by a peer.

use std::sync::Arc;

use anabranch::{Session, Stream};

pub use crate::listener::ListenError;
use crate::{
    connections::Connections,
    credit::Pools,
    endpoint::Endpoint,
    error::{Code, Refusal},
    flow::{DATAGRAM_BYTES_MAX, framed},
    flows::{Beginning, Flows},
    listener::Listener,
    notice::Notice,
    relay::{Broken, Phase, relay},
    route::{Route, Switch},
    service::Service,
    socket::Socket,
    uplink::Uplink,
    wire::{Action, Message},
};

/// Attempts to open a stream when sessions end in between.
const ATTEMPTS: usize = 3;

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
