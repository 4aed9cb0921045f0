//! Observations of a promised stream during a run. All times are since time zero of the paths.

use std::time::Duration;

use anabranch_session::PromiseEvent;

use super::setting::{Plan, PromisedStream, START, WINDOW};

/// Time by which a warning precedes the withdrawal that it announces, at least, and at most.
const NOTICE_MIN: Duration = Duration::from_secs(1);
const NOTICE_MAX: Duration = Duration::from_secs(61);
/// Time in which the last ADUs of a window may still be in transit at its end.
const GRACE: Duration = Duration::from_millis(200);
/// One-way delay of an empty path, by which windows of arrival are later.
const DELAY: Duration = Duration::from_millis(20);
/// Share of the rate from which a window counts as kept.
const KEPT: f64 = 0.999;

/// Event of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is made.
    Promised,
    /// It will not be kept, or not be renewed.
    Warned,
    /// It has lapsed.
    Withdrawn,
}

impl Notice {
    /// Kind of an event; `None` for one that is not counted.
    pub fn of(event: &PromiseEvent) -> Option<Self> {
        match event {
            PromiseEvent::Promised(_) => Some(Self::Promised),
            PromiseEvent::Warned(_) => Some(Self::Warned),
            PromiseEvent::Withdrawn(_) => Some(Self::Withdrawn),
            _ => None,
        }
    }
}

/// Observations of one stream.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Number and time of each ADU that arrived, in any order.
    pub arrivals: Vec<(u64, Duration)>,
    /// Events of the promise at the sender, in order of time.
    pub notices: Vec<(Duration, Notice)>,
    /// Windows kept and broken by the session's own account.
    pub account: (u64, u64),
}

/// Windows throughout which the promise was in force, judged by arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Received {
    /// Number of those windows.
    pub windows: u64,
    /// Number of them in which the promised bytes arrived, or all that was sent.
    pub kept: u64,
    /// Mean of the difference between the rate of arrival and the promised rate, over the promised rate.
    pub rate_deviation: Option<f64>,
}

impl Observed {
    /// Time from the opening of the stream to its first promise.
    pub fn promised_after(&self) -> Option<Duration> {
        let first = self.notices.iter();
        let mut first = first.filter(|(_, notice)| *notice == Notice::Promised);
        first.next().map(|(at, _)| at.saturating_sub(START))
    }

    /// Number of notices of a kind.
    pub fn count(&self, kind: Notice) -> usize {
        let notices = self.notices.iter();
        notices.filter(|(_, notice)| *notice == kind).count()
    }

    /// Number of withdrawals of which a warning of the same promise came at least 1 s before.
    pub fn announced(&self) -> usize {
        let (mut announced, mut warnings) = (0, Vec::new());
        for &(at, notice) in &self.notices {
            match notice {
                Notice::Promised => warnings.clear(),
                Notice::Warned => warnings.push(at),
                Notice::Withdrawn => {
                    let mut ages = warnings.iter().map(|&warned| at.saturating_sub(warned));
                    announced += usize::from(ages.any(|a| a >= NOTICE_MIN && a <= NOTICE_MAX));
                    warnings.clear();
                }
            }
        }
        announced
    }

    /// True if the promise was in force from `begin` to `end`.
    fn is_in_force(&self, begin: Duration, end: Duration) -> bool {
        let mut is_in_force = false;
        for &(at, notice) in &self.notices {
            if at >= end {
                break;
            }
            match notice {
                Notice::Promised => is_in_force = is_in_force || at <= begin,
                Notice::Withdrawn => is_in_force = false,
                Notice::Warned => {}
            }
        }
        is_in_force
    }

    /// Windows by arrivals.
    pub fn received(&self, stream: &PromisedStream, plan: Plan) -> Received {
        // Half an interval between ADUs, so that none arrives at the boundary of two windows.
        let lag = DELAY + WINDOW / stream.adus_per_s as u32 / 2;
        // Without the last, in which the application ends.
        let mut bytes = vec![0_u64; plan.windows().saturating_sub(1)];
        let mut arrived_at = vec![Duration::MAX; stream.made_before(plan.end()) as usize];
        for &(number, at) in &self.arrivals {
            if let Some(slot) = arrived_at.get_mut(number as usize) {
                *slot = at;
            }
            let since = at.checked_sub(START + lag);
            let window = since.map(|since| since.as_secs() as usize);
            if let Some(sum) = window.and_then(|window| bytes.get_mut(window)) {
                *sum += stream.adu_bytes as u64;
            }
        }
        // Time by which ADU n and all before it have arrived.
        let complete_at: Vec<Duration> = arrived_at
            .iter()
            .scan(Duration::ZERO, |latest, &at| {
                *latest = at.max(*latest);
                Some(*latest)
            })
            .collect();
        let promised = stream.rate().as_bytes_per_s() * WINDOW.as_secs_f64();
        let (mut received, mut deviation) = (Received::default(), 0.0);
        for (window, &bytes) in bytes.iter().enumerate() {
            let begin = START + WINDOW * window as u32;
            let end = begin + WINDOW + lag;
            if !self.is_in_force(begin, end) {
                continue;
            }
            let made = stream.made_before(end.saturating_sub(GRACE)) as usize;
            let is_complete = made
                .checked_sub(1)
                .and_then(|last| complete_at.get(last))
                .is_none_or(|&at| at < end);
            let is_kept = bytes as f64 >= KEPT * promised || is_complete;
            received.windows += 1;
            received.kept += u64::from(is_kept);
            deviation += (bytes as f64 - promised).abs() / promised;
        }
        let windows = received.windows as f64;
        received.rate_deviation = (received.windows > 0).then(|| deviation / windows);
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: PromisedStream = PromisedStream {
        label: "s",
        peer: 0,
        probability: 0.9,
        adu_bytes: 100,
        adus_per_s: 10,
    };
    const PLAN: Plan = Plan {
        sets: 1,
        seconds: 11,
    };

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn observed(delay: impl Fn(u64) -> f64) -> Observed {
        let arrival = |number| (number, STREAM.due(number) + at(delay(number)));
        Observed {
            arrivals: (0..100).map(arrival).collect(),
            notices: vec![(at(1.5), Notice::Promised)],
            account: (0, 0),
        }
    }

    #[test]
    fn windows_are_judged_while_the_promise_is_in_force() {
        // Nine windows before the last, of which the promise was made during the first.
        let prompt = observed(|_| 0.025).received(&STREAM, PLAN);
        assert_eq!((prompt.windows, prompt.kept), (8, 8));
        assert_eq!(prompt.rate_deviation, Some(0.0));
        // The ADUs of the third window are late by a window: in it, nothing arrives; the next gets twice the rate.
        let is_third = |number: u64| (21..=30).contains(&number);
        let late = observed(|number| if is_third(number) { 1.025 } else { 0.025 });
        let received = late.received(&STREAM, PLAN);
        assert_eq!((received.windows, received.kept), (8, 7));
        assert!((received.rate_deviation.unwrap() - 2.0 / 8.0).abs() < 1e-9);
        let mut withdrawn = late;
        withdrawn.notices.push((at(3.9), Notice::Withdrawn));
        assert_eq!(withdrawn.received(&STREAM, PLAN).windows, 1);
        assert_eq!(
            Observed::default().received(&STREAM, PLAN).rate_deviation,
            None
        );
    }

    #[test]
    fn a_withdrawal_is_announced_by_a_warning_of_the_same_promise() {
        use Notice::{Promised, Warned, Withdrawn};
        let observed = Observed {
            notices: vec![
                (at(21.0), Promised),
                (at(30.0), Warned),
                (at(32.0), Withdrawn),
                (at(40.0), Promised),
                (at(50.0), Withdrawn),
                (at(60.0), Promised),
                (at(69.5), Warned),
                (at(70.0), Withdrawn),
            ],
            ..Observed::default()
        };
        assert_eq!(observed.promised_after(), Some(at(20.0)));
        assert_eq!(observed.count(Withdrawn), 3);
        assert_eq!(observed.announced(), 1);
    }
}
