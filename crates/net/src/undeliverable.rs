//! Reports that packets could not be delivered: ICMP errors, which the kernel keeps in a queue of the socket (Linux). A UDP socket
//! that is not connected to one peer reports them nowhere else with the address.

use std::{io, net::SocketAddr};

use anabranch_session::Undeliverable;

/// Reports taken from one socket before the engine may send. The rest is taken in the next turn.
#[cfg(target_os = "linux")]
const REPORTS_PER_TURN: usize = 64;

/// A report about packets to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) remote: SocketAddr,
    pub(crate) cause: Undeliverable,
}

/// Cause in an error of the kernel; `None`: it is another one.
pub(crate) fn cause(error: &io::Error) -> Option<Undeliverable> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(Undeliverable::Port),
        io::ErrorKind::HostUnreachable => Some(Undeliverable::Host),
        io::ErrorKind::NetworkUnreachable => Some(Undeliverable::Network),
        io::ErrorKind::PermissionDenied => Some(Undeliverable::Prohibited),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
mod queue {
    use std::{
        io::{self, IoSliceMut},
        net::{SocketAddr, UdpSocket},
        os::fd::AsRawFd,
    };

    use nix::{
        cmsg_space, libc,
        sys::socket::{
            ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt,
            sockopt::{Ipv4RecvErr, Ipv6RecvErr},
        },
    };

    use super::{REPORTS_PER_TURN, Report, cause};

    /// Lets the kernel keep the errors of a socket.
    pub(crate) fn keep(socket: &UdpSocket, is_ipv4: bool) -> io::Result<()> {
        match is_ipv4 {
            true => setsockopt(socket, Ipv4RecvErr, &true)?,
            false => setsockopt(socket, Ipv6RecvErr, &true)?,
        }
        Ok(())
    }

    /// Takes the errors that the kernel has kept.
    pub(crate) fn take(socket: &UdpSocket, reports: &mut Vec<Report>) {
        for _ in 0..REPORTS_PER_TURN {
            // Of the packet that caused the error, nothing is needed.
            let mut packet = [0; 1];
            let mut parts = [IoSliceMut::new(&mut packet)];
            // Beside the error, whatever else the socket asks for with its packets.
            let mut space = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, [u8; 128]);
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let message =
                recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags);
            let Ok(message) = message else {
                return;
            };
            let remote = message.address.as_ref().and_then(to_std);
            let (Some(remote), Ok(controls)) = (remote, message.cmsgs()) else {
                continue;
            };
            for control in controls {
                if let ControlMessageOwned::Ipv4RecvErr(error, _)
                | ControlMessageOwned::Ipv6RecvErr(error, _) = control
                    && let Ok(number) = i32::try_from(error.ee_errno)
                    && let Some(cause) = cause(&io::Error::from_raw_os_error(number))
                {
                    reports.push(Report { remote, cause });
                }
            }
        }
    }

    fn to_std(address: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = address.as_sockaddr_in().map(|v4| {
            let v4 = std::net::SocketAddrV4::from(*v4);
            SocketAddr::V4(v4)
        });
        let v6 = || {
            address
                .as_sockaddr_in6()
                .map(|v6| SocketAddr::V6((*v6).into()))
        };
        v4.or_else(v6)
    }
}

#[cfg(not(target_os = "linux"))]
mod queue {
    use std::{io, net::UdpSocket};

    use super::Report;

    pub(crate) fn keep(_: &UdpSocket, _: bool) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn take(_: &UdpSocket, _: &mut Vec<Report>) {}
}

pub(crate) use queue::{keep, take};

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{
        net::UdpSocket,
        time::{Duration, Instant},
    };

    use super::*;

    /// The kernel reports a closed port of the loopback address at once.
    fn is_refused(loopback: &str) {
        let socket = UdpSocket::bind((loopback, 0)).unwrap();
        keep(&socket, loopback.contains('.')).unwrap();
        // Connected to itself, this one takes from nobody else, and no other test gets its port meanwhile.
        let holder = UdpSocket::bind((loopback, 0)).unwrap();
        let closed = holder.local_addr().unwrap();
        holder.connect(closed).unwrap();
        socket.send_to(b"anyone?", closed).unwrap();
        let mut reports = Vec::new();
        let begun = Instant::now();
        while reports.is_empty() && begun.elapsed() < Duration::from_secs(20) {
            take(&socket, &mut reports);
            std::thread::yield_now();
        }
        let expected = Report {
            remote: closed,
            cause: Undeliverable::Port,
        };
        assert_eq!(reports, [expected]);
    }

    #[test]
    fn a_closed_port_is_reported_with_its_address() {
        is_refused("127.0.0.1");
    }

    #[test]
    fn so_is_one_of_ipv6() {
        if UdpSocket::bind(("::1", 0)).is_ok() {
            is_refused("::1");
        }
    }

    #[test]
    fn a_socket_without_errors_reports_none() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        keep(&socket, true).unwrap();
        let mut reports = Vec::new();
        take(&socket, &mut reports);
        assert_eq!(reports, []);
    }
}
