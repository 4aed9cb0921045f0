//! Probes of the paths while a transfer waits: a receiver that was killed would not be missed otherwise, as long as there is nothing to send.

use std::time::Duration;

use super::progress::Progress;
use crate::api::AduSession;

/// Time without any movement after which the paths are probed, again and again.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Asks the paths for an answer every second in which nothing moves: a receiver that was killed is silent, and so is one that is busy.
pub(super) async fn probe_while_waiting<S: AduSession>(session: &S, progress: &Progress) {
    let moved = || {
        let now = progress.snapshot();
        (now.bytes_done, now.bytes_durable)
    };
    let mut before = moved();
    loop {
        tokio::time::sleep(PROBE_EVERY).await;
        let now = moved();
        if now == before {
            // A session that is over ends the transfer.
            let _ = session.probe().await;
        }
        before = now;
    }
}
