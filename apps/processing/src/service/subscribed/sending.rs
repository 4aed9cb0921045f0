//! Sending of what is derived for a subscriber. When the pipeline of an unreliable one changes, what waits is given up first: the viewer looks
//! elsewhere, and would see the former view until all of it is sent.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anabranch::{Discarded, local::client::Stream};
use anabranch_process::serve::{End, Next};
use tokio::time::timeout;

use super::{Present, Source, Stopped, lock};
use crate::wire::{Carried, Item};

/// Time without ADUs after which a mark is sent.
const MARK_TIME: Duration = Duration::from_millis(100);
/// ADUs of the source without derived ones after which a mark is sent at once.
const MARK_ADUS: u64 = 256;
/// Marks remembered: more do not wait in a stream.
const MARKS_MAX: usize = 1024;

/// Marks among the items of a stream, which do not count as ADUs that were sent.
#[derive(Debug, Default)]
struct Marks {
    items: u64,
    /// Place and bytes of each, in order.
    places: VecDeque<(u64, u64)>,
}

impl Marks {
    fn add_adu(&mut self) {
        self.items += 1;
    }

    fn add_mark(&mut self, bytes: u64) {
        self.places.push_back((self.items, bytes));
        self.items += 1;
        if self.places.len() > MARKS_MAX {
            self.places.pop_front();
        }
    }

    /// The last items were given up; returns the ADUs among them.
    fn give_up(&mut self, discarded: Discarded) -> Discarded {
        self.items = self.items.saturating_sub(discarded.adus);
        let mut adus = discarded;
        while let Some(&(place, bytes)) = self.places.back()
            && place >= self.items
        {
            self.places.pop_back();
            adus.adus = adus.adus.saturating_sub(1);
            adus.bytes = adus.bytes.saturating_sub(bytes);
        }
        adus
    }
}

impl Present<'_> {
    /// Sends what is derived until nothing follows; returns the reason.
    pub(super) async fn send(&self, source: &Source, stream: &Stream) -> Result<End, Stopped> {
        let mut changes = source.changes();
        let mut turns = self.turns.subscribe();
        let mut marked = 0;
        let mut marks = Marks::default();
        // For what was sent last, which may wait in the stream.
        let mut _sent = None;
        loop {
            changes.mark_unchanged();
            // A turn waits for this: what is taken is of the pipeline in force, or it is noticed while that is sent.
            let next = {
                let turn = turns.borrow();
                (!turn.has_changed()).then(|| self.subscription.next())
            };
            let Some(next) = next else {
                turns.mark_unchanged();
                self.discard(stream, &mut marks).await;
                continue;
            };
            match next {
                Next::Adus(adus, charge) => {
                    for derived in adus {
                        marked = derived.adu.sequence + 1;
                        let made = derived.adu.made;
                        let bytes = Carried::from(derived).to_bytes();
                        let length = bytes.len() as u64;
                        self.in_hand.store(length, Ordering::Relaxed);
                        let sent = tokio::select! {
                            sent = stream.send(bytes) => Some(sent?),
                            _ = turns.changed() => None,
                        };
                        self.in_hand.store(0, Ordering::Relaxed);
                        let Some(number) = sent else {
                            turns.mark_changed();
                            break;
                        };
                        if let Some(made) = made {
                            lock(&self.losses).sent(number, made);
                        }
                        marks.add_adu();
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
                        let mark = Item::Mark(position.into()).to_bytes();
                        marks.add_mark(mark.len() as u64);
                        stream.send(mark).await?;
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
    async fn discard(&self, stream: &Stream, marks: &mut Marks) {
        // One that is over is found out when something is sent, and one that loses nothing, although its subscriber asked for less, is sent all.
        let Ok(discarded) = stream.discard().await else {
            return;
        };
        let adus = marks.give_up(discarded);
        let count_less = |sent: &AtomicU64, less: u64| {
            let _ = sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sent| {
                Some(sent.saturating_sub(less))
            });
        };
        count_less(&self.sent, adus.adus);
        count_less(&self.sent_bytes, adus.bytes);
        self.discarded_bytes
            .fetch_add(adus.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discarded(adus: u64, bytes: u64) -> Discarded {
        Discarded { adus, bytes }
    }

    #[test]
    fn marks_that_are_given_up_do_not_count_as_adus() {
        let mut marks = Marks::default();
        for _ in 0..3 {
            marks.add_adu();
            marks.add_mark(10);
        }
        assert_eq!(marks.give_up(discarded(3, 120)), discarded(1, 100));
        marks.add_mark(10);
        assert_eq!(marks.give_up(discarded(1, 10)), discarded(0, 0));
        assert_eq!(marks.give_up(discarded(3, 210)), discarded(2, 200));
        for _ in 0..2 * MARKS_MAX {
            marks.add_mark(10);
        }
        assert_eq!(marks.places.len(), MARKS_MAX);
    }
}
