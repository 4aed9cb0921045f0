//! Commands of the application about the engine as a whole; those about a session or a stream are in `handles`.

use std::{collections::BTreeMap, sync::Arc};

use anabranch_admission::{Prior, Steadiness};
use anabranch_base::{ChannelId, Instant, NodeId, SessionId, SocketId};
use anabranch_channel::ConnectError;
use anabranch_spec::{Share, Shares, Tenant};

use super::{CODE_CHANNEL_ONLY, Engine};
use crate::{
    config::Config,
    links::Link,
    local::LocalDescription,
    session::{Parts, Session},
};

impl Engine {
    /// Opens a session to `peer` over every one of `links`; `Connected` follows with the first
    /// channel, `Closed` if none can be opened in time.
    ///
    /// # Errors
    /// An address cannot be dialled.
    pub fn connect(
        &mut self,
        now: Instant,
        peer: NodeId,
        links: Vec<Link>,
    ) -> Result<SessionId, ConnectError> {
        for link in &links {
            if link.remote.port() == 0 || link.remote.ip().is_unspecified() {
                return Err(ConnectError::Address(link.remote));
            }
        }
        let id = self.new_session(now, peer, true, None);
        if let Ok(mut session) = self.session(id) {
            for link in links {
                session.add_link(now, link);
            }
        }
        Ok(id)
    }

    pub(super) fn new_session(
        &mut self,
        now: Instant,
        peer: NodeId,
        is_initiator: bool,
        probation: Option<Instant>,
    ) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        let parts = Parts {
            id,
            peer,
            is_initiator,
            config: self.config.clone(),
            probation,
            seed: self.seed.child(&id.to_string()),
        };
        let mut session = Session::new(now, parts);
        if let Some(text) = &self.config.objectives {
            // Of no effect if it has errors, as the setting says.
            let _ = session.inject_objectives(now, text, &mut self.events);
        }
        self.sessions.insert(id, Box::new(session));
        id
    }

    /// A local socket can no longer be used: its interface went. Channels on it are closed at once.
    pub fn socket_down(&mut self, now: Instant, socket: SocketId) {
        for session in self.sessions.values_mut() {
            session.set_socket_up(now, socket, false);
        }
        let channels: Vec<ChannelId> = self.endpoint.channel_ids().collect();
        for id in channels {
            if self
                .endpoint
                .channel(id)
                .is_some_and(|channel| channel.socket() == socket)
            {
                self.close_channel(now, id);
            }
        }
    }

    /// A local socket can be used again; not before its next period, if its budget is spent.
    pub fn socket_up(&mut self, now: Instant, socket: SocketId) {
        if self.quotas.is_spent(socket) {
            return;
        }
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.set_socket_up(now, socket, true);
            }
            self.dial(now, id);
        }
    }

    /// Sets if peers may open channels on a local socket, which they may unless this is called. Where they may not, they get no
    /// answer; channels that exist stay.
    pub fn set_accepting(&mut self, socket: SocketId, accepts: bool) {
        self.endpoint.set_accepting(socket, accepts);
    }

    /// Describes the channels of a local socket that connect from now on: name, technology and attributes, for objectives and
    /// path preferences. Without a name they are called by their ids, such as `channel-3`.
    pub fn describe_socket(&mut self, socket: SocketId, description: LocalDescription) {
        self.descriptions.insert(socket, Arc::new(description));
        self.uplinks.forget_sockets();
    }

    /// Knowledge of local interfaces from open sessions, by name: shares of its level that an interface keeps for ten seconds, and the
    /// number of windows from which they are; of several paths that which was measured for longest. For hosts that keep it
    /// ([`crate::Config::priors`]).
    pub fn evidence(&mut self) -> BTreeMap<Arc<str>, (Steadiness, usize)> {
        let mut all = BTreeMap::<Arc<str>, (Steadiness, usize)>::new();
        let known = self
            .sessions
            .values_mut()
            .flat_map(|session| session.evidence());
        for (name, shares, windows) in known {
            let best = all.entry(name).or_insert((shares, windows));
            if best.1 < windows {
                *best = (shares, windows);
            }
        }
        all
    }

    /// Replaces the settings of sessions and channels that begin from now on. Open sessions under the policy so far get the new one.
    /// Knowledge of interfaces and the shares of tenants stay; so does the largest payload, for which the engine is made.
    pub fn set_config(&mut self, config: Config) {
        let mut config = config.normalised();
        let before = self.config.policy;
        if before != config.policy {
            for session in self.sessions.values_mut() {
                if session.stats().policy == before {
                    session.set_policy(config.policy);
                }
            }
        }
        self.endpoint.set_config(config.channel);
        config.channel = self.endpoint.config().clone();
        config.priors = self.config.priors.clone();
        config.promised_shares = self.config.promised_shares.clone();
        self.config = config;
    }

    /// Traces channels that begin from now on; `None`: no longer.
    #[cfg(feature = "qlog")]
    pub fn set_traces(&mut self, traces: Option<Arc<dyn anabranch_channel::qlog::Traces>>) {
        self.endpoint.set_traces(traces);
    }

    /// Sets what is known of local interfaces from earlier sessions; it applies to sessions that begin from now on.
    pub fn set_priors(&mut self, priors: Arc<BTreeMap<Arc<str>, Prior>>) {
        self.config.priors = priors;
    }

    /// [`Self::describe_socket`] with a name only.
    pub fn set_socket_name(&mut self, socket: SocketId, name: &str) {
        let description = LocalDescription {
            name: Some(name.into()),
            ..LocalDescription::default()
        };
        self.describe_socket(socket, description);
    }

    /// Sets the largest share of what can be promised that the streams of a tenant may have together, over all sessions; `None`: no
    /// limit. It decides about promises that are made or raised from now on; waiting streams are tried again at the end of a
    /// window. O(sessions + tenants).
    pub fn set_promised_share(&mut self, tenant: Tenant, share: Option<Share>) {
        if self.config.promised_shares.get(&tenant).copied() == share {
            return;
        }
        let shares = Arc::make_mut(&mut self.config.promised_shares);
        match share {
            Some(share) => shares.insert(tenant, share),
            None => shares.remove(&tenant),
        };
        for session in self.sessions.values_mut() {
            session.set_promised_shares(self.config.promised_shares.clone());
        }
    }

    /// The shares that were set.
    pub fn promised_shares(&self) -> &Shares {
        &self.config.promised_shares
    }

    pub(super) fn close_channel(&mut self, now: Instant, id: ChannelId) {
        if let Some(channel) = self.endpoint.channel(id) {
            channel.close(now, CODE_CHANNEL_ONLY, "this path is going away");
            self.touched.push_back(id);
            self.advance(now, id);
        }
    }

    /// Channels that exist, those included whose handshake goes on or whose end has not been acknowledged yet.
    pub fn channel_count(&self) -> usize {
        self.owners.len()
    }

    /// Ids of all sessions.
    pub fn session_ids(&self) -> Vec<SessionId> {
        self.sessions.keys().copied().collect()
    }
}
