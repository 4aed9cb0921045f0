//! Detection of a link's decline, distinguished from the noise of its estimates.

use std::time::Duration;

use anabranch_base::Instant;

/// Conditions under which a link counts as degraded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Factor by which a message must exceed its usual time; above 1.
    pub factor: f64,
    /// Consecutive estimates that must exceed it; at least 1.
    pub estimates: u32,
    /// Time over which the usual time is averaged, approximately.
    pub memory: Duration,
    /// Time after which a degraded state has become the usual one and no longer counts as degraded.
    pub hold: Duration,
}

impl Default for Config {
    /// For estimates every 0.5 to 1 s with errors of up to 20 %, at which a message takes at most 1.25 times as long:
    /// degraded from a factor of 1.6 on, twice in sequence.
    fn default() -> Self {
        Self {
            factor: 1.6,
            estimates: 2,
            memory: Duration::from_secs(20),
            hold: Duration::from_secs(60),
        }
    }
}

/// Detector for one link or one path. The usual time is the mean of the logarithm of the times while it is not degraded.
/// `observe`: O(1).
#[derive(Debug, Clone)]
pub struct Decline {
    config: Config,
    /// Logarithm of the usual time in seconds, and the time of its last update.
    usual: Option<(f64, Instant)>,
    /// Number of consecutive estimates that were too slow, and the time of the first.
    slow: Option<(u32, Instant)>,
}

/// Resolution: shorter times count as 1 µs.
const TIME_MIN_S: f64 = 1e-6;

impl Decline {
    /// Creates a detector without any estimate.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            usual: None,
            slow: None,
        }
    }

    /// Takes a new estimate, the time that a typical message takes. Returns true if the link is degraded.
    pub fn observe(&mut self, now: Instant, time: Duration) -> bool {
        let log = time.as_secs_f64().max(TIME_MIN_S).ln();
        let Some((usual, since)) = &mut self.usual else {
            self.usual = Some((log, now));
            return false;
        };
        if log - *usual > self.config.factor.ln() {
            let (count, first) = self.slow.unwrap_or((0, now));
            if now.since(first) < self.config.hold {
                self.slow = Some((count.saturating_add(1), first));
                return self.is_degraded();
            }
            *usual = log;
        } else {
            let share = now.since(*since).as_secs_f64() / self.config.memory.as_secs_f64();
            *usual += (log - *usual) * (1.0 - (-share).exp()).clamp(0.0, 1.0);
        }
        *since = now;
        self.slow = None;
        false
    }

    /// True if the link was degraded after the last estimate.
    pub fn is_degraded(&self) -> bool {
        self.slow
            .is_some_and(|(count, _)| count >= self.config.estimates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    fn at(seconds: f64) -> Instant {
        Instant::EPOCH + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_third_is_seen_with_the_second_estimate() {
        let mut link = Decline::new(Config::default());
        for step in 0..30 {
            assert!(!link.observe(at(f64::from(step)), Duration::from_secs(1)));
        }
        assert!(!link.observe(at(30.0), Duration::from_secs(3)));
        assert!(link.observe(at(31.0), Duration::from_secs(3)));
        assert!(link.is_degraded());
        assert!(
            !link.observe(at(32.0), Duration::from_secs(1)),
            "it is back"
        );
        for step in 40..100 {
            link.observe(at(f64::from(step)), Duration::from_secs(3));
        }
        assert!(link.is_degraded());
        assert!(
            !link.observe(at(101.0), Duration::from_secs(3)),
            "usual by now"
        );
    }

    /// A day of estimates with errors of ±20 %, uniform, and normal of the same deviation.
    #[test]
    fn noise_is_no_decline() {
        for is_normal in [false, true] {
            let mut random = Seed(3).stream("noise");
            let mut link = Decline::new(Config::default());
            let alarms = (0..86_400).filter(|&step| {
                let error = if is_normal {
                    random.normal(0.0, 0.2 / 3f64.sqrt())
                } else {
                    random.uniform(-0.2, 0.2)
                };
                let time = Duration::from_secs_f64(1.0 / (1.0 + error.max(-0.9)));
                link.observe(at(f64::from(step)), time)
            });
            assert_eq!(alarms.count(), 0);
        }
    }
}
