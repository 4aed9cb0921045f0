//! State for all pages that look: asked for four times a second while one does.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{sync::watch, time::MissedTickBehavior};

use crate::routes::Shared;

/// Time between two states.
const PERIOD: Duration = Duration::from_millis(250);

/// The newest state, as an event. A page that is slow skips states.
pub(crate) type Newest = watch::Receiver<Bytes>;

/// Asks for the state while there are receivers of the newest one; does not return.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while shared.newest.receiver_count() == 0 {
            shared.looked.notified().await;
        }
        ticks.tick().await;
        let event = event(&shared.source.state().await);
        shared.newest.send_replace(event);
    }
}

/// A server-sent event of a text without line breaks.
fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
