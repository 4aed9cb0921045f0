//! One node's part in the overlay.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Agent`]: inputs, outputs and queries |
//! | `event` | [`Output`], [`Event`], views |
//! | `change` | other members and settings while the agent runs |
//! | `peer` | state of the session with one member |
//! | `sessions` | choice of members with which a session is wanted |
//! | `reach` | the addresses at which members are dialled |
//! | `receive` | messages from members, frame by frame |
//! | `spread` | dissemination of records and claims: pushed along a tree, repaired by digests |
//! | `watch` | the tick: heartbeats, accusations, expiry |
//! | `publish` | this node's own record |
//! | `load` | this node's load, if it processes streams, and those of others |
//! | `interest` | destinations of other members, so that relays know their links to them |
//! | `probing` | probing of links: choice, times and results |
//! | `routing` | choice of paths, and state of those in use |
//! | `blame` | penalties of links and relays on paths that fail or fall short |

mod blame;
mod change;
mod event;
mod interest;
mod load;
mod peer;
mod probing;
mod publish;
mod reach;
mod receive;
mod routing;
mod sessions;
mod spread;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Random, Seed};

pub use change::Setup;
pub use event::{Event, LinkView, MemberView, Output, Refused};
pub use probing::Sample;

use crate::{
    config::{Config, ConfigError, Member},
    keys::Keys,
    members::{MemberTable, State},
    paths::{keep::Kept, trust::Trust},
    wire::{MESSAGE_BYTES_MAX, Record, load::LOAD_BYTES_MAX, record},
};
use peer::Peer;
use probing::Probing;
use publish::Own;
use reach::Reach;
use routing::Paths;

/// One node's part in the overlay: the members, the quality of their links, and the paths to take.
///
/// Sans-IO. The host hands in each event with the time, and then takes [`Output`]s until there are none:
///
/// ```text
///   message from a member ──► handle_message ──┐
///   session up or down    ──► handle_session ──┼──► poll_output until None: send, connect, report
///   timer                 ──► handle_timeout ──┘    poll_timeout: arm the timer
///   probe done            ──► handle_probe
///   real traffic          ──► handle_sample, handle_path_rate, handle_path_failed
/// ```
///
/// Between two members there is, on demand, one authenticated session; the agent requests it ([`Output::Connect`]) and
/// releases it ([`Output::Disconnect`]). So the agent knows the sender of every message, and no message of a stranger
/// reaches it.
pub struct Agent {
    config: Config,
    keys: Box<dyn Keys>,
    member_table: MemberTable,
    /// Indexed by the member's place in the member table.
    peers: Vec<Peer>,
    /// Members with a session, or with one requested: the only ones that ticks visit.
    active: BTreeSet<usize>,
    ring: RingChoice,
    own: Own,
    reach: Reach,
    probing: Probing,
    trust: Trust,
    paths: Paths,
    /// Destinations with their routes, by place in the member table.
    wants: BTreeMap<usize, Kept>,
    outputs: VecDeque<Output>,
    /// Members for which frames are queued.
    unsent: Vec<usize>,
    random: Random,
    refused: Refused,
    has_left: bool,
    timers: Timers,
    /// States before the present input, from which changes are reported to the host.
    shown: Vec<State>,
    started_at: Instant,
}

/// Choice of the members with which the ring wants a session.
#[derive(Clone, Debug)]
struct RingChoice {
    /// In the order of the ring: those it monitors first.
    neighbours: Vec<usize>,
    /// True if members came or went since the neighbours were chosen.
    is_stale: bool,
}

/// Times at which the agent acts by itself.
#[derive(Clone, Copy, Debug)]
struct Timers {
    next_choice: Instant,
    next_tick: Instant,
    next_beat: Instant,
    next_search: Instant,
    search_gap: Duration,
    /// Earliest time of the next digest, to any member.
    next_digest: Instant,
}

/// Least time between two choices of neighbours.
const CHOICE_GAP: Duration = Duration::from_secs(1);
/// Ticks in a heartbeat.
const TICKS: u32 = 4;

impl Agent {
    /// The agent of node `me`, in the overlay of `members` (with or without `me`): the configured list. No other node
    /// is ever admitted. `seed` randomises timers and choices.
    ///
    /// # Errors
    /// A setting outside its range; two members whose keys have the same first six bytes.
    pub fn new(
        config: Config,
        me: NodeId,
        members: &[Member],
        keys: Box<dyn Keys>,
        seed: Seed,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let setup = Setup::new(config, me, members.to_vec())?;
        Ok(Self::of(setup, keys, seed, now))
    }

    /// The agent of a node with settings and members that were checked.
    pub fn of(setup: Setup, keys: Box<dyn Keys>, seed: Seed, now: Instant) -> Self {
        let Setup {
            config,
            members,
            member_table,
        } = setup;
        let mut random = seed.stream("agent");
        let tick = config.heartbeat / TICKS;
        let count = member_table.len();
        let phase = config.heartbeat.mul_f64(random.unit());
        let own = Own::new(
            config.version,
            config.addresses.clone(),
            config.routing.relays,
        );
        let mut agent = Self {
            peers: vec![Peer::default(); count],
            active: BTreeSet::new(),
            ring: RingChoice {
                neighbours: Vec::new(),
                is_stale: true,
            },
            own,
            reach: Reach::new(&member_table, &members),
            probing: Probing::new(&config.probing, now),
            trust: Trust::default(),
            paths: Paths::default(),
            wants: BTreeMap::new(),
            outputs: VecDeque::new(),
            unsent: Vec::new(),
            refused: Refused::default(),
            has_left: false,
            shown: vec![State::Unknown; count],
            started_at: now,
            timers: Timers {
                next_choice: now,
                next_tick: now + tick.mul_f64(random.unit()),
                next_beat: now + phase,
                next_search: now,
                search_gap: config.heartbeat,
                next_digest: now,
            },
            random,
            config,
            keys,
            member_table,
        };
        agent.publish(now);
        agent.settle(now);
        agent
    }

    /// Names a live member to join through. The agent also finds one by itself, in the order of the seeds and then at
    /// random.
    ///
    /// # Errors
    /// [`UnknownMember`] when `via` is not on the list.
    pub fn join(&mut self, via: NodeId, now: Instant) -> Result<(), UnknownMember> {
        let at = self.member_table.find(&via).ok_or(UnknownMember)?;
        self.dial(at, now);
        Ok(())
    }

    /// Leaves the overlay. The farewell is among the next outputs; no outputs follow it.
    pub fn leave(&mut self, now: Instant) {
        if !self.has_left {
            self.publish_farewell(now);
            self.has_left = true;
        }
    }

    /// Handles a message of `from`, with which the host has an authenticated session. Content that cannot be accepted is
    /// counted ([`Self::refused`]) and dropped.
    pub fn handle_message(&mut self, from: &NodeId, message: &[u8], now: Instant) {
        if self.has_left {
            return;
        }
        match self.member_place(from) {
            Some(at) => self.receive(at, message, now),
            None => self.refused.strangers += 1,
        }
        self.settle(now);
    }

    /// Handles a change of the session with `peer`: it is up, whichever side began it, or it is down or could not be
    /// established.
    pub fn handle_session(&mut self, peer: &NodeId, is_up: bool, now: Instant) {
        if self.has_left {
            return;
        }
        match self.member_place(peer) {
            Some(at) if is_up => self.session_up(at, now),
            Some(at) => self.session_down(at, now),
            None => self.refused.strangers += 1,
        }
        self.settle(now);
    }

    /// Takes a member out of the overlay as far as this node is concerned, or lets it in again. A barred member is
    /// ignored: no session is wanted with it, its messages are dropped, and no path leads over it. Its records are
    /// still passed on, so that the nodes for which it is a member agree on its state. A member that is let in again is
    /// back with its next record.
    pub fn set_barred(&mut self, node: &NodeId, is_barred: bool, now: Instant) {
        let Some(at) = self
            .member_table
            .find(node)
            .filter(|&at| at != self.member_table.me)
        else {
            return;
        };
        if self.member_table.entry(at).is_barred == is_barred {
            return;
        }
        self.member_table.set_barred(at, is_barred, now);
        if is_barred {
            self.session_down(at, now);
            self.peers[at].lost_at = None;
        } else {
            self.peers[at].retry_at = now;
        }
        self.ring.is_stale = true;
        self.paths_stale(true);
        self.settle(now);
    }

    /// The place of another node that counts as a member here.
    fn member_place(&self, node: &NodeId) -> Option<usize> {
        let at = self.member_table.find(node)?;
        (at != self.member_table.me && !self.member_table.entry(at).is_barred).then_some(at)
    }

    /// Performs the work due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.has_left || now < self.timers.next_tick {
            return;
        }
        self.timers.next_tick = now + self.config.heartbeat / TICKS;
        self.tick(now);
        self.settle(now);
    }

    /// Time at which [`Self::handle_timeout`] wants to be called next; `None` after the farewell.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (!self.has_left).then_some(self.timers.next_tick)
    }

    /// Next request to the host.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// This node.
    pub fn me(&self) -> NodeId {
        self.member_table.entry(self.member_table.me).node
    }

    /// All members on the list, this node included, in the order of their keys.
    pub fn members(&self, now: Instant) -> impl Iterator<Item = MemberView> + '_ {
        (0..self.member_table.len()).map(move |at| self.member_at(at, now))
    }

    /// One member; `None` when it is not on the list.
    pub fn member(&self, node: &NodeId, now: Instant) -> Option<MemberView> {
        self.member_table
            .find(node)
            .map(|at| self.member_at(at, now))
    }

    fn member_at(&self, at: usize, now: Instant) -> MemberView {
        let entry = self.member_table.entry(at);
        MemberView {
            node: entry.node,
            state: entry.state,
            version: entry.version,
            record_age: entry.record.as_ref().map(|_| entry.held(now)),
            last_received: self.peers[at].last_received_at.map(|at| now.since(at)),
            has_session: self.peers[at].is_up(),
            load: entry.load(),
        }
    }

    /// The current record of `node`, published by itself; `None` when none was received.
    pub fn record(&self, node: &NodeId) -> Option<Record> {
        let entry = self.member_table.entry(self.member_table.find(node)?);
        Record::decode(entry.record.as_ref()?).ok()
    }

    /// Summary of the member table: equal at two nodes that hold the same records and claims.
    pub fn summary(&self) -> u32 {
        self.member_table.summary()
    }

    /// Counts of rejected messages, records and claims, by reason.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Completes every input: chooses neighbours again if members changed, flushes frames, and reports changes to the
    /// host.
    fn settle(&mut self, now: Instant) {
        for at in self.member_table.take_changed() {
            let (before, state) = (self.shown[at], self.member_table.entry(at).state);
            if before != state {
                self.ring.is_stale |= before.is_live() != state.is_live();
                self.paths_stale(matches!(state, State::Down | State::Left));
                self.shown[at] = state;
                if at != self.member_table.me {
                    let node = self.member_table.entry(at).node;
                    self.outputs
                        .extend(Event::of_change(node, before, state).map(Output::Event));
                }
            }
        }
        // When many members come at once, each of them would move sessions; a lone node takes any neighbour.
        let is_lone = self.ring.neighbours.is_empty();
        if self.ring.is_stale && (is_lone || now >= self.timers.next_choice) {
            self.ring.is_stale = false;
            self.timers.next_choice = now + CHOICE_GAP;
            self.choose_neighbours(now);
            self.probing_is_stale();
        }
        self.look(now);
        self.flush();
    }

    fn push_record_of(&self, at: usize, now: Instant, is_pushed: bool) -> Option<Vec<u8>> {
        let entry = self.member_table.entry(at);
        let bytes = entry.record.as_ref()?;
        let mut out = Vec::with_capacity(bytes.len() + 12);
        let frame = crate::wire::Frame::Record {
            held: entry.held(now),
            is_pushed,
            bytes,
        };
        frame.write(&mut out);
        Some(out)
    }

    fn load_frame_of(&self, at: usize) -> Option<Vec<u8>> {
        let bytes = self.member_table.entry(at).load.as_ref()?;
        let mut out = Vec::with_capacity(bytes.len() + 3);
        crate::wire::Frame::Load { bytes }.write(&mut out);
        Some(out)
    }

    fn claim_frame_of(&self, at: usize) -> Option<Vec<u8>> {
        let bytes = self.member_table.entry(at).claim.as_ref()?;
        let mut out = Vec::with_capacity(bytes.len() + 3);
        crate::wire::Frame::Claim { bytes }.write(&mut out);
        Some(out)
    }
}

/// The node is not on the list of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node is not on the list of members; add it to the list of every member first")]
pub struct UnknownMember;

/// Refresh interval in an overlay of `live` nodes.
fn refresh_interval(config: &Config, live: usize) -> Duration {
    config.refresh.mul_f64((live as f64 / 50.0).max(1.0))
}

const _: () = assert!(record::RECORD_BYTES_MAX + LOAD_BYTES_MAX + 32 <= MESSAGE_BYTES_MAX);
