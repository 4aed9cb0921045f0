//! One client of a server: its addresses, its queues, and the streams that serve it.

use std::{net::IpAddr, sync::Arc};

use anabranch::base::{NodeId, SessionId};
use tokio::sync::watch;

use crate::{counters::Counters, outlet::Outlet, wire::Terms};

/// Memory of the packets that wait for one client.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// State of a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Addresses of the client, or those that it had last.
    pub(super) terms: Terms,
    /// True if its stream of packets is there, or was.
    pub(super) has_packets: bool,
    /// Code with which its streams end, once it has no addresses any more.
    pub(super) over: Option<u32>,
}

/// The membership of a node, in one session.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) node: NodeId,
    pub(super) session: SessionId,
    pub(super) outlet: Outlet,
    pub(super) counters: Counters,
    state: watch::Sender<State>,
}

impl Member {
    pub(super) fn new(node: NodeId, session: SessionId, terms: Terms) -> Arc<Self> {
        Arc::new(Self {
            node,
            session,
            outlet: Outlet::new(QUEUE_BYTES_MAX),
            counters: Counters::default(),
            state: watch::Sender::new(State {
                terms,
                has_packets: false,
                over: None,
            }),
        })
    }

    /// Its addresses now; `None`: it has none any more.
    pub(super) fn terms(&self) -> Option<Terms> {
        let state = *self.state.borrow();
        state.over.is_none().then_some(state.terms)
    }

    /// Its addresses, or those that it had last.
    pub(super) fn last_terms(&self) -> Terms {
        self.state.borrow().terms
    }

    /// True if it has this address now.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.terms().is_some_and(|terms| match address {
            IpAddr::V4(v4) => terms.v4.is_some_and(|assigned| assigned.address == v4),
            IpAddr::V6(v6) => terms.v6.is_some_and(|assigned| assigned.address == v6),
        })
    }

    /// Gives it other addresses, unless it is over.
    pub(super) fn renumber(&self, terms: Terms) {
        self.state.send_if_modified(|state| {
            let is_other = state.over.is_none() && state.terms != terms;
            if is_other {
                state.terms = terms;
            }
            is_other
        });
    }

    /// Ends it; later calls have no effect.
    pub(super) fn end(&self, code: u32) {
        self.state.send_if_modified(|state| {
            let is_first = state.over.is_none();
            state.over = state.over.or(Some(code));
            is_first
        });
    }

    /// Receiver of the states from now on.
    pub(super) fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Waits until it is over; returns the code.
    pub(super) async fn over(&self) -> u32 {
        let mut states = self.states();
        let over = states.wait_for(|state| state.over.is_some()).await;
        let over = over.expect("this value holds the sender");
        over.over.expect("it was waited for")
    }

    /// Takes the place of its stream of packets; false if it has one, had one, or is over.
    pub(super) fn take_packets(&self) -> bool {
        self.state.send_if_modified(|state| {
            let is_first = state.over.is_none() && !state.has_packets;
            state.has_packets |= is_first;
            is_first
        })
    }
}
