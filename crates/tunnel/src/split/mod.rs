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
//! | `opening` | a connection from its opening to its end |
//! | `half` | the listeners of second halves |
//! | `side` | the ends and numbers of both sides, as their segments show them |
//! | `table` | connections by ends and number, in virtual time |
//! | `bypass` | targets whose connections pass as packets for a while |
//! | `uplink` | the session that streams are opened in |

mod bypass;
mod half;
mod opening;
mod side;
mod table;
mod uplink;

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, AtomicU64, Ordering},
    },
};

use anabranch::{
    Session,
    base::{Instant, NodeId},
    net::{
        Clock,
        tun::{ReadBatch, Tun},
    },
};
use anabranch_gateway::{Connections, Diverter};
use tokio::{
    net::TcpStream,
    sync::{oneshot, watch},
};

use self::{
    bypass::Bypass,
    half::Half,
    table::{Number, Stage, Table},
    uplink::Joined,
};
use crate::{
    client::dispatch::Dispatch,
    counters::Counters,
    notice::Notices,
    packet::{Ends, Header, Segment},
    wire::{LABEL_CONNECTIONS, MTU_MIN, Terms},
};

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
