//! Levels of a promise: the highest rate of a source that can be promised, changed seldom.
//!
//! A stream gets the highest of its levels that can be mapped beside all promises. It gets a lower one when its own cannot be
//! kept, and a higher one when that has been possible for a while. Between a change and the next one lie at least 30 s, so that its
//! source does not flap; meanwhile its owner is warned as of any other promise, and only instead of a withdrawal it gets a lower
//! level sooner. A level that could not be held for long is tried again after twice the time, as layers are in receiver-driven
//! layered multicast [McCanne 1996]. No other stream loses anything by a change: streams in force and those that wait are mapped first.

use std::time::Duration;

use crate::mapping::{self, Hold, Request};
use anabranch_base::{Instant, StreamId};
use anabranch_spec::Guarantee;

use super::{Channels, Notice, OVERHEAD, Promises, answer::Grant};

/// A guarantee, and the placements of all promises with it.
pub(super) type Found = (Guarantee, Vec<(StreamId, mapping::Placement)>);

/// Time between two changes of the level of a stream, at least.
const APART: Duration = Duration::from_secs(30);
/// Time for which a higher level must have been possible.
const STEADY: Duration = Duration::from_secs(20);
/// Capacity that a lower level must find, of its rate: paths that fall usually fall further.
pub(super) const FALLING: f64 = 1.25;
/// Longest time before a level is tried again.
const BACKOFF_MAX: Duration = Duration::from_secs(480);

/// Changes of a stream's level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Time of the last one; `None`: it has the level of its first promise.
    changed_at: Option<Instant>,
    /// Time of the last one to a higher level.
    raised_at: Option<Instant>,
    /// Time since which a higher level has been possible.
    higher_since: Option<Instant>,
    /// Time after a change before a higher level is tried.
    backoff: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            changed_at: None,
            raised_at: None,
            higher_since: None,
            backoff: APART,
        }
    }
}

impl Pace {
    /// True if a level may be lowered now that could perhaps be held.
    pub(super) fn may_fall(&self, now: Instant) -> bool {
        self.changed_at.is_none_or(|at| now.since(at) >= APART)
    }

    /// True if a higher level may be tried.
    pub(super) fn may_rise(&self, now: Instant) -> bool {
        self.changed_at
            .is_none_or(|at| now.since(at) >= self.backoff)
    }

    /// Notes whether a higher level is possible; returns true if it has been for a while.
    pub(super) fn is_steady(&mut self, now: Instant, is_possible: bool) -> bool {
        if !is_possible {
            self.higher_since = None;
            return false;
        }
        now.since(*self.higher_since.get_or_insert(now)) >= STEADY
    }

    /// Notes a change to a higher level.
    pub(super) fn rises(&mut self, now: Instant) {
        *self = Self {
            changed_at: Some(now),
            raised_at: Some(now),
            higher_since: None,
            ..*self
        };
    }

    /// Notes a change to a lower level; after one soon after a rise, the next rise is tried later.
    pub(super) fn falls(&mut self, now: Instant) {
        self.backoff = match self.raised_at {
            Some(at) if now.since(at) < 2 * self.backoff => (2 * self.backoff).min(BACKOFF_MAX),
            // The fall continues.
            None if !self.may_fall(now) => self.backoff,
            _ => (self.backoff / 2).max(APART),
        };
        *self = Self {
            changed_at: Some(now),
            raised_at: None,
            higher_since: None,
            ..*self
        };
    }
}

impl Promises {
    /// The highest level of a stream below its own that can be mapped together with the requests `kept`, with all placements; it
    /// is now the stream's. `None` if there is none, or its level need not change yet.
    pub(super) fn step_down(
        &mut self,
        now: Instant,
        stream: StreamId,
        kept: &[Request],
        channels: Channels<'_>,
    ) -> Option<(Vec<Request>, Vec<mapping::Placement>)> {
        let entry = self.streams.get(&stream)?;
        let current = entry.guarantee;
        if !entry.pace.may_fall(now) && !entry.is_due(now) {
            return None;
        }
        let lower = |level: &Guarantee| level.required() < current.required();
        let lowest = current.by_level().filter(lower).last()?;
        // If not even the lowest can be had, the others need not be tried.
        let mut found = self.try_level(stream, (lowest, 1.0), kept, channels);
        if found.is_some() {
            let with_headroom = current
                .by_level()
                .filter(lower)
                .map(|level| (level, FALLING));
            let mut levels = with_headroom.chain([(lowest, 1.0)]);
            found = levels.find_map(|level| self.try_level(stream, level, kept, channels));
        }
        let entry = self.streams.get_mut(&stream)?;
        match &found {
            Some(_) => entry.pace.falls(now),
            None => entry.guarantee = current,
        }
        found
    }

    /// Gives a stream this level, and maps it together with the requests `kept`, which must be possible with `headroom` times its
    /// rate, too.
    pub(super) fn try_level(
        &mut self,
        stream: StreamId,
        (level, headroom): (Guarantee, f64),
        kept: &[Request],
        channels: Channels<'_>,
    ) -> Option<(Vec<Request>, Vec<mapping::Placement>)> {
        let entry = self.streams.get_mut(&stream)?;
        entry.exchange_guarantee(level);
        let request = entry.request(stream, channels, OVERHEAD);
        let with = |factor: f64| {
            let mut all = kept.to_vec();
            all.push(Request {
                rate_bps: factor * request.rate_bps,
                hold: Hold::New,
                ..request.clone()
            });
            Request::sort(&mut all);
            all
        };
        let all = with(1.0);
        if !self.may_have(&request, channels) {
            return None;
        }
        let before = self.last_standing(&all);
        if headroom > 1.0 {
            mapping::map(&with(headroom), &mut self.view_before(before, channels)).ok()?;
        }
        let placements = mapping::map(&all, &mut self.view_before(before, channels)).ok()?;
        Some((all, placements))
    }

    /// Promises streams a higher level where that has been possible for a while.
    pub(super) fn review_levels(
        &mut self,
        now: Instant,
        channels: Channels<'_>,
        notices: &mut Vec<Notice>,
    ) {
        for stream in self.order() {
            let Some(entry) = self.streams.get(&stream) else {
                continue;
            };
            let (current, pace) = (entry.guarantee, entry.pace);
            if current.levels.is_empty() {
                continue;
            }
            let can_rise = current.levels.highest() != Some(current.required())
                && entry.is_in_force()
                && !entry.is_warned()
                && pace.may_rise(now);
            let found = if can_rise {
                self.higher(stream, channels)
            } else {
                None
            };
            let Some(entry) = self.streams.get_mut(&stream) else {
                continue;
            };
            let is_steady = entry.pace.is_steady(now, found.is_some());
            if let Some(found) = found.filter(|_| is_steady) {
                self.raise(now, stream, found, channels, notices);
            }
        }
    }

    /// Promises a stream more, for which placements were found.
    pub(super) fn raise(
        &mut self,
        now: Instant,
        stream: StreamId,
        (guarantee, placements): Found,
        channels: Channels<'_>,
        notices: &mut Vec<Notice>,
    ) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.exchange_guarantee(guarantee);
            entry.pace.rises(now);
        }
        self.settle(placements);
        self.change_level(now, stream, channels, notices);
    }

    /// The highest level of a stream above its own that can be mapped beside all promises.
    fn higher(&mut self, stream: StreamId, channels: Channels<'_>) -> Option<Found> {
        let entry = self.streams.get(&stream)?;
        let current = entry.guarantee;
        let request = entry.request(stream, channels, OVERHEAD);
        let higher = current
            .by_level()
            .take_while(|level| level.required() > current.required());
        for level in higher {
            let wanted = Request {
                rate_bps: level.required().as_bps() as f64 * OVERHEAD,
                demand: level.demand,
                hold: Hold::New,
                ..request.clone()
            };
            if self.may_have(&wanted, channels)
                && let Some(placements) = self.map_with(&wanted, channels)
            {
                return Some((level, placements));
            }
        }
        None
    }

    /// Notifies the owner of a stream of its new level, whose placement is settled.
    pub(super) fn change_level(
        &mut self,
        now: Instant,
        stream: StreamId,
        channels: Channels<'_>,
        notices: &mut Vec<Notice>,
    ) {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let term = entry.term();
        let grant = Grant::new(now, &entry.guarantee, term, &entry.placement, channels);
        entry.grant(now, term, &grant);
        self.is_changed = true;
        notices.push(Notice::Promised(stream, grant));
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::{Rate, Seed};
    use anabranch_spec::StreamSpec;

    use super::{
        super::{AdmissionController, Reason},
        *,
    };

    const LAYERED: StreamId = StreamId(1);
    const OTHER: StreamId = StreamId(2);

    /// 6, 3 or 1 Mbit/s.
    fn layered() -> Guarantee {
        let levels = [6, 1].map(Rate::from_mbps);
        let guarantee = Guarantee::rate(Rate::from_mbps(3), 0.9);
        guarantee.with_levels(levels).unwrap()
    }

    fn spec(guarantee: Guarantee) -> StreamSpec {
        StreamSpec::default().with_guarantee(guarantee)
    }

    /// A controller that knows 60 windows of a path of `mbps`.
    fn known(mbps: f64) -> AdmissionController {
        let mut controller = AdmissionController::new(1);
        for _ in 0..60 {
            controller.end_window(&[mbps * 1e6], |_| false);
        }
        controller
    }

    fn level(controller: &AdmissionController, stream: StreamId) -> Option<u64> {
        let explained = controller.explain(stream)?;
        explained.term?;
        Some(explained.guarantee.required().as_bps() / 1_000_000)
    }

    /// The levels promised in so many windows of `mbps`, each with the number of its window; nothing may be withdrawn.
    fn promised(
        controller: &mut AdmissionController,
        windows: usize,
        mbps: f64,
    ) -> Vec<(usize, u64)> {
        let mut changes = Vec::new();
        for window in 0..windows {
            for notice in controller.end_window(&[mbps * 1e6], |_| false) {
                match notice {
                    Notice::Promised(LAYERED, grant) => {
                        changes.push((window, grant.guarantee.required().as_bps() / 1_000_000));
                    }
                    Notice::Warned(LAYERED, _) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        changes
    }

    #[test]
    fn the_highest_level_that_can_be_promised_is() {
        let open = |mbps: f64| {
            let mut controller = known(mbps);
            let answer = controller.open(LAYERED, &spec(layered()));
            let level = level(&controller, LAYERED);
            (answer.map(|_| level), controller)
        };
        assert_eq!(open(9.0).0, Ok(Some(6)));
        assert_eq!(open(4.0).0, Ok(Some(3)));
        assert_eq!(open(1.5).0, Ok(Some(1)));
        // The reason is that of the lowest level.
        let (refused, mut controller) = open(0.5);
        let Err(refusal) = refused else {
            panic!("{refused:?}");
        };
        let Reason::TooLittle { needed, .. } = refusal.reason else {
            panic!("{refusal}");
        };
        assert!(needed < Rate::from_kbps(1_100), "{needed}");
        // A stream that waits gets what can be had first, and more later.
        let waits = spec(layered().waiting());
        assert_eq!(controller.open(LAYERED, &waits), Ok(None));
        let changes = promised(&mut controller, 200, 9.0);
        let levels: Vec<u64> = changes.iter().map(|(_, level)| *level).collect();
        assert!(
            levels.is_sorted() && levels.last() == Some(&6),
            "{changes:?}"
        );
    }

    #[test]
    fn a_level_follows_the_path_slowly_and_no_promise_is_withdrawn() {
        let mut controller = known(9.0);
        controller.open(LAYERED, &spec(layered())).unwrap();
        // The forecast falls further than the path for a while.
        let down = promised(&mut controller, 90, 4.0);
        assert_eq!(down.last().map(|(_, level)| *level), Some(3), "{down:?}");
        assert!(down.len() <= 2, "{down:?}");
        let up = promised(&mut controller, 200, 9.0);
        assert_eq!(up.len(), 1, "{up:?}");
        assert_eq!(up[0].1, 6);
        let account = controller.explain(LAYERED).unwrap().account;
        assert_eq!(account.withdrawn, 0);
    }

    #[test]
    fn a_higher_level_takes_nothing_from_others() {
        let mut controller = known(8.0);
        let fixed = spec(Guarantee::rate(Rate::from_mbps(3), 0.9));
        controller.open(OTHER, &fixed).unwrap();
        controller.open(LAYERED, &spec(layered())).unwrap();
        assert_eq!(level(&controller, LAYERED), Some(3));
        assert_eq!(promised(&mut controller, 100, 8.0), []);
        controller.close(OTHER);
        let changes = promised(&mut controller, 100, 8.0);
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(changes[0].1, 6);
        // Steady for twenty seconds first.
        assert!((19..=21).contains(&changes[0].0), "{changes:?}");
    }

    /// On paths that swing at every speed, the level rises 30 s after the last change at the earliest, and falls sooner only where
    /// the promise would have been withdrawn.
    #[test]
    fn a_level_never_flaps() {
        let (mut changes_soon, mut all) = (0, 0);
        for seed in 0..20 {
            let mut random = Seed(seed).stream("swing");
            let mut controller = known(5.0);
            let waits = spec(layered().waiting());
            let _ = controller.open(LAYERED, &waits).unwrap();
            let swing_s = [7.0, 20.0, 45.0, 150.0][seed as usize % 4];
            let (mut last, mut changes) = (None, Vec::new());
            for window in 0..1_500 {
                let slow = (f64::from(window) / swing_s).sin();
                let bps = (4.0 + 3.5 * slow + random.unit()) * 1e6;
                controller.end_window(&[bps], |_| false);
                let Some(now) = level(&controller, LAYERED) else {
                    continue;
                };
                assert!([6, 3, 1].contains(&now), "{now}");
                if let Some(last) = last.filter(|last| *last != now) {
                    let before = changes.last().copied();
                    let is_soon = before.is_some_and(|before| window - before < 30);
                    assert!(
                        !is_soon || now < last,
                        "{seed}: {last} to {now} in {window}"
                    );
                    changes_soon += usize::from(is_soon);
                    changes.push(window);
                }
                last = Some(now);
            }
            all += changes.len();
        }
        assert!(
            all > 50 && 5 * changes_soon < all,
            "{changes_soon} of {all}"
        );
    }
}
