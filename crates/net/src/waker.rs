//! Sleep of a thread without a reactor, until an event or a deadline.
//!
//! A reactor subscribes to every packet in the kernel, sets a timer and reads it back, and wakes a
//! task: half a dozen system calls each time. A thread that serves only a few sockets needs one, which
//! specifies the events and the time-out, to the nanosecond.

#[cfg(not(unix))]
use std::net::UdpSocket as Button;
#[cfg(unix)]
use std::os::unix::net::UnixDatagram as Button;
use std::{io, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, BorrowedFd},
    io::Errno,
};

/// Minimum duration of a sleep that justifies a further system call, see [`alarm`].
const LONG_SLEEP: Duration = Duration::from_millis(100);

/// Wakes a thread that sleeps in [`Waker::sleep`]. Any thread may ring.
#[derive(Debug)]
pub(crate) struct Waker {
    button: Button,
    bell: Button,
    alarm: alarm::Alarm,
}

/// Events for which a socket is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// Reasons for the end of a sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// A watched socket has something to read, space again, or an error to collect.
    pub(crate) is_ready: bool,
    /// [`Waker::ring`] was called.
    pub(crate) has_rung: bool,
}

impl Waker {
    /// # Errors
    /// The process has no file descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let (button, bell) = pair()?;
        button.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let alarm = alarm::Alarm::new()?;
        Ok(Self {
            button,
            bell,
            alarm,
        })
    }

    /// Ends the current sleep, or the next one at its start.
    pub(crate) fn ring(&self) {
        // A full buffer means that a ring is pending already.
        let _ = self.button.send(&[0]);
    }

    /// Sleeps until a socket is ready, [`Waker::ring`] is called, or `most` has passed; `None`: without a limit.
    pub(crate) fn sleep<'a>(
        &'a self,
        sockets: impl Iterator<Item = (BorrowedFd<'a>, Interest)>,
        most: Option<Duration>,
    ) -> Woken {
        let mut watched = Vec::with_capacity(8);
        watched.push(PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN));
        let first = watched.len() + watch_alarm(&mut watched, &self.alarm, most);
        for (socket, interest) in sockets {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, interest.readable);
            flags.set(PollFlags::OUT, interest.writable);
            if !flags.is_empty() {
                watched.push(PollFd::from_borrowed_fd(socket, flags));
            }
        }
        // A time that does not fit is no limit.
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        match poll(&mut watched, most.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Woken::default(),
            Ok(_) => {}
            Err(error) => {
                crate::limited!(error, %error, "cannot wait for packets");
                // Without this, a persistent error would cause a busy loop.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let woken = Woken {
            is_ready: watched[first..].iter().any(|fd| !fd.revents().is_empty()),
            has_rung: !watched[0].revents().is_empty(),
        };
        if woken.has_rung {
            self.silence();
        }
        woken
    }

    fn silence(&self) {
        let mut rings = [0; 8];
        while self.bell.recv(&mut rings).is_ok() {}
    }
}

#[cfg(unix)]
fn pair() -> io::Result<(Button, Button)> {
    Button::pair()
}

/// Two sockets of the loopback interface that take packets of each other only.
#[cfg(not(unix))]
fn pair() -> io::Result<(Button, Button)> {
    let any = (std::net::Ipv4Addr::LOCALHOST, 0);
    let (button, bell) = (Button::bind(any)?, Button::bind(any)?);
    button.connect(bell.local_addr()?)?;
    bell.connect(button.local_addr()?)?;
    Ok((button, bell))
}

/// Sets the alarm that ends a long sleep. Returns the number of descriptors to watch for it.
fn watch_alarm<'a>(
    watched: &mut Vec<PollFd<'a>>,
    alarm: &'a alarm::Alarm,
    most: Option<Duration>,
) -> usize {
    let long = most.filter(|&most| most >= LONG_SLEEP);
    let set = long.and_then(|most| alarm.set(most));
    watched.extend(set.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    usize::from(set.is_some())
}

/// Alarm that ends a long sleep. The time-out of [`poll`] stands still while the machine is suspended; the alarm continues, so
/// that a thread whose time has passed wakes with the machine.
#[cfg(target_os = "linux")]
mod alarm {
    use std::{
        io,
        os::fd::{AsFd, BorrowedFd, OwnedFd},
        time::Duration,
    };

    use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

    use crate::timerfd;

    #[derive(Debug)]
    pub(super) struct Alarm(OwnedFd);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            Ok(Self(timerfd_create(TimerfdClockId::Boottime, flags)?))
        }

        /// Sets the alarm and returns the descriptor that becomes readable then; a later call replaces the time.
        pub(super) fn set(&self, after: Duration) -> Option<BorrowedFd<'_>> {
            timerfd::set(&self.0, after).ok()?;
            Some(self.0.as_fd())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod alarm {
    use std::{io, time::Duration};

    use rustix::fd::BorrowedFd;

    #[derive(Debug)]
    pub(super) struct Alarm;

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn set(&self, _after: Duration) -> Option<BorrowedFd<'_>> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, sync::Arc};

    use super::*;

    const READ: Interest = Interest {
        readable: true,
        writable: false,
    };
    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    #[test]
    fn a_ring_before_the_sleep_is_not_missed_and_counts_once() {
        let bell = Waker::new().unwrap();
        bell.ring();
        bell.ring();
        assert!(bell.sleep(std::iter::empty(), LONG).has_rung);
        assert!(
            !bell
                .sleep(std::iter::empty(), Some(Duration::ZERO))
                .has_rung
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_alarm_ends_a_long_sleep_and_no_other() {
        let bell = Waker::new().unwrap();
        let mut watched = Vec::new();
        let short = Some(LONG_SLEEP / 2);
        assert_eq!(watch_alarm(&mut watched, &bell.alarm, short), 0);
        assert_eq!(watch_alarm(&mut watched, &bell.alarm, None), 0);
        // The alarm, not the time-out of the poll, ends this sleep.
        assert_eq!(watch_alarm(&mut watched, &bell.alarm, Some(LONG_SLEEP)), 1);
        assert_eq!(poll(&mut watched, None).unwrap(), 1);
    }

    #[test]
    fn a_ring_from_another_thread_ends_the_sleep() {
        let bell = Arc::new(Waker::new().unwrap());
        let other = bell.clone();
        let ringing = std::thread::spawn(move || other.ring());
        assert!(bell.sleep(std::iter::empty(), LONG).has_rung);
        ringing.join().unwrap();
    }

    #[test]
    fn a_packet_ends_the_sleep_only_where_it_is_watched() {
        let bell = Waker::new().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .send_to(b"hello", socket.local_addr().unwrap())
            .unwrap();
        assert!(
            bell.sleep([(socket.as_fd(), READ)].into_iter(), LONG)
                .is_ready
        );
        let blind = Interest {
            readable: false,
            writable: false,
        };
        let briefly = Some(Duration::from_millis(1));
        let woken = bell.sleep([(socket.as_fd(), blind)].into_iter(), briefly);
        assert_eq!(woken, Woken::default());
    }
}
