//! The only clock below the node.

use anabranch_base::Instant;

/// Turns the monotonic clock of the machine into the engine's instants.
///
/// Wall-clock jumps do not touch it. Copies share the epoch.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: std::time::Instant,
}

impl Clock {
    /// A clock whose epoch is this moment.
    pub fn start() -> Self {
        Self {
            epoch: std::time::Instant::now(),
        }
    }

    /// The moment that [`Instant::EPOCH`] stands for.
    pub const fn epoch(&self) -> std::time::Instant {
        self.epoch
    }

    /// The current moment; never earlier than an answer given before.
    pub fn now(&self) -> Instant {
        Instant::EPOCH + self.epoch.elapsed()
    }
}

/// Seconds since 1970, by the machine's wall clock. Only for what people date: billing periods.
#[expect(
    clippy::disallowed_methods,
    reason = "months are of the calendar, and a clock that is set back begins none twice"
)]
pub(crate) fn calendar_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_the_epoch_and_time_does_not_run_back() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        assert!(copy.now() >= first);
        assert_eq!(copy.epoch(), clock.epoch());
    }
}
