//! Peers that a node calls, each in a session of its own that it watches.

use std::time::Duration;

use anabranch_base::{NodeId, SessionId};
use anabranch_session::Link;
use anabranch_sim::Context;

use super::watch::Watch;

/// A peer.
pub(super) struct Peer {
    pub(super) node: NodeId,
    links: Vec<Link>,
    pub(super) session: Option<SessionId>,
    pub(super) is_connected: bool,
    pub(super) watch: Watch,
}

impl Peer {
    /// Peers with the links to each; one that is silent for longer than `patience` is dead.
    pub(super) fn all(peers: Vec<(NodeId, Vec<Link>)>, patience: Duration) -> Vec<Self> {
        let peer = |(node, links)| Self {
            node,
            links,
            session: None,
            is_connected: false,
            watch: Watch::new(patience),
        };
        peers.into_iter().map(peer).collect()
    }

    /// Calls those that have no session yet.
    pub(super) fn call(peers: &mut [Self], context: &mut Context<'_>) {
        for peer in peers {
            if peer.session.is_none() && !peer.links.is_empty() {
                peer.session = Some(context.connect(peer.node, peer.links.clone()));
            }
        }
    }
}
