//! Peers that this node calls because its configuration says so: whoever needs a session with one waits for that session rather
//! than open another.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anabranch_base::NodeId;
use tokio::{sync::watch, time};

/// Longest wait for an attempt: what is known by then of a peer that cannot be reached is reported sooner by another attempt.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Peers that are being called.
#[derive(Debug, Default)]
pub(super) struct Calling(Arc<watch::Sender<BTreeSet<NodeId>>>);

/// An attempt to reach a peer, until this is dropped.
#[derive(Debug)]
pub(super) struct Attempt {
    all: Arc<watch::Sender<BTreeSet<NodeId>>>,
    node: NodeId,
}

impl Calling {
    /// The peer is being called from now on.
    pub(super) fn begin(&self, node: NodeId) -> Attempt {
        self.0.send_modify(|all| _ = all.insert(node));
        Attempt {
            all: self.0.clone(),
            node,
        }
    }

    /// Returns when the peer is not being called, or after three seconds.
    pub(super) async fn settled(&self, node: &NodeId) {
        let mut all = self.0.subscribe();
        let over = all.wait_for(|all| !all.contains(node));
        // Neither end of the wait is an error.
        let _ = time::timeout(WAIT_MAX, over).await;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.all.send_modify(|all| _ = all.remove(&self.node));
    }
}

#[cfg(test)]
mod tests {
    use anabranch_session::SecretKey;

    use super::*;

    fn node(seed: u8) -> NodeId {
        SecretKey::from_seed([seed; 32]).node_id()
    }

    #[tokio::test(start_paused = true)]
    async fn who_needs_a_session_waits_for_the_attempt() {
        let calling = Calling::default();
        let began = time::Instant::now();
        let attempt = calling.begin(node(1));
        calling.settled(&node(2)).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "another peer");
        let ended = async {
            time::sleep(Duration::from_secs(1)).await;
            drop(attempt);
        };
        let one = node(1);
        tokio::join!(calling.settled(&one), ended);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        let _attempt = calling.begin(node(1));
        calling.settled(&node(1)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(4), "not for ever");
    }
}
