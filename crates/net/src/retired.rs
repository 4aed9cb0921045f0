//! Sockets of former local addresses: each carries what has no other path, and is closed in two steps once nothing needs it.
//!
//! First its channels are closed, and their peers are notified over it; at the next look the socket itself is closed. Peers cannot
//! be notified of other addresses: a session that a peer opened stays on a retired socket until it ends, or until the peer has
//! opened a channel to another address.

use std::{collections::BTreeSet, time::Duration};

use anabranch_base::{Instant, SocketId};

use crate::state::{Shared, Stage, State};

/// Interval of the looks while there are retired sockets, and time between the two steps: enough for the packets by which channels
/// are closed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Shared {
    /// Looks at retired sockets when that is due; later, while other sockets are being prepared.
    pub(crate) fn look_at_retired(&self, state: &mut State, now: Instant) {
        if state.binding.look_due.is_none_or(|due| due > now) {
            return;
        }
        if let Ok(_alone) = self.rebinding.try_lock() {
            state.close_retired();
            state.leave_retired(now);
        }
        let is_any = state.sockets.iter().any(|entry| entry.is_retired());
        state.binding.look_due = is_any.then_some(now + LOOK_EVERY);
    }
}

impl State {
    /// Closes the sockets whose channels were closed at the last look.
    fn close_retired(&mut self) {
        let (engine, dead) = (&mut self.engine, &mut self.sockets_dead);
        self.sockets.retain(|entry| {
            let is_over = entry.stage == Stage::Closing;
            if is_over {
                tracing::info!(local = %entry.local, "former local address closed");
                engine.set_accepting(entry.id, true);
                dead.push(entry.id);
            }
            !is_over
        });
        if !self.sockets_dead.is_empty() {
            // The driver closes them in its next round.
            self.has_work = true;
            self.is_urgent = true;
        }
    }

    /// Takes sessions off retired sockets as soon as they have other paths, and closes the channels of sockets that none needs.
    fn leave_retired(&mut self, now: Instant) {
        let retired = self.sockets.iter().filter(|entry| entry.is_retired());
        let retired: BTreeSet<SocketId> = retired.map(|entry| entry.id).collect();
        if retired.is_empty() {
            return;
        }
        let mut needed = BTreeSet::new();
        for id in self.engine.session_ids() {
            let Ok(mut session) = self.engine.session(id) else {
                continue;
            };
            let (sockets, mut links) = (session.sockets(), session.links());
            links.retain(|link| retired.contains(&link.socket));
            let is_elsewhere =
                |(socket, is_usable): &(SocketId, bool)| *is_usable && !retired.contains(socket);
            if sockets.iter().any(is_elsewhere) {
                for link in &links {
                    session.remove_link(now, link);
                }
                continue;
            }
            needed.extend(sockets.iter().map(|(socket, _)| *socket));
            needed.extend(links.iter().map(|link| link.socket));
        }
        for entry in &mut self.sockets {
            if entry.stage == Stage::Retired && !needed.contains(&entry.id) {
                entry.stage = Stage::Closing;
                self.engine.socket_down(now, entry.id);
            }
        }
    }
}
