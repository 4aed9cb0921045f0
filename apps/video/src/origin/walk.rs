//! Position of the enhanced flow in the film: it advances at the film's pace, and faster where there is capacity until it has
//! its lead.
//!
//! The film's own clock begins with the play and never waits. The flow advances stretch by stretch, each at one pace. A flow
//! that has fallen behind the clock, because a timer or the disk was late, catches up a little; it sends no bursts.

use std::time::Duration;

use anabranch::base::Instant;

/// Maximum speed of a flow that is behind the film's clock, in paces of the film.
const CATCHING_UP: f64 = 1.25;

/// Position of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// Time at which the film's clock began, and the position in the film.
    begun: (Instant, Duration),
    /// Maximum lead over the clock.
    lead: Duration,
    /// Time at which the current stretch began, or its pace was changed, and the position in the film.
    since: (Instant, Duration),
    /// Position at which it ends.
    end: Duration,
    pace: f64,
}

impl Walk {
    /// A flow that begins at `from`, without a stretch.
    pub(super) fn new(now: Instant, from: Duration, lead: Duration) -> Self {
        Self {
            begun: (now, from),
            lead,
            since: (now, from),
            end: from,
            pace: 1.0,
        }
    }

    /// Begins the next stretch, from the end of the last one to `end`; at most `extra` paces faster than the film.
    pub(super) fn go_on(&mut self, now: Instant, end: Duration, extra: f64) {
        self.since = (now, self.end);
        self.end = end.max(self.end);
        self.pace = self.suitable(now, extra);
    }

    /// Sets another pace for the rest of the stretch. Returns whether that changes anything.
    pub(super) fn set_extra(&mut self, now: Instant, extra: f64) -> bool {
        if self.left(now).is_zero() {
            // It waits for the next stretch.
            return false;
        }
        let pace = self.suitable(now, extra);
        let changes = (pace - self.pace).abs() > 0.02;
        if changes {
            self.since = (now, self.position(now));
            self.pace = pace;
        }
        changes
    }

    /// Current position.
    pub(super) fn position(&self, now: Instant) -> Duration {
        let (at, film) = self.since;
        (film + now.since(at).mul_f64(self.pace)).min(self.end)
    }

    /// Remaining duration of the stretch.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let film = self.end.saturating_sub(self.position(now));
        film.div_f64(self.pace)
    }

    /// Time at which the stretch ends.
    pub(super) fn ends(&self) -> Instant {
        let (at, film) = self.since;
        at + self.end.saturating_sub(film).div_f64(self.pace)
    }

    /// Current pace, in paces of the film.
    pub(super) fn pace(&self) -> f64 {
        self.pace
    }

    /// Lead over the film's clock.
    pub(super) fn ahead(&self, now: Instant) -> Duration {
        self.position(now).saturating_sub(self.clock(now))
    }

    /// Time until it reaches `film`, at least: it continues at this pace until it has its lead, and then at the film's.
    pub(super) fn until(&self, now: Instant, film: Duration) -> Duration {
        let position = self.position(now);
        let span = film.saturating_sub(position);
        if self.pace <= 1.0 {
            return span;
        }
        let missing = (self.clock(now) + self.lead).saturating_sub(position);
        let hasty = missing.div_f64(self.pace - 1.0);
        let covered = hasty.mul_f64(self.pace);
        match span.checked_sub(covered) {
            Some(rest) => hasty + rest,
            None => span.div_f64(self.pace),
        }
    }

    fn clock(&self, now: Instant) -> Duration {
        let (at, film) = self.begun;
        film + now.since(at)
    }

    /// Pace for the rest of the stretch, at most `extra` above the film's where it is not behind the clock.
    fn suitable(&self, now: Instant, extra: f64) -> f64 {
        let position = self.position(now);
        let left = self.end.saturating_sub(position).as_secs_f64();
        if left <= 0.0 {
            return 1.0;
        }
        let clock = self.clock(now);
        let behind = clock.saturating_sub(position).as_secs_f64();
        let missing = (clock + self.lead).saturating_sub(position).as_secs_f64();
        // It has caught up, or has its lead, at the end of the stretch.
        let catching_up = (1.0 + behind / left).min(CATCHING_UP);
        let leading = (1.0 + missing / left).min(1.0 + extra.max(0.0));
        catching_up.max(leading)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn at(secs: u64) -> Instant {
        Instant::from_secs(secs)
    }

    #[test]
    fn without_spare_capacity_it_keeps_the_pace_of_the_film() {
        let mut walk = Walk::new(at(100), secs(40), secs(8));
        walk.go_on(at(100), secs(44), 0.0);
        assert_eq!(walk.position(at(103)), secs(43));
        assert_eq!(walk.ends(), at(104));
        assert_eq!(
            walk.position(at(110)),
            secs(44),
            "it waits for the next stretch"
        );
        assert_eq!(walk.until(at(103), secs(60)), secs(17));
    }

    #[test]
    fn with_capacity_it_gets_its_lead_and_no_more() {
        let mut walk = Walk::new(at(0), secs(0), secs(3));
        walk.go_on(at(0), secs(4), 1.0);
        // 4 s of film in 16/7 s: then the clock has caught up, and the lead is not complete.
        assert_eq!(walk.pace(), 1.75);
        walk.go_on(walk.ends(), secs(8), 1.0);
        let lead = walk.ahead(walk.ends());
        assert!((lead.as_secs_f64() - 3.0).abs() < 0.6, "{lead:?}");
        walk.go_on(walk.ends(), secs(12), 1.0);
        walk.go_on(walk.ends(), secs(16), 1.0);
        let lead = walk.ahead(walk.ends());
        assert!((lead.as_secs_f64() - 3.0).abs() < 0.1, "{lead:?}");
    }

    #[test]
    fn somebody_else_may_need_the_capacity_at_once() {
        let mut walk = Walk::new(at(0), secs(0), secs(100));
        walk.go_on(at(0), secs(10), 1.0);
        assert_eq!(walk.until(at(0), secs(30)), secs(15));
        assert!(walk.set_extra(at(2), 0.0));
        assert_eq!((walk.position(at(2)), walk.ends()), (secs(4), at(8)));
        assert!(!walk.set_extra(at(3), 0.0));
    }

    #[test]
    fn what_it_is_behind_it_makes_up_for_slowly() {
        let mut walk = Walk::new(at(0), secs(0), secs(0));
        walk.go_on(at(2), secs(4), 0.0);
        assert_eq!(walk.pace(), CATCHING_UP);
        walk.go_on(walk.ends(), secs(8), 0.0);
        walk.go_on(walk.ends(), secs(12), 0.0);
        assert_eq!(walk.pace(), 1.0 + 0.4 / 4.0);
        walk.go_on(walk.ends(), secs(16), 0.0);
        assert!((walk.pace() - 1.0).abs() < 0.02);
    }

    proptest! {
        /// Whatever extra speed it is given: it never goes back, its lead stays bounded, and it reaches a position no earlier
        /// than predicted.
        #[test]
        fn it_goes_forward(
            steps in prop::collection::vec((0u64..4_000, 0.0..1.0f64), 1..60),
            lead_ms in 0u64..10_000,
        ) {
            let lead = Duration::from_millis(lead_ms);
            let mut walk = Walk::new(at(1), secs(20), lead);
            let mut now = at(1);
            let mut before = secs(20);
            walk.go_on(now, secs(22), 0.0);
            for (step_ms, extra) in steps {
                let later = now + Duration::from_millis(step_ms);
                let soonest = walk.until(now, walk.end);
                prop_assert!(now + soonest <= walk.ends() + Duration::from_millis(1));
                while walk.ends() <= later {
                    let end = walk.end + secs(2);
                    walk.go_on(walk.ends(), end, extra);
                }
                now = later;
                walk.set_extra(now, extra);
                let position = walk.position(now);
                prop_assert!(position >= before);
                prop_assert!(walk.ahead(now) <= lead + Duration::from_millis(50), "{:?}", walk.ahead(now));
                before = position;
            }
        }
    }
}
