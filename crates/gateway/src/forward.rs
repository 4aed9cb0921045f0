//! Forwards: connections accepted here and made by a peer.

use std::sync::Arc;

use anabranch::{Session, Stream, rights::Transport};
use tokio::time::Instant;

pub use crate::listener::ListenError;
use crate::{
    connections::{Connections, Means},
    datagram::{self, Received},
    endpoint::Endpoint,
    error::{Code, Refusal},
    flow::{DATAGRAM_BYTES_MAX, framed},
    flows::{Beginning, Flows},
    listener::{Accepted, Listener},
    notice::{Notice, Notices},
    register::Begun,
    relay::{Broken, Phase, relay},
    route::{Choice, Route, Switch},
    rules::Facts,
    socket::Socket,
    source::Source,
    wire::{Action, Message},
};

/// Attempts to open a stream when sessions end in between.
const ATTEMPTS: usize = 3;

/// Opens a stream with its request; waits for a session until `by`.
pub(crate) async fn open(
    choice: &Choice,
    to: &Endpoint,
    action: &Action,
    notices: &Notices,
    by: Instant,
) -> Result<(Session, Stream), Refusal> {
    let mut attempt = 1;
    loop {
        let session = choice.uplink.session(by).await?;
        let opening = async {
            let stream = choice.open(&session, to, notices)?;
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
        let (listener, local) = Listener::open(at)?;
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

    /// Accepts connections until dropped; those that are open then continue.
    pub async fn run(self, switch: Switch) {
        match &self.listener {
            Listener::Udp(_) => self.datagrams(switch).await,
            _ => self.streams(switch).await,
        }
    }

    async fn streams(self, switch: Switch) {
        let notices = self.connections.notices();
        loop {
            self.connections.available().await;
            let accepted = self.listener.accept(notices).await;
            let place = self.connections.place().await;
            let (route, means) = (switch.route(), self.connections.means().clone());
            self.connections.spawn(async move {
                let _place = place;
                if let Err(refusal) = carry(accepted, &route, &means).await {
                    let to = route.to.clone();
                    means.notices.show(&Notice::Failed { to, refusal });
                }
            });
        }
    }

    async fn datagrams(self, switch: Switch) {
        let Listener::Udp(socket) = self.listener else {
            return;
        };
        let Ok(at) = socket.local_addr() else { return };
        let socket = Arc::new(socket);
        let mut route = switch.route();
        let mut flows = Flows::new(self.connections.downgrade());
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            // An error is that of an earlier answer, such as a client that is gone.
            let Ok(Received {
                count,
                client,
                dscp,
            }) = datagram::receive(&socket, &mut buffer).await
            else {
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
                    source: Source::Address {
                        transport: Transport::Udp,
                        client,
                        at,
                    },
                    dscp,
                    chooser: route.chooser.clone(),
                    action: route.action.clone(),
                    reply: Arc::new(reply),
                }
            });
        }
    }
}

/// Carries one connection. The failure to make it is the error; what happens later ends it only.
async fn carry(accepted: Accepted, route: &Route, means: &Means) -> Result<(), Refusal> {
    let by = Instant::now() + means.timeouts.connect();
    let source = accepted.source();
    let socket = Socket::from(accepted);
    let to = &route.to;
    let facts = Facts {
        target: to,
        source: &source,
        dscp: None,
    };
    let choice = tokio::select! {
        choice = route.chooser.choose(means, facts) => choice?,
        // The program did not wait.
        _ = socket.failed() => return Ok(()),
    };
    let flow = means.register.enter(Begun::by(&choice, source, to));
    let (session, stream) = tokio::select! {
        opened = open(&choice, to, &route.action, &means.notices, by) => opened?,
        _ = socket.failed() => return Ok(()),
    };
    let shared = means.of(&session);
    drop(session);
    let relaying = relay(socket, &stream, Phase::Asked { by }, shared, &flow);
    let result = tokio::select! {
        result = relaying => result,
        () = choice.service.watch(&stream, to, &means.notices, &flow) => Ok(()),
    };
    match result {
        Err(Broken::Refused(refusal)) => Err(refusal),
        Err(broken) => {
            tracing::debug!(%broken, "a connection ended");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
