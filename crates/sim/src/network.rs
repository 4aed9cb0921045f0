//! Network between the nodes: wires, routes over them, cross-traffic, packets in transit.
//!
//! A *wire* is a [`Duplex`] link between two points. A *hop* is one direction of a wire; a *route* joins a socket of
//! each of two nodes by hops there and hops back. Routes and cross-traffic that take the same hop share its queue and
//! its rate, which makes a bottleneck shared.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use anabranch_base::{Instant, SocketId};
use anabranch_link::{
    Duplex, Link as OneWay, Ticket, Verdict,
    stats::Count,
    traffic::{Arrival, Source},
};
use anabranch_session::{Link, Received};
use bytes::BytesMut;

pub use crate::hop::{CrossIndex, Hop, RouteIndex, WireIndex};
use crate::{hop::NodeIndex, log::PacketLog};

/// Bytes that IPv4 and UDP add to a payload on a wire.
pub const IP_UDP_BYTES: usize = 28;

/// A duplex link between two points of the network: two nodes, a node and a router, two routers.
#[derive(Debug)]
pub struct Wire {
    /// The link model; change it while the world runs to simulate faults.
    pub duplex: Duplex,
    /// The route of which this wire is the only hop, if the wire joins two nodes.
    pub(crate) route: Option<RouteIndex>,
    /// Counters of the output, forward and backward.
    meters: [Meter; 2],
}

/// Counters of the output of one direction of a wire.
#[derive(Debug, Default, Clone, Copy)]
struct Meter {
    arrived: Count,
    /// Number of the latest packet that arrived, of those that may not be overtaken.
    latest: u64,
    /// Packets that arrived after one that was offered later, although the link keeps order.
    overtaken: u64,
}

impl Wire {
    pub(crate) fn new(duplex: Duplex) -> Self {
        Self {
            duplex,
            route: None,
            meters: [Meter::default(); 2],
        }
    }

    /// Link model of one direction.
    pub fn one_way(&self, forward: bool) -> &OneWay {
        if forward {
            &self.duplex.forward
        } else {
            &self.duplex.backward
        }
    }

    fn one_way_mut(&mut self, forward: bool) -> &mut OneWay {
        if forward {
            &mut self.duplex.forward
        } else {
            &mut self.duplex.backward
        }
    }

    /// Count of arrivals at the end of one direction, of nodes and cross-traffic together.
    pub fn arrived(&self, forward: bool) -> Count {
        self.meters[usize::from(!forward)].arrived
    }
}

/// A socket of a node.
pub(crate) type End = (NodeIndex, SocketId, SocketAddr);

/// Two sockets, and the hops in both directions.
#[derive(Debug)]
struct Route {
    ends: [End; 2],
    paths: [Vec<Hop>; 2],
}

/// Cross-traffic in progress.
#[derive(Debug)]
struct Cross {
    hops: Vec<Hop>,
    source: Source,
    next: Option<Arrival>,
    arrived: Count,
}

/// Destination of a packet, and its progress.
#[derive(Debug, Clone, Copy)]
struct Course {
    path: Path,
    /// Index of the hop it is on.
    hop: usize,
}

#[derive(Debug, Clone, Copy)]
enum Path {
    Route { route: RouteIndex, there: bool },
    Cross(CrossIndex),
}

/// Content of a packet: for cross-traffic, only its size.
#[derive(Debug)]
struct Cargo {
    /// Time at which it was offered to its first hop.
    departed: Instant,
    ip_bytes: usize,
    ecn: Option<u8>,
    data: BytesMut,
}

/// A packet in transit on a hop.
#[derive(Debug)]
struct Flight {
    course: Course,
    cargo: Cargo,
    ticket: Ticket,
    /// Sequence number per direction of a wire, in order of offering.
    number: u64,
    keeps_order: bool,
}

/// Result of a packet's arrival at the end of a hop.
pub(crate) enum Landed {
    /// It was lost, or was cross-traffic at its end.
    Gone,
    /// It goes on to the next hop and arrives at the end of that as stated.
    Onward { at: Instant, flight: usize },
    /// It arrived at a node.
    At {
        node: NodeIndex,
        departed: Instant,
        received: Received,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) wires: Vec<Wire>,
    routes: Vec<Route>,
    addresses: BTreeMap<(NodeIndex, SocketId, SocketAddr), (RouteIndex, bool)>,
    cross: Vec<Cross>,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
}

impl Network {
    /// Adds a route between a socket of each of two nodes. The addresses are those of subnetwork `number`; wires and
    /// other routes have numbers and ports of their own.
    pub(crate) fn add_route(
        &mut self,
        sockets: [(NodeIndex, SocketId); 2],
        paths: [Vec<Hop>; 2],
        (number, port): (usize, u16),
    ) -> RouteIndex {
        let index = self.routes.len();
        let [high, low] = u16::try_from(number)
            .expect("at most 65,536 wires and as many routes")
            .to_be_bytes();
        let end = |which: usize| {
            let (node, socket) = sockets[which];
            let ip = Ipv4Addr::new(10, high, low, which as u8 + 1);
            (node, socket, SocketAddr::from((ip, port)))
        };
        let ends = [end(0), end(1)];
        for (from, to) in [(0, 1), (1, 0)] {
            let (node, socket, _) = ends[from];
            let key = (node, socket, ends[to].2);
            self.addresses.insert(key, (index, from == 0));
        }
        self.routes.push(Route { ends, paths });
        index
    }

    /// Number of routes.
    pub(crate) fn routes(&self) -> usize {
        self.routes.len()
    }

    /// The link by which `node` reaches the other end of a route.
    pub(crate) fn link(&self, node: NodeIndex, route: RouteIndex) -> Link {
        let [a, b] = self.routes[route].ends;
        let (here, there) = if a.0 == node { (a, b) } else { (b, a) };
        assert_eq!(here.0, node, "node {node} is not at route {route}");
        Link {
            socket: here.1,
            remote: there.2,
        }
    }

    /// The node at the first end of a wire's own route.
    pub(crate) fn first_node(&self, wire: WireIndex) -> Option<NodeIndex> {
        let route = self.wires[wire].route?;
        Some(self.routes[route].ends[0].0)
    }

    /// The node and socket from which packets come that arrive at a socket from `remote`, and the address that they were sent to.
    pub(crate) fn sender(
        &self,
        node: NodeIndex,
        socket: SocketId,
        remote: SocketAddr,
    ) -> Option<End> {
        let (route, is_first) = self.find(node, socket, remote)?;
        let [first, second] = self.routes[route].ends;
        let (here, there) = if is_first {
            (first, second)
        } else {
            (second, first)
        };
        Some((there.0, there.1, here.2))
    }

    /// Finds the route that leads from a socket to an address; true for its backward direction.
    pub(crate) fn find(
        &self,
        node: NodeIndex,
        socket: SocketId,
        remote: SocketAddr,
    ) -> Option<(RouteIndex, bool)> {
        self.addresses.get(&(node, socket, remote)).copied()
    }

    /// Adds a source of cross-traffic; returns the time of its first packet.
    pub(crate) fn add_cross(
        &mut self,
        hops: Vec<Hop>,
        mut source: Source,
    ) -> (CrossIndex, Option<Instant>) {
        let next = source.next();
        self.cross.push(Cross {
            hops,
            source,
            next,
            arrived: Count::default(),
        });
        (self.cross.len() - 1, next.map(|arrival| arrival.at))
    }

    /// Ends a source of cross-traffic.
    pub(crate) fn stop_cross(&mut self, cross: CrossIndex) {
        self.cross[cross].next = None;
    }

    /// Packets of a source that have reached the end of their hops.
    pub(crate) fn cross_arrived(&self, cross: CrossIndex) -> Count {
        self.cross[cross].arrived
    }

    /// Sends the next packet of a source of cross-traffic. Returns the time and flight of its arrival, and the time at
    /// which the source sends again.
    pub(crate) fn send_cross(
        &mut self,
        now: Instant,
        cross: CrossIndex,
        log: Option<&mut PacketLog>,
    ) -> (Option<(Instant, usize)>, Option<Instant>) {
        let state = &mut self.cross[cross];
        let Some(arrival) = state.next else {
            return (None, None);
        };
        state.next = state.source.next();
        let again = state.next.map(|next| next.at);
        let course = Course {
            path: Path::Cross(cross),
            hop: 0,
        };
        let cargo = Cargo {
            departed: now,
            ip_bytes: arrival.bytes,
            ecn: None,
            data: BytesMut::new(),
        };
        (self.offer(now, course, cargo, log), again)
    }

    /// Bytes of packets in transit.
    pub(crate) fn bytes_under_way(&self) -> u64 {
        let flights = self.flights.iter().flatten();
        flights.map(|flight| flight.cargo.ip_bytes as u64).sum()
    }

    /// Sends a node's payload along a route. Returns the time and flight of its arrival at the end of the first hop.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        (route, there): (RouteIndex, bool),
        (payload, ecn): (&[u8], Option<u8>),
        log: Option<&mut PacketLog>,
    ) -> Option<(Instant, usize)> {
        let course = Course {
            path: Path::Route { route, there },
            hop: 0,
        };
        let cargo = Cargo {
            departed: now,
            ip_bytes: payload.len() + IP_UDP_BYTES,
            ecn,
            data: BytesMut::from(payload),
        };
        self.offer(now, course, cargo, log)
    }

    fn hops(&self, path: Path) -> &[Hop] {
        match path {
            Path::Route { route, there } => &self.routes[route].paths[usize::from(!there)],
            Path::Cross(cross) => &self.cross[cross].hops,
        }
    }

    /// Offers a packet to its current hop.
    fn offer(
        &mut self,
        now: Instant,
        course: Course,
        mut cargo: Cargo,
        log: Option<&mut PacketLog>,
    ) -> Option<(Instant, usize)> {
        let hop = self.hops(course.path)[course.hop];
        let link = self.wires[hop.wire].one_way_mut(hop.forward);
        let is_ect = cargo.ecn.is_some_and(|bits| bits & 0b11 != 0);
        let verdict = link.offer(now, cargo.ip_bytes, is_ect);
        let number = link.stats().offered.packets;
        let keeps_order = !link.config().jitter.reorders();
        if let Some(log) = log {
            let cross = match course.path {
                Path::Route { .. } => None,
                Path::Cross(cross) => Some(cross),
            };
            log.verdict(now, hop, cross, cargo.ip_bytes, &verdict);
        }
        let Verdict::Deliver {
            at,
            ticket,
            is_marked,
        } = verdict
        else {
            return None;
        };
        if is_marked {
            cargo.ecn = Some(0b11);
        }
        let flight = Flight {
            course,
            cargo,
            ticket,
            number,
            keeps_order,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.flights[index] = Some(flight);
                index
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() - 1
            }
        };
        Some((at, index))
    }

    /// Handles a flight at the end of its hop.
    pub(crate) fn land(
        &mut self,
        now: Instant,
        flight: usize,
        log: Option<&mut PacketLog>,
    ) -> Landed {
        let packet = self.flights[flight].take().expect("lands once");
        self.free.push(flight);
        let Course { path, hop: index } = packet.course;
        let hops = self.hops(path);
        let (hop, is_last) = (hops[index], index + 1 == hops.len());
        let wire = &mut self.wires[hop.wire];
        if !wire.one_way(hop.forward).still_delivers(packet.ticket) {
            return Landed::Gone;
        }
        wire.meters[hop.side()].note(&packet);
        if !is_last {
            let course = Course {
                path,
                hop: index + 1,
            };
            return match self.offer(now, course, packet.cargo, log) {
                Some((at, flight)) => Landed::Onward { at, flight },
                None => Landed::Gone,
            };
        }
        match path {
            Path::Cross(cross) => {
                let arrived = &mut self.cross[cross].arrived;
                arrived.packets += 1;
                arrived.bytes += packet.cargo.ip_bytes as u64;
                Landed::Gone
            }
            Path::Route { route, there } => {
                let [a, b] = self.routes[route].ends;
                let (from, to) = if there { (a, b) } else { (b, a) };
                Landed::At {
                    node: to.0,
                    departed: packet.cargo.departed,
                    received: Received {
                        socket: to.1,
                        remote: from.2,
                        local_ip: None,
                        ecn: packet.cargo.ecn,
                        data: packet.cargo.data,
                    },
                }
            }
        }
    }

    /// Checks every direction of every wire: each packet offered was delivered or dropped; each packet delivered has
    /// arrived or is in transit; none was overtaken where order is kept. Returns the violations as text. Linear in the
    /// packets in transit.
    pub(crate) fn audit(&self) -> Vec<String> {
        let mut under_way: BTreeMap<Hop, Count> = BTreeMap::new();
        for flight in self.flights.iter().flatten() {
            let hop = self.hops(flight.course.path)[flight.course.hop];
            let link = self.wires[hop.wire].one_way(hop.forward);
            if link.still_delivers(flight.ticket) {
                let count = under_way.entry(hop).or_default();
                count.packets += 1;
                count.bytes += flight.cargo.ip_bytes as u64;
            }
        }
        let mut wrong = Vec::new();
        for (index, wire) in self.wires.iter().enumerate() {
            for hop in [Hop::forward(index), Hop::backward(index)] {
                let stats = wire.one_way(hop.forward).stats();
                let meter = &wire.meters[hop.side()];
                let mut out = stats.dropped_total();
                out += stats.delivered;
                let mut arrived = meter.arrived;
                arrived += under_way.get(&hop).copied().unwrap_or_default();
                if stats.offered != out {
                    wrong.push(format!("{hop:?}: {:?} in, {out:?} out", stats.offered));
                }
                if stats.delivered != arrived {
                    let delivered = stats.delivered;
                    wrong.push(format!("{hop:?}: {delivered:?} sent, {arrived:?} seen"));
                }
                if meter.overtaken > 0 {
                    wrong.push(format!("{hop:?}: {} packets overtaken", meter.overtaken));
                }
            }
        }
        wrong
    }
}

impl Meter {
    fn note(&mut self, packet: &Flight) {
        self.arrived.packets += 1;
        self.arrived.bytes += packet.cargo.ip_bytes as u64;
        if packet.keeps_order {
            self.overtaken += u64::from(packet.number < self.latest);
            self.latest = self.latest.max(packet.number);
        }
    }
}
