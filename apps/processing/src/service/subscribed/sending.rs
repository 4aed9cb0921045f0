//! Sending of what is derived for a subscriber. When the pipeline of an unreliable one changes, what waits is given up first: the viewer looks
//! elsewhere, and would see the former view until all of it is sent.

use std::{sync::atomic::Ordering, time::Duration};

use anabranch::local::client::Stream;
use anabranch_process::serve::{End, Next};
use tokio::time::timeout;

use super::{Present, Source, Stopped, lock};
use crate::wire::{Carried, Item};

/// Time without ADUs after which a mark is sent.
const MARK_TIME: Duration = Duration::from_millis(100);
/// ADUs of the source without derived ones after which a mark is sent at once.
const MARK_ADUS: u64 = 256;

impl Present<'_> {
    /// Sends what is derived until nothing follows; returns the reason.
    pub(super) async fn send(&self, source: &Source, stream: &Stream) -> Result<End, Stopped> {
        let mut changes = source.changes();
        let mut turns = self.turns.subscribe();
        let mut marked = 0;
        // For what was sent last, which may wait in the stream.
        let mut _sent = None;
        loop {
            changes.mark_unchanged();
            // The sender is of this subscriber.
            while turns.has_changed().unwrap_or(false) {
                turns.mark_unchanged();
                self.discard(stream).await;
            }
            match self.subscription.next() {
                Next::Adus(adus, charge) => {
                    for derived in adus {
                        marked = derived.adu.sequence + 1;
                        let bytes = Carried::from(derived).to_bytes();
                        let length = bytes.len() as u64;
                        self.in_hand.store(length, Ordering::Relaxed);
                        let sent = tokio::select! {
                            sent = stream.send(bytes) => Some(sent?),
                            _ = turns.changed() => None,
                        };
                        self.in_hand.store(0, Ordering::Relaxed);
                        if sent.is_none() {
                            turns.mark_changed();
                            break;
                        }
                        self.sent.fetch_add(1, Ordering::Relaxed);
                        self.sent_bytes.fetch_add(length, Ordering::Relaxed);
                        lock(&self.holding).sent(marked, length);
                    }
                    _sent = Some(charge);
                }
                Next::Idle(Some(position)) if position.next > marked => {
                    let is_many = position.next - marked >= MARK_ADUS;
                    if is_many || timeout(MARK_TIME, changes.changed()).await.is_err() {
                        marked = position.next;
                        stream.send(Item::Mark(position.into()).to_bytes()).await?;
                    }
                }
                Next::Idle(_) => {
                    // The senders are of the source and of this subscriber.
                    tokio::select! {
                        _ = changes.changed() => {}
                        _ = turns.changed() => turns.mark_changed(),
                    }
                }
                Next::Ended(end) => return Ok(end),
            }
        }
    }

    /// Gives up what was derived by a former pipeline and is not sent completely.
    async fn discard(&self, stream: &Stream) {
        // One that is over is found out when something is sent, and one that loses nothing, although its subscriber asked for less, is sent all.
        let Ok(discarded) = stream.discard().await else {
            return;
        };
        self.sent.fetch_sub(discarded.adus, Ordering::Relaxed);
        self.sent_bytes
            .fetch_sub(discarded.bytes, Ordering::Relaxed);
        self.discarded_bytes
            .fetch_add(discarded.bytes, Ordering::Relaxed);
    }
}
