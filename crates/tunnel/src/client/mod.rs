//! Client of the tunnel: a device whose packets a server takes.
//!
//! | module | holds |
//! |---|---|
//! | `machine` | the settings of this machine: addresses, routes, names |
//!
//! The device and its routes outlast sessions: while there is none, packets wait in bounded queues and nothing passes by another way.

mod machine;

use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch::{
    Host, Order, Priority, Session, Stream, StreamFailure, StreamSpec,
    net::{
        Clock,
        tun::{ReadBatch, Tun},
    },
    rights::CODE_NO_RIGHT,
};
use bytes::Bytes;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use self::machine::Machine;
pub use self::machine::Settings;
use crate::{
    counters::{Counters, Dropped, Totals},
    entrance::{Answers, Entrance, READS_MAX, Way},
    exit::{End, deliver},
    fq_codel,
    notice::{Notice, Notices},
    outlet::{Lanes, Outlet},
    own::Own,
    packet::{Cause, Header},
    server::report,
    split::{Split, Splitting},
    system::{self, SetupError},
    wire::{
        CODE_ENDED, CODE_PROTOCOL, CODE_REPLACED, Code, HELLO, LABEL_CONTROL, LABEL_PACKETS,
        Message, Terms, Wish,
    },
};

/// Time in which the server must answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Time after which the streams of packets are announced again.
const GREET_EVERY: Duration = Duration::from_millis(250);
/// Lifetime of a packet in a session. Until then, one that was lost is sent again: that costs less than the reaction of the inner
/// connection to the loss. It is a little longer than that of latency-sensitive streams, of which copies would be sent.
const LIFETIME: Duration = Duration::from_millis(1200);
/// Memory of the packets that wait.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// This machine is not in the tunnel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refuses.
    #[error("the server refuses: {text}")]
    Refused {
        /// The reason.
        code: Code,
        /// The reason in its words.
        text: String,
    },
    /// The peer serves no tunnel.
    #[error(
        "the peer serves no tunnel; there, run `anabranch tun --serve`, or give a node the section [tunnel.server]"
    )]
    NoTunnel,
    /// The server took the right away.
    #[error("the server took the right to its tunnel away")]
    Withdrawn,
    /// The same node has joined in another session.
    #[error(
        "another process with this key has joined the tunnel; give each machine a key of its own (`anabranch keygen`)"
    )]
    Replaced,
    /// The server did not answer, or the session is over.
    #[error("no answer from the server: {0}")]
    Lost(String),
    /// The server broke the rules.
    #[error("the server sent what is no message of the tunnel")]
    Protocol,
    /// This machine cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl ClientError {
    /// True if trying again has no prospect before something is changed, here or at the server.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::NoTunnel | Self::Setup(_) | Self::Withdrawn
        )
    }
}

/// Client of a tunnel, which is there as long as this value.
#[derive(Debug)]
pub struct Client {
    device: Arc<Tun>,
    own: Own,
    clock: Clock,
    outlet: Arc<Outlet>,
    counters: Arc<Counters>,
    split: Option<Split>,
    machine: Mutex<Machine>,
    /// Addresses and largest packet; those of the last session while there is none.
    terms: watch::Sender<Option<Terms>>,
    mtu: u16,
    notices: Notices,
}

impl Client {
    /// Sets up the device of the settings; TCP connections are split if it is stated between which ends. Must be called within a runtime; then [`Client::run`] has to be run, and [`Client::serve`] with
    /// each session.
    ///
    /// # Errors
    /// The device cannot be set up, or what a killed process left cannot be taken back.
    pub fn start(
        host: Host,
        (device, splitting): (Tun, Option<Splitting>),
        settings: Settings,
        notices: Notices,
    ) -> Result<Self, SetupError> {
        let mtu = settings.mtu;
        let machine = Machine::prepare(settings)?;
        let (device, clock) = (Arc::new(device), host.clock());
        let outlet = Arc::new(Outlet::new(QUEUE_BYTES_MAX));
        let counters = Arc::new(Counters::default());
        let split = splitting.map(|splitting| {
            let queues = (outlet.clone(), counters.clone());
            Split::new(splitting, (device.clone(), clock), queues, notices.clone())
        });
        Ok(Self {
            device,
            clock,
            own: Own::new(host),
            outlet,
            counters,
            split,
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
        tokio::join!(self.read(), report(&self.counters, &self.notices), keeping);
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
        let way = Way {
            outlet: &self.outlet,
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
            Answer::Terms(terms) => self.apply(terms)?,
            Answer::Ready => return Err(ClientError::Protocol),
        }
        let open = |priority: Priority| {
            session.open_stream(StreamSpec {
                order: Order::Unordered,
                lifetime: Some(LIFETIME),
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
        let ready = Notify::new();
        let following = async {
            loop {
                match next(&control).await? {
                    Answer::Terms(terms) => self.apply(terms)?,
                    Answer::Ready => {
                        if let Some(split) = &self.split {
                            split.set_session(Some(session));
                        }
                        ready.notify_one();
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
        let delivering = deliver(&lanes, ends, &counters, |_, header| self.check(header));
        let ended = tokio::select! {
            biased;
            // Which states the reason.
            ended = following => ended,
            () = greeting => unreachable!("it goes on until it is dropped"),
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
    fn check(&self, header: &Header) -> Result<(), Dropped> {
        let terms = self.terms();
        let is_own = |address: IpAddr| terms.iter().flat_map(addresses).any(|own| own == address);
        match (is_own(header.destination), is_own(header.source)) {
            (false, _) => Err(Dropped::Destination),
            (_, true) => Err(Dropped::Loop),
            _ => Ok(()),
        }
    }

    /// Gives this machine its addresses.
    fn apply(&self, mut terms: Terms) -> Result<(), ClientError> {
        terms.mtu = terms.mtu.min(self.mtu);
        let mut machine = self
            .machine
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(split) = &self.split {
            split.leave(&terms);
        }
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

fn lost(failure: StreamFailure) -> ClientError {
    match failure {
        StreamFailure::Reset(CODE_NO_RIGHT) | StreamFailure::Stopped(CODE_NO_RIGHT) => {
            ClientError::NoTunnel
        }
        StreamFailure::Reset(CODE_REPLACED) | StreamFailure::Stopped(CODE_REPLACED) => {
            ClientError::Replaced
        }
        StreamFailure::Reset(CODE_PROTOCOL) | StreamFailure::Stopped(CODE_PROTOCOL) => {
            ClientError::Protocol
        }
        failure => ClientError::Lost(failure.to_string()),
    }
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
