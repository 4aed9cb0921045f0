//! Many overlay agents in virtual time, without the engine between them.
//!
//! Messages travel directly, with delay, jitter and loss, over sessions that come up after a round trip; so a thousand
//! nodes and an hour take seconds. The overhead of the sessions themselves on the wire (handshakes, acknowledgements,
//! keep-alives) is not simulated; [`Traffic`] counts [`MESSAGE_OVERHEAD_BYTES`] for each message and the number of
//! sessions that came up. For the full stack, put an agent on an [`App`](crate::App).
//!
//! | file | contents |
//! |---|---|
//! | `mod` | [`Agents`]: the event queue, nodes that start, crash and leave, partitions |
//! | [`carry`] | traffic over the paths that agents choose |
//! | [`host`], [`mesh`] | an agent over the real engine, and a full mesh of such hosts |
//! | [`check`] | rules that hold when the network is quiet |

pub mod carry;
pub mod check;
pub mod host;
pub mod mesh;

use std::{
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Random, Rate, Seed};
use anabranch_overlay::{Agent, Config, ConfigError, Event, FakeKeys, Member, Output};

/// Approximate overhead of a message: QUIC's short header, its authentication, a fragment's header, UDP.
pub const MESSAGE_OVERHEAD_BYTES: u64 = 40;
/// Time-out of a handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Idle time-out of a session.
const IDLE: Duration = Duration::from_secs(30);

/// Traffic sent by a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Number of messages.
    pub messages: u64,
    /// Their size in bytes, including [`MESSAGE_OVERHEAD_BYTES`] for each.
    pub bytes: u64,
    /// Sessions that this node requested and that came up.
    pub sessions: u64,
    /// Bytes of test messages.
    pub probe_bytes: u64,
}

/// Model of the network between the nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Net {
    /// One-way delay across the square in which nodes are placed at random; the delay between two of them is their
    /// distance plus a millisecond.
    pub span: Duration,
    /// Mean of an additional exponential delay.
    pub jitter: Duration,
    /// Probability that a message is lost.
    pub loss: f64,
    /// Least and largest rate of a link, log-uniform between them, the same in both directions.
    pub rates: (Rate, Rate),
    /// Relative standard deviation of the rates that traffic and test messages measure.
    pub noise: f64,
}

impl Default for Net {
    fn default() -> Self {
        Self {
            span: Duration::from_millis(60),
            jitter: Duration::from_millis(1),
            loss: 0.005,
            rates: (Rate::from_mbps(10), Rate::from_mbps(200)),
            noise: 0.03,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Message {
        to: usize,
        from: usize,
        life: u32,
        bytes: Vec<u8>,
    },
    Session {
        at: usize,
        with: usize,
        life: u32,
        is_up: bool,
    },
    Timer {
        at: usize,
        life: u32,
    },
    Probe {
        at: usize,
        to: usize,
        life: u32,
        id: u64,
        took: Duration,
    },
    /// A host checks the traffic that it carries.
    Carry {
        load: usize,
    },
}

#[derive(Debug, PartialEq, Eq)]
struct Due {
    at: Instant,
    order: u64,
    what: What,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Node {
    agent: Option<Agent>,
    /// Number of starts, so that events of an earlier life are not taken for this one's.
    life: u32,
    place: (f64, f64),
    island: u32,
    timer_at: Option<Instant>,
    traffic: Traffic,
    events: Vec<(Instant, Event)>,
}

/// Nodes with one agent each.
pub struct Agents {
    now: Instant,
    order: u64,
    queue: BinaryHeap<Due>,
    ids: Vec<NodeId>,
    by_id: BTreeMap<NodeId, usize>,
    nodes: Vec<Node>,
    /// Sessions that are up: (lower, higher) node with their lives.
    sessions: BTreeMap<(usize, usize), (u32, u32)>,
    /// Rates of directed links that were changed.
    rates: BTreeMap<(usize, usize), Rate>,
    loads: Vec<carry::Load>,
    net: Net,
    random: Random,
    seed: Seed,
    config: Config,
    strangers: BTreeSet<usize>,
}

/// The id of the `n`-th node.
pub fn node_id(n: usize) -> NodeId {
    let mut key = [0; 32];
    Seed(n as u64).stream("node id").fill(&mut key);
    NodeId::from_public_key(key)
}

impl Agents {
    /// `count` nodes, none of them running, all with the configuration `config`.
    pub fn new(count: usize, config: Config, net: Net, seed: Seed) -> Self {
        let mut random = seed.stream("agents");
        let ids: Vec<NodeId> = (0..count).map(node_id).collect();
        let span = net.span.as_secs_f64();
        let nodes = (0..count)
            .map(|_| Node {
                agent: None,
                life: 0,
                place: (random.uniform(0.0, span), random.uniform(0.0, span)),
                island: 0,
                timer_at: None,
                traffic: Traffic::default(),
                events: Vec::new(),
            })
            .collect();
        Self {
            now: Instant::EPOCH,
            order: 0,
            queue: BinaryHeap::new(),
            by_id: ids.iter().enumerate().map(|(n, id)| (*id, n)).collect(),
            ids,
            nodes,
            sessions: BTreeMap::new(),
            rates: BTreeMap::new(),
            loads: Vec::new(),
            net,
            random,
            seed,
            config,
            strangers: BTreeSet::new(),
        }
    }

    /// Makes node `n` a stranger: the others are on its list, but it is not on theirs. Only before any node starts.
    pub fn estrange(&mut self, n: usize) {
        self.strangers.insert(n);
    }

    /// True if node `n` is on no list but its own.
    pub fn is_stranger(&self, n: usize) -> bool {
        self.strangers.contains(&n)
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The id of node `n`.
    pub fn id(&self, n: usize) -> NodeId {
        self.ids[n]
    }

    /// The node with this id.
    ///
    /// # Panics
    /// If there is none.
    pub fn index(&self, id: &NodeId) -> usize {
        self.by_id[id]
    }

    /// The agent of node `n`, while it runs, and the time; its requests are carried out with the next event.
    pub fn agent_mut(&mut self, n: usize) -> Option<(&mut Agent, Instant)> {
        let now = self.now;
        self.nodes[n].agent.as_mut().map(|agent| (agent, now))
    }

    /// The agent of node `n`, while it runs.
    pub fn agent(&self, n: usize) -> Option<&Agent> {
        self.nodes[n].agent.as_ref()
    }

    /// Traffic that node `n` has sent so far.
    pub fn traffic(&self, n: usize) -> Traffic {
        self.nodes[n].traffic
    }

    /// Events that the agents of node `n` reported to their host so far, over all its lives.
    pub fn events(&self, n: usize) -> &[(Instant, Event)] {
        &self.nodes[n].events
    }

    /// Sessions that are up.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Starts node `n` (again); `via` is the member whose address it is given.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn start(&mut self, n: usize, via: Option<usize>) -> Result<(), ConfigError> {
        let members: Vec<Member> = (0..self.nodes.len())
            .filter(|&other| other == n || !self.is_stranger(other))
            .map(|other| Member {
                node: self.ids[other],
                addresses: Vec::new(),
            })
            .collect();
        let mut config = self.config.clone();
        config.seeds = via.iter().map(|&via| self.ids[via]).collect();
        let life = self.nodes[n].life + 1;
        let seed = self.seed.child(&format!("node {n} life {life}"));
        let keys = Box::new(FakeKeys(self.ids[n]));
        let agent = Agent::new(config, self.ids[n], &members, keys, seed, self.now)?;
        let node = &mut self.nodes[n];
        node.agent = Some(agent);
        node.life = life;
        node.timer_at = None;
        self.drain(n);
        Ok(())
    }

    /// Stops node `n` without notice; it may be started again.
    pub fn crash(&mut self, n: usize) {
        self.nodes[n].agent = None;
    }

    /// Makes node `n` announce its leave and stop.
    pub fn leave(&mut self, n: usize) {
        let now = self.now;
        if let Some(agent) = &mut self.nodes[n].agent {
            agent.leave(now);
        }
        self.drain(n);
        self.crash(n);
    }

    /// Restricts messages from now on to nodes of the same island.
    pub fn partition(&mut self, island: impl Fn(usize) -> u32) {
        for (n, node) in self.nodes.iter_mut().enumerate() {
            node.island = island(n);
        }
    }

    /// Changes the loss of messages from now on.
    pub fn set_loss(&mut self, loss: f64) {
        self.net.loss = loss;
    }

    /// Runs for `time`.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.queue.peek().is_some_and(|due| due.at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Runs until `is_done`, which is checked every `every`; returns the time it took, or `None` if it took more than
    /// `limit`.
    pub fn run_until(
        &mut self,
        limit: Duration,
        every: Duration,
        mut is_done: impl FnMut(&Self) -> bool,
    ) -> Option<Duration> {
        let begin = self.now;
        loop {
            if is_done(self) {
                return Some(self.now.since(begin));
            }
            if self.now.since(begin) >= limit {
                return None;
            }
            self.run_for(every);
        }
    }

    /// One-way delay between two nodes, without jitter.
    pub fn delay(&self, a: usize, b: usize) -> Duration {
        let (a, b) = (self.nodes[a].place, self.nodes[b].place);
        Duration::from_secs_f64((a.0 - b.0).hypot(a.1 - b.1) + 0.001)
    }

    /// Rate of the link from `a` to `b`.
    pub fn rate(&self, a: usize, b: usize) -> Rate {
        self.rates.get(&(a, b)).copied().unwrap_or_else(|| {
            let name = format!("rate of {} and {}", a.min(b), a.max(b));
            let (low, high) = self.net.rates;
            let (low, high) = ((low.as_bps() as f64).ln(), (high.as_bps() as f64).ln());
            Rate::from_bps(self.seed.stream(&name).uniform(low, high).exp() as u64)
        })
    }

    /// Changes the rate of the link from `a` to `b`.
    pub fn set_rate(&mut self, a: usize, b: usize, rate: Rate) {
        self.rates.insert((a, b), rate);
    }

    /// Rate as traffic measures it.
    fn noisy(&mut self, rate: Rate) -> Rate {
        rate * self.random.normal(1.0, self.net.noise).max(0.1)
    }

    fn travel(&mut self, a: usize, b: usize) -> Duration {
        let jitter = self.random.exponential(self.net.jitter.as_secs_f64());
        self.delay(a, b) + Duration::from_secs_f64(jitter)
    }

    fn can_reach(&self, a: usize, b: usize) -> bool {
        self.nodes[a].island == self.nodes[b].island
    }

    fn schedule(&mut self, at: Instant, what: What) {
        self.order += 1;
        self.queue.push(Due {
            at,
            order: self.order,
            what,
        });
    }

    fn step(&mut self) {
        let Some(due) = self.queue.pop() else {
            return;
        };
        self.now = due.at;
        let now = self.now;
        match due.what {
            What::Message {
                to,
                from,
                life,
                bytes,
            } => {
                let from_id = self.ids[from];
                let node = &mut self.nodes[to];
                if let Some(agent) = node.agent.as_mut().filter(|_| node.life == life) {
                    agent.handle_message(&from_id, &bytes, now);
                    self.drain(to);
                }
            }
            What::Session {
                at,
                with,
                life,
                is_up,
            } => {
                let with_id = self.ids[with];
                let node = &mut self.nodes[at];
                if let Some(agent) = node.agent.as_mut().filter(|_| node.life == life) {
                    agent.handle_session(&with_id, is_up, now);
                    self.drain(at);
                }
            }
            What::Probe {
                at,
                to,
                life,
                id,
                took,
            } => {
                let to = self.ids[to];
                let node = &mut self.nodes[at];
                if let Some(agent) = node.agent.as_mut().filter(|_| node.life == life) {
                    agent.handle_probe(&to, id, Some(took), now);
                    self.drain(at);
                }
            }
            What::Carry { load } => self.look_at_load(load),
            What::Timer { at, life } => {
                let node = &mut self.nodes[at];
                if node.life == life && node.timer_at == Some(now) {
                    node.timer_at = None;
                    if let Some(agent) = &mut node.agent {
                        agent.handle_timeout(now);
                        self.drain(at);
                    }
                }
            }
        }
    }

    /// Carries out the requests of the agent of `n`.
    fn drain(&mut self, n: usize) {
        while let Some(output) = self.nodes[n].agent.as_mut().and_then(Agent::poll_output) {
            match output {
                Output::Connect(with) => self.connect(n, self.by_id[&with]),
                Output::Disconnect(with) => self.disconnect(n, self.by_id[&with]),
                Output::Send { to, bytes } => self.send(n, self.by_id[&to], bytes),
                Output::Probe { to, id, bytes } => self.probe(n, self.by_id[&to], id, bytes),
                Output::Event(event) => self.nodes[n].events.push((self.now, event)),
                _ => {}
            }
        }
        let node = &mut self.nodes[n];
        let wanted = node.agent.as_ref().and_then(Agent::poll_timeout);
        if let Some(at) = wanted.filter(|&at| node.timer_at.is_none_or(|armed| at < armed)) {
            let at = at.max(self.now);
            node.timer_at = Some(at);
            let life = node.life;
            self.schedule(at, What::Timer { at: n, life });
        }
    }

    fn schedule_session(&mut self, at: usize, with: usize, after: Duration, is_up: bool) {
        let life = self.nodes[at].life;
        self.schedule(
            self.now + after,
            What::Session {
                at,
                with,
                life,
                is_up,
            },
        );
    }

    /// Starts a handshake, which takes a round trip; it succeeds if both nodes run, can reach each other, and are on
    /// each other's lists.
    fn connect(&mut self, from: usize, to: usize) {
        let pair = (from.min(to), from.max(to));
        let lives = (self.nodes[pair.0].life, self.nodes[pair.1].life);
        let known = !self.is_stranger(from) && !self.is_stranger(to);
        let answers = self.nodes[to].agent.is_some() && self.can_reach(from, to) && known;
        if !answers {
            self.schedule_session(from, to, CONNECT_WITHIN, false);
            return;
        }
        let round_trip = self.travel(from, to) + self.travel(to, from);
        if self.sessions.insert(pair, lives) != Some(lives) {
            self.nodes[from].traffic.sessions += 1;
        }
        self.schedule_session(from, to, round_trip, true);
        self.schedule_session(to, from, round_trip, true);
    }

    /// Sends a test message, which takes its transmission time and a round trip; a lost packet costs another round
    /// trip.
    fn probe(&mut self, from: usize, to: usize, id: u64, bytes: u64) {
        self.nodes[from].traffic.probe_bytes += bytes;
        let pair = (from.min(to), from.max(to));
        let lives = (self.nodes[pair.0].life, self.nodes[pair.1].life);
        let is_alive = self.sessions.get(&pair) == Some(&lives)
            && self.nodes[to].agent.is_some()
            && self.can_reach(from, to);
        if !is_alive {
            return;
        }
        let round_trip = self.travel(from, to) + self.travel(to, from);
        let rate = self.rate(from, to);
        let rate = self.noisy(rate);
        let repairs = u32::from(self.random.chance(self.net.loss));
        let took = rate.time_to_send(bytes) + round_trip * (1 + repairs);
        let life = self.nodes[from].life;
        self.schedule(
            self.now + took,
            What::Probe {
                at: from,
                to,
                life,
                id,
                took,
            },
        );
    }

    fn disconnect(&mut self, from: usize, to: usize) {
        if self
            .sessions
            .remove(&(from.min(to), from.max(to)))
            .is_some()
        {
            let delay = self.travel(from, to);
            self.schedule_session(to, from, delay, false);
        }
    }

    fn send(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        assert!(bytes.len() <= anabranch_overlay::wire::MESSAGE_BYTES_MAX);
        let traffic = &mut self.nodes[from].traffic;
        traffic.messages += 1;
        traffic.bytes += bytes.len() as u64 + MESSAGE_OVERHEAD_BYTES;
        let pair = (from.min(to), from.max(to));
        let lives = (self.nodes[pair.0].life, self.nodes[pair.1].life);
        let Some(&session) = self.sessions.get(&pair) else {
            return;
        };
        if !self.can_reach(from, to) || self.nodes[to].agent.is_none() {
            // The host detects it after the idle time-out.
            self.sessions.remove(&pair);
            self.schedule_session(from, to, IDLE, false);
            return;
        }
        if session != lives {
            // The other end has no such session any more, and reports it.
            self.sessions.remove(&pair);
            let round_trip = self.travel(from, to) + self.travel(to, from);
            self.schedule_session(from, to, round_trip, false);
            return;
        }
        if self.random.chance(self.net.loss) {
            return;
        }
        let delay = self.travel(from, to);
        let life = self.nodes[to].life;
        self.schedule(
            self.now + delay,
            What::Message {
                to,
                from,
                life,
                bytes,
            },
        );
    }
}
