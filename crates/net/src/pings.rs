//! Pings: the round trip of every path of a session, measured now.

use std::time::Duration;

use anabranch_base::ChannelId;
use anabranch_session::SessionEvent;

use crate::{error::Closed, session_handle::Session};

impl Session {
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
        let shared = &self.inner.host.shared;
        let mut sent = shared.command(|state, _| {
            let mut session = state.engine.session(self.inner.id).ok()?;
            Some(
                session
                    .ping()
                    .into_iter()
                    .map(|channel| (channel, None))
                    .collect::<Vec<_>>(),
            )
        });
        let pinged = sent.get_or_insert_default();
        let mut waiting = pinged.len();
        let answers = async {
            while waiting > 0 {
                let event = events.next().await?;
                let SessionEvent::Pong {
                    channel,
                    round_trip,
                } = event
                else {
                    continue;
                };
                if let Some(entry) = pinged.iter_mut().find(|(id, _)| *id == channel) {
                    entry.1 = round_trip;
                    waiting -= 1;
                }
            }
            Ok(())
        };
        // What has not answered by then has no round trip.
        if let Ok(outcome) = tokio::time::timeout(within, answers).await {
            outcome?;
        }
        Ok(sent.unwrap_or_default())
    }
}
