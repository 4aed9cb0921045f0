//! Attempts to reach peers: reports of the network about them, their results, and nodes that are refused here.

use std::net::SocketAddr;

use anabranch_base::{ChannelId, Instant, NodeId, SocketId};
use anabranch_channel::{CloseReason, Undeliverable};

use super::{CODE_CHANNEL_ONLY, Engine, Refused};
use crate::{attempt::Attempts, event::Event};

impl Engine {
    /// The network, or the kernel of this machine, reports that packets from `socket` to `remote` cannot be delivered. It ends
    /// handshakes that this node began there, which are begun again after a pause; anything else goes on, because such reports
    /// may be forged. O(channels).
    pub fn note_undeliverable(
        &mut self,
        now: Instant,
        socket: SocketId,
        remote: SocketAddr,
        cause: Undeliverable,
    ) {
        let dialled = self.owners.iter().filter(|(_, owner)| !owner.is_accepted);
        let is_concerned = |id: &ChannelId| {
            let channel = self.endpoint.peek(*id);
            channel.is_some_and(|channel| {
                channel.is_handshaking() && channel.socket() == socket && channel.remote() == remote
            })
        };
        let concerned: Vec<ChannelId> = dialled.map(|(&id, _)| id).filter(is_concerned).collect();
        for id in concerned {
            if let Some(channel) = self.endpoint.channel(id) {
                let because = CloseReason::Undeliverable(cause);
                channel.close_because(now, CODE_CHANNEL_ONLY, "not delivered", because);
            }
            self.advance_closed(now, id);
            // There is nobody to say goodbye to.
            self.endpoint.abandon(id);
            self.forget_owner(id);
        }
    }

    /// Results of the attempts to open sessions with `peer` that this node began and that are not established.
    pub fn attempts(&self, now: Instant, peer: NodeId) -> Option<Attempts> {
        let mut sessions = self.sessions.values().rev();
        let session = sessions.find(|session| {
            session.peer == peer && session.is_initiator && !session.establishment.is_complete()
        })?;
        let mut attempts = session.attempts(now);
        self.name_interfaces(&mut attempts);
        Some(attempts)
    }

    /// Adds the names of the interfaces to the results of attempts.
    pub(super) fn name_interfaces(&self, attempts: &mut Attempts) {
        for attempt in &mut attempts.links {
            let description = self.descriptions.get(&attempt.socket);
            attempt.interface = description.and_then(|description| description.name.clone());
        }
    }

    /// Reports a node whose handshake ended because it is not listed here.
    pub(super) fn report_stranger(&mut self, id: ChannelId, reason: &CloseReason) {
        if let CloseReason::Stranger(peer) = *reason
            && let Some(channel) = self.endpoint.peek(id)
        {
            self.guests.refusals.add(Refused::NotListed);
            self.events.push_back(Event::Stranger {
                peer,
                socket: channel.socket(),
                remote: channel.remote(),
            });
        }
    }
}
