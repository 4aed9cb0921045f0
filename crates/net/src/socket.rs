//! UDP socket of the host, with segmentation offload, ECN and large buffers.

use std::{collections::VecDeque, io, net::SocketAddr, num::NonZeroUsize};

use anabranch_base::SocketId;
use anabranch_session::Transmit;
use noq_udp::{EcnCodepoint, UdpSocketState};
use rustix::fd::{AsFd, BorrowedFd};

use crate::{
    undeliverable::{self, Report},
    waker::Interest,
};

/// Size of the kernel buffers requested; the kernel may grant less. Enough for 50 ms at 1 Gbit/s.
const KERNEL_BUFFER_BYTES: usize = 8 << 20;
/// Batches kept while the kernel's buffer is full. Further ones are dropped, as by any full
/// queue on the path; congestion control sees that as loss.
const BLOCKED_BATCHES_MAX: usize = 64;
/// Reports of packets that could not leave that are kept between two turns.
const REPORTS_MAX: usize = 64;
/// Errors of earlier packets that may be in the way of one call.
const PENDING_ERRORS_MAX: usize = 4;

/// True for an error that the kernel may report in any call on a socket, because an earlier packet was not delivered.
pub(crate) fn is_pending(error: &io::Error) -> bool {
    undeliverable::cause(error).is_some() || error.raw_os_error() == Some(PROTOCOL_ERROR)
}

/// `EPROTO` (ICMP parameter problem), which has no kind.
const PROTOCOL_ERROR: i32 = 71;

/// Address, and optionally the interface, to which a socket is bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bind {
    /// Local address; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Network interface that all packets of the socket use, regardless of the routing table. Linux
    /// only; ignored elsewhere.
    pub interface: Option<String>,
}

impl From<SocketAddr> for Bind {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            interface: None,
        }
    }
}

/// A socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open a UDP socket on {address}{}: {source}; {advice}", interface.as_ref().map(|name| format!(" of {name}")).unwrap_or_default())]
pub struct BindError {
    address: SocketAddr,
    interface: Option<String>,
    source: io::Error,
    advice: &'static str,
}

impl BindError {
    fn new(bind: &Bind, source: io::Error) -> Self {
        let advice = match source.kind() {
            io::ErrorKind::AddrInUse => {
                "another program uses this port: `ss -ulnp` names it; end that, or choose another port, or 0 for any"
            }
            io::ErrorKind::AddrNotAvailable => {
                "this machine does not have that address now; see `ip address`"
            }
            io::ErrorKind::PermissionDenied if (1..1024).contains(&bind.address.port()) => {
                "choose a port above 1023"
            }
            io::ErrorKind::PermissionDenied => "run this as root, or with the right CAP_NET_ADMIN",
            _ => "check the address and the interface's name",
        };
        Self {
            address: bind.address,
            interface: bind.interface.clone(),
            source,
            advice,
        }
    }
}

/// Statistics of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStats {
    /// Batches handed to the kernel.
    pub batches_sent: u64,
    /// Batches dropped because the kernel's buffer stayed full.
    pub batches_overflowed: u64,
    /// Packets that the kernel refused (no route, interface gone, too large).
    pub packets_refused: u64,
    /// Packets handed to the kernel.
    pub packets_sent: u64,
    /// Their bytes, without the headers of UDP and IP.
    pub bytes_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Their bytes, without the headers of UDP and IP.
    pub bytes_received: u64,
}

impl SocketStats {
    fn count_sent(&mut self, transmit: &noq_udp::Transmit<'_>) {
        let segment = transmit.segment_size.unwrap_or(usize::MAX).max(1);
        self.packets_sent += transmit.contents.len().div_ceil(segment) as u64;
        self.bytes_sent += transmit.contents.len() as u64;
    }
}

/// A bound UDP socket. Belongs to the thread that serves it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) id: SocketId,
    pub(crate) bind: Bind,
    pub(crate) local: SocketAddr,
    io: std::net::UdpSocket,
    state: UdpSocketState,
    blocked: VecDeque<(Transmit, Vec<u8>)>,
    stats: SocketStats,
    /// Reports that packets could not be delivered, not taken yet; `None`: they are not wanted.
    undeliverable: Option<Vec<Report>>,
}

impl Socket {
    /// Binds. `mark` is the mark of its packets for the rules of routing (Linux; `SO_MARK`).
    pub(crate) fn bind(id: SocketId, bind: Bind, mark: Option<u32>) -> Result<Self, BindError> {
        match Self::try_bind(id, &bind, mark) {
            Ok((io, state, local)) => Ok(Self {
                id,
                bind,
                local,
                io,
                state,
                blocked: VecDeque::new(),
                stats: SocketStats::default(),
                undeliverable: None,
            }),
            Err(source) => Err(BindError::new(&bind, source)),
        }
    }

    fn try_bind(
        id: SocketId,
        bind: &Bind,
        mark: Option<u32>,
    ) -> io::Result<(std::net::UdpSocket, UdpSocketState, SocketAddr)> {
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(bind.address),
            socket2::Type::DGRAM,
            Some(socket2::Protocol::UDP),
        )?;
        if bind.address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        #[cfg(target_os = "linux")]
        if let Some(interface) = &bind.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        #[cfg(target_os = "linux")]
        if let Some(mark) = mark {
            socket.set_mark(mark).map_err(|error| {
                let why = format!(
                    "its packets cannot be marked ({error}), which needs the right CAP_NET_ADMIN"
                );
                io::Error::new(error.kind(), why)
            })?;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = mark;
        socket.set_nonblocking(true)?;
        socket.bind(&bind.address.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        // A smaller buffer than asked for costs speed, not correctness.
        let granted = state
            .set_recv_buffer_size((&socket).into(), KERNEL_BUFFER_BYTES)
            .and_then(|()| state.set_send_buffer_size((&socket).into(), KERNEL_BUFFER_BYTES));
        if let Err(error) = granted {
            tracing::debug!(%id, %error, "kernel buffers stay at their default size");
        }
        let io = std::net::UdpSocket::from(socket);
        let local = io.local_addr()?;
        Ok((io, state, local))
    }

    /// Keeps reports that packets could not be delivered from now on; they have to be taken.
    pub(crate) fn keep_reports(&mut self) {
        match undeliverable::keep(&self.io, self.local.is_ipv4()) {
            Ok(()) => self.undeliverable = Some(Vec::new()),
            Err(error) => tracing::debug!(id = %self.id, %error, "errors of packets are not known"),
        }
    }

    /// Appends the reports that packets could not be delivered since the last call.
    pub(crate) fn take_reports(&mut self, reports: &mut Vec<(SocketId, Report)>) {
        if let Some(kept) = &mut self.undeliverable {
            undeliverable::take(&self.io, kept);
            reports.extend(kept.drain(..).map(|report| (self.id, report)));
        }
    }

    /// True if a packet could not even leave since the last call of [`Socket::take_reports`].
    pub(crate) fn has_reports(&self) -> bool {
        (self.undeliverable.as_ref()).is_some_and(|kept| !kept.is_empty())
    }

    /// Packets that one [`Socket::send`] may carry.
    pub(crate) fn batch_packets_max(&self) -> NonZeroUsize {
        self.state.max_gso_segments()
    }

    pub(crate) fn stats(&self) -> SocketStats {
        self.stats
    }

    /// Counts packets that were received.
    pub(crate) fn count_received(&mut self, packets: usize, bytes: usize) {
        self.stats.packets_received += packets as u64;
        self.stats.bytes_received += bytes as u64;
    }

    pub(crate) fn io(&self) -> &std::net::UdpSocket {
        &self.io
    }

    pub(crate) fn state(&self) -> &UdpSocketState {
        &self.state
    }

    /// Sends a batch, or keeps it until the kernel has space. Returns the buffer if it is free.
    pub(crate) fn send(&mut self, transmit: Transmit, batch: Vec<u8>) -> Option<Vec<u8>> {
        if self.blocked.is_empty() && self.try_send(&transmit, &batch) {
            return Some(batch);
        }
        if self.blocked.len() >= BLOCKED_BATCHES_MAX {
            self.stats.batches_overflowed += 1;
            return Some(batch);
        }
        self.blocked.push_back((transmit, batch));
        None
    }

    /// True if batches wait for space in the kernel.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Sends waiting batches, as far as the kernel has space.
    pub(crate) fn flush(&mut self) {
        while let Some((transmit, batch)) = self.blocked.pop_front() {
            if !self.try_send(&transmit, &batch) {
                self.blocked.push_front((transmit, batch));
                return;
            }
        }
    }

    /// Events to watch the socket for: space if batches wait for it, and packets if `readable`.
    pub(crate) fn watch(&self, readable: bool) -> (BorrowedFd<'_>, Interest) {
        let interest = Interest {
            readable,
            writable: self.is_blocked(),
        };
        (self.io.as_fd(), interest)
    }

    /// Sends a batch. Returns false if the kernel has no space now. An error of a single packet counts as its loss.
    fn try_send(&mut self, transmit: &Transmit, batch: &[u8]) -> bool {
        let whole = noq_udp::Transmit {
            destination: transmit.remote,
            ecn: transmit.ecn.and_then(EcnCodepoint::from_bits),
            contents: &batch[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.local_ip,
        };
        match self.try_io(&whole) {
            Ok(()) => {
                self.stats.batches_sent += 1;
                self.stats.count_sent(&whole);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                match transmit.segment_size {
                    // The device may lack segmentation, or one segment may be too large: send them one by one.
                    Some(segment) if transmit.size > segment => self.send_apart(&whole, segment),
                    _ => {
                        tracing::trace!(id = %self.id, %error, to = %transmit.remote, "not sent");
                        self.stats.packets_refused += 1;
                        self.report(transmit.remote, &error);
                    }
                }
                true
            }
        }
    }

    fn send_apart(&mut self, whole: &noq_udp::Transmit<'_>, segment: usize) {
        for contents in whole.contents.chunks(segment) {
            let one = noq_udp::Transmit {
                contents,
                segment_size: None,
                ..whole.clone()
            };
            match self.try_io(&one) {
                Ok(()) => self.stats.count_sent(&one),
                Err(_) => self.stats.packets_refused += 1,
            }
        }
    }

    /// Keeps the report of the kernel that a packet cannot even leave.
    fn report(&mut self, remote: SocketAddr, error: &io::Error) {
        if let Some(kept) = &mut self.undeliverable
            && kept.len() < REPORTS_MAX
            && let Some(cause) = undeliverable::cause(error)
        {
            kept.push(Report { remote, cause });
        }
    }

    fn try_io(&self, transmit: &noq_udp::Transmit<'_>) -> io::Result<()> {
        let mut result = self.send_once(transmit);
        for _ in 0..PENDING_ERRORS_MAX {
            match &result {
                // While errors are kept, the call may report one of an earlier packet, and send nothing.
                Err(error) if self.undeliverable.is_some() && is_pending(error) => {
                    result = self.send_once(transmit);
                }
                _ => break,
            }
        }
        result
    }

    fn send_once(&self, transmit: &noq_udp::Transmit<'_>) -> io::Result<()> {
        self.state.try_send((&self.io).into(), transmit)
    }
}
