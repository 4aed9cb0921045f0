//! Place of a source that it chooses itself: what is known of its work there, and its leave.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anabranch_process::place::{Derived, Totals};
use tokio::sync::watch;

use crate::wire::{Notice, Request, message::DerivedBytes};

/// The choice of a source.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    inner: Mutex<Inner>,
    /// Reason to leave the place in use.
    leaving: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Inner {
    is_measured: bool,
    /// Those of the operators are of the place in use.
    totals: Totals,
    /// The operators of the place in use have told theirs.
    is_known: bool,
    /// Reason for the place in use, or the next one.
    why: Option<String>,
}

impl Placed {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An ADU of so many bytes was made.
    pub(crate) fn made(&self, bytes: usize) {
        let totals = &mut self.inner().totals;
        totals.made += 1;
        totals.made_bytes += bytes as u64;
    }

    pub(crate) fn measure(&self) {
        self.inner().is_measured = true;
    }

    /// A place has taken the stream; returns what it is to be asked.
    pub(crate) fn begun(&self) -> Vec<Request> {
        self.leaving.send_replace(None);
        let mut inner = self.inner();
        inner.is_known = false;
        let chosen = inner.why.clone().map(|why| Request::Chosen { why });
        let measure = inner.is_measured.then_some(Request::Measure);
        chosen.into_iter().chain(measure).collect()
    }

    pub(crate) fn leave(&self, why: &str) {
        self.inner().why = Some(why.to_owned());
        self.leaving.send_replace(Some(why.to_owned()));
    }

    /// Waits for a reason to leave.
    pub(crate) async fn leaving(&self) -> String {
        let mut leaving = self.leaving.subscribe();
        loop {
            let why = leaving.borrow_and_update().clone();
            match why {
                Some(why) => return why,
                // The sender is of this place.
                None => drop(leaving.changed().await),
            }
        }
    }

    pub(crate) fn why(&self) -> Option<String> {
        self.inner().why.clone()
    }

    /// Takes the totals of the operators at the place in use.
    pub(crate) fn derived(&self, notice: &Notice) {
        let Notice::Derived {
            taken,
            work,
            subscribers,
        } = notice
        else {
            return;
        };
        let mut derived = BTreeMap::new();
        for of_node in subscribers {
            let DerivedBytes { bytes, sent, .. } = *of_node;
            // A node that is none has no place in the overlay.
            if let Ok(node) = of_node.node.parse() {
                let sent = sent.unwrap_or(bytes);
                let waiting = of_node.waiting;
                derived.insert(
                    node,
                    Derived {
                        bytes,
                        sent,
                        waiting,
                    },
                );
            }
        }
        let mut inner = self.inner();
        inner.is_known = true;
        let totals = &mut inner.totals;
        (totals.taken, totals.work, totals.derived) = (*taken, *work, derived);
    }

    pub(crate) fn totals(&self) -> Option<Totals> {
        let inner = self.inner();
        inner.is_known.then(|| inner.totals.clone())
    }
}

#[cfg(test)]
mod tests {
    use anabranch::SecretKey;

    use super::*;

    #[tokio::test]
    async fn a_place_begins_without_what_the_one_before_has_done() {
        let placed = Placed::default();
        assert_eq!(placed.begun(), []);
        placed.measure();
        assert_eq!(placed.begun(), [Request::Measure]);
        placed.made(100);
        assert_eq!(placed.totals(), None);
        let node = SecretKey::from_seed([1; 32]).node_id();
        let of = |node: String| DerivedBytes {
            node,
            bytes: 40,
            sent: None,
            waiting: 0,
        };
        placed.derived(&Notice::Derived {
            taken: 1,
            work: 7,
            subscribers: vec![of(node.to_string()), of("none".to_owned())],
        });
        let totals = placed.totals().unwrap();
        assert_eq!((totals.made, totals.made_bytes), (1, 100));
        assert_eq!((totals.taken, totals.work), (1, 7));
        let derived = Derived {
            bytes: 40,
            sent: 40,
            waiting: 0,
        };
        assert_eq!(totals.derived, BTreeMap::from([(node, derived)]));
        placed.leave("it is better");
        assert_eq!(placed.leaving().await, "it is better");
        let why = "it is better".to_owned();
        assert_eq!(placed.begun(), [Request::Chosen { why }, Request::Measure]);
        assert_eq!(placed.totals(), None);
        let waiting = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::pin!(placed.leaving()).poll(context))
        });
        assert!(waiting.await.is_pending());
    }
}
