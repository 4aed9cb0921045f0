//! Pings: the round trip of every path of a session, measured now.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::ChannelId;
use anabranch_session::SessionEvent;

use crate::{error::Closed, session_handle::Session};

impl Session {
    /// Sends a small packet on every path, without waiting: one that is not acknowledged soon does not respond any more. Nothing else finds
    /// that out while there is nothing to send.
    pub fn probe(&self) {
        self.inner.host.shared.command(|state, _| {
            // One that is over has no paths.
            if let Ok(mut session) = state.engine.session(self.inner.id) {
                session.ping();
            }
        });
    }

    /// Sends a small packet on every path, and waits until each was acknowledged or found lost, for `within` at most. The round trip is
    /// that to the peer's node, without the time for which the peer waited before it acknowledged; `None`: no answer in time.
    ///
    /// # Errors
    /// The session is over.
    pub async fn ping(
        &self,
        within: Duration,
    ) -> Result<Vec<(ChannelId, Option<Duration>)>, Closed> {
        let events = self.events();
        let pinged = self.inner.host.shared.command(|state, _| {
            let session = state.engine.session(self.inner.id);
            session.map_or_else(|_| Vec::new(), |mut session| session.ping())
        });
        let mut answers = BTreeMap::new();
        let answering = async {
            while !pinged.iter().all(|channel| answers.contains_key(channel)) {
                if let SessionEvent::Pong {
                    channel,
                    round_trip,
                } = events.next().await?
                {
                    answers.insert(channel, round_trip);
                }
            }
            Ok(())
        };
        // What has not answered by then has no round trip.
        if let Ok(outcome) = tokio::time::timeout(within, answering).await {
            outcome?;
        }
        let answer = |channel: ChannelId| (channel, answers.get(&channel).copied().flatten());
        Ok(pinged.into_iter().map(answer).collect())
    }
}
