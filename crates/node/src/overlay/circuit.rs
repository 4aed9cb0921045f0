//! A circuit, as the source keeps it: opened at every relay of a way, the last one first, refreshed, and closed.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use anabranch_base::{NodeId, Rate};
use anabranch_net::{
    Session, Stream,
    relay::{Answer, CircuitId, Open, Opened, Origin, Request},
};
use anabranch_session::{ChannelState, StreamSpec};
use bytes::Bytes;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::runner::Input;

/// Label of the streams on which circuits are asked for.
pub(super) const RELAYS: &str = "anabranch-overlay-relay/1";
/// A relay that does not answer for so long is of no use.
const PATIENCE: Duration = Duration::from_secs(3);
/// Asked for; a circuit whose source is gone ends after this.
const LIFETIME: Duration = Duration::from_secs(60);
/// Time between two looks at the sessions with the relays.
const LOOK: Duration = Duration::from_millis(200);
/// Refreshed so many times in its lifetime.
const REFRESHES: u32 = 4;

/// Why there is no circuit.
#[derive(Debug, thiserror::Error)]
pub(super) enum CircuitError {
    #[error("the relay did not answer")]
    Silent,
    #[error("the session with the relay is over")]
    Over,
    #[error("the relay refused: {0}")]
    Refused(anabranch_net::relay::Refusal),
    #[error("the relay's answer makes no sense")]
    Answer,
}

/// What a circuit is for, and where to say what becomes of it.
pub(super) struct Order {
    /// Whose it is: the lease, and the way.
    pub(super) lease: u64,
    pub(super) relays: Vec<NodeId>,
    /// This node, the relays, the destination.
    pub(super) route: Vec<NodeId>,
    /// The sessions with the relays, in order.
    pub(super) sessions: Vec<Session>,
    pub(super) id: u64,
    /// Asked for; the relay grants what it has, up to the source's quota.
    pub(super) rate: Rate,
    pub(super) report: mpsc::Sender<Input>,
    /// Ends the circuit when it is dropped.
    pub(super) stop: oneshot::Receiver<()>,
}

/// One relay's part.
struct Hop {
    stream: Stream,
    session: Session,
    circuit: CircuitId,
}

/// Where the peer of a session is reached now.
fn remote_of(session: &Session) -> Option<IpAddr> {
    let channels = session.channels();
    let active = channels
        .iter()
        .find(|channel| channel.state == ChannelState::Active);
    active
        .or(channels.first())
        .map(|channel| channel.remote.ip().to_canonical())
}

impl Hop {
    fn new(session: &Session, circuit: CircuitId) -> Result<Self, CircuitError> {
        let spec = StreamSpec {
            duplex: true,
            ..StreamSpec::messages(RELAYS)
        };
        let stream = session.open_stream(spec).map_err(|_| CircuitError::Over)?;
        Ok(Self {
            stream,
            session: session.clone(),
            circuit,
        })
    }

    async fn ask(&self, request: &Request) -> Result<Answer, CircuitError> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let talk = async {
            self.stream
                .send(Bytes::from(bytes))
                .await
                .map_err(|_| CircuitError::Over)?;
            let adu = self.stream.recv().await.map_err(|_| CircuitError::Over)?;
            let adu = adu.ok_or(CircuitError::Over)?;
            Answer::decode(&adu.data).map_err(|_| CircuitError::Answer)
        };
        tokio::time::timeout(PATIENCE, talk)
            .await
            .map_err(|_| CircuitError::Silent)?
    }

    async fn opened(&self, request: &Request) -> Result<Opened, CircuitError> {
        match self.ask(request).await? {
            Answer::Opened(opened) => Ok(opened),
            Answer::Refused { refusal, .. } => Err(CircuitError::Refused(refusal)),
            Answer::Closed { .. } => Err(CircuitError::Answer),
        }
    }

    async fn refresh(&self) -> Result<Opened, CircuitError> {
        let request = Request::Refresh {
            circuit: self.circuit,
            lifetime: LIFETIME,
            relearn: false,
        };
        self.opened(&request).await
    }

    async fn close(&self) {
        let circuit = self.circuit;
        self.ask(&Request::Close { circuit }).await.ok();
    }
}

/// Opens the circuit at every relay; the address to send to, and how long it lives.
async fn open(order: &Order, hops: &mut Vec<Hop>) -> Result<(SocketAddr, Duration), CircuitError> {
    // Where the relay knows the next node to be; it need not be where this node knows it.
    let mut towards = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let mut lifetime = LIFETIME;
    for (at, session) in order.sessions.iter().enumerate().rev() {
        let origin = match at.checked_sub(1) {
            None => Origin::Seen,
            Some(before) => {
                Origin::Host(remote_of(&order.sessions[before]).ok_or(CircuitError::Over)?)
            }
        };
        let hop = Hop::new(session, CircuitId(order.id))?;
        let request = Request::Open(Open {
            circuit: hop.circuit,
            route: order.route.clone(),
            origin,
            towards,
            rate: order.rate,
            lifetime: LIFETIME,
        });
        let opened = hop.opened(&request).await;
        hops.push(hop);
        let opened = opened?;
        towards = opened.near;
        if towards.ip().is_unspecified() {
            towards.set_ip(remote_of(session).ok_or(CircuitError::Over)?);
        }
        lifetime = lifetime.min(opened.lifetime);
    }
    Ok((towards, lifetime))
}

/// Opens a circuit and keeps it until it is not wanted any more, or fails; says both.
pub(super) async fn keep(mut order: Order) {
    let mut hops = Vec::new();
    let outcome = async {
        let (near, lifetime) = open(&order, &mut hops).await?;
        let up = Input::CircuitUp(order.lease, order.relays.clone(), near);
        order.report.send(up).await.ok();
        let every = lifetime / REFRESHES;
        let mut due = Instant::now() + every;
        loop {
            // Without any one of its relays, the way is none.
            let is_over = || hops.iter().any(|hop| hop.session.close_reason().is_some());
            if is_over() {
                return Err(CircuitError::Over);
            }
            let look = (Instant::now() + LOOK).min(due);
            tokio::select! {
                _ = &mut order.stop => return Ok(()),
                () = tokio::time::sleep_until(look) => {
                    if look < due {
                        continue;
                    }
                    for hop in &hops {
                        hop.refresh().await?;
                    }
                    due = Instant::now() + every;
                }
            }
        }
    };
    let outcome: Result<(), CircuitError> = outcome.await;
    if let Err(error) = outcome {
        tracing::info!(lease = order.lease, %error, "circuit failed");
        let down = Input::CircuitDown(order.lease, order.relays.clone());
        order.report.send(down).await.ok();
    }
    for hop in &hops {
        if hop.session.close_reason().is_none() {
            hop.close().await;
        }
    }
}
