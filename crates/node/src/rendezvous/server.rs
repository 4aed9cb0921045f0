//! Rendezvous at a relay: nodes wait for others at places, talk over it, and get circuits to each other.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_base::{NodeId, Rate};
use anabranch_net::{
    Clock, Session, Stream, limited,
    relay::{Answer, Between, CircuitId, Members, Relay, Request as RelayRequest, Role, Seen},
};
use tokio::{
    sync::mpsc,
    time::{self, MissedTickBehavior},
};

use super::{
    LABEL,
    message::{Notice, Refusal, Request},
    table::{Guest, Table},
};
use crate::{
    rights::{CODE_NO_RIGHT, Right, Rights},
    service::{Service, Serving},
};

/// Guests at a time.
const GUESTS_MAX: usize = 1024;
/// Guests of one node that has no right of its own.
const GUESTS_OF_NODE_MAX: usize = 4;
/// Guests of one node that has the right: one for each peer that it meets here, and some for codes.
const GUESTS_OF_LISTED_MAX: usize = 64;
/// Guests of one IP address that have no right of their own; several may be behind one translator.
const GUESTS_OF_ADDRESS_MAX: usize = 16;
/// Notices that may wait for a guest; an exchange has fewer.
const NOTICES_MAX: usize = 32;
/// Lifetime of a circuit without a refresh.
const LIFETIME: Duration = Duration::from_secs(60);
/// Interval of refreshes, and of the search for places whose time is over.
const EVERY: Duration = Duration::from_secs(20);
/// Time that the last notice may take.
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Present {
    session: Session,
    is_listed: bool,
    ip: Option<IpAddr>,
    notices: mpsc::Sender<Notice>,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    guests: BTreeMap<Guest, Present>,
    last: u64,
}

/// The rendezvous of a node.
#[derive(Debug)]
pub struct Server {
    relay: Relay,
    rights: Rights,
    serves_strangers: AtomicBool,
    clock: Clock,
    state: Mutex<State>,
}

/// The circuits here are those of guests, who asked for them over their sessions.
struct Guests;

impl Members for Guests {
    fn is_member(&self, _: NodeId) -> bool {
        true
    }

    fn is_at(&self, _: NodeId, _: SocketAddr, _: Role) -> bool {
        false
    }

    fn addresses(&self, _: NodeId) -> Vec<SocketAddr> {
        Vec::new()
    }
}

/// Addresses at which the peer of a session is seen.
fn seen(session: &Session) -> Vec<SocketAddr> {
    let channels = session.channels();
    let remote = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    channels
        .iter()
        .map(|channel| remote(channel.remote))
        .collect()
}

/// A guest that leaves when this is dropped.
struct Stay<'s> {
    server: &'s Server,
    guest: Guest,
    node: NodeId,
    has_circuit: bool,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.close_circuit();
        let mut state = self.server.lock();
        state.guests.remove(&self.guest);
        if let Some(other) = state.table.leave(self.guest) {
            state.notify(other, Notice::Left);
        }
    }
}

impl State {
    /// Tells two guests of each other.
    fn introduce(&self, guest: Guest, waiter: Guest) {
        for (one, other) in [(guest, waiter), (waiter, guest)] {
            let Some(present) = self.guests.get(&other) else {
                continue;
            };
            let notice = Notice::Peer {
                node: present.session.peer(),
                addresses: seen(&present.session),
            };
            self.notify(one, notice);
        }
    }

    fn notify(&self, guest: Guest, notice: Notice) {
        if let Some(present) = self.guests.get(&guest) {
            // A guest that reads nothing misses it.
            let _ = present.notices.try_send(notice);
        }
    }
}

impl Server {
    /// The relay of its circuits.
    pub(crate) fn relay(&self) -> &Relay {
        &self.relay
    }

    /// A rendezvous that opens circuits at `relay`, for nodes with [`Right::UseRendezvous`] or, if it `serves_strangers`, for all.
    pub fn new(relay: Relay, rights: Rights, serves_strangers: bool, clock: Clock) -> Self {
        Self {
            relay,
            rights,
            serves_strangers: AtomicBool::new(serves_strangers),
            clock,
            state: Mutex::default(),
        }
    }

    /// Serves nodes without [`Right::UseRendezvous`], or refuses them from now on; guests who are present stay.
    pub fn serve_strangers(&self, serves: bool) {
        self.serves_strangers.store(serves, Ordering::Relaxed);
    }

    /// True if this node may use it.
    pub fn serves(&self, node: &NodeId) -> bool {
        self.serves_strangers.load(Ordering::Relaxed) || self.rights.may(node, Right::UseRendezvous)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a session for nothing else, until it is over.
    pub async fn attend(&self, session: &Session) {
        let stream = session.accept_stream_where(|spec| spec.label == LABEL);
        let Ok(stream) = stream.await else { return };
        self.guest(session, &stream).await;
        session.close(CODE_NO_RIGHT, "the rendezvous is over");
    }

    /// Serves one guest until it leaves.
    async fn guest(&self, session: &Session, stream: &Stream) {
        let refusal = match self.admit(session) {
            Ok((stay, notices)) => self.converse(stay, notices, session, stream).await,
            Err(refusal) => Some(refusal),
        };
        if let Some(refusal) = refusal {
            limited!(info, peer = %session.peer(), %refusal, "rendezvous refused");
            let last = Notice::Refused(refusal).encode();
            let farewell = async {
                stream.send(last.into()).await?;
                stream.finish()?;
                stream.delivered().await
            };
            // The guest may be gone.
            let _ = time::timeout(FAREWELL, farewell).await;
        }
    }

    fn admit(&self, session: &Session) -> Result<(Stay<'_>, mpsc::Receiver<Notice>), Refusal> {
        let node = session.peer();
        if !self.serves(&node) {
            self.rights.note_refused(Right::UseRendezvous);
            return Err(Refusal::NoRight);
        }
        let is_listed = self.rights.may(&node, Right::UseRendezvous);
        let ip = seen(session).first().map(SocketAddr::ip);
        let mut state = self.lock();
        let guests = || state.guests.values();
        let of_node_max = match is_listed {
            true => GUESTS_OF_LISTED_MAX,
            false => GUESTS_OF_NODE_MAX,
        };
        let of_node = guests().filter(|present| present.session.peer() == node);
        let of_address = guests().filter(|present| !present.is_listed && present.ip == ip);
        if state.guests.len() >= GUESTS_MAX
            || of_node.count() >= of_node_max
            || (!is_listed && of_address.count() >= GUESTS_OF_ADDRESS_MAX)
        {
            return Err(Refusal::Full);
        }
        let (sender, notices) = mpsc::channel(NOTICES_MAX);
        state.last += 1;
        let guest = Guest(state.last);
        let present = Present {
            session: session.clone(),
            is_listed,
            ip,
            notices: sender,
        };
        state.guests.insert(guest, present);
        let stay = Stay {
            server: self,
            guest,
            node,
            has_circuit: false,
        };
        Ok((stay, notices))
    }

    /// Carries the requests and notices of a guest; returns a refusal that ends it.
    async fn converse(
        &self,
        mut stay: Stay<'_>,
        mut notices: mpsc::Receiver<Notice>,
        session: &Session,
        stream: &Stream,
    ) -> Option<Refusal> {
        let mut due = time::interval(EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                adu = stream.recv() => {
                    let adu = adu.ok().flatten()?;
                    let Ok(request) = Request::decode(&adu.data) else {
                        return Some(Refusal::OutOfPlace);
                    };
                    match stay.handle(request) {
                        Ok(()) => session.end_probation().ok()?,
                        Err(end @ (Refusal::OutOfPlace | Refusal::TooMuch)) => return Some(end),
                        Err(refusal) => {
                            let notice = Notice::Refused(refusal).encode();
                            stream.send(notice.into()).await.ok()?;
                        }
                    }
                }
                notice = notices.recv() => {
                    let notice = notice?;
                    match notice {
                        Notice::Left => stay.close_circuit(),
                        Notice::Refused(refusal) => return Some(refusal),
                        _ => {}
                    }
                    stream.send(notice.encode().into()).await.ok()?;
                }
                _ = due.tick() => {
                    self.expire();
                    stay.refresh();
                    if !self.serves(&stay.node) {
                        return Some(Refusal::NoRight);
                    }
                }
            }
        }
    }

    fn expire(&self) {
        let now = self.clock.now();
        let mut state = self.lock();
        for guest in state.table.expire(now) {
            state.notify(guest, Notice::Refused(Refusal::Expired));
        }
    }
}

impl Stay<'_> {
    fn handle(&mut self, request: Request) -> Result<(), Refusal> {
        let now = self.server.clock.now();
        let mut state = self.server.lock();
        match request {
            Request::Wait(place) => {
                for guest in state.table.expire(now) {
                    state.notify(guest, Notice::Refused(Refusal::Expired));
                }
                state.table.wait(now, self.guest, place)?;
                state.notify(self.guest, Notice::Waiting);
            }
            Request::Reach(place) => {
                let waiter = state.table.reach(self.guest, place)?;
                state.introduce(self.guest, waiter);
            }
            Request::Meet(other) => match state.table.meet(self.guest, self.node, other)? {
                Some(waiter) => state.introduce(self.guest, waiter),
                None => state.notify(self.guest, Notice::Waiting),
            },
            Request::Attend(port) => {
                state.table.attend(self.guest, self.node, port)?;
                state.notify(self.guest, Notice::Waiting);
            }
            Request::Call(other, port) => {
                let attendee = state.table.call(self.guest, self.node, other, port)?;
                state.introduce(self.guest, attendee);
            }
            Request::Say(said) => {
                let other = state.table.say(self.guest)?;
                state.notify(other, Notice::Heard(said));
            }
            Request::Release => {
                if let Some(other) = state.table.part(self.guest) {
                    state.notify(other, Notice::Left);
                }
            }
            Request::Circuit => {
                let other = state.table.other(self.guest).ok_or(Refusal::OutOfPlace)?;
                let far = state.guests.get(&other).ok_or(Refusal::NoCircuit)?;
                let near = state.guests.get(&self.guest).ok_or(Refusal::NoCircuit)?;
                let (near, far) = (near.session.clone(), far.session.clone());
                drop(state);
                // Asked for again: the addresses learnt may be out of date.
                self.close_circuit();
                let [near_seen, far_seen] = [seen(&near), seen(&far)];
                let answer = self.server.relay.open_between(&Between {
                    circuit: self.circuit(),
                    near: Seen {
                        node: self.node,
                        seen: &near_seen,
                    },
                    far: Seen {
                        node: far.peer(),
                        seen: &far_seen,
                    },
                    rate: Rate::from_mbps(1_000),
                    lifetime: LIFETIME,
                });
                let opened = match answer {
                    Answer::Opened(opened) => opened,
                    Answer::Refused { refusal, .. } => {
                        limited!(warn, peer = %self.node, "no circuit between two guests: {refusal}");
                        return Err(Refusal::NoCircuit);
                    }
                    _ => return Err(Refusal::NoCircuit),
                };
                self.has_circuit = true;
                let state = self.server.lock();
                state.notify(self.guest, Notice::Circuit(opened.near));
                state.notify(other, Notice::Circuit(opened.far));
            }
        }
        Ok(())
    }

    fn circuit(&self) -> CircuitId {
        CircuitId(self.guest.0)
    }

    fn refresh(&self) {
        if self.has_circuit {
            let refresh = RelayRequest::Refresh {
                circuit: self.circuit(),
                lifetime: LIFETIME,
                relearn: false,
            };
            self.server.relay.request(self.node, &[], &refresh, &Guests);
        }
    }

    fn close_circuit(&mut self) {
        if std::mem::take(&mut self.has_circuit) {
            let close = RelayRequest::Close {
                circuit: self.circuit(),
            };
            self.server.relay.request(self.node, &[], &close, &Guests);
        }
    }
}

impl Service for Server {
    fn takes(&self, label: &str) -> bool {
        label == LABEL
    }

    fn serve(self: Arc<Self>, session: Session, stream: Stream) -> Serving {
        Box::pin(async move { self.guest(&session, &stream).await })
    }
}
