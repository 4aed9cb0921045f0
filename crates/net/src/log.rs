//! Limit of log lines that peers can cause.
//!
//! An action of a peer may be worth a line, but each of its packets is not: a log that a peer can fill hides
//! everything else, and fills the disk. [`limited!`](crate::limited) writes the first [`LINES_MAX`] lines of each place in the code
//! in a window of [`WINDOW`]; the next line after that reports the number of lines left out.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anabranch_base::Instant;

use crate::Clock;

/// Lines of one kind in a window; further lines are only counted.
pub const LINES_MAX: u32 = 10;
/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Limit of the lines of one kind.
#[derive(Debug, Default)]
pub struct Limit(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Limit {
    /// Creates a limit; no line has been written yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Counted {
            began: None,
            written: 0,
            left_out: 0,
        }))
    }

    /// Asks to write a line at `now`, which must not run backwards. Returns the number of lines left out since the last
    /// one written, or `None` if the line must not be written; then it is counted.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.began.is_none_or(|began| now.since(began) >= WINDOW) {
            counted.began = Some(now);
            counted.written = 0;
        }
        if counted.written >= LINES_MAX {
            counted.left_out = counted.left_out.saturating_add(1);
            return None;
        }
        counted.written += 1;
        Some(std::mem::take(&mut counted.left_out))
    }
}

/// Current time of the clock that all limits of this process use.
#[doc(hidden)]
pub fn now() -> Instant {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::start).now()
}

/// Writes a log line that a peer caused, unless there are too many: `limited!(warn, %peer, "not received")`. The first word is
/// the level (`info`, `warn`, `error`), the rest are the arguments of the `tracing` macro of that name.
#[macro_export]
macro_rules! limited {
    ($level:ident, $($line:tt)+) => {{
        static LIMIT: $crate::log::Limit = $crate::log::Limit::new();
        if let Some(left_out) = LIMIT.admit($crate::log::now()) {
            if left_out > 0 {
                $crate::log::tracing::$level!(left_out, "similar lines were left out before the next one");
            }
            $crate::log::tracing::$level!($($line)+);
        }
    }};
}

#[doc(hidden)]
pub use tracing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_ten_lines_in_ten_seconds_and_counted() {
        let limit = Limit::new();
        let (mut written, mut reported) = (0, 0);
        // A million lines in a hundred seconds.
        for step in 0..1_000_000_u64 {
            if let Some(left_out) = limit.admit(Instant::from_nanos(step * 100_000)) {
                written += 1;
                reported += left_out;
            }
        }
        assert_eq!(written, 10 * u64::from(LINES_MAX));
        assert_eq!(reported, 9 * (100_000 - u64::from(LINES_MAX)));
    }

    #[test]
    fn what_comes_seldom_is_all_written() {
        let limit = Limit::new();
        for second in 0..1_000 {
            let now = Instant::EPOCH + Duration::from_secs(second);
            assert_eq!(limit.admit(now), Some(0));
        }
    }
}
