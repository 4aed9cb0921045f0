//! Other members and settings while the agent runs.
//!
//! The state of a member is kept by its place in the member table, which is sorted by keys: with other members, everything moves.
//! Whatever is known of those that stay is kept: records, sessions, measurements, trust and the paths in use.

use anabranch_base::{Instant, NodeId};

use super::{
    Agent, State,
    peer::{Peer, Session},
    reach::Reach,
};
use crate::{
    config::{Config, ConfigError, Member},
    members::MemberTable,
};

/// New members that are dialled at once; the others are found by the usual search, or announce themselves.
const DIALLED: usize = 8;

/// Settings and members of an agent, checked.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(super) config: Config,
    pub(super) members: Vec<Member>,
    pub(super) member_table: MemberTable,
}

impl Setup {
    /// Settings and members (with or without itself) of the node `me`.
    ///
    /// # Errors
    /// As [`Agent::new`].
    pub fn new(config: Config, me: NodeId, members: Vec<Member>) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            member_table: MemberTable::new(me, &members)?,
            config,
            members,
        })
    }
}

impl Agent {
    /// Goes on with other settings and members. Members that are gone are strangers from now on; the host ends the sessions with
    /// them. Some new ones are dialled at once.
    ///
    /// Lists of other members may differ for any time: each node ignores what is about nodes that it does not list.
    ///
    /// # Panics
    /// If the setup is that of another node.
    pub fn change(&mut self, setup: Setup, now: Instant) {
        if self.has_left {
            return;
        }
        let Setup {
            config,
            members,
            member_table,
        } = setup;
        let before = std::mem::replace(&mut self.member_table, member_table);
        let me = before.entry(before.me).node;
        assert_eq!(self.me(), me, "an agent stays with its node");
        let moves = self.member_table.succeed(before);
        let count = self.member_table.len();
        let mut peers = vec![Peer::default(); count];
        let mut shown = vec![State::Unknown; count];
        let mut is_new = vec![true; count];
        for (at, now) in moves.iter() {
            std::mem::swap(&mut peers[now], &mut self.peers[at]);
            shown[now] = self.shown[at];
            is_new[now] = false;
        }
        (self.peers, self.shown) = (peers, shown);
        self.active = self.active.iter().filter_map(|&at| moves.of(at)).collect();
        moves.apply(&mut self.ring.neighbours);
        moves.apply(&mut self.unsent);
        let reach = Reach::new(&self.member_table, &members);
        let before = std::mem::replace(&mut self.reach, reach);
        self.reach.succeed(before, &moves);
        self.probing.follow(&moves);
        self.trust.follow(&moves);
        self.paths.follow(&moves);
        let wants = std::mem::take(&mut self.wants).into_iter();
        self.wants = wants
            .filter_map(|(to, kept)| Some((moves.of(to)?, kept.moved(&moves))))
            .collect();
        self.take_config(config, now);
        self.ring.is_stale = true;
        self.probing_is_stale();
        self.interest_is_new();
        let new = (0..count).filter(|&at| is_new[at]);
        for at in new.take(DIALLED) {
            self.dial(at, now);
        }
        self.settle(now);
    }

    fn take_config(&mut self, config: Config, now: Instant) {
        let before = std::mem::replace(&mut self.config, config);
        if self.own.addresses != self.config.addresses {
            self.own.addresses.clone_from(&self.config.addresses);
            self.publish_soon();
        }
        let relays = self.config.routing.relays;
        if before.routing.relays != relays {
            self.own.headroom = relays;
            self.publish_soon();
        }
        if self.differs_from_published(now) {
            self.publish_soon();
        }
        self.publish_if_due(now);
    }

    /// Forgets the failures to reach a member, because it has other addresses: it is dialled at once, unless it has a session.
    pub fn redial(&mut self, node: &NodeId, now: Instant) {
        let Some(at) = self.member_place(node) else {
            return;
        };
        let peer = &mut self.peers[at];
        (peer.failures, peer.retry_at) = (0, now);
        if peer.session == Session::Down {
            self.dial(at, now);
        }
        self.settle(now);
    }
}
