//! Client of the tunnel: a device whose packets a server takes.
//!
//! | module | holds |
//! |---|---|
//! | `machine` | the settings of this machine: addresses, routes, names |
//! | `dispatch` | packets by the rules of the gateway, and the flows that they are of |
//! | `report` | the report of these flows |
//! | `served`, `serving` | streams of the classes of packets with a service |
//!
//! The device and its routes outlast sessions: while there is none, packets wait in bounded queues and nothing passes by another way.

pub(crate) mod dispatch;
mod error;
mod machine;
pub(crate) mod report;
mod served;
mod serving;

use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch::{
    Host, Order, Priority, Session, Stream, StreamSpec,
    base::NodeId,
    daemon::FlowReport,
    net::{
        Clock,
        tun::{ReadBatch, Tun},
    },
};
use anabranch_gateway::{Connections, PacketRules, service::PACKET_LIFETIME};
use bytes::Bytes;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use self::{
    dispatch::{Assigned, Dispatch},
    error::lost,
    machine::Machine,
};
pub use self::{error::ClientError, machine::Settings};
use crate::{
    counters::{Counters, Dropped, Totals},
    entrance::{Answers, Entrance, READS_MAX, Way},
    exit::{End, Incoming, deliver},
    fq_codel,
    notice::{Notice, Notices},
    outlet::{Lanes, Outlet},
    own::Own,
    packet::{Cause, Header},
    server::report,
    split::Split,
    system::{self, SetupError},
    wire::{CODE_ENDED, HELLO, LABEL_CONTROL, LABEL_PACKETS, Message, Terms, Wish},
};

/// Time in which the server must answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Time after which the streams of packets are announced again.
const GREET_EVERY: Duration = Duration::from_millis(250);
/// Time between two looks for flows that are over.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Memory of the packets that wait.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// The gateway and the server of a client.
#[derive(Clone, Debug)]
pub struct Joining {
    /// The connections of the node, which those of the tunnel count with, and whose rules apply to packets.
    pub connections: Connections,
    /// The server of the tunnel.
    pub server: NodeId,
}

/// Client of a tunnel, which is there as long as this value.
#[derive(Debug)]
pub struct Client {
    device: Arc<Tun>,
    own: Own,
    clock: Clock,
    outlet: Arc<Outlet>,
    dispatch: Arc<Dispatch>,
    counters: Arc<Counters>,
    split: Option<Split>,
    /// Kept until the tunnel ends.
    _connections: Connections,
    machine: Mutex<Machine>,
    /// Addresses and largest packet; those of the last session while there is none.
    terms: watch::Sender<Option<Terms>>,
    mtu: u16,
    notices: Notices,
}

impl Client {
    /// Sets up the device of the settings. Must be called within a runtime; then [`Client::run`] has to be run, and [`Client::serve`] with
    /// each session.
    ///
    /// # Errors
    /// The device cannot be set up, or what a killed process left cannot be taken back.
    pub fn start(
        host: Host,
        (device, joining): (Tun, Joining),
        settings: Settings,
        notices: Notices,
    ) -> Result<Self, SetupError> {
        let (mtu, is_split) = (settings.mtu, settings.split_tcp);
        let machine = Machine::prepare(settings)?;
        let (device, clock) = (Arc::new(device), host.clock());
        let outlet = Arc::new(Outlet::new(QUEUE_BYTES_MAX));
        let counters = Arc::new(Counters::default());
        let Joining {
            connections,
            server,
        } = joining;
        let dispatch = Dispatch::new(
            PacketRules::new(&connections),
            server,
            outlet.clone(),
            (clock, notices.clone()),
        );
        let split = is_split.then(|| {
            let queues = (dispatch.clone(), counters.clone());
            let ends = (&connections, server);
            Split::new(ends, (device.clone(), clock), queues, notices.clone())
        });
        Ok(Self {
            device,
            clock,
            own: Own::new(host),
            outlet,
            dispatch,
            counters,
            split,
            _connections: connections,
            machine: Mutex::new(machine),
            terms: watch::Sender::new(None),
            mtu,
            notices,
        })
    }

    /// Takes back the routes, the rules and the servers that resolve names, for good. Dropping the client does the same, but others may
    /// hold it.
    pub fn end(&self) {
        let machine = self.machine.lock();
        machine
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .end();
        if let Some(split) = &self.split {
            split.end();
        }
    }

    /// Totals of the packets.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// TCP connections that were split so far.
    pub fn split_connections(&self) -> u64 {
        self.split.as_ref().map_or(0, Split::made)
    }

    /// Counters of the queues at the entrance.
    pub fn queues(&self) -> fq_codel::Stats {
        self.outlet.stats()
    }

    /// Flows of packets, those with the latest packets first, 256 at most. Connections that are split are flows of the gateway.
    pub fn flows(&self) -> Vec<FlowReport> {
        self.dispatch.report(self.clock.now())
    }

    /// Addresses and largest packet; `None` before the first session.
    pub fn terms(&self) -> Option<Terms> {
        *self.terms.borrow()
    }

    /// Reads the device until dropped.
    pub async fn run(&self) {
        let mend = || {
            let machine = self.machine.lock();
            machine
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .mend()
        };
        let keeping = system::keep_masquerade(&self.notices, mend);
        let sweeping = async {
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                self.dispatch.sweep(self.clock.now());
            }
        };
        let reporting = report(&self.counters, &self.notices);
        tokio::join!(self.read(), reporting, keeping, sweeping);
    }

    async fn read(&self) {
        let mut batch = ReadBatch::default();
        let mut entrance = Entrance {
            device: &self.device,
            own: &self.own,
            counters: &self.counters,
            answers: Answers::new(),
        };
        while self.device.readable().await.is_ok() {
            let terms = self.terms();
            let local = terms.iter().flat_map(addresses).collect::<Vec<IpAddr>>();
            for _ in 0..READS_MAX {
                if self.device.try_recv_batch(&mut batch).is_err() {
                    break;
                }
                self.enter_batch(&mut entrance, &mut batch, (terms, &local));
            }
            // Others have their turn.
            tokio::task::yield_now().await;
        }
        tracing::error!(device = self.device.name(), "the device is gone");
        std::future::pending::<()>().await;
    }

    fn enter_batch(
        &self,
        entrance: &mut Entrance<'_>,
        batch: &mut ReadBatch,
        (terms, local): (Option<Terms>, &[IpAddr]),
    ) {
        if let Some(split) = &self.split
            && let Some(terms) = terms
            && let Ok(header) = Header::read(batch.whole())
            && local.contains(&header.source)
            && split.take(self.clock.now(), batch, &header, &terms)
        {
            return;
        }
        let divided = batch.divide(|ip| self.enter(entrance, ip, (terms, local)));
        if divided.is_err() {
            self.counters.note_dropped(Dropped::Malformed);
        }
    }

    fn enter(
        &self,
        entrance: &mut Entrance<'_>,
        ip: &[u8],
        (terms, local): (Option<Terms>, &[IpAddr]),
    ) {
        let now = self.clock.now();
        let Some(header) = entrance.look(now, ip, local) else {
            return;
        };
        let Some(terms) = terms.filter(|_| local.contains(&header.source)) else {
            entrance.refuse(now, (ip, &header), Dropped::Source, Cause::Prohibited);
            return;
        };
        let assigned = self.dispatch.assign(now, ip, &header);
        let (outlet, bucket) = match &assigned {
            Assigned::Rest(bucket) => (&*self.outlet, *bucket),
            Assigned::Class(class, bucket) => (&class.queues, *bucket),
            Assigned::Denied => return entrance.deny(now, (ip, &header)),
            Assigned::Limited => return self.counters.note_dropped(Dropped::Limited),
        };
        let way = Way {
            outlet,
            bucket,
            mtu: terms.mtu,
        };
        entrance.enter(now, (ip, &header), way);
    }

    /// Is in the tunnel over this session until that is over, or the server ends it; returns the reason.
    pub async fn serve(&self, session: &Session) -> ClientError {
        match self.join(session).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn join(&self, session: &Session) -> Result<std::convert::Infallible, ClientError> {
        let control = session.open_stream(StreamSpec {
            duplex: true,
            priority: Priority::URGENT,
            label: LABEL_CONTROL.to_owned(),
            ..StreamSpec::default()
        });
        let control = control.map_err(lost)?;
        let before = self.terms();
        let wish = Wish {
            mtu: self.mtu,
            v4: before.and_then(|terms| terms.v4).map(|v4| v4.address),
            v6: before.and_then(|terms| terms.v6).map(|v6| v6.address),
        };
        let request = Message::Request(wish).encode();
        control.send(request).await.map_err(lost)?;
        let first = timeout(ANSWER_TIMEOUT, next(&control)).await;
        match first.map_err(|_| ClientError::Lost("no answer in time".to_owned()))?? {
            Answer::Terms(terms) => self.apply(terms, session)?,
            Answer::Ready => return Err(ClientError::Protocol),
        }
        let open = |priority: Priority| {
            session.open_stream(StreamSpec {
                order: Order::Unordered,
                lifetime: Some(PACKET_LIFETIME),
                priority,
                duplex: true,
                label: LABEL_PACKETS.to_owned(),
                ..StreamSpec::default()
            })
        };
        let lanes = Lanes {
            urgent: open(Priority::URGENT).map_err(lost)?,
            rest: open(Priority::NORMAL).map_err(lost)?,
        };
        let greet = || {
            for stream in [&lanes.urgent, &lanes.rest] {
                // A stream that is over is noticed where it is read.
                let _ = stream.try_send(Bytes::from_static(HELLO));
            }
        };
        greet();
        let (ready, joined) = (Notify::new(), Notify::new());
        let following = async {
            loop {
                match next(&control).await? {
                    Answer::Terms(terms) => self.apply(terms, session)?,
                    Answer::Ready => {
                        if let Some(split) = &self.split {
                            split.set_session(Some(session));
                        }
                        ready.notify_one();
                        joined.notify_one();
                    }
                }
            }
        };
        // The server knows the streams by what arrives on them; the first packet may be one for this machine.
        let greeting = async {
            while timeout(GREET_EVERY, ready.notified()).await.is_err() {
                greet();
            }
            std::future::pending::<()>().await;
        };
        let (ends, counters) = ((&*self.device, self.clock), [&*self.counters]);
        let both = (&lanes, self.dispatch.classes());
        let delivering = deliver(both, ends, &counters, |packet| self.check(&packet));
        let dispatching = async {
            joined.notified().await;
            self.dispatch.run(session).await
        };
        let ended = tokio::select! {
            biased;
            // Which states the reason.
            ended = following => ended,
            () = greeting => unreachable!("it goes on until it is dropped"),
            never = dispatching => match never {},
            failure = self.outlet.carry(session, &lanes, self.clock) => Err(lost(failure)),
            end = delivering => Err(match end {
                End::Protocol => ClientError::Protocol,
                End::Finished => ClientError::Lost("it ended the tunnel".to_owned()),
                End::Failed(failure) => lost(failure),
            }),
        };
        if let Some(split) = &self.split {
            split.set_session(None);
        }
        let _ = control.reset(CODE_ENDED);
        let _ = control.stop(CODE_ENDED);
        ended.map_err(|error| match error {
            // It was there.
            ClientError::NoTunnel => ClientError::Withdrawn,
            error => error,
        })
    }

    /// Reason why a packet of the server is not handed on: it is for another machine, or comes back.
    fn check(&self, packet: &Incoming<'_>) -> Result<(), Dropped> {
        let header = packet.header;
        let terms = self.terms();
        let is_own = |address: IpAddr| terms.iter().flat_map(addresses).any(|own| own == address);
        match (is_own(header.destination), is_own(header.source)) {
            (false, _) => Err(Dropped::Destination),
            (_, true) => Err(Dropped::Loop),
            _ => {
                let now = self.clock.now();
                self.dispatch.note_received(now, packet.ip, header);
                Ok(())
            }
        }
    }

    /// Gives this machine its addresses.
    fn apply(&self, mut terms: Terms, session: &Session) -> Result<(), ClientError> {
        terms.mtu = terms.mtu.min(self.mtu);
        let mut machine = self
            .machine
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(split) = &self.split {
            split.leave(&terms);
        }
        machine.reach(&session.remotes());
        machine.number(&terms)?;
        if let Some(split) = &self.split {
            split.listen(&terms).map_err(SetupError::Listen)?;
        }
        // Before the routes: packets that they lead here have an address of this machine.
        self.terms.send_replace(Some(terms));
        for text in machine.route()? {
            self.notices.show(&Notice::Warning(text));
        }
        self.notices.show(&Notice::Up {
            device: self.device.name().to_owned(),
            terms,
        });
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

/// Addresses of this machine.
fn addresses(terms: &Terms) -> impl Iterator<Item = IpAddr> + use<> {
    let v4 = terms.v4.map(|v4| IpAddr::V4(v4.address));
    v4.into_iter()
        .chain(terms.v6.map(|v6| IpAddr::V6(v6.address)))
}

/// Message of the server about a membership.
enum Answer {
    Terms(Terms),
    Ready,
}

/// The next answer of the server.
async fn next(control: &Stream) -> Result<Answer, ClientError> {
    match control.recv().await.map_err(lost)? {
        None => Err(ClientError::Lost("it ended the tunnel".to_owned())),
        Some(adu) => match Message::decode(&adu.data) {
            Ok(Message::Lease(terms)) => Ok(Answer::Terms(terms)),
            Ok(Message::Ready) => Ok(Answer::Ready),
            Ok(Message::Refuse(code, text)) => Err(ClientError::Refused { code, text }),
            _ => Err(ClientError::Protocol),
        },
    }
}
