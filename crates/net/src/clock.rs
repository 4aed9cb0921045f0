//! Clock of the host, the only one below the node.

use std::time::Duration;

use anabranch_base::Instant;

/// Monotonic clock that converts the machine's time into the engine's instants.
///
/// Wall-clock jumps do not affect it. On Linux it continues while the machine is suspended (`CLOCK_BOOTTIME`), as do the
/// clocks of the peers: timers that expired in the meantime fire at once, and a session suspended for longer than its
/// time-outs is over, rather than treated as one with a recent packet. Copies share the epoch.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: std::time::Instant,
    /// Value of [`uptime`] at the epoch.
    started: Duration,
}

impl Clock {
    /// Starts a clock whose epoch is the current moment.
    pub fn start() -> Self {
        Self {
            epoch: std::time::Instant::now(),
            started: uptime(),
        }
    }

    /// The moment that [`Instant::EPOCH`] stands for.
    pub const fn epoch(&self) -> std::time::Instant {
        self.epoch
    }

    /// The current time; never earlier than a value returned before.
    pub fn now(&self) -> Instant {
        Instant::EPOCH + uptime().saturating_sub(self.started)
    }
}

/// Time since some moment, suspensions included.
#[cfg(target_os = "linux")]
fn uptime() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // The clock counts from zero, and its nanoseconds stay below a second.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// Time since the first call; it depends on the system whether suspensions count.
#[cfg(not(target_os = "linux"))]
fn uptime() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

/// Seconds since 1970, by the machine's wall clock. Only for billing periods, which follow the calendar.
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

    /// Runs in a time namespace, for the test below.
    #[cfg(target_os = "linux")]
    #[test]
    #[ignore = "the test `suspensions_count` runs it"]
    fn prints_the_uptime() {
        println!("uptime_s={}", uptime().as_secs());
    }

    /// A suspension moves `CLOCK_BOOTTIME` ahead of the monotonic clock, as does a time namespace; creating one needs
    /// root.
    #[cfg(target_os = "linux")]
    #[test]
    fn suspensions_count() {
        const AHEAD_S: u64 = 500_000_000;
        let own = std::env::current_exe().unwrap();
        let mut inside = std::process::Command::new("unshare");
        inside.args(["--time", "--boottime", &AHEAD_S.to_string(), "--fork"]);
        inside.arg(own);
        inside.args(["clock::tests::prints_the_uptime", "--exact", "--ignored"]);
        let Ok(output) = inside.arg("--nocapture").output() else {
            println!("skipped: there is no unshare");
            return;
        };
        if !output.status.success() {
            println!("skipped: no time namespace here; making one needs root");
            return;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, rest) = text.split_once("uptime_s=").unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        assert!(digits.parse::<u64>().unwrap() >= AHEAD_S, "{text}");
    }
}
