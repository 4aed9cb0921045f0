//! Sleeping until something happens, on a thread without a reactor.
//!
//! A reactor asks the kernel to be told of every packet, sets a timer and reads it back, and wakes a
//! task: half a dozen system calls a turn. A thread that serves only a few sockets needs one, which
//! says what it waits for and how long, to the nanosecond.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixDatagram,
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// Wakes a thread that sleeps in [`Doorbell::sleep`]. Any thread may ring.
#[derive(Debug)]
pub(crate) struct Doorbell {
    button: UnixDatagram,
    bell: UnixDatagram,
}

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// What ended a sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// A watched socket has something to read, or room again, or an error to collect.
    pub(crate) is_ready: bool,
    /// Somebody rang.
    pub(crate) has_rung: bool,
}

impl Doorbell {
    /// # Errors
    /// The process has no file descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let (button, bell) = UnixDatagram::pair()?;
        button.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok(Self { button, bell })
    }

    /// Ends the current sleep, or the next one at its start.
    pub(crate) fn ring(&self) {
        // A full buffer means that it rings already.
        let _ = self.button.send(&[0]);
    }

    /// Sleeps until a socket is ready, somebody rings, or `most` is over; `None`: as long as it takes.
    pub(crate) fn sleep<'a>(
        &'a self,
        sockets: impl Iterator<Item = (BorrowedFd<'a>, Interest)>,
        most: Option<Duration>,
    ) -> Woken {
        let mut watched = Vec::with_capacity(8);
        watched.push(PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN));
        for (socket, interest) in sockets {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, interest.readable);
            flags.set(PollFlags::OUT, interest.writable);
            if !flags.is_empty() {
                watched.push(PollFd::from_borrowed_fd(socket, flags));
            }
        }
        let most = most.map(|most| Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        });
        match poll(&mut watched, most.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Woken::default(),
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "cannot wait for packets");
                // Without this a lasting error would become a busy loop.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let woken = Woken {
            is_ready: watched[1..].iter().any(|fd| !fd.revents().is_empty()),
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
        let bell = Doorbell::new().unwrap();
        bell.ring();
        bell.ring();
        assert!(bell.sleep(std::iter::empty(), LONG).has_rung);
        assert!(
            !bell
                .sleep(std::iter::empty(), Some(Duration::ZERO))
                .has_rung
        );
    }

    #[test]
    fn a_ring_from_another_thread_ends_the_sleep() {
        let bell = Arc::new(Doorbell::new().unwrap());
        let other = bell.clone();
        let ringing = std::thread::spawn(move || other.ring());
        assert!(bell.sleep(std::iter::empty(), LONG).has_rung);
        ringing.join().unwrap();
    }

    #[test]
    fn a_packet_ends_the_sleep_only_where_it_is_watched() {
        let bell = Doorbell::new().unwrap();
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
