//! A node at the rendezvous of a relay: waits at a place or reaches one, talks to the other side, and gets a circuit to it.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_base::NodeId;
use anabranch_net::{ConnectError, Detour, Host, Session, Stream, limited};
use anabranch_session::{ChannelStatus, StreamSpec};
use tokio::{
    sync::{Mutex, mpsc, watch},
    task::JoinSet,
    time,
};

use super::{
    LABEL,
    message::{Notice, Refusal, Request},
    via::Via,
};
use crate::codes::{Line, LineOver, Place};

/// Time that a relay may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for which a node sends to a circuit that the other side has asked for, so that its translator lets answers in.
const OPENING: Duration = Duration::from_secs(10);
/// Messages of the other side that may wait; it sends fewer.
const WAITING: usize = 16;

/// A rendezvous that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RendezvousError {
    /// The relay does not answer.
    #[error("the relay {0} does not answer: {1}")]
    Unreachable(NodeId, #[source] ConnectError),
    /// It does not answer in time, or has gone.
    #[error(
        "the relay {0} does not answer; it needs a section [rendezvous] in its configuration, and this node the right to it"
    )]
    Silent(NodeId),
    /// It refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Connection with the rendezvous.
#[derive(Debug)]
struct Link {
    host: Host,
    session: Session,
    stream: Stream,
    relay: NodeId,
    _reading: Mutex<JoinSet<()>>,
}

/// Presence at a place.
#[derive(Debug)]
pub struct Waiter {
    link: Arc<Link>,
    pairs: mpsc::Receiver<Pairing>,
}

/// Presence under the node's id, for one caller.
#[derive(Debug)]
pub struct Seat {
    relay: NodeId,
    _link: Arc<Link>,
    events: mpsc::Receiver<Result<First, Refusal>>,
}

/// The other side, as the rendezvous connects it to this one. The connection ends when it is dropped, and so do its circuits.
#[derive(Debug)]
pub struct Pairing {
    /// Node on the other side.
    pub node: NodeId,
    /// Addresses at which the relay sees it.
    pub addresses: Vec<SocketAddr>,
    link: Arc<Link>,
    heard: Mutex<mpsc::Receiver<Vec<u8>>>,
    circuit: watch::Receiver<Option<SocketAddr>>,
    has_asked: Arc<AtomicBool>,
}

/// First message to a guest.
#[derive(Debug)]
enum First {
    Waiting,
    Met(Pairing),
}

/// Connects to the relay and makes the first request.
async fn enter(
    host: &Host,
    via: &Via,
    request: Request,
) -> Result<(Arc<Link>, mpsc::Receiver<Result<First, Refusal>>), RendezvousError> {
    let relay = via.node;
    let calling = time::timeout(PATIENCE, host.connect(relay, via.remotes.clone())).await;
    let session = calling
        .map_err(|_| RendezvousError::Silent(relay))?
        .map_err(|error| match error.is_refusal() {
            true => RendezvousError::Refused(Refusal::NoRight),
            false => RendezvousError::Unreachable(relay, error),
        })?;
    let spec = StreamSpec {
        duplex: true,
        ..StreamSpec::messages(LABEL)
    };
    let gone = |_| RendezvousError::Silent(relay);
    let stream = session.open_stream(spec).map_err(gone)?;
    stream.send(request.encode().into()).await.map_err(gone)?;
    let reading = Mutex::default();
    let link = Arc::new(Link {
        host: host.clone(),
        session,
        stream: stream.clone(),
        relay,
        _reading: reading,
    });
    let (events, received) = mpsc::channel(WAITING);
    let reader = read(Arc::downgrade(&link), stream, events);
    link._reading.lock().await.spawn(reader);
    Ok((link, received))
}

/// Reads the notices of a rendezvous.
async fn read(
    link: std::sync::Weak<Link>,
    stream: Stream,
    events: mpsc::Sender<Result<First, Refusal>>,
) {
    let mut heard: Option<mpsc::Sender<Vec<u8>>> = None;
    let mut circuit = watch::Sender::new(None);
    let mut other: Option<(NodeId, Arc<AtomicBool>)> = None;
    while let Ok(Some(adu)) = stream.recv().await {
        let (Ok(notice), Some(link)) = (Notice::decode(&adu.data), link.upgrade()) else {
            return;
        };
        match notice {
            Notice::Waiting => drop(events.send(Ok(First::Waiting)).await),
            Notice::Peer { node, addresses } => {
                let (sender, receiver) = mpsc::channel(WAITING);
                heard = Some(sender);
                circuit = watch::Sender::new(None);
                let has_asked = Arc::new(AtomicBool::new(false));
                other = Some((node, has_asked.clone()));
                let pairing = Pairing {
                    node,
                    addresses,
                    link,
                    heard: Mutex::new(receiver),
                    circuit: circuit.subscribe(),
                    has_asked,
                };
                if events.send(Ok(First::Met(pairing))).await.is_err() {
                    return;
                }
            }
            Notice::Heard(said) => {
                if let Some(sender) = &heard {
                    // More than waits there is more than an exchange has.
                    let _ = sender.try_send(said);
                }
            }
            Notice::Left => heard = None,
            Notice::Circuit(address) => {
                let address = link.absolute(address);
                circuit.send_replace(address);
                if let Some((node, has_asked)) = &other
                    && let Some(address) = address
                    && !has_asked.load(Ordering::Relaxed)
                {
                    let (host, node) = (link.host.clone(), *node);
                    tokio::spawn(async move { open_translator(&host, node, &[address]).await });
                }
            }
            Notice::Refused(refusal @ Refusal::NoCircuit) => {
                limited!(warn, relay = %link.relay, "{refusal}");
                circuit.send_replace(None);
            }
            Notice::Refused(refusal) => drop(events.send(Err(refusal)).await),
        }
    }
}

/// Sends to addresses of the other side for a while, so that translators on the way let its packets in.
pub(crate) async fn open_translator(host: &Host, node: NodeId, addresses: &[SocketAddr]) {
    // Whether the other side answers does not matter: it dials, too.
    let _ = time::timeout(OPENING, host.connect(node, addresses)).await;
}

impl Link {
    /// The address of a circuit; an unspecified one stands for the relay's.
    fn absolute(&self, address: SocketAddr) -> Option<SocketAddr> {
        if !address.ip().is_unspecified() {
            return Some(address);
        }
        let channels = self.session.channels();
        let mut of_family = channels
            .iter()
            .filter(|channel| channel.remote.is_ipv4() == address.is_ipv4());
        let active = of_family
            .clone()
            .find(|channel| channel.state == ChannelStatus::Active);
        let channel = active.or(of_family.next())?;
        Some(SocketAddr::new(channel.remote.ip(), address.port()))
    }

    async fn ask(&self, request: Request) -> Result<(), LineOver> {
        self.stream
            .send(request.encode().into())
            .await
            .map_err(|_| LineOver)?;
        Ok(())
    }
}

impl Waiter {
    /// Waits at a place.
    ///
    /// # Errors
    /// The relay cannot be reached, or refuses; [`Refusal::Taken`] if another node waits there.
    pub async fn start(host: &Host, via: &Via, place: Place) -> Result<Self, RendezvousError> {
        let (link, mut events) = enter(host, via, Request::Wait(place)).await?;
        let silent = || RendezvousError::Silent(via.node);
        let first = time::timeout(PATIENCE, events.recv()).await;
        match first.map_err(|_| silent())?.ok_or_else(silent)? {
            Ok(First::Waiting) => {}
            Ok(First::Met(_)) => return Err(silent()),
            Err(refusal) => return Err(refusal.into()),
        }
        let (sender, pairs) = mpsc::channel(1);
        link._reading.lock().await.spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    Ok(First::Met(pairing)) => {
                        if sender.send(pairing).await.is_err() {
                            return;
                        }
                    }
                    Ok(First::Waiting) => {}
                    Err(refusal) => tracing::warn!("the relay: {refusal}"),
                }
            }
        });
        Ok(Self { link, pairs })
    }

    /// The next node that reaches the place; `None` once the relay has gone.
    pub async fn next(&mut self) -> Option<Pairing> {
        self.pairs.recv().await
    }

    /// The relay.
    pub fn relay(&self) -> NodeId {
        self.link.relay
    }
}

impl Seat {
    /// Attends at the relay with this port, until this is dropped.
    ///
    /// # Errors
    /// The relay cannot be reached, or refuses.
    pub async fn take(host: &Host, via: &Via, port: u16) -> Result<Self, RendezvousError> {
        let (link, mut events) = enter(host, via, Request::Attend(port)).await?;
        let silent = || RendezvousError::Silent(via.node);
        let first = time::timeout(PATIENCE, events.recv()).await;
        match first.map_err(|_| silent())?.ok_or_else(silent)? {
            Ok(First::Waiting) => Ok(Self {
                relay: via.node,
                _link: link,
                events,
            }),
            Ok(First::Met(_)) => Err(silent()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The node that calls.
    ///
    /// # Errors
    /// The relay goes away, or refuses this node from now on.
    pub async fn caller(mut self) -> Result<Pairing, RendezvousError> {
        match self.events.recv().await {
            Some(Ok(First::Met(pairing))) => Ok(pairing),
            Some(Err(refusal)) => Err(refusal.into()),
            Some(Ok(First::Waiting)) | None => Err(RendezvousError::Silent(self.relay)),
        }
    }
}

impl Pairing {
    /// Calls the node `other`, which attends at the relay with this port; 0: with any.
    ///
    /// # Errors
    /// The relay cannot be reached, or refuses; [`Refusal::Nobody`] if it does not attend now.
    pub async fn call(
        host: &Host,
        via: &Via,
        other: NodeId,
        port: u16,
    ) -> Result<Self, RendezvousError> {
        Self::answered(host, via, Request::Call(other, port)).await
    }

    /// Reaches the node that waits at a place.
    ///
    /// # Errors
    /// The relay cannot be reached, or refuses; [`Refusal::Nobody`] if nobody waits there.
    pub async fn reach(host: &Host, via: &Via, place: Place) -> Result<Self, RendezvousError> {
        Self::answered(host, via, Request::Reach(place)).await
    }

    /// Makes a request that is answered with the other side, or refused.
    async fn answered(host: &Host, via: &Via, request: Request) -> Result<Self, RendezvousError> {
        let (_link, mut events) = enter(host, via, request).await?;
        let silent = || RendezvousError::Silent(via.node);
        let first = time::timeout(PATIENCE, events.recv()).await;
        match first.map_err(|_| silent())?.ok_or_else(silent)? {
            Ok(First::Met(pairing)) => Ok(pairing),
            Ok(First::Waiting) => Err(silent()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Meets the node `other`, once it wants to meet this one at the same relay.
    ///
    /// # Errors
    /// The relay cannot be reached, refuses, or goes away before that.
    pub async fn meet(host: &Host, via: &Via, other: NodeId) -> Result<Self, RendezvousError> {
        let (_link, mut events) = enter(host, via, Request::Meet(other)).await?;
        let silent = || RendezvousError::Silent(via.node);
        let mut first = Some(PATIENCE);
        loop {
            let event = async {
                match first {
                    Some(limit) => time::timeout(limit, events.recv())
                        .await
                        .map_err(|_| silent()),
                    None => Ok(events.recv().await),
                }
            };
            match event.await?.ok_or_else(silent)? {
                Ok(First::Met(pairing)) => return Ok(pairing),
                Ok(First::Waiting) => first = None,
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }

    /// True once the other side or the relay has gone.
    pub(super) fn is_over(&self) -> bool {
        let heard = self.heard.try_lock();
        // Otherwise somebody waits for a message.
        heard.is_ok_and(|heard| heard.is_closed() && heard.is_empty())
    }

    /// Asks for a circuit to the other side; `None`: the relay refuses.
    ///
    /// # Errors
    /// The relay does not answer, or has gone.
    pub(super) fn ask_circuit(
        &self,
    ) -> impl Future<Output = Result<Option<SocketAddr>, LineOver>> + Send + 'static {
        let (link, mut circuit) = (self.link.clone(), self.circuit.clone());
        self.has_asked.store(true, Ordering::Relaxed);
        async move {
            circuit.borrow_and_update();
            link.ask(Request::Circuit).await?;
            let answered = time::timeout(PATIENCE, circuit.changed()).await;
            answered.map_err(|_| LineOver)?.map_err(|_| LineOver)?;
            Ok(*circuit.borrow())
        }
    }

    /// Parts from the other side, so that the next may reach the place.
    pub async fn release(&self) {
        // A relay that has gone has parted them.
        let _ = self.link.ask(Request::Release).await;
    }
}

impl Line for Pairing {
    async fn send(&self, message: Vec<u8>) -> Result<(), LineOver> {
        self.link.ask(Request::Say(message)).await
    }

    async fn recv(&self) -> Result<Vec<u8>, LineOver> {
        self.heard.lock().await.recv().await.ok_or(LineOver)
    }
}

/// A circuit at the relay, opened when it is needed.
impl Detour for Pairing {
    fn open(&self) -> Pin<Box<dyn Future<Output = Option<SocketAddr>> + Send>> {
        let asking = self.ask_circuit();
        Box::pin(async move { asking.await.ok()? })
    }
}
