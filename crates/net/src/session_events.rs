//! Readers of a session's events: each gets every event, unlike the callers of [`Session::next_event`], which share a queue.

use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    sync::Arc,
    task::Poll,
};

use anabranch_base::SessionId;
use anabranch_session::{ChannelReport, ChannelStatus, SessionCloseReason, SessionEvent};

use crate::{
    error::Closed,
    handles::{HostInner, entry_of},
    session_handle::Session,
    state::SESSION_EVENTS_MAX,
};

/// Queues of the readers of a session.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    next: u64,
    queues: BTreeMap<u64, VecDeque<SessionEvent>>,
}

impl Readers {
    fn add(&mut self, queue: VecDeque<SessionEvent>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.queues.insert(number, queue);
        number
    }

    pub(crate) fn push(&mut self, event: &SessionEvent) {
        for queue in self.queues.values_mut() {
            if queue.len() >= SESSION_EVENTS_MAX {
                queue.pop_front();
            }
            queue.push_back(event.clone());
        }
    }
}

/// A reader of a session's events, which does not keep the session open.
#[derive(Debug)]
pub struct SessionEvents {
    host: Arc<HostInner>,
    session: SessionId,
    number: u64,
}

impl Drop for SessionEvents {
    fn drop(&mut self) {
        let mut state = self.host.shared.lock();
        if let Some(entry) = state.sessions.get_mut(&self.session) {
            entry.readers.queues.remove(&self.number);
        }
    }
}

impl Session {
    /// A reader of the session's events from now on. Its first events are those that lead to the present state: the channels that are
    /// up, and those of them that are suspected.
    pub fn events(&self) -> SessionEvents {
        let mut state = self.inner.host.shared.lock();
        let session = state.engine.session(self.inner.id);
        let channels = session.map(|mut session| session.channel_stats());
        let present = channels.unwrap_or_default();
        let present = present.iter().flat_map(events_of).collect();
        let entry = entry_of(&mut state, self.inner.id);
        let number = entry.map_or(0, |entry| entry.readers.add(present));
        SessionEvents {
            host: self.inner.host.clone(),
            session: self.inner.id,
            number,
        }
    }
}

/// Events that lead to the state of a channel.
fn events_of(report: &ChannelReport) -> Vec<SessionEvent> {
    let channel = report.channel;
    let up = SessionEvent::ChannelUp {
        channel,
        socket: report.socket,
        remote: report.remote,
    };
    match report.state {
        ChannelStatus::Active => vec![up],
        ChannelStatus::Suspected => vec![up, SessionEvent::ChannelSuspected { channel }],
    }
}

impl SessionEvents {
    /// Waits for the next event. At most 1024 are kept; the oldest are dropped.
    ///
    /// # Errors
    /// The session is over and all its events were read.
    pub async fn next(&self) -> Result<SessionEvent, Closed> {
        poll_fn(|cx| {
            let mut state = self.host.shared.lock();
            let Some(entry) = state.sessions.get_mut(&self.session) else {
                // Its last handle was dropped.
                return Poll::Ready(Err(Closed(SessionCloseReason::Local)));
            };
            let queue = entry.readers.queues.get_mut(&self.number);
            if let Some(event) = queue.and_then(VecDeque::pop_front) {
                return Poll::Ready(Ok(event));
            }
            if let Some(reason) = &entry.closed {
                return Poll::Ready(Err(Closed(reason.clone())));
            }
            entry.observing.register(cx);
            Poll::Pending
        })
        .await
    }
}
