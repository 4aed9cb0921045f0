//! State of a session as its node reports it: events that wait to be read, and its end.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anabranch_net::SessionEvent;
use anabranch_session::SessionCloseReason;
use tokio::sync::Notify;

use super::ClientError;
use crate::local::message::{Connected, EventBody};

/// Events that may wait to be read; beyond, the oldest is dropped.
const EVENTS_MAX: usize = 1024;

/// State of a session.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) handle: u32,
    /// False for a node of a release that does not report them.
    has_events: bool,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<SessionEvent>,
    closed: Option<SessionCloseReason>,
    /// The connection is over.
    detached: Option<String>,
}

impl SessionState {
    pub(super) fn new(connected: &Connected) -> Self {
        Self {
            handle: connected.session,
            has_events: connected.events,
            inner: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn event(&self, body: EventBody) {
        let mut inner = self.lock();
        if let EventBody::Closed { cause } = body {
            inner.closed = Some(cause.into_session());
        } else if let Some(event) = body.into_session_event() {
            if inner.events.len() >= EVENTS_MAX {
                inner.events.pop_front();
            }
            inner.events.push_back(event);
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    pub(super) fn detached(&self, reason: &str) {
        self.lock().detached = Some(reason.to_owned());
        self.changed.notify_waiters();
    }

    /// Waits for what `look` finds, or the end of the connection.
    pub(super) async fn wait<T>(
        &self,
        mut look: impl FnMut(&mut VecDeque<SessionEvent>, Option<&SessionCloseReason>) -> Option<T>,
    ) -> Result<T, ClientError> {
        if !self.has_events {
            return Err(ClientError::OlderNode("the events of sessions"));
        }
        loop {
            let changed = self.changed.notified();
            {
                let inner = &mut *self.lock();
                if let Some(found) = look(&mut inner.events, inner.closed.as_ref()) {
                    return Ok(found);
                }
                if let Some(reason) = &inner.detached {
                    return Err(ClientError::Detached(reason.clone()));
                }
            }
            changed.await;
        }
    }
}
