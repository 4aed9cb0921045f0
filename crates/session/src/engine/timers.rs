//! Deadlines of channels, earliest first: what a packet or a timer costs does not depend on how many channels there are.

use std::collections::BTreeSet;

use anabranch_base::{ChannelId, Instant};

use super::Engine;

/// Key: channel. Its own deadline stands with its [`Owner`](super::Owner), so that it can be found here.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, ChannelId)>,
    /// Channels whose deadline may have changed, each once.
    stale: Vec<ChannelId>,
    scratch: Vec<ChannelId>,
}

impl Engine {
    /// Something happened to a channel that may have moved its deadline.
    pub(super) fn retime(&mut self, id: ChannelId) {
        if let Some(owner) = self.owners.get_mut(&id)
            && !std::mem::replace(&mut owner.is_stale, true)
        {
            self.timers.stale.push(id);
        }
    }

    /// The earliest deadline of a channel. O(log channels) for each that something happened to since the last call.
    pub(super) fn next_channel_deadline(&mut self) -> Option<Instant> {
        self.refresh_timers();
        self.timers.due.first().map(|&(at, _)| at)
    }

    /// Takes out the channels that are due, in the order of their ids; hand the list back to [`Engine::put_back`].
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<ChannelId> {
        self.refresh_timers();
        let mut due = std::mem::take(&mut self.timers.scratch);
        due.clear();
        while let Some(&(at, id)) = self.timers.due.first()
            && at <= now
        {
            self.timers.due.pop_first();
            if let Some(owner) = self.owners.get_mut(&id) {
                owner.timer = None;
            }
            due.push(id);
        }
        due.sort_unstable();
        due
    }

    pub(super) fn put_back(&mut self, due: Vec<ChannelId>) {
        self.timers.scratch = due;
    }

    fn refresh_timers(&mut self) {
        while let Some(id) = self.timers.stale.pop() {
            let Some(owner) = self.owners.get_mut(&id) else {
                continue;
            };
            owner.is_stale = false;
            let channel = self.endpoint.channel(id);
            let own = channel.and_then(|channel| channel.poll_timeout());
            let at = own.into_iter().chain(owner.deadline).min();
            if at == owner.timer {
                continue;
            }
            if let Some(before) = std::mem::replace(&mut owner.timer, at) {
                self.timers.due.remove(&(before, id));
            }
            if let Some(at) = at {
                self.timers.due.insert((at, id));
            }
        }
    }

    /// Forgets all that the engine knows of a channel.
    pub(super) fn forget_owner(&mut self, id: ChannelId) {
        if let Some(owner) = self.owners.remove(&id)
            && let Some(at) = owner.timer
        {
            self.timers.due.remove(&(at, id));
        }
        self.guests.leave(id);
    }
}
