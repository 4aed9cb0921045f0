//! Attempts at transfers under way: of two at the same transfer, the newer continues.
//!
//! Two at once would write the same partial files. A sender that was killed and restarted comes back long before its old
//! session times out, so the old attempt is stopped, and the new one begins after the last write of the old one. The newer
//! attempt is the one with the newer session: messages of a sender that was killed may be read after those of the one that
//! replaced it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::{NodeId, SessionId};
use tokio::sync::watch;

use super::error::TransferError;

/// Time that an old attempt may take to end; it has at most one record to write, and the disk may be slow.
const TAKE_OVER_MAX: Duration = Duration::from_secs(20);

pub(super) const REPLACED: &str =
    "the same node has begun the same transfer again; the newer attempt continues";

/// By sender and name.
type Key = (NodeId, String);

/// The attempts that hold a folder now.
#[derive(Debug, Default)]
pub(super) struct Active(Mutex<HashMap<Key, Attempt>>);

#[derive(Debug)]
struct Attempt {
    session: SessionId,
    /// True once a newer attempt has come.
    replaced: watch::Sender<bool>,
}

/// One attempt's hold of its folder, until it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    active: Arc<Active>,
    key: Key,
}

/// Receiver that notifies an attempt of a newer one.
#[derive(Debug)]
pub(super) struct Replaced(watch::Receiver<bool>);

impl Active {
    /// Holds the folder of this transfer; waits for an older attempt to let go of it.
    ///
    /// # Errors
    /// The older attempt does not end, or the attempt in a newer `session` holds it already.
    pub(super) async fn enter(
        self: &Arc<Self>,
        sender: NodeId,
        name: &str,
        session: SessionId,
    ) -> Result<(Hold, Replaced), TransferError> {
        let key = (sender, name.to_owned());
        let entering = async {
            loop {
                match self.try_enter(&key, session) {
                    Ok(entered) => return Ok(entered),
                    // Closed once the attempt that held it is gone.
                    Err(Some(older)) => older.closed().await,
                    Err(None) => return Err(TransferError::Ticket(REPLACED)),
                }
            }
        };
        tokio::time::timeout(TAKE_OVER_MAX, entering)
            .await
            .unwrap_or(Err(TransferError::Ticket(
                "the same transfer is under way already; wait for it to end",
            )))
    }

    /// The older attempt, which is notified to stop, if there is one; `None`: there is a newer one.
    fn try_enter(
        self: &Arc<Self>,
        key: &Key,
        session: SessionId,
    ) -> Result<(Hold, Replaced), Option<Older>> {
        let mut active = self.lock();
        if let Some(other) = active.get(key) {
            if other.session > session {
                return Err(None);
            }
            other.replaced.send_replace(true);
            return Err(Some(Older(other.replaced.subscribe())));
        }
        let (replaced, replacing) = watch::channel(false);
        active.insert(key.clone(), Attempt { session, replaced });
        let hold = Hold {
            active: self.clone(),
            key: key.clone(),
        };
        Ok((hold, Replaced(replacing)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Older(watch::Receiver<bool>);

impl Older {
    async fn closed(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl Replaced {
    /// Waits for a newer attempt; for ever, if none comes.
    pub(super) async fn wait(&mut self) {
        if self.0.wait_for(|replaced| *replaced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.active.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender() -> NodeId {
        NodeId::from_public_key([1; 32])
    }

    #[tokio::test]
    async fn the_newer_attempt_waits_for_the_older_to_end() {
        let active = Arc::new(Active::default());
        let (first, mut replaced) = active.enter(sender(), "film", SessionId(0)).await.unwrap();
        let newer = {
            let active = active.clone();
            tokio::spawn(async move {
                active
                    .enter(sender(), "film", SessionId(1))
                    .await
                    .map(|_| ())
            })
        };
        replaced.wait().await;
        assert!(!newer.is_finished());
        drop(first);
        newer.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn other_transfers_do_not_interfere() {
        let active = Arc::new(Active::default());
        let _first = active.enter(sender(), "film", SessionId(1)).await.unwrap();
        let _second = active.enter(sender(), "book", SessionId(0)).await.unwrap();
    }

    /// A sender was killed right after its offer and restarted; its first offer is read last.
    #[tokio::test]
    async fn an_older_session_that_is_read_late_does_not_replace_the_newer() {
        let active = Arc::new(Active::default());
        let (_newer, mut replaced) = active.enter(sender(), "film", SessionId(2)).await.unwrap();
        let late = active.enter(sender(), "film", SessionId(1)).await;
        assert!(matches!(late, Err(TransferError::Ticket(REPLACED))));
        let replacing = tokio::time::timeout(Duration::ZERO, replaced.wait()).await;
        assert!(replacing.is_err(), "the newer attempt was replaced");
    }
}
