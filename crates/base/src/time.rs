//! Virtual time.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub},
    time::Duration,
};

/// A moment, in nanoseconds since the host's epoch (the start of the process or of the simulation).
///
/// The engine never reads a clock: every entry point takes the current `Instant`, which the host
/// guarantees to be monotonic. The range is 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The host's epoch itself.
    pub const EPOCH: Self = Self(0);
    /// Later than every moment that a host can reach; stands for "never" in comparisons.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The moment `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// The moment `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// The moment `secs` seconds after the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds since the epoch.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Time since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Time since the epoch.
    pub const fn since_epoch(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        let nanos = u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        let nanos = u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Instant {
    /// Milliseconds since the epoch with microsecond resolution, e.g. `1203.500ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FAR_FUTURE {
            return f.write_str("never");
        }
        let micros = self.as_micros();
        write!(f, "{}.{:03}ms", micros / 1000, micros % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let t = Instant::from_millis(5);
        assert_eq!(t + Duration::from_millis(2), Instant::from_millis(7));
        assert_eq!(t - Duration::from_secs(1), Instant::EPOCH);
        assert_eq!(t.since(Instant::from_millis(9)), Duration::ZERO);
        assert_eq!(
            Instant::FAR_FUTURE + Duration::from_secs(1),
            Instant::FAR_FUTURE
        );
    }

    #[test]
    fn prints_milliseconds() {
        assert_eq!(Instant::from_micros(1_203_500).to_string(), "1203.500ms");
        assert_eq!(Instant::FAR_FUTURE.to_string(), "never");
    }
}
