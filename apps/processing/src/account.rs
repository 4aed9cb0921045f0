//! Account of a subscriber: windows of the source's time that were late here, and whether the promise over both legs is kept.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch::base::Instant;
use anabranch_process::serve::{
    Verdicts,
    windows::{Failed, Part, Passage, Windows},
};
use tokio::time;

use crate::wire::message::Demand;

/// Windows that must be judged before a promise counts as broken.
const KNOWN_MIN: u32 = 10;

/// Windows of a subscriber with a demand, and verdicts on those that were late; nothing of one without.
#[derive(Debug)]
pub(crate) struct Account {
    begun: time::Instant,
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    windows: Windows,
    verdicts: Verdicts,
    /// Share of windows that was asked for.
    share: f64,
    /// Rate that the service has promised, in bit/s.
    promised_bps: Option<u64>,
    /// True while fewer windows are in time than were promised.
    is_broken: bool,
}

/// News of an account.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Windows that were late.
    pub(crate) late: Vec<Failed>,
    /// Of the windows that were judged last, those in time and all.
    pub(crate) kept: (u32, u32),
    pub(crate) change: Option<Change>,
}

/// Change of a promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// Fewer windows are in time than were promised, because of this part.
    Broken(Part),
    /// As many are in time again; this rate is promised, in bit/s.
    Kept(u64),
}

impl Account {
    pub(crate) fn new(demand: Option<Demand>) -> Self {
        let state = demand.map(|demand| State {
            windows: Windows::new(demand.deadline(), Part::LastLeg),
            verdicts: Verdicts::default(),
            share: f64::from(demand.share_ppm) / 1e6,
            promised_bps: None,
            is_broken: false,
        });
        Self {
            begun: time::Instant::now(),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the subscriber began.
    pub(crate) fn now(&self) -> Instant {
        Instant::EPOCH + self.begun.elapsed()
    }

    /// An ADU has come that was made at a time.
    pub(crate) fn passed(&self, made: time::Duration, now: Instant) {
        if let Some(state) = &mut *self.state() {
            let passage = Passage {
                made,
                came: now,
                done: now,
                was_held_up: false,
                is_after_loss: false,
            };
            if let Some(failed) = state.windows.passed(passage) {
                state.verdicts.own(failed.window, now);
            }
        }
    }

    /// The processing node found a window late, or lost ADUs of it that it would have sent here.
    pub(crate) fn node(&self, failed: Failed, now: Instant) {
        if let Some(state) = &mut *self.state() {
            if failed.part == Part::LastLeg
                && let Some(failed) = state.windows.lost(failed.window)
            {
                state.verdicts.own(failed.window, now);
            }
            state.verdicts.node(failed);
        }
    }

    /// The service promises a rate, or none any more; false if that is no news because the promise is broken here.
    pub(crate) fn promised(&self, rate_bps: Option<u64>) -> bool {
        let mut state = self.state();
        let Some(state) = &mut *state else {
            return true;
        };
        state.promised_bps = rate_bps;
        state.is_broken &= rate_bps.is_some();
        !state.is_broken
    }

    /// News since the last call.
    pub(crate) fn judge(&self, now: Instant) -> Judged {
        self.state()
            .as_mut()
            .map(|state| state.judge(now))
            .unwrap_or_default()
    }
}

impl State {
    fn judge(&mut self, now: Instant) -> Judged {
        for failed in self.windows.judge(now) {
            self.verdicts.own(failed.window, now);
        }
        let late = self.verdicts.due(now);
        let shares = self.windows.shares();
        let is_enough = shares.kept_share() >= self.share;
        let change = match (self.promised_bps, late.last()) {
            (Some(_), Some(last)) if !self.is_broken && !is_enough && shares.known >= KNOWN_MIN => {
                self.is_broken = true;
                Some(Change::Broken(last.part))
            }
            (Some(rate), _) if self.is_broken && is_enough => {
                self.is_broken = false;
                Some(Change::Kept(rate))
            }
            _ => None,
        };
        Judged {
            late,
            kept: (shares.kept, shares.known),
            change,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_promise_is_broken_and_kept_again_by_the_windows_that_were_in_time() {
        let demand = Demand {
            rate_bps: 1_000_000,
            share_ppm: 800_000,
            deadline_ms: Some(100),
        };
        let account = Account::new(Some(demand));
        assert!(account.promised(Some(1_000_000)));
        let mut changes = Vec::new();
        for window in 0..80_u64 {
            let made = Duration::from_secs(window);
            let is_late = (12..16).contains(&window);
            let took = if is_late { 200 } else { 10 };
            let came = Instant::from_secs(window) + Duration::from_millis(took);
            account.passed(made, came);
            // The verdict on a window is due a second after it was judged.
            let judged = account.judge(Instant::from_millis(1_000 * window + 900));
            changes.extend(judged.change.map(|change| (window, change)));
            if window == 18 {
                assert!(!account.promised(Some(1_000_000)), "it is broken here");
            }
        }
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert_eq!(changes[0].1, Change::Broken(Part::LastLeg));
        assert_eq!(changes[1].1, Change::Kept(1_000_000));
        // Without a demand, nothing is judged.
        let none = Account::new(None);
        none.passed(Duration::ZERO, Instant::EPOCH);
        assert!(none.promised(Some(1)) && none.judge(Instant::from_secs(9)).late.is_empty());
    }
}
