//! Services of optional parts that attach again when their node was away.

use std::{ops::AsyncFn, time::Duration};

use crate::exit::{Failure, note};

/// Pause before the node is attached to again.
const PAUSE: Duration = Duration::from_secs(2);

/// Serves attached to the node, again whenever the connection is over, which `serve` returns the reason of; it is given whether this is the
/// first time. Returns when the first attempt fails.
pub(crate) async fn keep(serve: impl AsyncFn(bool) -> Result<Failure, Failure>) -> Failure {
    let mut is_first = true;
    let mut before = String::new();
    loop {
        let (ended, was_there) = match serve(is_first).await {
            Err(failure) if is_first => return failure,
            Ok(ended) => (ended, true),
            Err(ended) => (ended, false),
        };
        // While a node is away, the same once.
        if was_there || ended.message() != before {
            note(&format!("{}; attaching again", ended.message()));
            ended.message().clone_into(&mut before);
        }
        is_first = false;
        tokio::time::sleep(PAUSE).await;
    }
}
