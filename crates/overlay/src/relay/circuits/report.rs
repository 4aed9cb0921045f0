//! Reports of a relay.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{Instant, NodeId, Rate};

use super::{Circuit, CircuitTable};
use crate::relay::{
    account::{Account, Totals},
    config::{Config, Quota},
    message::CircuitId,
};

/// One circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitReport {
    /// Whose it is.
    pub source: NodeId,
    /// As the source calls it.
    pub circuit: CircuitId,
    /// The next hop.
    pub next: NodeId,
    /// Where the source sends.
    pub near: SocketAddr,
    /// Where packets leave from, and answers come to.
    pub far: SocketAddr,
    /// Where the source's packets come from; `None` until the first, if it was not said.
    pub origin: Option<SocketAddr>,
    /// Where they go.
    pub towards: SocketAddr,
    /// Bytes granted, both directions together.
    pub rate: Rate,
    /// Since it was opened.
    pub age: Duration,
    /// Until it expires.
    pub left: Duration,
    /// What it has carried.
    pub account: Account,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// The source.
    pub source: NodeId,
    /// What it may use.
    pub quota: Quota,
    /// Circuits it has.
    pub circuits: u32,
    /// Bytes used of the period, both directions together.
    pub bytes_in_period: u64,
    /// What all its circuits have carried, those that have ended included.
    pub account: Account,
}

impl CircuitTable {
    /// How the relay was set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All circuits, by source and number.
    pub fn circuits(&self, now: Instant) -> impl Iterator<Item = CircuitReport> {
        self.by_name.iter().map(move |(&(source, circuit), &slot)| {
            let state: &Circuit = self.circuit(slot);
            let address = |port| {
                let address = self.ports.address(port);
                address.expect("a circuit's port is open as long as it lives")
            };
            CircuitReport {
                source,
                circuit,
                next: state.next,
                near: address(state.near.port),
                far: address(state.far.port),
                origin: state.near.remote,
                towards: state.asked.towards,
                rate: state.rate,
                age: now.since(state.opened_at),
                left: state.expires_at.since(now),
                account: state.account,
            }
        })
    }

    /// Number of circuits.
    pub fn circuits_len(&self) -> usize {
        self.by_name.len()
    }

    /// Number of ports that are open.
    pub fn ports_len(&self) -> usize {
        self.ports.len()
    }

    /// All sources that have, or had, circuits.
    pub fn peers(&self) -> impl Iterator<Item = PeerReport> {
        self.peers.iter().map(|peer| PeerReport {
            source: peer.node,
            quota: peer.quota,
            circuits: peer.circuits,
            bytes_in_period: peer.bytes_in_period(),
            account: peer.account,
        })
    }

    /// What the relay has done.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}
