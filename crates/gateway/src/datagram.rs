//! Datagrams with the differentiated services code point of their packets (RFC 2474), which Linux reports.

use std::{io, net::SocketAddr};

use tokio::net::UdpSocket;

/// A datagram that was received into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Its bytes.
    pub(crate) count: usize,
    pub(crate) client: SocketAddr,
    /// Its code point, 0 to 63; `None`: the system does not report it.
    pub(crate) dscp: Option<u8>,
}

/// Opens a socket at an address; must be called within a runtime.
pub(crate) fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    linux::ask_for_code_points(&socket);
    UdpSocket::from_std(socket)
}

/// Waits for a datagram.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    let (count, client) = socket.recv_from(buffer).await?;
    Ok(Received {
        count,
        client,
        dscp: None,
    })
}

#[cfg(target_os = "linux")]
pub(crate) use self::linux::receive;

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        io::{self, IoSliceMut},
        net::{SocketAddr, SocketAddrV4, SocketAddrV6},
        os::fd::AsRawFd,
    };

    use nix::sys::socket::{
        ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
    };
    use tokio::{io::Interest, net::UdpSocket};

    use super::Received;

    /// A socket of IPv6 may receive packets of both families. One that is refused is of the other family.
    pub(super) fn ask_for_code_points(socket: &std::net::UdpSocket) {
        let _ = setsockopt(socket, sockopt::IpRecvTos, &true);
        let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &true);
    }

    /// Waits for a datagram.
    pub(crate) async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
        socket
            .async_io(Interest::READABLE, || receive_now(socket, buffer))
            .await
    }

    fn receive_now(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
        let mut control = nix::cmsg_space!(u8, i32);
        let mut parts = [IoSliceMut::new(buffer)];
        let message = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::empty(),
        )?;
        let client = message.address.and_then(address);
        let mut class = None;
        for item in message.cmsgs()? {
            class = match item {
                ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
                ControlMessageOwned::Ipv6TClass(class) => u8::try_from(class).ok(),
                _ => class,
            };
        }
        Ok(Received {
            count: message.bytes,
            client: client.ok_or(io::ErrorKind::InvalidData)?,
            // The two lowest bits are those of congestion notification.
            dscp: class.map(|class| class >> 2),
        })
    }

    fn address(storage: SockaddrStorage) -> Option<SocketAddr> {
        if let Some(address) = storage.as_sockaddr_in() {
            return Some(SocketAddrV4::from(*address).into());
        }
        let address = storage.as_sockaddr_in6()?;
        Some(SocketAddrV6::from(*address).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn datagrams_have_their_sender_and_their_code_point() {
        for own in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(sender) = std::net::UdpSocket::bind(own) else {
                eprintln!("skipped: no address of this family");
                continue;
            };
            let socket = open(own.parse().unwrap()).unwrap();
            sender.connect(socket.local_addr().unwrap()).unwrap();
            #[cfg(target_os = "linux")]
            {
                use nix::sys::socket::{setsockopt, sockopt};
                match sender.local_addr().unwrap().is_ipv4() {
                    true => setsockopt(&sender, sockopt::Ipv4Tos, &(46 << 2)).unwrap(),
                    false => setsockopt(&sender, sockopt::Ipv6TClass, &(46 << 2)).unwrap(),
                }
            }
            sender.send(b"abc").unwrap();
            let mut buffer = [0; 8];
            let received = receive(&socket, &mut buffer).await.unwrap();
            assert_eq!(received.client, sender.local_addr().unwrap());
            assert_eq!(&buffer[..received.count], b"abc");
            if cfg!(target_os = "linux") {
                assert_eq!(received.dscp, Some(46));
            }
        }
    }
}
