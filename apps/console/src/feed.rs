//! State of the node for all pages that look: asked four times a second while one does.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{sync::watch, time::MissedTickBehavior};

use crate::{control::Control, routes::Shared};

/// Time between two states.
const PERIOD: Duration = Duration::from_millis(250);
/// Requests of each state, whose answers are its members.
const PARTS: [&str; 3] = ["status", "paths", "streams"];

/// The newest state, as an event. A page that is slow skips states.
pub(crate) type Newest = watch::Receiver<Bytes>;

/// Asks the node while there are receivers of the newest state; does not return.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while shared.newest.receiver_count() == 0 {
            shared.looked.notified().await;
        }
        ticks.tick().await;
        let event = event(&state(&shared.control).await);
        shared.newest.send_replace(event);
    }
}

/// An object with the answer to each part, or with `error`.
async fn state(control: &Control) -> String {
    let mut text = String::from("{");
    for part in PARTS {
        match control.ask(&format!("{{\"show\":\"{part}\"}}")).await {
            Ok(answer) => {
                let _ = write!(text, "\"{part}\":{answer},");
            }
            Err(error) => return serde_json::json!({ "error": error.to_string() }).to_string(),
        }
    }
    text.pop();
    text.push('}');
    text
}

/// A server-sent event of a text without line breaks.
fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
