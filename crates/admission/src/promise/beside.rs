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
//!
//! The whole uplink, c + v, is forecast instead where it is evident that they share it: elastic data of others yields to a promise, so
//! that f(c + v) − r can be promised, with r of those that go before. It is evident where busy others harm the path, or where
//! both change together from window to window.

use std::sync::Arc;

use anabranch_base::{Instant, SessionId};
use anabranch_spec::{ChannelMask, Tenant};

/// Windows of each kind, others busy and others quiet, that must be known before sharing is judged by them.
const EACH_KIND: usize = 8;
/// Others are quiet in a window in which they carry less than this part of what the path carries,
const QUIET: f64 = 0.1;
/// and busy in one in which they carry more than this part of what it carries in quiet ones.
const BUSY: f64 = 0.4;
/// A path that carries at least this part beside busy others of what it carries beside quiet ones does not share with them.
const UNHARMED: f64 = 0.85;

/// Kind of a promise, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// In force until the stream closes.
    Durable,
    /// In force for its term.
    Renewable,
    /// Waited for: it is served after promises in force and before elastic data, and admission does not count it.
    Waiting,
}

/// Changes from one full window to the next that must be known before a relation is believed,
const CHANGES_MIN: usize = 30;
/// and the correlation that shows one: four standard errors of that many independent changes are 0.73, of 64 are 0.5.
const CORRELATED: f64 = 0.5;

/// Precedence between promises of different sessions: by kind, then the older before the newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// Its kind.
    pub kind: Kind,
    /// Time since which the promise has been in force; of one that is waited for, time 0.
    pub since: Instant,
    /// Its session; the order of ids decides between equals.
    pub session: SessionId,
}

/// A promise on an uplink, or one that is waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reservation {
    /// Its precedence.
    pub standing: Standing,
    /// The tenant of its stream.
    pub tenant: Option<Tenant>,
    /// Its rate on the uplink, with headers, in bits per second.
    pub bps: f64,
}

/// An uplink that other sessions use, too.
#[derive(Clone, Debug, PartialEq)]
pub struct Uplink {
    /// The paths of this session that begin there.
    pub paths: ChannelMask,
    /// All promises on it, those of this session included: every session of the node has the same list.
    pub reserved: Arc<[Reservation]>,
}

impl Uplink {
    pub(super) fn others(&self, session: SessionId) -> impl Iterator<Item = &Reservation> {
        let reserved = self.reserved.iter();
        reserved.filter(move |one| one.standing.session != session)
    }

    /// True if both mean the same to `session`: a new list may differ in its own promises only.
    fn is_same_for(&self, session: SessionId, other: &Self) -> bool {
        let is_list_same = || self.others(session).eq(other.others(session));
        self.paths == other.paths
            && (Arc::ptr_eq(&self.reserved, &other.reserved) || is_list_same())
    }
}

/// The uplinks of a session, with the sums of what others were promised there. Key: session.
#[derive(Debug)]
pub(super) struct Uplinks {
    session: SessionId,
    all: Vec<Uplink>,
    /// Questions that were answered since the promises of others changed: the promise before which others count.
    asked: Vec<Option<Standing>>,
    /// The answers: for each of them the sum on each uplink, in bits per second. Each is added up from nothing, in one order, so that
    /// no rounding accumulates and the result does not depend on the time of the question.
    sums_bps: Vec<f64>,
}

/// Answers that are kept: one for each promised stream of the session, and one for all promises.
const ASKED_MAX: usize = super::PROMISED_MAX + 1;

impl Uplinks {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            all: Vec::new(),
            asked: Vec::new(),
            sums_bps: Vec::new(),
        }
    }

    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    pub(super) fn all(&self) -> &[Uplink] {
        &self.all
    }

    /// Replaces the uplinks; returns whether anything changed beside the session's own promises. O(uplinks) where the lists are those
    /// of the last call.
    pub(super) fn set(&mut self, uplinks: impl Iterator<Item = Uplink>) -> bool {
        let (mut count, mut is_changed) = (0, false);
        for uplink in uplinks {
            match self.all.get_mut(count) {
                Some(known) => {
                    is_changed |= !known.is_same_for(self.session, &uplink);
                    *known = uplink;
                }
                None => {
                    is_changed = true;
                    self.all.push(uplink);
                }
            }
            count += 1;
        }
        is_changed |= count < self.all.len();
        self.all.truncate(count);
        if is_changed {
            self.asked.clear();
            self.sums_bps.clear();
        }
        is_changed
    }

    /// Promises of others that go before this one; `None`: all. O(promises) at the first question of its kind after a change.
    pub(super) fn before(&mut self, before: Option<Standing>) -> Beside<'_> {
        let width = self.all.len();
        let known = self.asked.iter().position(|asked| *asked == before);
        let at = known.unwrap_or_else(|| {
            if self.asked.len() == ASKED_MAX {
                self.asked.clear();
                self.sums_bps.clear();
            }
            let counts = |one: &&Reservation| {
                one.standing.kind != Kind::Waiting && before.is_none_or(|own| one.standing < own)
            };
            let session = self.session;
            let sum = |uplink: &Uplink| -> f64 {
                let counted = uplink.others(session).filter(counts);
                counted.map(|one| one.bps).sum()
            };
            self.asked.push(before);
            self.sums_bps.extend(self.all.iter().map(sum));
            self.asked.len() - 1
        });
        Beside {
            uplinks: &self.all,
            sums_bps: &self.sums_bps[at * width..(at + 1) * width],
            are_all: before.is_none(),
        }
    }
}

/// Promises of others on the uplinks of a session, beside which a request is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    uplinks: &'a [Uplink],
    /// The rate that counts on each of them, in bits per second.
    sums_bps: &'a [f64],
    /// All promises of others count: nothing that is in force goes before them.
    pub(super) are_all: bool,
}

impl Beside<'_> {
    /// Nobody.
    pub(super) const NOBODY: Self = Self {
        uplinks: &[],
        sums_bps: &[],
        are_all: true,
    };

    /// The uplinks of `set` with the rate that is reserved on each, in bits per second, where any is. O(uplinks).
    pub(super) fn reserved(self, set: ChannelMask) -> impl Iterator<Item = (ChannelMask, f64)> {
        let each = self.uplinks.iter().zip(self.sums_bps);
        each.filter_map(move |(uplink, &bps)| {
            let paths = uplink.paths.and(set);
            (!paths.is_empty() && bps > 0.0).then_some((paths, bps))
        })
    }
}

/// Measurements of whether a path shares its uplink's capacity with other sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    quiet: Mean,
    busy: Mean,
    changes: Changes,
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
    /// The measurements of a path in consecutive windows: its rate and that of the others, in bits per second, where it was full.
    pub(super) fn of(windows: &[Option<(f64, f64)>]) -> Self {
        let mut sharing = Self {
            changes: Changes::of(windows),
            ..Self::default()
        };
        for &(bps, others) in windows.iter().flatten() {
            if !is_busy(others, bps) {
                sharing.quiet.add(bps);
            }
        }
        let Some(alone) = sharing.quiet.get() else {
            return sharing;
        };
        for &(bps, others) in windows.iter().flatten() {
            if others > BUSY * alone {
                sharing.busy.add(bps);
            }
        }
        sharing
    }

    /// True unless the measurements contradict it.
    pub(super) fn is_assumed(self) -> bool {
        self.is_harmed().unwrap_or(true)
    }

    /// True if the measurements show it.
    pub(super) fn is_evident(self) -> bool {
        self.is_harmed()
            .unwrap_or_else(|| self.changes.are_related())
    }

    /// True if the path carries less beside busy others than beside quiet ones; `None`: not known.
    fn is_harmed(self) -> Option<bool> {
        Some(self.busy.get()? < UNHARMED * self.quiet.get()?)
    }
}

/// Changes of the rates of a path and of others from one window to the next. Paths that share nothing change independently; with a
/// common bottleneck both follow its capacity, or what one gains the other loses.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    count: usize,
    own: f64,
    others: f64,
    both: f64,
}

impl Changes {
    fn of(windows: &[Option<(f64, f64)>]) -> Self {
        let mut changes = Self::default();
        for pair in windows.windows(2) {
            let &[Some(before), Some(after)] = pair else {
                continue;
            };
            let (own, others) = (after.0 - before.0, after.1 - before.1);
            changes.count += 1;
            changes.own += own * own;
            changes.others += others * others;
            changes.both += own * others;
        }
        changes
    }

    /// True if their correlation is further from 0 than chance explains.
    fn are_related(self) -> bool {
        let correlation = self.both / (self.own * self.others).sqrt();
        self.count >= CHANGES_MIN && correlation.abs() > CORRELATED
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;

    /// 40 windows of a path of 10 Mbit/s, in half of which others carry 6: they take it from the path if they share.
    fn windows(shares: bool) -> Vec<Option<(f64, f64)>> {
        let mut random = Seed(3).stream("sharing");
        let mut window = |at: u32| {
            let others = if at.is_multiple_of(2) { 6e6 } else { 0.0 };
            let whole = 1e7 * (0.8 + 0.4 * random.unit());
            let bps = if shares { whole - others } else { whole };
            Some((bps, others))
        };
        (0..40).map(&mut window).collect()
    }

    #[test]
    fn sharing_is_assumed_until_measurements_contradict_it() {
        let is_assumed = |windows: &[_]| Sharing::of(windows).is_assumed();
        assert!(is_assumed(&[]));
        assert!(is_assumed(&windows(true)));
        assert!(!is_assumed(&windows(false)));
        // What a path could carry is not known where it was not full.
        assert!(is_assumed(&[None; 40]));
        // Nor where others were never busy.
        assert!(is_assumed(&windows(false)[..EACH_KIND]));
    }

    #[test]
    fn sharing_is_evident_where_others_harm_or_both_change_together() {
        let is_evident = |windows: &[_]| Sharing::of(windows).is_evident();
        assert!(!is_evident(&[]));
        assert!(is_evident(&windows(true)));
        assert!(!is_evident(&windows(false)));
        // Others are never quiet: each has half of a capacity that varies, or one of its own.
        let mut random = Seed(4).stream("fading");
        let mut fading = || 1e7 * (0.5 + random.unit());
        let halves = |_| {
            let half = fading() / 2.0;
            Some((half, half * 1.1))
        };
        assert!(is_evident(&(0..40).map(halves).collect::<Vec<_>>()));
        let mut random = Seed(5).stream("fading");
        let mut own = || 1e7 * (0.5 + random.unit());
        let apart: Vec<_> = (0..400).map(|_| Some((own(), own()))).collect();
        assert!(apart.chunks(40).all(|some| !is_evident(some)));
    }

    #[test]
    fn promises_that_go_before_count() {
        let standing = |seconds: u64, kind: Kind, session: u64| Standing {
            kind,
            since: Instant::from_secs(seconds),
            session: SessionId(session),
        };
        let own = standing(10, Kind::Renewable, 5);
        let reserved = [
            (standing(20, Kind::Durable, 1), 1.0),
            (standing(5, Kind::Renewable, 2), 2.0),
            (standing(10, Kind::Renewable, 3), 4.0),
            (standing(10, Kind::Renewable, 6), 8.0),
            (standing(11, Kind::Renewable, 4), 16.0),
            (standing(0, Kind::Waiting, 4), 32.0),
        ];
        let mut reserved: Vec<Reservation> = reserved
            .map(|(standing, bps)| Reservation {
                standing,
                tenant: None,
                bps,
            })
            .to_vec();
        let uplink = |reserved: &[Reservation]| Uplink {
            paths: ChannelMask::only(1).with(2),
            reserved: reserved.into(),
        };
        let mut uplinks = Uplinks::new(own.session);
        assert!(uplinks.set([uplink(&reserved)].into_iter()));
        let of = |uplinks: &mut Uplinks, before, set| {
            let beside = uplinks.before(before);
            beside.reserved(set).collect::<Vec<_>>()
        };
        let both = ChannelMask::only(0).with(1);
        let on = |bps| [(ChannelMask::only(1), bps)];
        assert_eq!(of(&mut uplinks, None, both), on(31.0));
        assert_eq!(of(&mut uplinks, Some(own), both), on(7.0));
        assert_eq!(of(&mut uplinks, None, ChannelMask::only(0)), []);
        // A new list with a further promise of the session itself changes nothing for it.
        reserved.push(Reservation {
            standing: own,
            tenant: None,
            bps: 64.0,
        });
        assert!(!uplinks.set([uplink(&reserved)].into_iter()));
        assert_eq!(of(&mut uplinks, None, both), on(31.0));
        // One of another session does, and so does the end of one.
        reserved[0].bps = 128.0;
        assert!(uplinks.set([uplink(&reserved)].into_iter()));
        assert_eq!(of(&mut uplinks, None, both), on(158.0));
        assert_eq!(of(&mut uplinks, Some(own), both), on(134.0));
        assert!(uplinks.set(std::iter::empty()));
        assert_eq!(of(&mut uplinks, None, both), []);
    }

    #[test]
    fn more_questions_than_are_kept_are_answered() {
        let at = |seconds: u64, session: u64| Standing {
            kind: Kind::Renewable,
            since: Instant::from_secs(seconds),
            session: SessionId(session),
        };
        let reserved: Vec<Reservation> = (0..300)
            .map(|second| Reservation {
                standing: at(second, 2),
                tenant: None,
                bps: 1.0,
            })
            .collect();
        let mut uplinks = Uplinks::new(SessionId(1));
        let uplink = Uplink {
            paths: ChannelMask::only(0),
            reserved: reserved.into(),
        };
        uplinks.set([uplink].into_iter());
        for second in (0..300).chain(0..300) {
            let beside = uplinks.before(Some(at(second, 1)));
            let mut sums = beside.reserved(ChannelMask::ALL).map(|(_, bps)| bps);
            assert_eq!(sums.next().unwrap_or(0.0), second as f64);
        }
        assert!(uplinks.asked.len() <= ASKED_MAX);
    }
}
