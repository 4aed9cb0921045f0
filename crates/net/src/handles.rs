//! State that the clones of a handle share: of a host, and of a session. The last clone ends it.

use std::{fmt, sync::Arc};

use anabranch_base::{NodeId, SessionId};

use crate::{
    error::Closed,
    state::{SessionEntry, Shared, State},
};

pub(crate) struct HostInner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) node_id: NodeId,
}

impl fmt::Debug for HostInner {
    /// Formats the node ID only; the engine's state would fill pages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {:?}", self.node_id)
    }
}

impl Drop for HostInner {
    fn drop(&mut self) {
        close_all(&self.shared, "the node was dropped");
    }
}

/// Closes all sessions; no more are accepted.
pub(crate) fn close_all(shared: &Shared, reason: &str) {
    shared.command(|state, now| {
        if !std::mem::replace(&mut state.is_closing, true) {
            for id in state.engine.session_ids() {
                if let Ok(session) = state.engine.session(id) {
                    session.close(now, 0, reason);
                }
            }
        }
        state.accepting.wake();
        state.observing.wake();
    });
}

#[derive(Debug)]
pub(crate) struct SessionInner {
    pub(crate) host: Arc<HostInner>,
    pub(crate) id: SessionId,
    pub(crate) peer: NodeId,
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        self.host.shared.command(|state, now| {
            let Some(entry) = state.sessions.get_mut(&self.id) else {
                return;
            };
            entry.is_released = true;
            if entry.closed.is_some() {
                state.sessions.remove(&self.id);
            } else {
                if let Ok(session) = state.engine.session(self.id) {
                    session.close(now, 0, "");
                }
            }
        });
    }
}

/// Entry of a session to which a handle exists.
pub(crate) fn entry_of(state: &mut State, id: SessionId) -> Result<&mut SessionEntry, Closed> {
    let entry = state.sessions.get_mut(&id);
    Ok(entry.expect("an entry lives as long as a handle to its session"))
}
