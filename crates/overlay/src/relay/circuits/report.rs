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
    /// Its owner.
    pub source: NodeId,
    /// Its ID, chosen by the source.
    pub circuit: CircuitId,
    /// The next hop.
    pub next: NodeId,
    /// Address to which the source sends.
    pub near: SocketAddr,
    /// Address from which packets leave, and to which answers come.
    pub far: SocketAddr,
    /// Address from which the source's packets come; `None` until the first, if it was not given.
    pub origin: Option<SocketAddr>,
    /// Address to which the source's packets are forwarded; with port 0 while it is not known.
    pub towards: SocketAddr,
    /// Granted rate, both directions together.
    pub rate: Rate,
    /// Time since it was opened.
    pub age: Duration,
    /// Time until it expires.
    pub left: Duration,
    /// Its traffic.
    pub account: Account,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// The source.
    pub source: NodeId,
    /// Its quota.
    pub quota: Quota,
    /// Number of its circuits.
    pub circuits: u32,
    /// Bytes used of the period, both directions together.
    pub bytes_in_period: u64,
    /// Traffic of all its circuits, those that have ended included.
    pub account: Account,
}

impl CircuitTable {
    /// Configuration of the relay.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All circuits, by source and circuit ID.
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
                towards: state.far.address(),
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

    /// Statistics of the relay.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}
