//! Server of the tunnel: a device with an address for each node that joins, and the service for them.
//!
//! | module | holds |
//! |---|---|
//! | `member` | one client |
//! | `members` | clients by node, session and address |
//! | `connections` | TCP connections that it makes for clients |
//! | `classes`, `replies` | the streams of clients' classes, and the flows that are answered on them |
//! | `keeper` | the file of the addresses |
//! | `service` | the streams of clients |
//! | `gate` | the destinations that packets of clients may have |

mod classes;
mod connections;
mod gate;
mod keeper;
mod member;
mod members;
mod replies;
mod service;

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch::{
    Host, Share,
    daemon::FlowReport,
    net::{
        Clock,
        tun::{ReadBatch, Tun},
    },
    rights::Rights,
};
use anabranch_gateway::Connections;

pub use self::keeper::FileError;
use self::{connections::Making, gate::Gate, keeper::Keeper, members::Members};
use crate::{
    Destinations,
    counters::{Counters, Dropped, Totals},
    entrance::{Answers, Entrance, READS_MAX, Way},
    lease::Pools,
    notice::{Notice, Notices},
    own::Own,
    packet::Cause,
    system::{self, Masquerade, SetupError},
};

/// Flows in a report.
const FLOWS_SHOWN: usize = 256;

/// Settings of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Networks of the addresses.
    pub pools: Pools,
    /// Name of the device.
    pub device: String,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// File of the addresses by node; `None`: they are forgotten with the process.
    pub leases: Option<PathBuf>,
    /// TCP connections of clients are made here if they ask for it.
    pub split_tcp: bool,
    /// Destinations of clients' packets outside the tunnel; `None`: what the operating system forwards.
    pub destinations: Option<Destinations>,
    /// Share of what can be promised that the classes of all clients have together; `None`: they get no promises.
    pub promised_share: Option<Share>,
    /// True if clients' packets leave by other devices under an address of this machine, which forwards for it.
    pub masquerade: bool,
}

/// A server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The device cannot be created or set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The file of the addresses cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Server of a tunnel, which is there as long as this value.
#[derive(Debug)]
pub struct Server {
    device: Tun,
    own: Own,
    host: Host,
    clock: Clock,
    rights: Rights,
    promised_share: Mutex<Option<Share>>,
    /// Keeper of the addresses; `None`: they end with the server.
    keeper: Option<Keeper>,
    gate: Gate,
    masquerade: Mutex<Option<Masquerade>>,
    members: Mutex<Members>,
    /// Maker of TCP connections; `None`: they pass as packets.
    making: Option<Making>,
    counters: Counters,
    notices: Notices,
}

impl Server {
    /// Creates the device. The TCP connections of clients count with `connections`. Must be called within a runtime; then [`Server::run`] has to be run, and the server to be registered as a
    /// service of the node.
    ///
    /// # Errors
    /// The device cannot be created, or the addresses cannot be read.
    pub fn start(
        host: Host,
        (rights, connections): (Rights, Connections),
        settings: &Settings,
        notices: Notices,
    ) -> Result<Self, StartError> {
        let table = match &settings.leases {
            Some(path) => keeper::read(path, settings.pools)?,
            None => crate::lease::Table::new(settings.pools),
        };
        let device = Tun::create(&settings.device).map_err(SetupError::from)?;
        system::set_up(&settings.device, settings.mtu)?;
        let making = settings.split_tcp.then(|| {
            Making::new(
                rights.clone(),
                connections,
                settings.destinations.clone().unwrap_or_default(),
            )
        });
        system::restore_forwarding(&settings.device);
        let mut masquerade = None;
        if settings.masquerade {
            let families = (settings.pools.v4().is_some(), settings.pools.v6().is_some());
            let (set, warnings) =
                Masquerade::exit(&settings.device, families).map_err(SetupError::from)?;
            for text in warnings {
                notices.show(&Notice::Warning(text));
            }
            masquerade = Some(set);
        }
        let server = Self {
            device,
            making,
            clock: host.clock(),
            own: Own::new(host.clone()),
            host,
            rights,
            promised_share: Mutex::default(),
            keeper: settings.leases.clone().map(Keeper::new),
            gate: Gate::new(settings.pools, settings.destinations.clone()),
            masquerade: Mutex::new(masquerade),
            members: Mutex::new(Members::new(table, settings.mtu)),
            counters: Counters::default(),
            notices,
        };
        server.set_promised_share(settings.promised_share);
        server.number(&settings.pools)?;
        Ok(server)
    }

    /// Gives the device the addresses of these networks.
    fn number(&self, pools: &Pools) -> Result<(), SetupError> {
        let addresses = server_addresses(pools);
        system::set_addresses(self.device.name(), &addresses)?;
        let addresses = addresses.iter();
        self.notices.show(&Notice::Serving {
            device: self.device.name().to_owned(),
            addresses: addresses
                .map(|(address, length)| format!("{address}/{length}"))
                .collect(),
        });
        for setting in system::not_forwarding(pools.v4().is_some(), pools.v6().is_some()) {
            self.notices.show(&Notice::NotForwarding { setting });
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn promised_share(&self) -> MutexGuard<'_, Option<Share>> {
        let share = self.promised_share.lock();
        share.unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the networks: all clients get other addresses at once.
    ///
    /// # Errors
    /// The device does not get its addresses.
    pub fn set_pools(&self, pools: Pools) -> Result<(), SetupError> {
        if *self.lock().table.pools() == pools {
            return Ok(());
        }
        self.number(&pools)?;
        self.gate.set_pools(pools);
        self.lock().set_pools(pools);
        self.note_changed();
        Ok(())
    }

    /// The table of addresses has changed.
    fn note_changed(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.note();
        }
    }

    /// Changes the destinations that packets of clients may have; `None`: what the operating system forwards, or the default while the
    /// server masquerades. Connections to others end, since their packets are dropped from now on.
    pub fn set_destinations(&self, destinations: Option<Destinations>) {
        if let Some(making) = &self.making {
            making.set_destinations(destinations.clone().unwrap_or_default());
        }
        let masquerade = self.masquerade.lock();
        let is_masquerading = masquerade.is_ok_and(|masquerade| masquerade.is_some());
        let default = || is_masquerading.then(Destinations::default);
        self.gate.set_destinations(destinations.or_else(default));
    }

    /// Takes back masquerading and forwarding, for good. Dropping the server does the same, but others may hold it.
    pub fn end(&self) {
        let masquerade = self.masquerade.lock();
        *masquerade.unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Totals of the packets of all clients.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// Nodes in the tunnel, with their addresses and the totals of their packets.
    pub fn clients(&self) -> Vec<Client> {
        let members = self.lock();
        let client = |member: &Arc<member::Member>| {
            let terms = member.terms()?;
            let addresses = [
                terms.v4.map(|v4| IpAddr::V4(v4.address)),
                terms.v6.map(|v6| IpAddr::V6(v6.address)),
            ];
            Some(Client {
                node: member.node,
                addresses: addresses.into_iter().flatten().collect(),
                totals: member.counters.totals(),
            })
        };
        members.all().filter_map(client).collect()
    }

    /// Flows of clients that are in a class now, of each client those with the latest packets, 256 at most.
    pub fn flows(&self) -> Vec<FlowReport> {
        let now = self.clock.now();
        let members: Vec<_> = self.lock().all().cloned().collect();
        let rows = members
            .iter()
            .flat_map(|member| member.replies.report(now, member.node, FLOWS_SHOWN));
        rows.take(FLOWS_SHOWN).collect()
    }

    /// Reads the device and keeps the file until dropped.
    pub async fn run(&self) {
        let mend = || {
            let masquerade = self.masquerade.lock();
            let mut masquerade = masquerade.unwrap_or_else(PoisonError::into_inner);
            masquerade.as_mut()?.mend()
        };
        let keeping = system::keep_masquerade(&self.notices, mend);
        tokio::join!(self.read(), self.keep(), self.report(), keeping);
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
            let local: Vec<IpAddr> = {
                let members = self.lock();
                let addresses = server_addresses(members.table.pools());
                addresses.into_iter().map(|(address, _)| address).collect()
            };
            for _ in 0..READS_MAX {
                if self.device.try_recv_batch(&mut batch).is_err() {
                    break;
                }
                let divided = batch.divide(|ip| self.enter(&mut entrance, ip, &local));
                if divided.is_err() {
                    self.counters.note_dropped(Dropped::Malformed);
                }
            }
            // Others have their turn.
            tokio::task::yield_now().await;
        }
        tracing::error!(device = self.device.name(), "the device is gone");
        std::future::pending::<()>().await;
    }

    fn enter(&self, entrance: &mut Entrance<'_>, ip: &[u8], local: &[IpAddr]) {
        let now = self.clock.now();
        let Some(header) = entrance.look(now, ip, local) else {
            return;
        };
        let member = self.lock().at(header.destination).cloned();
        let Some((member, terms)) = member.and_then(|member| {
            let terms = member.terms()?;
            Some((member, terms))
        }) else {
            // What the kernel itself sends to groups is not an error.
            let is_group = match header.destination {
                IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
                IpAddr::V6(v6) => v6.is_multicast(),
            };
            if !is_group {
                entrance.refuse(now, (ip, &header), Dropped::NoHost, Cause::NoHost);
            }
            return;
        };
        member.counters.note_sent(ip.len());
        let packet = (ip, &header);
        let (class, bucket) = member.replies.assign(now, packet, &member.outlet);
        let way = Way {
            outlet: class.as_ref().map_or(&member.outlet, |class| &class.queues),
            bucket,
            mtu: terms.mtu,
        };
        entrance.enter(now, (ip, &header), way);
    }

    /// Writes the addresses whenever they have changed.
    async fn keep(&self) {
        let Some(keeper) = self.keeper.clone() else {
            return;
        };
        loop {
            keeper.changed().await;
            let (changes, text) = self.to_keep(&keeper);
            let saving = keeper.clone();
            let saved = tokio::task::spawn_blocking(move || saving.save(changes, &text)).await;
            if let Ok(Err(why)) = saved {
                self.notices.show(&Notice::Warning(why));
            }
        }
    }

    /// Changes of the table so far, and its text, which has them.
    fn to_keep(&self, keeper: &Keeper) -> (u64, String) {
        let changes = keeper.changes();
        (changes, self.lock().table.to_text())
    }

    /// Reports dropped packets.
    async fn report(&self) {
        report(&self.counters, &self.notices).await;
    }
}

impl Drop for Server {
    /// Writes addresses that were given last, and that the file may not have yet.
    fn drop(&mut self) {
        let Some(keeper) = &self.keeper else { return };
        let (changes, text) = self.to_keep(keeper);
        if let Err(why) = keeper.save(changes, &text) {
            self.notices.show(&Notice::Warning(why));
        }
    }
}

/// A node in the tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The node.
    pub node: anabranch::base::NodeId,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Totals of its packets.
    pub totals: Totals,
}

fn server_addresses(pools: &Pools) -> Vec<(IpAddr, u8)> {
    let v4 = pools.server_v4().zip(pools.v4());
    let v6 = pools.server_v6().zip(pools.v6());
    let v4 = v4.map(|(address, network)| (IpAddr::V4(address), network.length()));
    let v6 = v6.map(|(address, network)| (IpAddr::V6(address), network.length()));
    v4.into_iter().chain(v6).collect()
}

/// Shows the packets that were dropped, every ten seconds in which any were; does not return.
pub(crate) async fn report(counters: &Counters, notices: &Notices) {
    let mut before = Totals::default();
    loop {
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        let now = counters.totals();
        if let Some(dropped) = now.dropped_since(&before) {
            notices.show(&Notice::Dropped(dropped));
        }
        before = now;
    }
}
