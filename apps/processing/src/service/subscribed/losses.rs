//! Windows of which something was lost between this node and an unreliable subscriber. The subscriber cannot know of them, as what does not come
//! has no time; the node knows what it sent, and when that was made.

use std::{
    collections::{BTreeSet, VecDeque},
    convert::Infallible,
    future::pending,
    time::Duration,
};

use anabranch::{StreamEvent, local::client::Stream};
use anabranch_process::serve::windows::{HISTORY, window_of};
use tokio::time::{MissedTickBehavior, interval};

use super::{LOOK, Present, Stopped, lock};
use crate::wire::{
    Notice, encode,
    message::{Demand, Part},
};

/// ADUs that are remembered: more are not in flight at a time.
const SENT_MAX: usize = 16_384;

/// ADUs that were sent, and windows of those that were lost.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Number of each in the stream, and its window; by number.
    sent: VecDeque<(u64, u64)>,
    windows: BTreeSet<u64>,
}

impl Losses {
    /// An ADU that was made at a time was sent with this number.
    pub(super) fn sent(&mut self, number: u64, made: Duration) {
        self.sent.push_back((number, window_of(made)));
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
    }

    fn lost(&mut self, number: u64) {
        let place = self.sent.binary_search_by_key(&number, |(sent, _)| *sent);
        self.windows.extend(place.map(|place| self.sent[place].1));
        if self.windows.len() > HISTORY {
            self.windows.pop_first();
        }
    }
}

impl Present<'_> {
    /// Takes note of what is lost; does not return.
    pub(super) async fn follow(&self, stream: &Stream) -> Infallible {
        while let Ok(event) = stream.next_event().await {
            if let StreamEvent::Lost { adu, .. } | StreamEvent::Expired { adu } = event {
                lock(&self.losses).lost(adu);
            }
        }
        pending().await
    }

    /// Reports windows of which something was lost to a subscriber with a demand; returns on failure only.
    pub(super) async fn report_losses(
        &self,
        control: &Stream,
        demand: Option<Demand>,
    ) -> Result<(), Stopped> {
        if demand.is_none() || self.is_reliable {
            return pending().await;
        }
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = BTreeSet::new();
        loop {
            ticks.tick().await;
            let mut windows = self.subscription.take_lost_windows();
            windows.append(&mut std::mem::take(&mut lock(&self.losses).windows));
            windows.retain(|&window| told.insert(window));
            for window in windows {
                let part = Part::LastLeg;
                control.send(encode(&Notice::Late { window, part })).await?;
            }
            while told.len() > HISTORY {
                told.pop_first();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_those_of_what_was_lost() {
        let mut losses = Losses::default();
        for number in 0..40 {
            // Every third number is that of a mark.
            if number % 3 != 0 {
                losses.sent(number, Duration::from_millis(250 * number));
            }
        }
        for number in [5, 6, 7, 22, 1_000] {
            losses.lost(number);
        }
        assert_eq!(losses.windows, BTreeSet::from([1, 5]));
        for number in 40..2 * SENT_MAX as u64 {
            losses.sent(number, Duration::from_secs(number));
            losses.lost(number);
        }
        assert_eq!(
            (losses.sent.len(), losses.windows.len()),
            (SENT_MAX, HISTORY)
        );
        losses.lost(7);
        assert!(!losses.windows.contains(&1), "it is forgotten");
    }
}
