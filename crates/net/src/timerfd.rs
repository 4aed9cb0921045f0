//! Timers as file descriptors (Linux).

use std::{io, os::fd::AsFd, time::Duration};

use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

/// Lets a timer expire once, after this time; zero disarms it.
pub(crate) fn set(timer: impl AsFd, after: Duration) -> io::Result<()> {
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let spec = Itimerspec {
        it_interval: zero,
        it_value: Timespec {
            tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: after.subsec_nanos().into(),
        },
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &spec)?;
    Ok(())
}
