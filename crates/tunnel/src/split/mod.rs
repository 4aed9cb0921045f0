//! Split TCP: the TCP connections of a machine end at its node, and are carried as reliable streams.
//!
//! ```text
//!   program ══ half ══ listener ─► relay ─► stream ═══ paths ═══ stream ─► relay ─► target
//!      └──────► device ──────┘
//! ```
//!
//! Both halves of the machine's own connection belong to its kernel; the node only changes the addresses of their segments on their way
//! out of the device and back in. To the program, its half is a connection with the target; to the listener, which has the address of
//! this machine in the tunnel, the other half comes from the server's address in the tunnel, and its port is the number of the
//! connection. So this needs no rules of a packet filter, and no other right than the device does.
//!
//! The opening of a connection waits until the server has connected to the target: the program sees the target's refusal, and its own
//! connection is made when that of the server is. A connection that the server does not make, but leaves to its kernel, passes as packets.
//!
//! | module | holds |
//! |---|---|
//! | `half` | the listener of second halves |
//! | `side` | the ends and numbers of both sides, as their segments show them |
//! | `table` | connections by ends and number, in virtual time |
//! | `bypass` | targets whose connections pass as packets for a while |
//! | `uplink` | the session that streams are opened in |

mod bypass;
mod half;
mod side;
mod table;
mod uplink;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{
    Session,
    base::{Instant, NodeId},
    net::{
        Clock,
        tun::{ReadBatch, Tun},
    },
};
use anabranch_gateway::{
    Code, Connections, Diverter,
    divert::{Made, NotMade},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
    time::timeout,
};

use self::{
    bypass::Bypass,
    half::{Half, pairs},
    table::{Number, Stage, Table},
    uplink::Joined,
};
use crate::{
    client::dispatch::{Assigned, Dispatch},
    counters::Counters,
    fq_codel::Packet,
    notice::{Notice, Notices},
    packet::{Cause, Ends, Header, Segment, answer, clamp, reset},
    wire::{LABEL_CONNECTIONS, MTU_MIN, Terms},
};

/// Time in which the second half of a connection must be accepted: it stays on this machine, or in the network behind it.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 4096;
/// Pause after the listener has failed, as for want of files.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections of a client that are split. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Split(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    device: Arc<Tun>,
    clock: Clock,
    diverter: Diverter,
    /// Kept until the tunnel ends.
    _connections: Connections,
    /// True once the tunnel ends, and with it the connections.
    is_over: watch::Sender<bool>,
    dispatch: Arc<Dispatch>,
    counters: Arc<Counters>,
    joined: Arc<Joined>,
    table: Mutex<Table<oneshot::Sender<TcpStream>>>,
    bypass: Mutex<Bypass>,
    halves: Mutex<Vec<Half>>,
    /// Largest packet that the other side takes.
    mtu: AtomicU16,
    made: AtomicU64,
    notices: Notices,
}

impl Split {
    /// Has the connections made by a server; they count with those of the node. The dispatch and its counters are for openings of connections that are not split after all.
    pub(crate) fn new(
        (connections, server): (&Connections, NodeId),
        (device, clock): (Arc<Tun>, Clock),
        (dispatch, counters): (Arc<Dispatch>, Arc<Counters>),
        notices: Notices,
    ) -> Self {
        let joined = Arc::new(Joined::new(server));
        Self(Arc::new(Shared {
            diverter: Diverter::new(connections, joined.clone(), LABEL_CONNECTIONS),
            _connections: connections.clone(),
            is_over: watch::Sender::new(false),
            device,
            clock,
            dispatch,
            counters,
            joined,
            table: Mutex::new(Table::new()),
            bypass: Mutex::new(Bypass::new()),
            halves: Mutex::default(),
            mtu: AtomicU16::new(MTU_MIN),
            made: AtomicU64::new(0),
            notices,
        }))
    }

    fn table(&self) -> MutexGuard<'_, Table<oneshot::Sender<TcpStream>>> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bypass(&self) -> MutexGuard<'_, Bypass> {
        self.0.bypass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn halves(&self) -> MutexGuard<'_, Vec<Half>> {
        self.0.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that were made so far.
    pub(crate) fn made(&self) -> u64 {
        self.0.made.load(Ordering::Relaxed)
    }

    /// Opens streams in this session from now on; `None`: in none.
    pub(crate) fn set_session(&self, session: Option<&Session>) {
        self.0.joined.set(session);
    }

    /// Ends the connections whose addresses this machine loses; before it does, because both halves are to learn of it.
    pub(crate) fn leave(&self, terms: &Terms) {
        let mut halves = self.halves();
        let (kept, left) = halves.drain(..).partition(|half| half.is_of(terms));
        *halves = kept;
        drop(halves);
        let left: Vec<Half> = left;
        for half in left {
            for flow in self.table().leave(half.listener.is_ipv4()) {
                for number in flow.for_program {
                    self.put(&reset(flow.ends.reversed(), number));
                }
                for number in flow.for_listener {
                    self.put(&reset(half.ends(flow.number), number));
                }
            }
        }
    }

    /// Listens at the addresses that this machine has now. Must be called within a runtime.
    pub(crate) fn listen(&self, terms: &Terms) -> io::Result<()> {
        self.0.mtu.store(terms.mtu, Ordering::Relaxed);
        let mut halves = self.halves();
        for (address, server) in pairs(terms) {
            let is_there = |half: &Half| half.listener.ip() == address && half.server == server;
            if !halves.iter().any(is_there) {
                halves.push(self.half(address, server)?);
            }
        }
        Ok(())
    }

    fn half(&self, address: IpAddr, server: IpAddr) -> io::Result<Half> {
        let socket = match address {
            IpAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
            IpAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
        };
        socket.bind(SocketAddr::new(address, 0))?;
        let listener = socket.listen(BACKLOG)?;
        Ok(Half {
            server,
            listener: listener.local_addr()?,
            task: tokio::spawn(self.clone().accept(listener, server)).abort_handle(),
        })
    }

    /// Accepts second halves.
    async fn accept(self, listener: TcpListener, server: IpAddr) {
        loop {
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let number = Number::new(from.port()).filter(|_| from.ip() == server);
            let waiting = number.and_then(|number| self.table().accept(number));
            // Another program, which connects to the listener, is answered by the end of the connection.
            if let Some(waiting) = waiting {
                let _ = waiting.send(stream);
            }
        }
    }

    /// Takes what entered the tunnel here; false if it is to pass as packets. It may be changed.
    pub(crate) fn take(
        &self,
        now: Instant,
        batch: &mut ReadBatch,
        header: &Header,
        terms: &Terms,
    ) -> bool {
        let Some(segment) = Segment::read(batch.whole(), header) else {
            return false;
        };
        let ends = segment.ends;
        let halves = self.halves();
        let mut same = halves.iter();
        let Some(half) = same.find(|half| half.listener.is_ipv4() == ends.source.is_ipv4()) else {
            return false;
        };
        if ends.source == half.listener && ends.destination.ip() == half.server {
            // From the listener to the program.
            let number = Number::new(ends.destination.port());
            let progress = segment.progress(batch.whole());
            let first = number.and_then(|number| self.table().answered(now, number, &progress));
            if let Some(first) = first {
                self.put_back(batch, &segment, first.reversed());
            }
            return true;
        }
        if is_within(terms, ends.destination.ip()) {
            return false;
        }
        let known = self
            .table()
            .sent(now, &ends, &segment.progress(batch.whole()));
        match known {
            Some((_, Stage::Asked)) => {
                if segment.is_reset() {
                    self.table().withdraw_with(&ends);
                }
                true
            }
            Some((number, Stage::Ended)) if segment.is_opening() => {
                drop(halves);
                self.table().remove(number);
                self.begin(now, segment, batch)
            }
            Some((number, _)) => {
                let second = half.ends(number);
                drop(halves);
                self.put_back(batch, &segment, second);
                true
            }
            None if segment.is_opening() => {
                drop(halves);
                self.begin(now, segment, batch)
            }
            // A connection that began as packets.
            None => false,
        }
    }

    /// Hands segments of a half back to the kernel, with the ends of the other half.
    fn put_back(&self, batch: &mut ReadBatch, segment: &Segment, ends: Ends) {
        let is_partial = batch.has_partial_checksum();
        segment.readdress(batch.whole(), is_partial, ends);
        // As below.
        let _ = self.0.device.try_put(batch);
    }

    /// Hands a packet to the kernel.
    fn put(&self, ip: &[u8]) {
        // One that the kernel does not take is lost, and sent again by its half.
        let _ = self.0.device.try_send(ip);
    }

    /// Begins a connection; false if it is to pass as packets.
    fn begin(&self, now: Instant, segment: Segment, batch: &mut ReadBatch) -> bool {
        let ends = segment.ends;
        if self.bypass().contains(now, ends.destination) {
            return false;
        }
        // Without a session, the program sends its opening again.
        if !self.0.joined.is_there() {
            return true;
        }
        let mut opening = None;
        let is_read = batch.divide(|ip| opening = Some(Box::from(&*ip)));
        let Some(opening) = opening.filter(|_| is_read.is_ok()) else {
            return true;
        };
        let Some(number) = self.table().begin(now, ends) else {
            return true;
        };
        let (mut over, connecting) = (
            self.0.is_over.subscribe(),
            self.clone().connect(number, segment, opening),
        );
        let task = async move {
            tokio::select! {
                _ = over.wait_for(|is_over| *is_over) => {}
                () = connecting => {}
            }
        };
        if !self.0.diverter.spawn(task) {
            self.table().withdraw(number);
        }
        true
    }

    /// Makes a connection, and carries it until it ends.
    async fn connect(self, number: Number, segment: Segment, opening: Box<[u8]>) {
        let Ends {
            source,
            destination,
        } = segment.ends;
        let made = match self.0.diverter.ask(source, destination).await {
            Ok(made) => made,
            Err(error) => {
                self.table().withdraw(number);
                self.refuse(&segment, &opening, error);
                return;
            }
        };
        self.carry(number, segment, opening, made).await;
        self.table().end(self.0.clock.now(), number);
    }

    async fn carry(&self, number: Number, segment: Segment, opening: Box<[u8]>, made: Made) {
        let (sender, accepted) = oneshot::channel();
        let second = {
            let halves = self.halves();
            let is_v4 = segment.ends.source.is_ipv4();
            let mut all = halves.iter();
            let half = all.find(|half| half.listener.is_ipv4() == is_v4);
            half.map(|half| half.ends(number))
        };
        let Some(second) = second.filter(|_| self.table().offer(number, sender)) else {
            return;
        };
        let mut changed = opening.clone();
        segment.readdress(&mut changed, false, second);
        self.put(&changed);
        drop(changed);
        let Ok(Ok(accepted)) = timeout(ACCEPT_TIMEOUT, accepted).await else {
            let mut table = self.table();
            let before = table.end(self.0.clock.now(), number);
            if before == Some(Stage::Offered { is_answered: false }) {
                table.remove(number);
                drop(table);
                self.blocked(segment.ends.destination);
                self.pass(&opening);
            }
            return;
        };
        self.0.made.fetch_add(1, Ordering::Relaxed);
        made.carry(accepted).await;
    }

    /// Answers the opening of a connection that is not made, or lets it pass.
    fn refuse(&self, segment: &Segment, opening: &[u8], error: NotMade) {
        let target = segment.ends.destination;
        tracing::debug!(%target, %error, "a connection was not made");
        let cause = match error {
            NotMade::Denied(_) => Cause::Prohibited,
            NotMade::Refused(refusal) => match refusal.code {
                Code::Refused => return self.put(&segment.refusal(opening)),
                Code::Unreachable => Cause::NoHost,
                Code::NotAllowed | Code::Unsupported => {
                    // The server's kernel decides on packets.
                    self.bypass().add(self.0.clock.now(), target);
                    return self.pass(opening);
                }
                // The program sends its opening again.
                _ => return,
            },
            _ => {
                let is_first = self.bypass().add_all(self.0.clock.now());
                if is_first {
                    let text = "the server makes no TCP connections for this machine; they pass as packets";
                    self.0.notices.show(&Notice::Warning(text.to_owned()));
                }
                return self.pass(opening);
            }
        };
        let header = Header::read(opening).ok();
        if let Some(reply) = header.and_then(|header| answer(opening, &header, cause)) {
            self.put(&reply);
        }
    }

    /// Lets connections pass as packets: their second halves do not reach the listener.
    fn blocked(&self, target: SocketAddr) {
        let device = self.0.device.name();
        let is_first = self.bypass().add_all(self.0.clock.now());
        if is_first {
            let text = format!(
                "a firewall of this machine drops connections from {device} to the tunnel's own listener, as that to {target}; allow TCP in \
                 from the device {device}; until then, connections pass as packets"
            );
            self.0.notices.show(&Notice::Warning(text));
        }
    }

    /// Sends the opening of a connection as a packet; the connection then passes as packets.
    fn pass(&self, opening: &[u8]) {
        let Ok(header) = Header::read(opening) else {
            return;
        };
        let now = self.0.clock.now();
        let dispatch = &self.0.dispatch;
        let assigned = dispatch.assign(now, opening, &header);
        let (outlet, bucket) = match &assigned {
            Assigned::Rest(bucket) => (dispatch.rest(), *bucket),
            Assigned::Class(class, bucket) => (&class.queues, *bucket),
            // The rules let the connection pass before; the program sends its opening again.
            Assigned::Denied | Assigned::Limited => return,
        };
        let mut packet = Packet::new(opening);
        clamp(packet.ip_mut(), &header, self.0.mtu.load(Ordering::Relaxed));
        self.0.counters.note_sent(opening.len());
        outlet.push_into(now, bucket, packet);
    }

    /// Ends all connections, for good.
    pub(crate) fn end(&self) {
        self.0.is_over.send_replace(true);
        self.set_session(None);
        self.halves().clear();
    }
}

/// True for an address in the networks of the tunnel itself.
fn is_within(terms: &Terms, address: IpAddr) -> bool {
    let v4 = terms.v4.map(|v4| (IpAddr::V4(v4.address), v4.length));
    let v6 = terms.v6.map(|v6| (IpAddr::V6(v6.address), v6.length));
    let mut networks = v4.into_iter().chain(v6);
    networks.any(|(own, length)| {
        let network = crate::lease::Prefix::of(own, length);
        network.is_some_and(|network| network.contains(address))
    })
}
