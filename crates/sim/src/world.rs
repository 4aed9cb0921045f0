//! Event queue, nodes, wires.

use std::{
    any::Any,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Seed, SocketId};
use anabranch_link::{ConfigError, Duplex, Ticket, Verdict, duplex::Configs};
use anabranch_session::{AllowList, Config, Engine, Link, Received, SecretKey};
use bytes::BytesMut;

use crate::{
    app::{App, Context},
    epoch,
    log::PacketLog,
};

/// Bytes that IPv4 and UDP add to a payload on a wire.
pub const IP_UDP_BYTES: usize = 28;
/// Packets of one batch; what GSO carries at most.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(40).expect("not zero");

/// A node of the world.
pub type NodeIndex = usize;
/// A wire of the world.
pub type WireIndex = usize;

struct Node {
    engine: Engine,
    app: Box<dyn AnyApp>,
    sockets: u64,
    wake_at: Option<Instant>,
}

/// An [`App`] that can be looked at after the run.
trait AnyApp: App {
    fn as_any(&mut self) -> &mut dyn Any;
    fn as_app(&mut self) -> &mut dyn App;
}

impl<T: App + Any> AnyApp for T {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
    fn as_app(&mut self) -> &mut dyn App {
        self
    }
}

/// A link between one socket of each of two nodes.
#[derive(Debug)]
pub struct Wire {
    /// The link model; change it while the world runs to simulate faults.
    pub duplex: Duplex,
    ends: [(NodeIndex, SocketId, SocketAddr); 2],
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Instant,
    /// Ties are broken by order of creation, so that runs are repeatable.
    number: u64,
    what: What,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Deliver { flight: usize },
    Wake { node: NodeIndex },
    Script { number: usize },
}

/// A packet under way.
struct InFlight {
    wire: WireIndex,
    forward: bool,
    ticket: Ticket,
    ecn: Option<u8>,
    data: BytesMut,
}

/// A change of the world at a given time.
type Script = Box<dyn FnOnce(&mut World)>;

/// Nodes, wires, and virtual time.
pub struct World {
    seed: Seed,
    now: Instant,
    nodes: Vec<Node>,
    wires: Vec<Wire>,
    routes: BTreeMap<(NodeIndex, SocketId, SocketAddr), (WireIndex, bool)>,
    queue: BinaryHeap<Reverse<Entry>>,
    next_number: u64,
    flights: Vec<Option<InFlight>>,
    free: Vec<usize>,
    scripts: Vec<Option<Script>>,
    log: Option<PacketLog>,
    buffer: Vec<u8>,
    /// Packets delivered so far, over all wires.
    pub packets_delivered: u64,
}

impl World {
    /// An empty world at time 0.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            now: Instant::EPOCH,
            nodes: Vec::new(),
            wires: Vec::new(),
            routes: BTreeMap::new(),
            queue: BinaryHeap::new(),
            next_number: 0,
            flights: Vec::new(),
            free: Vec::new(),
            scripts: Vec::new(),
            log: None,
            buffer: Vec::new(),
            packets_delivered: 0,
        }
    }

    /// Starts writing a packet log.
    pub fn record(&mut self) {
        self.log = Some(PacketLog::default());
    }

    /// The packet log, if one is written.
    pub fn log(&self) -> Option<&PacketLog> {
        self.log.as_ref()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The identity of the `index`-th node, whether or not it exists yet; the same for all seeds.
    pub fn node_id(index: NodeIndex) -> NodeId {
        node_key(index).node_id()
    }

    /// Adds a node that talks to the nodes on `allowed`.
    pub fn add_node(
        &mut self,
        config: Config,
        allowed: AllowList,
        app: impl App + Any,
    ) -> NodeIndex {
        let index = self.nodes.len();
        let entropy = self.seed.stream(&format!("node {index}")).seed_bytes();
        let engine = Engine::new(epoch::get(), node_key(index), allowed, config, entropy);
        self.nodes.push(Node {
            engine,
            app: Box::new(app),
            sockets: 0,
            wake_at: None,
        });
        index
    }

    /// Joins two nodes by a wire; each gets a socket of its own for it.
    ///
    /// # Errors
    /// The link's configuration is out of range.
    pub fn add_wire(
        &mut self,
        a: NodeIndex,
        b: NodeIndex,
        configs: Configs,
    ) -> Result<WireIndex, ConfigError> {
        let index = self.wires.len();
        let duplex = Duplex::new(configs, self.seed.child(&format!("wire {index}")))?;
        let mut end = |node: NodeIndex, side: u8| {
            let socket = SocketId(self.nodes[node].sockets);
            self.nodes[node].sockets += 1;
            let [high, low] = (index as u16).to_be_bytes();
            let address = SocketAddr::from((Ipv4Addr::new(10, high, low, side), 4433));
            (node, socket, address)
        };
        let ends = [end(a, 1), end(b, 2)];
        self.routes
            .insert((ends[0].0, ends[0].1, ends[1].2), (index, true));
        self.routes
            .insert((ends[1].0, ends[1].1, ends[0].2), (index, false));
        self.wires.push(Wire { duplex, ends });
        Ok(index)
    }

    /// The link by which `node` reaches the other end of `wire`.
    ///
    /// # Panics
    /// When the node is at neither end.
    pub fn link(&self, node: NodeIndex, wire: WireIndex) -> Link {
        let [a, b] = self.wires[wire].ends;
        let (here, there) = if a.0 == node { (a, b) } else { (b, a) };
        assert_eq!(here.0, node, "node {node} is not at wire {wire}");
        Link {
            socket: here.1,
            remote: there.2,
        }
    }

    /// A wire, to look at or to change.
    pub fn wire(&mut self, wire: WireIndex) -> &mut Wire {
        &mut self.wires[wire]
    }

    /// Cuts a wire or mends it.
    pub fn set_wire_up(&mut self, wire: WireIndex, up: bool) {
        let now = self.now;
        self.wires[wire].duplex.set_up(now, up);
        if let Some(log) = &mut self.log {
            let words = if up { "mended" } else { "cut" };
            log.note(
                now,
                self.wires[wire].ends[0].0,
                format_args!("wire {wire} {words}"),
            );
        }
    }

    /// The engine of a node.
    pub fn engine(&mut self, node: NodeIndex) -> &mut Engine {
        &mut self.nodes[node].engine
    }

    /// The application of a node.
    ///
    /// # Panics
    /// When it is not a `T`.
    pub fn app<T: 'static>(&mut self, node: NodeIndex) -> &mut T {
        (*self.nodes[node].app)
            .as_any()
            .downcast_mut()
            .expect("the scenario knows what it put there")
    }

    /// Lets the scenario act as the node's application, now.
    pub fn with_node<R>(&mut self, node: NodeIndex, act: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let mut context = Context {
            now: self.now,
            engine: &mut self.nodes[node].engine,
        };
        let result = act(&mut context);
        self.settle(node);
        result
    }

    /// Changes the world `after` from now.
    pub fn schedule(&mut self, after: Duration, script: impl FnOnce(&mut Self) + 'static) {
        let number = self.scripts.len();
        self.scripts.push(Some(Box::new(script)));
        self.push(self.now + after, What::Script { number });
    }

    fn push(&mut self, at: Instant, what: What) {
        let number = self.next_number;
        self.next_number += 1;
        self.queue.push(Reverse(Entry { at, number, what }));
    }

    /// Runs until `until`, or until nothing is left to happen.
    pub fn run_until(&mut self, until: Instant) {
        self.run_while(until, |_| true);
    }

    /// Runs for `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// Runs until `until`, or until `goes_on` says no; asked after every event.
    pub fn run_while(&mut self, until: Instant, mut goes_on: impl FnMut(&mut Self) -> bool) {
        while let Some(Reverse(entry)) = self.queue.peek() {
            if entry.at > until {
                break;
            }
            let Some(Reverse(entry)) = self.queue.pop() else {
                break;
            };
            self.now = self.now.max(entry.at);
            match entry.what {
                What::Deliver { flight } => self.deliver(flight),
                What::Wake { node } => self.wake(node, entry.at),
                What::Script { number } => {
                    if let Some(script) = self.scripts[number].take() {
                        script(self);
                    }
                }
            }
            if !goes_on(self) {
                return;
            }
        }
        self.now = self.now.max(until);
    }

    fn deliver(&mut self, flight: usize) {
        let packet = self.flights[flight].take().expect("delivered once");
        self.free.push(flight);
        let wire = &self.wires[packet.wire];
        let direction = if packet.forward {
            &wire.duplex.forward
        } else {
            &wire.duplex.backward
        };
        if !direction.still_delivers(packet.ticket) {
            return;
        }
        let (from, to) = if packet.forward {
            (wire.ends[0], wire.ends[1])
        } else {
            (wire.ends[1], wire.ends[0])
        };
        self.packets_delivered += 1;
        let received = Received {
            socket: to.1,
            remote: from.2,
            local_ip: None,
            ecn: packet.ecn,
            data: packet.data,
        };
        self.nodes[to.0].engine.handle_packet(self.now, received);
        self.settle(to.0);
    }

    fn wake(&mut self, node: NodeIndex, at: Instant) {
        let now = self.now;
        let state = &mut self.nodes[node];
        // A later wake-up replaced this one.
        if state.wake_at != Some(at) {
            return;
        }
        state.wake_at = None;
        if state.engine.poll_timeout().is_some_and(|at| at <= now) {
            state.engine.handle_timeout(now);
        }
        if state.app.next_wake().is_some_and(|at| at <= now) {
            let mut context = Context {
                now,
                engine: &mut state.engine,
            };
            state.app.as_app().on_wake(&mut context);
        }
        self.settle(node);
    }

    /// Lets a node say everything it has to say, then arms its timer.
    fn settle(&mut self, node: NodeIndex) {
        loop {
            self.transmit(node);
            let mut busy = false;
            while let Some(event) = self.nodes[node].engine.poll_event() {
                busy = true;
                if let Some(log) = &mut self.log {
                    log.note(self.now, node, format_args!("{event:?}"));
                }
                let state = &mut self.nodes[node];
                let mut context = Context {
                    now: self.now,
                    engine: &mut state.engine,
                };
                state.app.as_app().on_event(&mut context, event);
            }
            if !busy {
                break;
            }
        }
        let state = &mut self.nodes[node];
        let engine = state.engine.poll_timeout();
        let app = state.app.next_wake();
        let earliest = [engine, app].into_iter().flatten().min();
        if let Some(at) = earliest {
            let at = at.max(self.now);
            if state.wake_at.is_none_or(|armed| at != armed) {
                state.wake_at = Some(at);
                self.push(at, What::Wake { node });
            }
        }
    }

    fn transmit(&mut self, node: NodeIndex) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(transmit) =
            self.nodes[node]
                .engine
                .poll_transmit(self.now, BATCH_MAX, &mut buffer)
        {
            let route = self
                .routes
                .get(&(node, transmit.socket, transmit.remote))
                .copied();
            let Some((wire, forward)) = route else {
                continue;
            };
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            for payload in buffer[..transmit.size].chunks(segment) {
                self.offer(wire, forward, payload, transmit.ecn);
            }
        }
        self.buffer = buffer;
    }

    fn offer(&mut self, wire: WireIndex, forward: bool, payload: &[u8], ecn: Option<u8>) {
        let now = self.now;
        let duplex = &mut self.wires[wire].duplex;
        let link = if forward {
            &mut duplex.forward
        } else {
            &mut duplex.backward
        };
        let ip_bytes = payload.len() + IP_UDP_BYTES;
        let is_ect = ecn.is_some_and(|bits| bits & 0b11 != 0);
        let verdict = link.offer(now, ip_bytes, is_ect);
        if let Some(log) = &mut self.log {
            match &verdict {
                Verdict::Deliver { at, .. } => log.packet(
                    now,
                    wire,
                    forward,
                    ip_bytes,
                    format_args!("arrives {:.3} ms", at.as_millis_f64()),
                ),
                Verdict::Drop(reason) => log.packet(
                    now,
                    wire,
                    forward,
                    ip_bytes,
                    format_args!("dropped ({reason:?})"),
                ),
            }
        }
        let Verdict::Deliver {
            at,
            ticket,
            is_marked,
        } = verdict
        else {
            return;
        };
        let packet = InFlight {
            wire,
            forward,
            ticket,
            ecn: if is_marked { Some(0b11) } else { ecn },
            data: BytesMut::from(payload),
        };
        let flight = match self.free.pop() {
            Some(flight) => {
                self.flights[flight] = Some(packet);
                flight
            }
            None => {
                self.flights.push(Some(packet));
                self.flights.len() - 1
            }
        };
        self.push(at, What::Deliver { flight });
    }
}

fn node_key(index: NodeIndex) -> SecretKey {
    let mut seed = [0x5a; 32];
    seed[..8].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    SecretKey::from_seed(seed)
}
