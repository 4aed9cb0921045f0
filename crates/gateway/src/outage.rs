//! Outages: the time for which a session has no path that works. Connections end when it is too long.
//!
//! A session itself outlasts much longer outages. Its connections hold those of programs at either end, which they must not do for
//! a peer that was killed: a database keeps its locks for a client that is gone. One task a session follows its paths.

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anabranch::{
    Session, SessionEvent,
    base::{ChannelId, SessionId},
    net::SessionEvents,
};
use tokio::{sync::watch, time::timeout_at};

use crate::{
    limits::Timeouts,
    notice::{Notice, Notices},
};

/// State of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Works,
    Silent,
    Closed,
}

/// State of a channel after an event; `None`: the event is about something else.
fn state_after(event: &SessionEvent) -> Option<(ChannelId, State)> {
    match event {
        SessionEvent::ChannelUp { channel, .. }
        | SessionEvent::ChannelRecovered { channel, .. } => Some((*channel, State::Works)),
        SessionEvent::ChannelSuspected { channel } => Some((*channel, State::Silent)),
        SessionEvent::ChannelClosed { channel, .. } => Some((*channel, State::Closed)),
        _ => None,
    }
}

/// The channels of a session that are up, and the time since which none works.
#[derive(Debug)]
struct Silence {
    channels: BTreeMap<ChannelId, State>,
    since: Option<Instant>,
}

impl Silence {
    /// Before the first channel is known.
    fn new(now: Instant) -> Self {
        Self {
            channels: BTreeMap::new(),
            since: Some(now),
        }
    }

    fn change(&mut self, now: Instant, channel: ChannelId, state: State) {
        match state {
            State::Closed => drop(self.channels.remove(&channel)),
            State::Works | State::Silent => drop(self.channels.insert(channel, state)),
        }
        let works = self.channels.values().any(|state| *state == State::Works);
        self.since = match works {
            true => None,
            false => self.since.or(Some(now)),
        };
    }

    /// Time at which it has lasted for so long; `None`: a channel works.
    fn lasts_until(&self, limit: Duration) -> Option<Instant> {
        self.since.map(|since| since + limit)
    }
}

/// Waits until no channel has worked for the time limit, and returns that; `None`: the session is over.
async fn too_long(events: SessionEvents, timeouts: &Timeouts) -> Option<Duration> {
    let mut silence = Silence::new(Instant::now());
    loop {
        let limit = timeouts.outage();
        let event = match silence.lasts_until(limit) {
            None => events.next().await,
            Some(until) => match timeout_at(until.into(), events.next()).await {
                Ok(event) => event,
                // A reload may have changed it meanwhile.
                Err(_) if limit < timeouts.outage() => continue,
                Err(_) => return Some(limit),
            },
        };
        if let Some((channel, state)) = state_after(&event.ok()?) {
            silence.change(Instant::now(), channel, state);
        }
    }
}

/// The outage of one session. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Outage(watch::Receiver<Option<Duration>>);

impl Outage {
    /// Waits until it has lasted for too long, and returns that time.
    pub(crate) async fn too_long(&self) -> Duration {
        let mut state = self.0.clone();
        match state.wait_for(Option::is_some).await.map(|found| *found) {
            Ok(Some(after)) => after,
            // The session is over, which ends its streams.
            _ => pending().await,
        }
    }

    /// True if nothing follows the session any more.
    fn is_over(&self) -> bool {
        self.0.borrow().is_some() || self.0.has_changed().is_err()
    }
}

/// The outages of a host's sessions. Clones share them. Bounded by the sessions that have had connections and are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages(Arc<Mutex<HashMap<SessionId, Outage>>>);

impl Outages {
    /// That of a session, which is followed from now on. Must be called within a runtime.
    pub(crate) fn of(&self, session: &Session, timeouts: &Timeouts, notices: &Notices) -> Outage {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outage) = all.get(&session.id())
            && !outage.is_over()
        {
            return outage.clone();
        }
        all.retain(|_, outage| !outage.is_over());
        let (sender, state) = watch::channel(None);
        let outage = Outage(state);
        all.insert(session.id(), outage.clone());
        let (timeouts, notices) = (timeouts.clone(), notices.clone());
        // The reader does not keep the session open; its end is that of the task.
        let events = session.events();
        tokio::spawn(async move {
            if let Some(after) = too_long(events, &timeouts).await {
                // One receiver is that of the table.
                if sender.receiver_count() > 1 {
                    notices.show(&Notice::Outage(after));
                }
                // The receivers may be gone.
                let _ = sender.send(Some(after));
            }
        });
        outage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Time at which connections end after these changes of channels, in seconds; `None`: they do not.
    fn ends(changes: &[(u64, u64, State)]) -> Option<u64> {
        let start = Instant::now();
        let mut silence = Silence::new(start);
        for &(at, channel, state) in changes {
            let now = start + Duration::from_secs(at);
            let is_over = silence.lasts_until(LIMIT).is_some_and(|until| until <= now);
            assert!(!is_over, "over before {at} s");
            silence.change(now, ChannelId(channel), state);
        }
        let until = silence.lasts_until(LIMIT)?;
        Some((until - start).as_secs())
    }

    #[test]
    fn connections_end_when_no_path_has_worked_for_the_time() {
        use State::{Closed, Silent, Works};
        assert_eq!(ends(&[(0, 1, Works), (100, 1, Silent)]), Some(130));
        // The session gives the silent channel up meanwhile; the time goes on.
        let changes = [(0, 1, Works), (100, 1, Silent), (125, 1, Closed)];
        assert_eq!(ends(&changes), Some(130));
        // The second path falls silent later.
        let changes = [
            (0, 1, Works),
            (0, 2, Works),
            (100, 1, Silent),
            (150, 2, Silent),
        ];
        assert_eq!(ends(&changes), Some(180));
        // There was none from the beginning.
        assert_eq!(ends(&[]), Some(30));
    }

    #[test]
    fn connections_outlast_shorter_outages_and_idle_times() {
        use State::{Closed, Silent, Works};
        assert_eq!(ends(&[(0, 1, Works)]), None);
        let changes = [
            (0, 1, Works),
            (100, 1, Silent),
            (129, 1, Works),
            (140, 1, Silent),
        ];
        assert_eq!(ends(&changes), Some(170), "each outage counts by itself");
        // A new channel in place of one that was given up.
        let changes = [(0, 1, Works), (10, 1, Closed), (39, 2, Works)];
        assert_eq!(ends(&changes), None);
        // One of two.
        let changes = [
            (0, 1, Works),
            (0, 2, Works),
            (10, 1, Silent),
            (40, 1, Closed),
        ];
        assert_eq!(ends(&changes), None);
    }
}
