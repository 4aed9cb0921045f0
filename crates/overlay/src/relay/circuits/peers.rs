//! Quotas of sources, and their use.

use std::collections::BTreeMap;

use anabranch_base::{Instant, NodeId, Rate};

use crate::relay::{
    account::Account,
    bucket::Bucket,
    config::{Config, Quota},
    message::Refusal,
};

/// Most sources remembered. When the table is full, a new source replaces one without circuits.
const PEERS_MAX: usize = 4_096;

/// Bytes that a source must have left for one more circuit: the handshake through it has packets of this length (RFC 9000 §14.1).
const BYTES_LEFT_MIN: u64 = 1_200;

/// One source.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) quota: Quota,
    /// True if the quota was set for this source; otherwise it is the default.
    has_own_quota: bool,
    pub(super) bucket: Bucket,
    pub(super) circuits: u32,
    /// Sum of the rates granted to its circuits.
    granted_bps: u64,
    /// The period of [`Self::bytes`].
    period: u64,
    bytes: u64,
    pub(super) account: Account,
}

/// All sources.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: Vec<Peer>,
    by_node: BTreeMap<NodeId, u32>,
    granted_bps: u64,
}

impl Peer {
    fn new(now: Instant, node: NodeId, quota: Quota, config: &Config) -> Self {
        Self {
            node,
            quota,
            has_own_quota: false,
            bucket: Bucket::new(now, quota.rate, config.burst_bytes(quota.rate)),
            circuits: 0,
            granted_bps: 0,
            period: 0,
            bytes: 0,
            account: Account::default(),
        }
    }

    /// Part of the relay's capacity that it holds: the grants of its circuits, but not more than it may use.
    fn holds_bps(&self) -> u64 {
        self.granted_bps.min(self.quota.rate.as_bps())
    }

    /// Bytes that it may still use in this period.
    pub(super) fn bytes_left(&mut self, now: Instant, config: &Config) -> u64 {
        let period_ns = u64::try_from(config.period.as_nanos()).unwrap_or(u64::MAX);
        let period = now.as_nanos() / period_ns;
        if period != self.period {
            self.period = period;
            self.bytes = 0;
        }
        self.quota.bytes_per_period.saturating_sub(self.bytes)
    }

    /// Bytes used in the current period, as of the last packet.
    pub(super) fn bytes_in_period(&self) -> u64 {
        self.bytes
    }

    pub(super) fn use_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(super) fn return_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Peers {
    /// Part of the relay's capacity that all sources hold.
    pub(super) fn granted(&self) -> Rate {
        Rate::from_bps(self.granted_bps)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Peer {
        &mut self.peers[index as usize]
    }

    pub(super) fn node(&self, index: u32) -> NodeId {
        self.peers[index as usize].node
    }

    pub(super) fn has_too_many(&self, index: u32) -> bool {
        let peer = &self.peers[index as usize];
        peer.circuits > peer.quota.circuits
    }

    pub(super) fn bytes_left(&mut self, now: Instant, index: u32, config: &Config) -> u64 {
        self.get_mut(index).bytes_left(now, config)
    }

    /// Index of the source that requests one more circuit.
    pub(super) fn enter(
        &mut self,
        now: Instant,
        node: NodeId,
        config: &Config,
    ) -> Result<u32, Refusal> {
        let index = self.find(now, node, config).ok_or(Refusal::Full)?;
        let peer = self.get_mut(index);
        if peer.circuits >= peer.quota.circuits {
            return Err(Refusal::Circuits);
        }
        if peer.bytes_left(now, config) < BYTES_LEFT_MIN {
            return Err(Refusal::Bytes);
        }
        Ok(index)
    }

    fn find(&mut self, now: Instant, node: NodeId, config: &Config) -> Option<u32> {
        if let Some(&index) = self.by_node.get(&node) {
            return Some(index);
        }
        let peer = Peer::new(now, node, config.quota, config);
        let index = if self.peers.len() < PEERS_MAX {
            self.peers.push(peer);
            self.peers.len() - 1
        } else {
            // A source that has used bytes of the period must not have them forgotten.
            let is_idle = |old: &mut Peer| {
                old.circuits == 0
                    && !old.has_own_quota
                    && (old.quota.bytes_per_period == u64::MAX
                        || old.bytes_left(now, config) == old.quota.bytes_per_period)
            };
            let index = self.peers.iter_mut().position(is_idle)?;
            let old = std::mem::replace(&mut self.peers[index], peer);
            self.by_node.remove(&old.node);
            index
        };
        self.by_node.insert(node, index as u32);
        Some(index as u32)
    }

    /// Part of `wanted` that can be granted when the relay has `left`.
    pub(super) fn grant(&self, index: u32, wanted: Rate, left: Rate) -> Rate {
        let peer = &self.peers[index as usize];
        let wanted = wanted.min(peer.quota.rate);
        // Circuits of one source share its rate: only an increase of its share uses capacity.
        let more = peer.quota.rate.as_bps() - peer.holds_bps();
        if more <= left.as_bps() {
            wanted
        } else {
            wanted.min(left)
        }
    }

    pub(super) fn opened(&mut self, index: u32, rate: Rate) {
        self.change(index, |peer| {
            peer.circuits += 1;
            peer.granted_bps += rate.as_bps();
        });
    }

    pub(super) fn closed(&mut self, index: u32, rate: Rate) {
        self.change(index, |peer| {
            peer.circuits -= 1;
            peer.granted_bps -= rate.as_bps();
        });
    }

    pub(super) fn set_quota(&mut self, now: Instant, node: NodeId, quota: Quota, config: &Config) {
        let Some(index) = self.find(now, node, config) else {
            return;
        };
        self.change(index, |peer| {
            peer.quota = quota;
            peer.has_own_quota = true;
            let burst = config.burst_bytes(quota.rate);
            peer.bucket.set_rate(now, quota.rate, burst);
        });
    }

    /// Gives a source the default quota again.
    pub(super) fn reset_quota(&mut self, now: Instant, node: NodeId, config: &Config) {
        if let Some(&index) = self.by_node.get(&node) {
            self.set_quota(now, node, config.quota, config);
            self.peers[index as usize].has_own_quota = false;
        }
    }

    /// Applies another default quota to the sources without one of their own.
    pub(super) fn apply_default(&mut self, now: Instant, config: &Config) {
        let of_default = self.peers.iter().filter(|peer| !peer.has_own_quota);
        for node in of_default.map(|peer| peer.node).collect::<Vec<_>>() {
            self.reset_quota(now, node, config);
        }
    }

    /// Changes a source and updates the sum of the capacity that sources hold.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Peer)) {
        let peer = &mut self.peers[index as usize];
        let before = peer.holds_bps();
        change(peer);
        self.granted_bps = self.granted_bps - before + peer.holds_bps();
    }
}
