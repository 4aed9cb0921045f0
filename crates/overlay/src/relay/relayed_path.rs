//! A path over relays, as its source opens and keeps it.
//!
//! There is one circuit at each relay, and the last one is opened first, because the relay before it needs the address
//! to which it sends. All are refreshed after half of their lifetime. If one cannot be opened or is lost, the path is
//! broken: the remaining circuits are closed, and the source takes another path.
//!
//! ```text
//!   RelayedPath::next ────► request to a relay, over the session with it
//!   RelayedPath::answer ◄── the relay's answer
//!   RelayedPath::timeout ─► time at which to call `next` again
//!   RelayedPath::entrance ► address to which to send, once all circuits are open
//! ```

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Rate};

use super::message::{Answer, CircuitId, Open, Opened, Origin, ROUTE_NODES_MAX, Refusal, Request};

/// Time-out of an answer: after it, the relay, or the session with it, counts as lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A path to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayedPathSpec {
    /// ID of the circuits at all relays. It is not used for another path, not even after this one is broken, because a
    /// relay that was lost may still have its circuit.
    pub circuit: CircuitId,
    /// The node that opens it.
    pub source: NodeId,
    /// The relays, 1 to [`ROUTE_NODES_MAX`] − 2, in order from the source.
    pub relays: Vec<NodeId>,
    /// Address at which the source reaches the first of them. Relays know the addresses of each other.
    pub first: IpAddr,
    /// The node to which it leads.
    pub destination: NodeId,
    /// An address of the destination; unspecified, with port 0: one that the last relay knows.
    pub towards: SocketAddr,
    /// Origin of the source's packets, as the first relay sees it.
    pub origin: Origin,
    /// As in [`Open`].
    pub rate: Rate,
    /// As in [`Open`].
    pub lifetime: Duration,
}

/// Cause of a broken path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// There are no relays or too many, or a node occurs twice.
    #[error("a path over relays has 1 to 6 of them and visits no node twice")]
    Route,
    /// A relay refused the circuit.
    #[error("relay {relay:?} refuses: {refusal}")]
    Refused {
        /// The relay.
        relay: NodeId,
        /// Reason.
        refusal: Refusal,
    },
    /// A relay does not answer, or the session with it has ended.
    #[error("relay {relay:?} is lost")]
    Lost {
        /// The relay.
        relay: NodeId,
    },
    /// The source has closed it.
    #[error("the path was closed")]
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HopState {
    /// Not requested yet.
    Not,
    /// Requested, no answer yet.
    Asked { until: Instant },
    /// The circuit is open.
    Open {
        opened: Opened,
        refresh_at: Instant,
        /// Deadline of the answer to a refresh, if one was requested.
        asked_until: Option<Instant>,
    },
    /// It may be open, and is to be closed.
    Close,
    /// Nothing remains to be done.
    Gone,
}

/// A path over relays. No sockets, no clock: every call takes `now`, which never decreases.
#[derive(Clone, Debug)]
pub struct RelayedPath {
    spec: RelayedPathSpec,
    /// One for each relay.
    hops: Vec<HopState>,
    broken: Option<Broken>,
    /// True if a refresh should make the first relay forget the source's address.
    relearns: bool,
}

impl RelayedPath {
    /// A path without any open circuit.
    ///
    /// # Errors
    /// [`Broken::Route`].
    pub fn new(spec: RelayedPathSpec) -> Result<Self, Broken> {
        let mut nodes: Vec<NodeId> = spec.nodes().collect();
        let most = ROUTE_NODES_MAX;
        if !(3..=most).contains(&nodes.len()) {
            return Err(Broken::Route);
        }
        nodes.sort_unstable();
        if nodes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Broken::Route);
        }
        Ok(Self {
            hops: vec![HopState::Not; spec.relays.len()],
            spec,
            broken: None,
            relearns: false,
        })
    }

    /// Its specification.
    pub fn spec(&self) -> &RelayedPathSpec {
        &self.spec
    }

    /// Address to which the source sends, once all circuits are open. A link uses it like any other address.
    pub fn entrance(&self) -> Option<SocketAddr> {
        let is_open = |hop: &HopState| matches!(hop, HopState::Open { .. });
        let all_open = self.broken.is_none() && self.hops.iter().all(is_open);
        all_open.then(|| self.near(0)).flatten()
    }

    /// The least rate granted by any of its relays, once all circuits are open.
    pub fn rate(&self) -> Option<Rate> {
        let rate = |hop: &HopState| match hop {
            HopState::Open { opened, .. } => Some(opened.rate),
            _ => None,
        };
        let rates: Option<Vec<Rate>> = self.hops.iter().map(rate).collect();
        rates?.into_iter().min()
    }

    /// Cause of its failure; `None` while it is being opened, or is open. A broken path stays broken.
    pub fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// True if no request to any relay remains: the path is broken, and its circuits are closed.
    pub fn is_over(&self) -> bool {
        let is_gone = |hop: &HopState| matches!(hop, HopState::Gone | HopState::Not);
        self.broken.is_some() && self.hops.iter().all(is_gone)
    }

    /// Next request to send. Call until `None` after every other call.
    pub fn next(&mut self, now: Instant) -> Option<(NodeId, Request)> {
        self.check(now);
        for index in (0..self.hops.len()).rev() {
            let request = match self.hops[index] {
                HopState::Not if self.broken.is_none() => {
                    // Until this circuit is open, the one before it cannot be requested.
                    let request = self.open(index)?;
                    let until = now + ANSWER_WITHIN;
                    self.hops[index] = HopState::Asked { until };
                    request
                }
                HopState::Asked { .. } => return None,
                HopState::Open {
                    opened,
                    refresh_at,
                    asked_until: None,
                } if refresh_at <= now => {
                    self.hops[index] = HopState::Open {
                        opened,
                        refresh_at,
                        asked_until: Some(now + ANSWER_WITHIN),
                    };
                    Request::Refresh {
                        circuit: self.spec.circuit,
                        lifetime: self.spec.lifetime,
                        relearn: index == 0 && std::mem::take(&mut self.relearns),
                    }
                }
                HopState::Close => {
                    self.hops[index] = HopState::Gone;
                    Request::Close {
                        circuit: self.spec.circuit,
                    }
                }
                _ => continue,
            };
            return Some((self.spec.relays[index], request));
        }
        None
    }

    /// Handles a relay's answer. Answers about another circuit, and unsolicited ones, are ignored.
    pub fn answer(&mut self, now: Instant, relay: NodeId, answer: &Answer) {
        let Some(index) = self.index(relay) else {
            return;
        };
        let is_waiting = matches!(
            self.hops[index],
            HopState::Asked { .. }
                | HopState::Open {
                    asked_until: Some(_),
                    ..
                }
        );
        match answer {
            Answer::Opened(opened) if is_waiting && opened.circuit == self.spec.circuit => {
                // A relearn requested while another request was pending is still to be sent.
                let is_due = index == 0 && self.relearns;
                let refresh_at = if is_due {
                    now
                } else {
                    now + opened.lifetime / 2
                };
                self.hops[index] = HopState::Open {
                    opened: *opened,
                    refresh_at,
                    asked_until: None,
                };
            }
            Answer::Refused { circuit, refusal } if is_waiting && *circuit == self.spec.circuit => {
                self.hops[index] = HopState::Gone;
                self.fail(Broken::Refused {
                    relay,
                    refusal: *refusal,
                });
            }
            _ => {}
        }
    }

    /// Time at which [`Self::next`] may have a request, or notices that an answer is missing.
    pub fn timeout(&self) -> Option<Instant> {
        let due = |hop: &HopState| match *hop {
            HopState::Asked { until } => Some(until),
            HopState::Open {
                refresh_at,
                asked_until,
                ..
            } => Some(asked_until.unwrap_or(refresh_at)),
            _ => None,
        };
        self.hops.iter().filter_map(due).min()
    }

    /// Handles the loss of a relay: the session with it has ended, or it is known to be dead.
    pub fn lost(&mut self, relay: NodeId) {
        if let Some(index) = self.index(relay) {
            self.hops[index] = HopState::Gone;
            self.fail(Broken::Lost { relay });
        }
    }

    /// Makes the first relay learn the source's address again. To be called when no packet comes back through an open
    /// path: the source's translator may have given it another address.
    pub fn relearn(&mut self, now: Instant) {
        if let Some(HopState::Open { refresh_at, .. }) = self.hops.first_mut() {
            *refresh_at = now;
            self.relearns = true;
        }
    }

    /// Closes the path.
    pub fn close(&mut self) {
        self.fail(Broken::Closed);
    }

    fn index(&self, relay: NodeId) -> Option<usize> {
        self.spec.relays.iter().position(|&other| other == relay)
    }

    fn check(&mut self, now: Instant) {
        for index in 0..self.hops.len() {
            let until = match self.hops[index] {
                HopState::Asked { until } => until,
                HopState::Open {
                    asked_until: Some(until),
                    ..
                } => until,
                _ => continue,
            };
            if until <= now {
                let relay = self.spec.relays[index];
                self.fail(Broken::Lost { relay });
            }
        }
    }

    /// Breaks the path; the first reason is kept. Circuits that may be open are closed.
    fn fail(&mut self, why: Broken) {
        self.broken.get_or_insert(why);
        for hop in &mut self.hops {
            if matches!(hop, HopState::Asked { .. } | HopState::Open { .. }) {
                *hop = HopState::Close;
            }
        }
    }

    /// Address for packets to the relay at `index`.
    fn near(&self, index: usize) -> Option<SocketAddr> {
        let HopState::Open { opened, .. } = self.hops.get(index)? else {
            return None;
        };
        let mut near = opened.near;
        if index == 0 && near.ip().is_unspecified() {
            near.set_ip(self.spec.first);
        }
        Some(near)
    }

    /// The request for the circuit at `index`; `None` until the next relay's circuit is open.
    fn open(&self, index: usize) -> Option<Request> {
        let spec = &self.spec;
        let towards = match index + 1 == spec.relays.len() {
            true => spec.towards,
            false => self.near(index + 1)?,
        };
        let origin = match index.checked_sub(1) {
            None => spec.origin,
            Some(_) => Origin::Known,
        };
        Some(Request::Open(Open {
            circuit: spec.circuit,
            route: spec.nodes().collect(),
            origin,
            towards,
            rate: spec.rate,
            lifetime: spec.lifetime,
        }))
    }
}

impl RelayedPathSpec {
    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let relays = self.relays.iter().copied();
        [self.source]
            .into_iter()
            .chain(relays)
            .chain([self.destination])
    }
}

#[cfg(test)]
mod tests;
