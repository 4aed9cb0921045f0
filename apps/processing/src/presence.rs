//! Presence of a processing node: a session outlives the silence of its peer, so that one who can go elsewhere asks its paths.

use std::{collections::BTreeSet, future::pending, time::Duration};

use anabranch::{AduSession, SessionEvent};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::error::ProcessingError;

/// Shortest and longest time between two probes.
const PROBE_TIMES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// Waits until no path of the session has responded for that long; without a time, for ever. Returns on failure only.
pub(crate) async fn lost<S: AduSession>(
    session: &S,
    patience: Option<Duration>,
) -> ProcessingError {
    let Some(patience) = patience else {
        return pending().await;
    };
    let mut ticks = interval((patience / 4).clamp(PROBE_TIMES.0, PROBE_TIMES.1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut responding = BTreeSet::new();
    // The first events are those of the paths that respond at the beginning.
    let mut silent_since = Some(Instant::now());
    let over = |error: &S::Error| ProcessingError::Over(error.to_string());
    loop {
        tokio::select! {
            event = session.next_event() => {
                match event {
                    Ok(SessionEvent::ChannelUp { channel, .. } | SessionEvent::ChannelRecovered { channel, .. }) => {
                        responding.insert(channel);
                    }
                    Ok(SessionEvent::ChannelSuspected { channel } | SessionEvent::ChannelClosed { channel, .. }) => {
                        responding.remove(&channel);
                    }
                    Ok(_) => continue,
                    Err(error) => return over(&error),
                }
                silent_since = match responding.is_empty() {
                    true => silent_since.or_else(|| Some(Instant::now())),
                    false => None,
                };
            }
            // Source and subscriber are to find it out at the same time, not at the next probe of each.
            () = passed(silent_since.map(|since| since + patience)) => {
                let ms = patience.as_millis();
                return ProcessingError::Lost(format!("no path to the processing node has responded for {ms} ms"));
            }
            _ = ticks.tick() => {
                if let Err(error) = session.probe().await {
                    return over(&error);
                }
            }
        }
    }
}

/// Waits for a time; without one, for ever.
async fn passed(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
