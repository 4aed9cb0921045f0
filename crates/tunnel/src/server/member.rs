//! One client of a server: its addresses, its queues, and the streams that serve it.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use anabranch::{
    Stream,
    base::{NodeId, SessionId},
};
use tokio::sync::watch;

use super::replies::Replies;
use crate::{
    counters::Counters,
    outlet::{Lanes, Outlet},
    wire::Terms,
};

/// Memory of the packets that wait for one client.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// State of a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Addresses of the client, or those that it had last.
    pub(super) terms: Terms,
    /// True of each of its streams of packets, the urgent one last, if it is there, or was.
    pub(super) has_packets: [bool; 2],
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
    pub(super) replies: Replies,
    state: watch::Sender<State>,
    /// The first of its streams of packets, until the other one is there.
    first: Mutex<Option<Stream>>,
}

impl Member {
    pub(super) fn new(node: NodeId, session: SessionId, terms: Terms) -> Arc<Self> {
        Arc::new(Self {
            node,
            session,
            outlet: Outlet::new(QUEUE_BYTES_MAX),
            counters: Counters::default(),
            replies: Replies::new(),
            state: watch::Sender::new(State {
                terms,
                has_packets: [false; 2],
                over: None,
            }),
            first: Mutex::default(),
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

    /// True while it has both streams of packets.
    pub(super) fn is_ready(&self) -> bool {
        let state = *self.state.borrow();
        state.over.is_none() && state.has_packets == [true; 2]
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

    /// Takes the place of one of its streams of packets; false if it has one of this kind, had one, or is over.
    pub(super) fn take_packets(&self, is_urgent: bool) -> bool {
        self.state.send_if_modified(|state| {
            let place = &mut state.has_packets[usize::from(is_urgent)];
            let is_first = state.over.is_none() && !*place;
            *place |= is_first;
            is_first
        })
    }

    /// Both streams of packets, once the other one is there as well; until then, this one is kept.
    pub(super) fn pair(&self, stream: Stream, is_urgent: bool) -> Option<Lanes> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(other) = first.take() else {
            *first = Some(stream);
            return None;
        };
        let (urgent, rest) = match is_urgent {
            true => (stream, other),
            false => (other, stream),
        };
        Some(Lanes { urgent, rest })
    }

    /// Lets go of a stream that is kept.
    pub(super) fn forget_stream(&self) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
