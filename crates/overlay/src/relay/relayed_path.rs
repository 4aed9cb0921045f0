//! A way over relays, as its source opens and keeps it.
//!
//! One circuit at each relay, the last one opened first, because the relay before it must be told where
//! to send. All are refreshed when half of their life is over. If one cannot be had or is lost, the way
//! is broken: what still stands is closed, and the source takes another way.
//!
//! ```text
//!   RelayedPath::next ────► what to ask which relay, over the session with it
//!   RelayedPath::answer ◄── what it said
//!   RelayedPath::timeout ─► when to ask again for what is next
//!   RelayedPath::entrance ► where to send, as soon as all of it stands
//! ```

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Rate};

use super::message::{Answer, CircuitId, Open, Opened, Origin, ROUTE_NODES_MAX, Refusal, Request};

/// An answer that has not come after this long will not: the relay, or the session with it, is gone.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A way to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayedPathSpec {
    /// The number that the circuits get at their relays: one not used for another way, not even one that is
    /// broken, because a relay that was lost may still have its circuit.
    pub circuit: CircuitId,
    /// The node that opens it.
    pub source: NodeId,
    /// The relays, 1 to [`ROUTE_NODES_MAX`] − 2, in order from the source.
    pub relays: Vec<NodeId>,
    /// Where the source reaches the first of them. Where relays reach each other they know themselves.
    pub first: IpAddr,
    /// Place where it leads.
    pub destination: NodeId,
    /// An address of the destination; unspecified, with port 0: where the last relay knows it to be.
    pub towards: SocketAddr,
    /// Place where the first relay sees the source's packets come from.
    pub origin: Origin,
    /// As in [`Open`].
    pub rate: Rate,
    /// As in [`Open`].
    pub lifetime: Duration,
}

/// Reason why a way is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// There are no relays, or too many, or a node twice.
    #[error("a way over relays has 1 to 6 of them and visits no node twice")]
    Route,
    /// A relay refuses.
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
    #[error("the way was closed")]
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HopState {
    /// Nobody was asked.
    Not,
    /// Asked, no answer yet.
    Asked { until: Instant },
    /// It stands.
    Open {
        opened: Opened,
        refresh_at: Instant,
        /// A refresh was asked for.
        asked_until: Option<Instant>,
    },
    /// It may stand, and is to be closed.
    Close,
    /// No more to do.
    Gone,
}

/// A way over relays. No sockets, no clock: every call takes `now`, which does not run back.
#[derive(Clone, Debug)]
pub struct RelayedPath {
    spec: RelayedPathSpec,
    /// One for each relay.
    hops: Vec<HopState>,
    broken: Option<Broken>,
    /// A refresh shall make the first relay forget the source's address.
    relearns: bool,
}

impl RelayedPath {
    /// A way of which nothing stands yet.
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

    /// What it was made of.
    pub fn spec(&self) -> &RelayedPathSpec {
        &self.spec
    }

    /// Where the source sends, once all of it stands. An address like any other, for a link.
    pub fn entrance(&self) -> Option<SocketAddr> {
        let stands = |hop: &HopState| matches!(hop, HopState::Open { .. });
        let all_stand = self.broken.is_none() && self.hops.iter().all(stands);
        all_stand.then(|| self.near(0)).flatten()
    }

    /// The least that any of its relays has granted, once all of it stands.
    pub fn rate(&self) -> Option<Rate> {
        let rate = |hop: &HopState| match hop {
            HopState::Open { opened, .. } => Some(opened.rate),
            _ => None,
        };
        let rates: Option<Vec<Rate>> = self.hops.iter().map(rate).collect();
        rates?.into_iter().min()
    }

    /// Reason why it is broken; `None` while it may come to stand, or stands. It never heals.
    pub fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// True if nothing is left to be said to any relay: the way is broken, and what stood is closed.
    pub fn is_over(&self) -> bool {
        let is_gone = |hop: &HopState| matches!(hop, HopState::Gone | HopState::Not);
        self.broken.is_some() && self.hops.iter().all(is_gone)
    }

    /// What is to be asked now. Ask until `None` after every other call.
    pub fn next(&mut self, now: Instant) -> Option<(NodeId, Request)> {
        self.check(now);
        for index in (0..self.hops.len()).rev() {
            let request = match self.hops[index] {
                HopState::Not if self.broken.is_none() => {
                    // Until this one stands, the one before cannot be asked.
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

    /// A relay has answered. What is about another circuit, or was not asked for, is ignored.
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
                // What was wished for while the relay was asked something else is still to be said.
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

    /// Time at which [`Self::next`] may have something to ask, or notices that an answer is missing.
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

    /// The session with a relay has ended, or it is known to be dead.
    pub fn lost(&mut self, relay: NodeId) {
        if let Some(index) = self.index(relay) {
            self.hops[index] = HopState::Gone;
            self.fail(Broken::Lost { relay });
        }
    }

    /// Nothing comes back through a way that stands: perhaps the source's translator has given it another
    /// address, so the first relay shall learn it anew.
    pub fn relearn(&mut self, now: Instant) {
        if let Some(HopState::Open { refresh_at, .. }) = self.hops.first_mut() {
            *refresh_at = now;
            self.relearns = true;
        }
    }

    /// The way is wanted no more.
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

    /// The first reason stays. What may stand is closed.
    fn fail(&mut self, why: Broken) {
        self.broken.get_or_insert(why);
        for hop in &mut self.hops {
            if matches!(hop, HopState::Asked { .. } | HopState::Open { .. }) {
                *hop = HopState::Close;
            }
        }
    }

    /// Where packets for the relay at `index` go.
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

    /// `None` until the next relay stands.
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
