//! Event queue, nodes, and the network between them.

use std::{any::Any, cmp::Reverse, collections::BinaryHeap, num::NonZeroUsize, time::Duration};

use anabranch_base::{Instant, NodeId, Seed, SocketId};
use anabranch_link::{
    ConfigError, Duplex, Traffic, duplex::Configs, stats::Count, traffic::Source,
};
use anabranch_session::{AllowList, Config, Engine, Link, Received, SecretKey, Undeliverable};

pub use crate::hop::NodeIndex;
use crate::{
    app::{App, Context},
    epoch,
    hop::{CrossIndex, Hop, RouteIndex, WireIndex},
    log::PacketLog,
    machine::{Machine, Raw},
    network::{Landed, Network, Wire},
};

/// Port of the sockets of wires, which have subnetworks by the wire's index.
const WIRE_PORT: u16 = 4433;
/// Port of the sockets of routes over several hops, which have subnetworks by the route's index.
const ROUTE_PORT: u16 = 4434;
/// Most packets of one batch, the limit of GSO.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(40).expect("not zero");

/// Most packets that wait for a suspended node, as in its kernel's buffer; more are lost.
const HELD_PACKETS_MAX: usize = 5000;

struct Node {
    machine: Machine,
    sockets: u64,
    wake_at: Option<Instant>,
    /// Packets that wait for the node while it is suspended, with their departures.
    held: Option<Vec<(Instant, Received)>>,
    restarts: u64,
    /// Report that packets to it cause, instead of being handled.
    refuses: Option<Undeliverable>,
}

impl Node {
    fn new(machine: Machine) -> Self {
        Self {
            machine,
            sockets: 0,
            wake_at: None,
            held: None,
            restarts: 0,
            refuses: None,
        }
    }
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
    Land { flight: usize },
    Cross { cross: CrossIndex },
    Wake { node: NodeIndex },
    Script { number: usize },
}

/// A change of the world at a given time.
type Script = Box<dyn FnOnce(&mut World)>;

/// Nodes, the network between them, and virtual time.
pub struct World {
    seed: Seed,
    now: Instant,
    nodes: Vec<Node>,
    network: Network,
    queue: BinaryHeap<Reverse<Entry>>,
    next_number: u64,
    scripts: Vec<Option<Script>>,
    /// Number of sources of cross-traffic so far; each has a seed of its own.
    cross_count: usize,
    log: Option<PacketLog>,
    buffer: Vec<u8>,
    /// Time at which the packet that a node is handling was sent.
    departed: Option<Instant>,
    /// Number of packets delivered to nodes so far.
    pub packets_delivered: u64,
}

impl World {
    /// An empty world at time 0.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            now: Instant::EPOCH,
            nodes: Vec::new(),
            network: Network::default(),
            queue: BinaryHeap::new(),
            next_number: 0,
            scripts: Vec::new(),
            cross_count: 0,
            log: None,
            buffer: Vec::new(),
            departed: None,
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

    /// The current virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The identity of the `index`-th node, whether or not it exists yet; the same for all seeds.
    pub fn node_id(index: NodeIndex) -> NodeId {
        node_key(index).node_id()
    }

    /// Adds a node that accepts sessions with the nodes on `allowed`.
    pub fn add_node(
        &mut self,
        config: Config,
        allowed: AllowList,
        app: impl App + Any,
    ) -> NodeIndex {
        let index = self.nodes.len();
        let entropy = self.seed.stream(&format!("node {index}")).seed_bytes();
        let engine = Engine::new(epoch::get(), node_key(index), allowed, config, entropy);
        self.nodes.push(Node::new(Machine::Host {
            engine: Box::new(engine),
            app: Box::new(app),
        }));
        index
    }

    /// Adds a node without an engine.
    pub fn add_raw(&mut self, raw: impl Raw + Any) -> NodeIndex {
        self.nodes.push(Node::new(Machine::Raw(Box::new(raw))));
        self.nodes.len() - 1
    }

    /// The key that the `index`-th node has as its identity, or would have.
    pub fn node_key(index: NodeIndex) -> SecretKey {
        node_key(index)
    }

    /// Number of nodes; the index of the next.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Starts a node again with its identity and its sockets, as after a crash: its state is lost, and its peers are
    /// not notified.
    pub fn restart(
        &mut self,
        node: NodeIndex,
        config: Config,
        allowed: AllowList,
        app: impl App + Any,
    ) {
        let state = &mut self.nodes[node];
        state.restarts += 1;
        let stream = format!("node {node}, start {}", state.restarts);
        let entropy = self.seed.stream(&stream).seed_bytes();
        let engine = Engine::new(epoch::get(), node_key(node), allowed, config, entropy);
        state.machine = Machine::Host {
            engine: Box::new(engine),
            app: Box::new(app),
        };
        state.wake_at = None;
        self.settle(node);
    }

    /// Suspends a node as its machine would be: time goes on, but it receives nothing and none of its timers fires.
    pub fn suspend(&mut self, node: NodeIndex) {
        self.nodes[node].held.get_or_insert_default();
    }

    /// Resumes a suspended node: it receives the packets that waited for it, then every timer that is due fires, at
    /// once.
    pub fn resume(&mut self, node: NodeIndex) {
        for (departed, received) in self.nodes[node].held.take().into_iter().flatten() {
            self.deliver(node, departed, received);
        }
        let now = self.now;
        self.nodes[node].wake_at = Some(now);
        self.wake(node, now);
    }

    /// From now on, packets to this node are not delivered, and cause this report to their senders, which takes as long as the
    /// packet took; `None`: they are delivered. [`Undeliverable::Port`]: nothing listens on the port.
    pub fn set_refusing(&mut self, node: NodeIndex, cause: Option<Undeliverable>) {
        self.nodes[node].refuses = cause;
    }

    /// Lets the network report that packets cannot be delivered: truly, or as an attacker would forge it.
    pub fn report_undeliverable(&mut self, node: NodeIndex, link: Link, cause: Undeliverable) {
        let now = self.now;
        if let Machine::Host { engine, .. } = &mut self.nodes[node].machine {
            engine.note_undeliverable(now, link.socket, link.remote, cause);
            self.settle(node);
        }
    }

    /// Joins two nodes by a wire; each gets a socket of its own for it.
    ///
    /// # Errors
    /// If the link's configuration is out of range.
    pub fn add_wire(
        &mut self,
        a: NodeIndex,
        b: NodeIndex,
        configs: Configs,
    ) -> Result<WireIndex, ConfigError> {
        let wire = self.add_trunk(configs)?;
        let sockets = [self.add_socket(a), self.add_socket(b)];
        let paths = [vec![Hop::forward(wire)], vec![Hop::backward(wire)]];
        let route = self.network.add_route(sockets, paths, (wire, WIRE_PORT));
        self.network.wires[wire].route = Some(route);
        Ok(wire)
    }

    /// Adds a wire between two points of the network at which no node needs to be. Routes and cross-traffic may take it.
    ///
    /// # Errors
    /// If the link's configuration is out of range.
    pub fn add_trunk(&mut self, configs: Configs) -> Result<WireIndex, ConfigError> {
        let index = self.network.wires.len();
        let duplex = Duplex::new(configs, self.seed.child(&format!("wire {index}")))?;
        self.network.wires.push(Wire::new(duplex));
        Ok(index)
    }

    /// Joins two nodes by hops from `a` to `b` and hops back; each gets a socket of its own for it. The hops may be shared with
    /// other routes and with cross-traffic.
    ///
    /// # Panics
    /// If there are no hops or a hop's wire does not exist: a mistake of the scenario.
    pub fn add_route(&mut self, [a, b]: [NodeIndex; 2], there: &[Hop], back: &[Hop]) -> RouteIndex {
        let socket = self.add_socket(a);
        self.add_route_from(socket, b, there, back)
    }

    /// The same from a socket that `a` has for an earlier route: the socket of a server, which all its clients share.
    ///
    /// # Panics
    /// As above, or if the earlier route does not end at `a`.
    pub fn add_route_beside(
        &mut self,
        [a, b]: [NodeIndex; 2],
        earlier: RouteIndex,
        there: &[Hop],
        back: &[Hop],
    ) -> RouteIndex {
        let socket = self.network.link(a, earlier).socket;
        self.add_route_from((a, socket), b, there, back)
    }

    fn add_route_from(
        &mut self,
        from: (NodeIndex, SocketId),
        to: NodeIndex,
        there: &[Hop],
        back: &[Hop],
    ) -> RouteIndex {
        self.check_hops(there);
        self.check_hops(back);
        let sockets = [from, self.add_socket(to)];
        let paths = [there.to_vec(), back.to_vec()];
        let number = self.network.routes();
        self.network.add_route(sockets, paths, (number, ROUTE_PORT))
    }

    /// Adds cross-traffic over these hops from now on; its packets vanish at the end.
    ///
    /// A world with cross-traffic never runs out of events: give [`Self::run_until`] a time at which to end.
    ///
    /// # Errors
    /// If the traffic has a value outside its range.
    ///
    /// # Panics
    /// If there are no hops or a hop's wire does not exist: a mistake of the scenario.
    pub fn add_cross_traffic(
        &mut self,
        hops: &[Hop],
        traffic: &Traffic,
    ) -> Result<CrossIndex, ConfigError> {
        self.check_hops(hops);
        let seed = Self::cross_seed(self.seed, self.cross_count);
        let source = Source::new(traffic, self.now, seed)?;
        self.cross_count += 1;
        let (cross, first) = self.network.add_cross(hops.to_vec(), source);
        if let Some(at) = first {
            self.push(at, What::Cross { cross });
        }
        Ok(cross)
    }

    /// The seed of the `index`-th source of cross-traffic of a world with this seed.
    pub fn cross_seed(world: Seed, index: CrossIndex) -> Seed {
        world.child(&format!("cross {index}"))
    }

    /// Stops a source of cross-traffic. Packets already sent continue.
    pub fn stop_cross_traffic(&mut self, cross: CrossIndex) {
        self.network.stop_cross(cross);
    }

    /// Packets of this cross-traffic that have reached the end of their hops.
    pub fn cross_arrived(&self, cross: CrossIndex) -> Count {
        self.network.cross_arrived(cross)
    }

    fn check_hops(&self, hops: &[Hop]) {
        let wires = self.network.wires.len();
        assert!(!hops.is_empty(), "a path without hops");
        assert!(
            hops.iter().all(|hop| hop.wire < wires),
            "a hop over a wire that does not exist"
        );
    }

    fn add_socket(&mut self, node: NodeIndex) -> (NodeIndex, SocketId) {
        let socket = SocketId(self.nodes[node].sockets);
        self.nodes[node].sockets += 1;
        (node, socket)
    }

    /// The link by which `node` reaches the other end of `wire`.
    ///
    /// # Panics
    /// If the node is at neither end.
    pub fn link(&self, node: NodeIndex, wire: WireIndex) -> Link {
        let route = self.network.wires[wire].route;
        self.route_link(node, route.expect("the wire joins two nodes"))
    }

    /// The link by which `node` reaches the other end of `route`.
    ///
    /// # Panics
    /// If the node is at neither end.
    pub fn route_link(&self, node: NodeIndex, route: RouteIndex) -> Link {
        self.network.link(node, route)
    }

    /// A wire, to inspect or to change.
    pub fn wire(&mut self, wire: WireIndex) -> &mut Wire {
        &mut self.network.wires[wire]
    }

    /// Violations, as text, of the rules that hold in every network at any time: packets are neither lost nor made
    /// without an account, and none is overtaken where order is kept.
    pub fn audit(&self) -> Vec<String> {
        self.network.audit()
    }

    /// Cuts or restores a wire.
    pub fn set_wire_up(&mut self, wire: WireIndex, up: bool) {
        let now = self.now;
        self.network.wires[wire].duplex.set_up(now, up);
        if let Some(log) = &mut self.log {
            let words = if up { "mended" } else { "cut" };
            let words = format_args!("wire {wire} {words}");
            match self.network.first_node(wire) {
                Some(node) => log.note(now, node, words),
                None => log.event(now, words),
            }
        }
    }

    /// The engine of a node.
    ///
    /// # Panics
    /// If it has none.
    pub fn engine(&mut self, node: NodeIndex) -> &mut Engine {
        self.nodes[node].machine.host().0
    }

    /// The application of a node.
    ///
    /// # Panics
    /// If it is not a `T`.
    pub fn app<T: 'static>(&mut self, node: NodeIndex) -> &mut T {
        let app = match &mut self.nodes[node].machine {
            Machine::Host { app, .. } => (**app).as_any(),
            Machine::Raw(raw) => (**raw).as_any(),
        };
        app.downcast_mut()
            .expect("the scenario knows what it put there")
    }

    /// Lets the scenario act as the node's application, now.
    pub fn with_node<R>(&mut self, node: NodeIndex, act: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let mut context = Context {
            now: self.now,
            engine: self.nodes[node].machine.host().0,
            departed: None,
        };
        let result = act(&mut context);
        self.settle(node);
        result
    }

    /// The same, with access to the application itself.
    ///
    /// # Panics
    /// If it is not a `T`.
    pub fn with_app<T: 'static, R>(
        &mut self,
        node: NodeIndex,
        act: impl FnOnce(&mut T, &mut Context<'_>) -> R,
    ) -> R {
        let (engine, app) = self.nodes[node].machine.host();
        let app = app
            .as_any()
            .downcast_mut()
            .expect("the scenario knows what it put there");
        let mut context = Context {
            now: self.now,
            engine,
            departed: None,
        };
        let result = act(app, &mut context);
        self.settle(node);
        result
    }

    /// Polls a node for packets and its next timer again, after a scenario has changed it.
    pub fn nudge(&mut self, node: NodeIndex) {
        self.settle(node);
    }

    /// Bytes of packets in transit, on all wires.
    pub fn bytes_under_way(&self) -> u64 {
        self.network.bytes_under_way()
    }

    /// Schedules a change of the world, `after` from now.
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

    /// Runs until `until`, or until no event is left.
    pub fn run_until(&mut self, until: Instant) {
        self.run_while(until, |_| true);
    }

    /// Runs for `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// Runs until `until`, or until `goes_on` returns false; asked after every event.
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
                What::Land { flight } => self.land(flight),
                What::Cross { cross } => self.send_cross(cross),
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

    fn deliver(&mut self, node: NodeIndex, departed: Instant, received: Received) {
        if let Some(cause) = self.nodes[node].refuses {
            let sender = self.network.sender(node, received.socket, received.remote);
            if let Some((sender, socket, remote)) = sender {
                self.schedule(self.now.since(departed), move |world| {
                    world.report_undeliverable(sender, Link { socket, remote }, cause);
                });
            }
            return;
        }
        self.packets_delivered += 1;
        self.nodes[node].machine.handle_packet(self.now, received);
        self.departed = Some(departed);
        self.settle(node);
        self.departed = None;
    }

    fn land(&mut self, flight: usize) {
        match self.network.land(self.now, flight, self.log.as_mut()) {
            Landed::Gone => {}
            Landed::Onward { at, flight } => self.push(at, What::Land { flight }),
            Landed::At {
                node,
                departed,
                received,
            } => match &mut self.nodes[node].held {
                Some(held) if held.len() < HELD_PACKETS_MAX => held.push((departed, received)),
                Some(_) => {}
                None => self.deliver(node, departed, received),
            },
        }
    }

    fn send_cross(&mut self, cross: CrossIndex) {
        let (sent, again) = self.network.send_cross(self.now, cross, self.log.as_mut());
        if let Some((at, flight)) = sent {
            self.push(at, What::Land { flight });
        }
        if let Some(at) = again {
            self.push(at, What::Cross { cross });
        }
    }

    fn wake(&mut self, node: NodeIndex, at: Instant) {
        let now = self.now;
        let state = &mut self.nodes[node];
        if state.held.is_some() {
            return;
        }
        // A later wake-up replaced this one.
        if state.wake_at != Some(at) {
            return;
        }
        state.wake_at = None;
        state.machine.wake(now);
        self.settle(node);
    }

    /// Sends everything that a node has to send, then arms its timer.
    fn settle(&mut self, node: NodeIndex) {
        loop {
            self.transmit(node);
            let (now, departed) = (self.now, self.departed);
            let log = self.log.as_mut().map(|log| (log, node));
            if !self.nodes[node].machine.dispatch(now, departed, log) {
                break;
            }
        }
        let state = &mut self.nodes[node];
        let earliest = state.machine.next_wake();
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
                .machine
                .poll_transmit(self.now, BATCH_MAX, &mut buffer)
        {
            let route = self.network.find(node, transmit.socket, transmit.remote);
            let Some(route) = route else {
                continue;
            };
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            for payload in buffer[..transmit.size].chunks(segment) {
                let packet = (payload, transmit.ecn);
                let log = self.log.as_mut();
                if let Some((at, flight)) = self.network.send(self.now, route, packet, log) {
                    self.push(at, What::Land { flight });
                }
            }
        }
        self.buffer = buffer;
    }
}

fn node_key(index: NodeIndex) -> SecretKey {
    let mut seed = [0x5a; 32];
    seed[..8].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    SecretKey::from_seed(seed)
}
