//! Clock of an origin and of a proxy: the only file that reads the time.
#![expect(
    clippy::disallowed_methods,
    reason = "every other file takes the time from the clock that it was given"
)]

#[cfg(feature = "s3")]
use std::time::SystemTime;
use std::time::{Duration, Instant};

/// Clock that an origin, its library, or a proxy is given when it is made.
///
/// Monotonic time is that of the runtime's timers, so that both agree where a test pauses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(());

impl Clock {
    /// The clock of the system.
    pub(crate) const fn system() -> Self {
        Self(())
    }

    /// Monotonic time.
    pub(crate) fn now(self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// Time that has passed since `at`; zero if `at` is yet to come.
    pub(crate) fn since(self, at: Instant) -> Duration {
        self.now().saturating_duration_since(at)
    }

    /// Time of day, by which object stores judge signatures. A jump of it affects nothing else.
    #[cfg(feature = "s3")]
    pub(crate) fn wall(self) -> SystemTime {
        SystemTime::now()
    }
}
