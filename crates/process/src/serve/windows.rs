//! Windows of a source's time, each judged by whether everything that was made in it came in time, and if not, which part of the way was
//! late.
//!
//! ADUs carry the time at which they were made, by the source's clock. Clocks of other nodes are not compared with it: the least transit of
//! the last minute counts as no delay, and lateness is what exceeds it. So the windows of the node on the way and of the subscriber
//! are the same ones, and their accounts can be compared window by window.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

use anabranch_base::Instant;

/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(1);
/// Windows that are remembered, and by which shares are stated.
pub const HISTORY: usize = 60;
/// Windows of arrival from which the least transit is taken.
const TRANSITS: usize = 60;
/// Windows after the next one to be judged that are looked at; ADUs of later ones do not count.
const AHEAD: u64 = 64;

/// The window in which an ADU was made at this time of the source.
pub fn window_of(made: Duration) -> u64 {
    made.as_secs() / WINDOW.as_secs()
}

/// Part of the way from a source to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// From the source to the processing node.
    SourceLeg,
    /// The operators at the processing node.
    Processing,
    /// From the processing node to the subscriber.
    LastLeg,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SourceLeg => "source leg",
            Self::Processing => "processing",
            Self::LastLeg => "last leg",
        })
    }
}

/// Passage of an ADU at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Time at which it was made, by the source's clock since its beginning.
    pub made: Duration,
    /// Time at which it came, by this node's clock.
    pub came: Instant,
    /// Time at which this node had done its part.
    pub done: Instant,
    /// True if it could not come earlier because this node still worked on those before.
    pub was_held_up: bool,
    /// True if ADUs before it were lost.
    pub is_after_loss: bool,
}

/// A window that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its number: seconds since the source's beginning.
    pub window: u64,
    /// The first part of the way that was late.
    pub part: Part,
}

/// Shares of the windows that were judged last, at most [`HISTORY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Windows that were judged.
    pub known: u32,
    /// Of these, windows that were in time.
    pub kept: u32,
    /// Windows that failed, by part, in the order of [`Part`].
    pub failed: [u32; 3],
}

impl Shares {
    /// Share of the windows that were in time, in [0, 1]; 0 if none is known.
    pub fn kept_share(&self) -> f64 {
        f64::from(self.kept) / f64::from(self.known.max(1))
    }

    /// The part that failed in most windows; `None` if none failed.
    pub fn worst(&self) -> Option<Part> {
        let parts = [Part::SourceLeg, Part::Processing, Part::LastLeg];
        let failed = parts.into_iter().zip(self.failed);
        let worst = failed.max_by_key(|(part, count)| (*count, std::cmp::Reverse(*part)))?;
        (worst.1 > 0).then_some(worst.0)
    }
}

/// Account of the windows of one stream at one node.
#[derive(Clone, Debug)]
pub struct Windows {
    deadline: Duration,
    /// The part whose lateness this node sees in the time at which ADUs come.
    before: Part,
    /// Least transit in nanoseconds, by the window in which ADUs came; clocks differ, so that it may be below 0.
    transits: VecDeque<(u64, i128)>,
    /// Windows with ADUs that were not judged, and the first part that was late.
    open: BTreeMap<u64, Option<Part>>,
    judged: VecDeque<Judged>,
    /// The window to be judged next; `None` before the first ADU.
    next: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Judged {
    window: u64,
    failed: Option<Part>,
}

impl Windows {
    /// An account of ADUs that must not be later than `deadline`, on top of the least transit. `before` is the part of the way that ends at
    /// this node: [`Part::SourceLeg`] or [`Part::LastLeg`].
    pub fn new(deadline: Duration, before: Part) -> Self {
        Self {
            deadline,
            before,
            transits: VecDeque::new(),
            open: BTreeMap::new(),
            judged: VecDeque::new(),
            next: None,
        }
    }

    /// Takes note of an ADU. Returns its window if that had been judged in time already, and has failed now.
    pub fn passed(&mut self, passage: Passage) -> Option<Failed> {
        let Passage {
            made,
            came,
            done,
            was_held_up,
            is_after_loss,
        } = passage;
        let window = window_of(made);
        let next = *self.next.get_or_insert(window);
        // A time that cannot be true must not count as a short transit, either.
        if window >= next.saturating_add(AHEAD) {
            return None;
        }
        let transit = |at: Instant| i128::from(at.as_nanos()) - made.as_nanos() as i128;
        if !was_held_up {
            self.note_transit(came.since_epoch().as_secs(), transit(came));
        }
        let limit = self.least()? + self.deadline.as_nanos() as i128;
        let part = if is_after_loss || transit(came) > limit && !was_held_up {
            Some(self.before)
        } else if transit(done) > limit {
            Some(Part::Processing)
        } else {
            None
        };
        if window < next {
            return self.failed_late(window, part?);
        }
        let first = self.open.entry(window).or_default();
        *first = match (*first, part) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        None
    }

    /// Takes note that an ADU of a window will not come. Returns the window if that had been judged in time already, or nothing had come of it, and
    /// has failed now; else it is judged with the others.
    pub fn lost(&mut self, window: u64) -> Option<Failed> {
        let next = *self.next.get_or_insert(window);
        if window >= next.saturating_add(AHEAD) {
            return None;
        }
        if window < next {
            return self.failed_late(window, self.before);
        }
        let first = self.open.entry(window).or_default();
        first.get_or_insert(self.before);
        None
    }

    fn failed_late(&mut self, window: u64, part: Part) -> Option<Failed> {
        match self.judged.iter_mut().find(|one| one.window == window) {
            Some(judged) if judged.failed.is_some() => return None,
            Some(judged) => judged.failed = Some(part),
            // Nothing had come of it.
            None => self.remember(window, Some(part)),
        }
        Some(Failed { window, part })
    }

    fn remember(&mut self, window: u64, failed: Option<Part>) {
        self.judged.push_back(Judged { window, failed });
        if self.judged.len() > HISTORY {
            self.judged.pop_front();
        }
    }

    fn note_transit(&mut self, second: u64, transit: i128) {
        match self.transits.back_mut() {
            Some((last, least)) if *last == second => *least = transit.min(*least),
            _ => self.transits.push_back((second, transit)),
        }
        if self.transits.len() > TRANSITS {
            self.transits.pop_front();
        }
    }

    fn least(&self) -> Option<i128> {
        self.transits.iter().map(|(_, least)| *least).min()
    }

    /// Judges the windows whose ADUs must have come by now; returns those that failed.
    pub fn judge(&mut self, now: Instant) -> Vec<Failed> {
        let mut failed = Vec::new();
        let (Some(mut next), Some(least)) = (self.next, self.least()) else {
            return failed;
        };
        loop {
            let end = i128::from(next + 1) * WINDOW.as_nanos() as i128;
            let until = end + least + self.deadline.as_nanos() as i128;
            if i128::from(now.as_nanos()) < until {
                break;
            }
            if let Some(part) = self.open.remove(&next) {
                failed.extend(part.map(|part| Failed { window: next, part }));
                self.remember(next, part);
            }
            next += 1;
        }
        self.next = Some(next);
        failed
    }

    /// Shares of the windows that were judged last. Those in which nothing came do not count, until something of them comes late, or is known
    /// to be lost.
    pub fn shares(&self) -> Shares {
        let mut shares = Shares::default();
        for one in &self.judged {
            shares.known += 1;
            match one.failed {
                None => shares.kept += 1,
                Some(part) => shares.failed[part as usize] += 1,
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(300);

    /// An ADU made `made` ms after the beginning, which takes 5 s on a clock that is ahead by that, and the rest.
    fn passage(made: u64, took: u64, work: u64) -> Passage {
        let came = Instant::from_millis(5_000 + made + took);
        Passage {
            made: Duration::from_millis(made),
            came,
            done: came + Duration::from_millis(work),
            was_held_up: false,
            is_after_loss: false,
        }
    }

    fn judge(windows: &mut Windows, ms: u64) -> Vec<(u64, Part)> {
        let failed = windows.judge(Instant::from_millis(5_000 + ms));
        let pair = |Failed { window, part }: Failed| (window, part);
        failed.into_iter().map(pair).collect()
    }

    /// Of an ADU that is lost nothing comes: its window fails by the last part, once, whether others of it came or not.
    #[test]
    fn windows_of_which_something_was_lost_have_failed() {
        let mut windows = Windows::new(DEADLINE, Part::LastLeg);
        for made in [100, 1_100, 2_100] {
            assert_eq!(windows.passed(passage(made, 10, 0)), None);
        }
        assert_eq!(windows.lost(2), None, "it is judged with the others");
        assert_eq!(windows.lost(3), None);
        assert_eq!(judge(&mut windows, 3_400), [(2, Part::LastLeg)]);
        let failed = |window| Failed {
            window,
            part: Part::LastLeg,
        };
        assert_eq!(windows.lost(1), Some(failed(1)), "it had been in time");
        assert_eq!(windows.lost(1), None, "once");
        assert_eq!(
            judge(&mut windows, 4_400),
            [(3, Part::LastLeg)],
            "nothing came"
        );
        assert_eq!(judge(&mut windows, 6_400), []);
        assert_eq!(windows.lost(4), Some(failed(4)));
        assert_eq!(windows.lost(1_000_000), None, "that cannot be true");
        let shares = windows.shares();
        assert_eq!(
            (shares.known, shares.kept, shares.failed),
            (5, 1, [0, 0, 4])
        );
    }

    #[test]
    fn the_first_part_that_is_late_fails_its_window() {
        let mut windows = Windows::new(DEADLINE, Part::SourceLeg);
        for number in 0..100 {
            let made = number * 40;
            let (took, work) = match made / 1_000 {
                1 => (25, 310),
                2 if number % 5 == 0 => (331, 2),
                2 => (25, 310),
                _ => (30, 2),
            };
            assert_eq!(windows.passed(passage(made, took, work)), None);
        }
        // The least transit is 25 ms.
        assert_eq!(judge(&mut windows, 1_324), []);
        assert_eq!(
            judge(&mut windows, 4_400),
            [(1, Part::Processing), (2, Part::SourceLeg)]
        );
        let shares = windows.shares();
        assert_eq!((shares.known, shares.kept), (4, 2));
        assert_eq!(shares.failed, [1, 1, 0]);
        assert_eq!(shares.kept_share(), 0.5);
        assert_eq!(shares.worst(), Some(Part::SourceLeg));
    }

    #[test]
    fn what_comes_after_its_window_was_judged_fails_it_once() {
        let mut windows = Windows::new(DEADLINE, Part::LastLeg);
        windows.passed(passage(0, 20, 0));
        windows.passed(passage(1_900, 20, 0));
        assert_eq!(judge(&mut windows, 3_500), []);
        // Nothing came of the third window, which does not count.
        assert_eq!(windows.shares().known, 2);
        let failed = windows.passed(passage(2_500, 1_500, 0)).unwrap();
        assert_eq!((failed.window, failed.part), (2, Part::LastLeg));
        assert_eq!(windows.passed(passage(2_600, 1_400, 0)), None);
        assert_eq!(windows.shares().failed, [0, 0, 1]);
    }

    #[test]
    fn an_adu_behind_a_slow_operator_is_late_because_of_it_and_a_loss_because_of_the_leg() {
        let mut windows = Windows::new(DEADLINE, Part::SourceLeg);
        windows.passed(passage(0, 20, 0));
        windows.passed(Passage {
            was_held_up: true,
            ..passage(40, 900, 5)
        });
        windows.passed(Passage {
            is_after_loss: true,
            ..passage(1_000, 20, 0)
        });
        assert_eq!(
            judge(&mut windows, 2_500),
            [(0, Part::Processing), (1, Part::SourceLeg)]
        );
    }

    #[test]
    fn times_far_ahead_neither_count_nor_take_memory() {
        let mut windows = Windows::new(DEADLINE, Part::SourceLeg);
        windows.passed(passage(0, 20, 0));
        for number in 0..100_000 {
            let made = Duration::from_secs(u64::MAX - number);
            windows.passed(Passage {
                made,
                ..passage(0, 20, 0)
            });
        }
        assert!(windows.open.len() <= AHEAD as usize);
        windows.judge(Instant::from_secs(100));
        assert_eq!(windows.shares().known, 1);
    }
}
