//! The number of ranges of a file that are requested at a time.

use std::time::Duration;

const FEWEST: usize = 2;
const MOST: usize = 16;
/// A range that arrives sooner leaves the paths idle between requests.
const SOON: Duration = Duration::from_millis(500);
/// A range that arrives later is too much to lose in an interruption: ranges share the rate, so that all arrive when the last does.
const LATE: Duration = Duration::from_secs(2);

/// Doubled while ranges arrive soon, and halved while they arrive late.
#[derive(Debug)]
pub(super) struct Window {
    ranges: usize,
    /// Ranges of the present number that have not arrived yet: what was requested before the last change says nothing about it.
    unjudged: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            ranges: FEWEST,
            unjudged: 0,
        }
    }
}

impl Window {
    pub(super) const fn ranges(&self) -> usize {
        self.ranges
    }

    pub(super) fn arrived_after(&mut self, elapsed: Duration) {
        if self.unjudged > 0 {
            self.unjudged -= 1;
            return;
        }
        let ranges = match elapsed {
            _ if elapsed < SOON => (2 * self.ranges).min(MOST),
            _ if elapsed > LATE => (self.ranges / 2).max(FEWEST),
            _ => self.ranges,
        };
        if ranges != self.ranges {
            // Those on their way were requested beside as many others as before.
            self.unjudged = self.ranges - 1;
            self.ranges = ranges;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges at a time after `arrivals`, when each of the ranges takes `seconds` times their number.
    fn settled(seconds: f64, arrivals: usize) -> usize {
        let mut window = Window::default();
        for _ in 0..arrivals {
            window.arrived_after(Duration::from_secs_f64(seconds * window.ranges() as f64));
        }
        window.ranges()
    }

    #[test]
    fn a_fast_peer_is_asked_for_much_and_a_slow_one_for_little() {
        // 1 Gbit/s, 100 Mbit/s, and 6 Mbit/s.
        assert_eq!(settled(0.008, 20), MOST);
        assert_eq!(settled(0.08, 20), 8);
        assert_eq!(settled(1.4, 20), FEWEST);
    }

    #[test]
    fn a_rate_that_falls_is_followed_once_for_each_round() {
        let mut window = Window {
            ranges: MOST,
            unjudged: 0,
        };
        let mut ranges = Vec::new();
        for _ in 0..40 {
            window.arrived_after(Duration::from_secs(3));
            ranges.push(window.ranges());
        }
        ranges.dedup();
        assert_eq!(ranges, [8, 4, 2]);
        assert_eq!(window.ranges(), FEWEST);
    }
}
