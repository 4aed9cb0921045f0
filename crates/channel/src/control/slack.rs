//! Slack of a window: what it holds beyond the model while no queue shows.
//!
//! Where rate and round trip are both measured, a path that carries more than is known looks like one that is full: what is in flight
//! arrives, and no more can be seen. If the smallest round trip of a round in which the window was used shows no queue, the path is not full,
//! and the window grows until one shows. Timers that are late and acknowledgements that wait are no longer what keeps a path at a
//! fraction of its rate.

/// Most that it becomes, as a fraction of the shortest round trip: jitter hides a queue, too.
const FRACTION_MAX: f64 = 0.25;

/// Part that is left after a round in which the window was not used.
const DECAY: f64 = 0.9;
/// Part of the usual excess that a round adds in which it was.
const PART_STEP: f64 = 0.25;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slack {
    s: f64,
    /// Part of the usual excess of round trips that the window holds, from 0 to 1.
    part: f64,
}

impl Slack {
    /// Notes a round in which the window was used. Its smallest round trip exceeded the shortest one, of `rtt_min_s`, by
    /// `standing_s`; the queue is to be `goal_s`. All in seconds.
    pub(super) fn adjust(&mut self, standing_s: f64, goal_s: f64, rtt_min_s: f64) {
        if standing_s < goal_s / 2.0 {
            self.s += goal_s / 2.0;
        } else if standing_s > goal_s {
            self.s -= standing_s - goal_s;
        }
        self.s = self.s.clamp(0.0, FRACTION_MAX * rtt_min_s);
        self.part = (self.part + PART_STEP).min(1.0);
    }

    /// Notes a round in which the window was not the limit: one that is larger than what there is to send is never full, and a path whose
    /// window is never full is not measured.
    pub(super) fn decay(&mut self) {
        self.s *= DECAY;
        self.part *= DECAY;
    }

    /// Part of the usual excess of round trips that the window holds: all while it is the limit.
    pub(super) fn part(self) -> f64 {
        self.part
    }

    /// Slack in seconds of the path's rate.
    pub(super) fn get_s(self) -> f64 {
        self.s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_no_queue_shows_and_gives_way_to_one() {
        let mut slack = Slack::default();
        let mut after_ms = |standing_ms: f64| {
            slack.adjust(standing_ms / 1e3, 0.004, 0.060);
            (slack.get_s() * 1e3).round()
        };
        assert_eq!(
            [1.0, 0.0, 3.0, 4.0].map(&mut after_ms),
            [2.0, 4.0, 4.0, 4.0]
        );
        assert_eq!([5.0, 9.0].map(&mut after_ms), [3.0, 0.0]);
        assert_eq!([0.0; 20].map(&mut after_ms)[19], 15.0, "a quarter of 60");
        assert_eq!(slack.part(), 1.0);
        (0..10).for_each(|_| slack.decay());
        assert_eq!((slack.get_s() * 1e3).round(), 5.0);
        assert!((0.3..0.4).contains(&slack.part()));
    }
}
