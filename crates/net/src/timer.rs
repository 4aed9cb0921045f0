//! Timer with the kernel's resolution.
//!
//! The runtime's own timers tick in milliseconds, which is eight full packets at 100 Mbit/s and half
//! the RTT of a short path. On Linux this is a `timerfd`; elsewhere the runtime's timer.

use std::{
    io,
    task::{Context, Poll},
};

use anabranch_base::Instant;

use crate::clock::Clock;

/// Timer that wakes the task that polls it, once, at or shortly after the time for which it is armed.
#[derive(Debug)]
pub struct Timer {
    clock: Clock,
    /// Time to which the kernel's timer is set; [`None`]: disarmed.
    armed: Option<Instant>,
    inner: inner::Timer,
}

impl Timer {
    /// Creates a disarmed timer. Needs a tokio runtime with its I/O and time drivers.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new(clock: Clock) -> io::Result<Self> {
        Ok(Self {
            clock,
            armed: None,
            inner: inner::Timer::new()?,
        })
    }

    /// Sets the time, or disarms with `None`. Setting the same time again costs nothing.
    ///
    /// # Errors
    /// The kernel refuses, for which it has no reason.
    pub fn arm(&mut self, at: Option<Instant>) -> io::Result<()> {
        if at == self.armed {
            return Ok(());
        }
        self.armed = at;
        self.inner.set(at.map(|at| at.since(self.clock.now())))
    }

    /// Ready once the time has come; then the timer is disarmed.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.armed else {
            return Poll::Pending;
        };
        loop {
            if self.clock.now() >= at {
                self.armed = None;
                return Poll::Ready(());
            }
            match self.inner.poll(cx) {
                Poll::Pending => return Poll::Pending,
                // The kernel may round down by its resolution; check the clock again.
                Poll::Ready(()) => {
                    let left = at.since(self.clock.now());
                    if !left.is_zero() && self.inner.set(Some(left)).is_err() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Waits for the time; forever while disarmed.
    pub async fn wait(&mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }
}

#[cfg(target_os = "linux")]
mod inner {
    use std::{
        io,
        os::fd::OwnedFd,
        task::{Context, Poll},
        time::Duration,
    };

    use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
    use tokio::io::unix::AsyncFd;

    use crate::timerfd;

    #[derive(Debug)]
    pub(super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let fd = timerfd_create(
                // The clock's time base: a time that passed while the machine was suspended wakes at once.
                TimerfdClockId::Boottime,
                TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
            )?;
            #[expect(
                deprecated,
                reason = "an OwnedFd cannot change its descriptor; the replacement is unsafe"
            )]
            Ok(Self(AsyncFd::new(fd)?))
        }

        pub(super) fn set(&self, after: Option<Duration>) -> io::Result<()> {
            // Zero would disarm, so that a past time becomes the next nanosecond.
            let after = after.map_or(Duration::ZERO, |after| after.max(Duration::from_nanos(1)));
            timerfd::set(self.0.get_ref(), after)
        }

        pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
            loop {
                let Poll::Ready(Ok(mut guard)) = self.0.poll_read_ready(cx) else {
                    return Poll::Pending;
                };
                let mut expirations = [0; 8];
                match rustix::io::read(self.0.get_ref(), &mut expirations) {
                    Ok(_) => return Poll::Ready(()),
                    Err(_) => guard.clear_ready(),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod inner {
    use std::{
        future::Future,
        io,
        pin::Pin,
        task::{Context, Poll},
        time::Duration,
    };

    #[derive(Debug)]
    pub(super) struct Timer(Pin<Box<tokio::time::Sleep>>);

    const FAR: Duration = Duration::from_secs(86_400);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(Box::pin(tokio::time::sleep(FAR))))
        }

        pub(super) fn set(&mut self, after: Option<Duration>) -> io::Result<()> {
            let at = tokio::time::Instant::now() + after.unwrap_or(FAR).min(FAR);
            self.0.as_mut().reset(at);
            Ok(())
        }

        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            self.0.as_mut().poll(cx)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn fires_not_before_its_moment_and_only_once() {
        let clock = Clock::start();
        let mut timer = Timer::new(clock).unwrap();
        let at = clock.now() + Duration::from_millis(3);
        timer.arm(Some(at)).unwrap();
        timer.wait().await;
        assert!(clock.now() >= at);
        let again = std::future::poll_fn(|cx| Poll::Ready(timer.poll(cx).is_ready())).await;
        assert!(!again);
    }

    #[tokio::test]
    async fn a_moment_that_has_passed_fires_at_once() {
        let clock = Clock::start();
        let mut timer = Timer::new(clock).unwrap();
        timer.arm(Some(Instant::EPOCH)).unwrap();
        timer.wait().await;
    }

    #[tokio::test]
    async fn re_arming_replaces() {
        let clock = Clock::start();
        let mut timer = Timer::new(clock).unwrap();
        timer
            .arm(Some(clock.now() + Duration::from_secs(3600)))
            .unwrap();
        timer
            .arm(Some(clock.now() + Duration::from_millis(1)))
            .unwrap();
        timer.wait().await;
        timer.arm(None).unwrap();
    }
}
