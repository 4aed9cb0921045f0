//! False warnings: those after which all went well.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_session::{Explanation, Reason, Refusal, Term};

use super::records::CustomerRecord;

/// Windows after a warning by which it is judged: a minute.
const MINUTE: usize = 60;
/// Time before its end at which a renewable promise is renewed, with some room for the time of the window's end.
const NOTICE: Duration = Duration::from_millis(2_200);
/// Judged probabilities are rounded to a thousandth in a reason.
const ROUNDED: f64 = 6e-4;

/// A warning to the owner of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Warning {
    /// The last window that was over.
    pub(super) at: usize,
    pub(super) kind: Kind,
    /// True if the promise was judged with more than the demanded probability, because windows of its own were broken.
    pub(super) is_own: bool,
}

/// Time of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Well into a window that would be broken.
    During,
    /// At the end of a window, with two seconds or less of a renewable promise left.
    Last,
    /// At the end of a window, earlier in the term of a renewable promise.
    Early,
    /// At the end of a window, of a durable promise.
    Durable,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::During, Self::Last, Self::Early, Self::Durable];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::During => "during",
            Self::Last => "last",
            Self::Early => "early",
            Self::Durable => "durable",
        }
    }
}

/// The kind of a warning at the end of a window.
pub(super) fn kind(explained: &Explanation, now: Instant) -> Kind {
    let left = explained.until.map(|until| until.since(now));
    match explained.term {
        Some(Term::Durable) => Kind::Durable,
        _ if left.is_some_and(|left| left > NOTICE) => Kind::Early,
        _ => Kind::Last,
    }
}

/// True if the promise was judged with more than its probability when it was warned.
pub(super) fn is_own(refusal: &Refusal, probability: f64) -> bool {
    match refusal.reason {
        Reason::TooLittle {
            probability: Some(judged),
            ..
        } => judged > probability + ROUNDED,
        _ => false,
    }
}

/// Warnings of which the minute after was seen, and how many of them were false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) all: u64,
    pub(super) false_ones: u64,
}

impl CustomerRecord {
    /// Judges the warnings of which `which` is true. A warning is false if in the 60 windows after it the promise was not withdrawn,
    /// and no more of the windows in which it was in force were broken than its probability allows, rounded down. Warnings with
    /// fewer than 60 windows to the end of the stay are left out, whatever happened in them.
    pub(super) fn judge_warnings(&self, which: impl Fn(&Warning) -> bool) -> Judged {
        let mut judged = Judged::default();
        for warning in self.warnings.iter().filter(|warning| which(warning)) {
            let minute = warning.at + 1..warning.at + 1 + MINUTE;
            if minute.end > self.ends_at {
                continue;
            }
            let within =
                |windows: &[usize]| windows.iter().filter(|at| minute.contains(at)).count();
            let may_break = (1.0 - self.probability) * within(&self.in_force_at) as f64 + 1e-9;
            let is_kept = within(&self.broken_at) <= may_break as usize;
            // After the window of its notification.
            let mut withdrawn = self.withdrawn_at.iter().map(|at| at + 1);
            let is_withdrawn = withdrawn.any(|at| minute.contains(&at));
            judged.all += 1;
            judged.false_ones += u64::from(is_kept && !is_withdrawn);
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A promise of 0.9 in windows 10 to 199, with a warning after window 100, broken in these.
    fn record(broken: &[usize]) -> CustomerRecord {
        let mut record = CustomerRecord::new(0.9);
        record.ends_at = 200;
        for at in 10..200 {
            if at == 101 {
                record.warn(100, Kind::Early, false);
            }
            record.judge(at, Term::Renewable, !broken.contains(&at), false);
        }
        record
    }

    fn of(record: &CustomerRecord) -> (u64, u64) {
        let judged = record.judge_warnings(|_| true);
        (judged.all, judged.false_ones)
    }

    #[test]
    fn a_warning_is_false_if_nothing_follows() {
        assert_eq!(of(&record(&[])), (1, 1));
        // Six of sixty may break; what broke before or later does not count.
        assert_eq!(of(&record(&[101, 110, 120, 130, 140, 160])), (1, 1));
        assert_eq!(of(&record(&[95, 100, 161, 162, 163, 164, 165])), (1, 1));
        assert_eq!(of(&record(&[101, 110, 120, 130, 140, 150, 160])), (1, 0));
    }

    #[test]
    fn a_warning_is_not_false_if_the_promise_is_withdrawn_in_the_minute() {
        let withdrawn = |at| {
            let mut record = record(&[]);
            record.withdraw(at);
            of(&record)
        };
        assert_eq!(withdrawn(99), (1, 1));
        assert_eq!(withdrawn(100), (1, 0));
        assert_eq!(withdrawn(159), (1, 0));
        assert_eq!(withdrawn(160), (1, 1));
    }

    #[test]
    fn a_warning_in_the_last_minute_is_not_judged() {
        let mut record = record(&[]);
        record.warn(139, Kind::During, true);
        record.warn(140, Kind::During, true);
        assert_eq!(of(&record), (2, 2));
        let own = record.judge_warnings(|warning| warning.is_own);
        assert_eq!((own.all, own.false_ones), (1, 1));
    }
}
