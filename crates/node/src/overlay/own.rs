//! Addresses that this node announces, where names of hosts stand for them.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};

use super::{change::Settings, runner::Input};

/// Time from one resolution to the next.
const EVERY: Duration = Duration::from_secs(60);

/// Resolves the names of this node, now and then, and lets the agent announce what they stand for; does not return.
pub(super) async fn announce(
    mut wanted: watch::Receiver<Arc<Settings>>,
    inputs: mpsc::Sender<Input>,
) {
    loop {
        let own = wanted.borrow_and_update().own.clone();
        if own.hosts.is_empty() {
            // The runner is dropped with the sender.
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        // A failure is logged there.
        if let Ok(found) = own.resolve().await {
            let announce = Input::Ask(Box::new(move |runner, now| {
                runner.agent.set_addresses(found, now);
            }));
            if inputs.send(announce).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}
