//! Other sessions of the node beside this one: what they were promised on the uplinks that its paths begin at, and what they
//! carried there while its paths were measured.
//!
//! A path is measured beside the others' traffic. If they may use more than they did then, it will carry less, as far as they
//! share the capacity of the uplink. With c measured of the paths of an uplink in a window, v carried by others in it, and r
//! promised to others, the window counts as
//!
//! ```text
//! min(c, c + v − r)
//! ```
//!
//! so that no more is promised over an uplink, by all sessions together, than was measured on it at one time. Elastic data of others
//! yields to the session's promises: a window in which it took part, and the promises were kept, is a lower bound. It is assumed that
//! sessions share an uplink until the measurements contradict it: where a path carries about the same whether the others are busy
//! or not, their capacity is elsewhere, and their promises do not count.

use anabranch_base::{Instant, SessionId};
use anabranch_spec::ChannelMask;
use anabranch_stats::joint::Cell;

/// Windows of each kind, others busy and others quiet, that must be known before sharing is judged by them.
const EACH_KIND: usize = 8;
/// Others are quiet in a window in which they carry less than this part of what the path carries,
const QUIET: f64 = 0.1;
/// and busy in one in which they carry more than this part of what it carries in quiet ones.
const BUSY: f64 = 0.4;
/// A path that carries at least this part beside busy others of what it carries beside quiet ones does not share with them.
const UNHARMED: f64 = 0.85;

/// Precedence between promises of different sessions: durable ones go before renewable ones, then the older before the newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// False for durable promises.
    pub is_renewable: bool,
    /// Time since which the promise has been in force.
    pub since: Instant,
    /// Its session; the order of ids decides between equals.
    pub session: SessionId,
}

/// A promise of another session on an uplink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reservation {
    /// Its precedence.
    pub standing: Standing,
    /// Its rate on the uplink, with headers, in bits per second.
    pub bps: f64,
}

/// An uplink that other sessions use, too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uplink {
    /// The paths of this session that begin there.
    pub paths: ChannelMask,
    /// Promises of the others on it.
    pub reserved: Vec<Reservation>,
}

/// What a request is mapped beside: the promises of others on the uplinks of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    pub(super) uplinks: &'a [Uplink],
    /// Only promises that go before this one count; `None`: all.
    pub(super) before: Option<Standing>,
}

impl Beside<'_> {
    /// Nobody.
    pub(super) const NOBODY: Self = Self {
        uplinks: &[],
        before: None,
    };

    /// The uplinks of `set` with the rate that is reserved on each, in bits per second, where any is.
    pub(super) fn reserved(self, set: ChannelMask) -> impl Iterator<Item = (ChannelMask, f64)> {
        let counts = move |one: &&Reservation| self.before.is_none_or(|own| one.standing < own);
        self.uplinks.iter().filter_map(move |uplink| {
            let paths = uplink.paths.and(set);
            let bps: f64 = uplink.reserved.iter().filter(counts).map(|r| r.bps).sum();
            (!paths.is_empty() && bps > 0.0).then_some((paths, bps))
        })
    }
}

/// Measurements of whether a path shares its uplink's capacity with other sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    quiet: Mean,
    busy: Mean,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn get(self) -> Option<f64> {
        (self.count >= EACH_KIND).then(|| self.sum / self.count as f64)
    }
}

/// True if others that carry so much are not negligible beside a path that carries `bps`, both in bits per second.
pub(super) fn is_busy(others_bps: f64, bps: f64) -> bool {
    others_bps > QUIET * bps
}

impl Sharing {
    /// The measurements of a path in windows of (path, others).
    pub(super) fn of(windows: &[(Cell, f64)]) -> Self {
        let mut sharing = Self::default();
        // What the path carries is only known where it was full.
        let full = || {
            windows.iter().filter_map(|&(cell, others)| match cell {
                Cell::Exact(bps) => Some((bps, others)),
                Cell::AtLeast(_) | Cell::Missing => None,
            })
        };
        for (bps, others) in full() {
            if !is_busy(others, bps) {
                sharing.quiet.add(bps);
            }
        }
        let Some(alone) = sharing.quiet.get() else {
            return sharing;
        };
        for (bps, others) in full() {
            if others > BUSY * alone {
                sharing.busy.add(bps);
            }
        }
        sharing
    }

    /// True unless the measurements contradict it.
    pub(super) fn is_assumed(self) -> bool {
        match (self.quiet.get(), self.busy.get()) {
            (Some(quiet), Some(busy)) => busy < UNHARMED * quiet,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;

    /// 40 windows of a path of 10 Mbit/s, in half of which others carry 6: they take it from the path if they share.
    fn windows(shares: bool, is_full: bool) -> Vec<(Cell, f64)> {
        let mut random = Seed(3).stream("sharing");
        let mut window = |at: u32| {
            let others = if at.is_multiple_of(2) { 6e6 } else { 0.0 };
            let whole = 1e7 * (0.8 + 0.4 * random.unit());
            let bps = if shares { whole - others } else { whole };
            let cell = if is_full {
                Cell::Exact(bps)
            } else {
                Cell::AtLeast(bps)
            };
            (cell, others)
        };
        (0..40).map(&mut window).collect()
    }

    fn is_assumed(windows: &[(Cell, f64)]) -> bool {
        Sharing::of(windows).is_assumed()
    }

    #[test]
    fn sharing_is_assumed_until_measurements_contradict_it() {
        assert!(is_assumed(&[]));
        assert!(is_assumed(&windows(true, true)));
        assert!(!is_assumed(&windows(false, true)));
        // What a path could carry is not known where it was not full.
        assert!(is_assumed(&windows(false, false)));
        // Nor where others were never busy.
        let quiet = windows(false, true);
        assert!(is_assumed(&quiet[..EACH_KIND]));
    }

    #[test]
    fn promises_that_go_before_count() {
        let standing = |seconds: u64, is_renewable: bool, session: u64| Standing {
            is_renewable,
            since: Instant::from_secs(seconds),
            session: SessionId(session),
        };
        let own = standing(10, true, 5);
        let reserved = [
            (standing(20, false, 1), 1.0),
            (standing(5, true, 2), 2.0),
            (standing(10, true, 3), 4.0),
            (standing(10, true, 6), 8.0),
            (standing(11, true, 4), 16.0),
        ];
        let uplinks = [Uplink {
            paths: ChannelMask::only(1).with(2),
            reserved: reserved
                .map(|(standing, bps)| Reservation { standing, bps })
                .to_vec(),
        }];
        let of = |before, set| {
            let beside = Beside {
                uplinks: &uplinks,
                before,
            };
            beside.reserved(set).collect::<Vec<_>>()
        };
        let both = ChannelMask::only(0).with(1);
        assert_eq!(of(None, both), [(ChannelMask::only(1), 31.0)]);
        assert_eq!(of(Some(own), both), [(ChannelMask::only(1), 7.0)]);
        assert_eq!(of(None, ChannelMask::only(0)), []);
    }
}
