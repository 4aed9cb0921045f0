//! Reception of many packets with one call.
//!
//! The kernel may return a whole train of packets at once, so that its buffers are large; each packet is
//! copied from them into a block that it shares with its neighbours. That costs less than fresh
//! zeroed memory for every train, or an allocation for every packet.

use std::io::{self, IoSliceMut};

use anabranch_session::Received;
use bytes::BytesMut;
use noq_udp::RecvMeta;

use crate::socket::{Socket, is_pending};

/// Size of a buffer, which holds a full train of coalesced packets.
const BUFFER_BYTES: usize = 64 << 10;
/// Buffers filled by one call.
const BUFFERS: usize = 32;
/// Size of a block, which neighbouring packets share until the last of them is dropped.
const BLOCK_BYTES: usize = 32 << 10;
/// Smaller packets get separate memory, so that a few bytes kept for long do not retain a whole block.
const SHARE_BYTES_MIN: usize = 512;

/// Buffers for receiving, reused from call to call. Belongs to the thread that receives.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffers: Vec<Box<[u8]>>,
    block: BytesMut,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            buffers: vec![vec![0; BUFFER_BYTES].into_boxed_slice(); BUFFERS],
            block: BytesMut::new(),
        }
    }
}

impl Inbox {
    /// Takes everything that `socket` has received and appends the packets to `packets`, at most
    /// about `most` of them. Returns the number of packets taken.
    pub(crate) fn receive(
        &mut self,
        socket: &mut Socket,
        most: usize,
        packets: &mut Vec<Received>,
    ) -> usize {
        let before = packets.len();
        while packets.len() - before < most && self.receive_once(socket, packets) == BUFFERS {}
        let bytes = packets[before..].iter().map(|packet| packet.data.len());
        socket.count_received(packets.len() - before, bytes.sum());
        packets.len() - before
    }

    /// Makes one call to the kernel. Returns the number of trains received.
    fn receive_once(&mut self, socket: &Socket, packets: &mut Vec<Received>) -> usize {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let filled = {
            let mut buffers = self.buffers.iter_mut();
            let mut slices: [IoSliceMut<'_>; BUFFERS] = std::array::from_fn(|_| {
                IoSliceMut::new(buffers.next().map_or(&mut [], |buffer| buffer))
            });
            let mut receive = || {
                let io = socket.io().into();
                socket.state().recv(io, &mut slices, &mut metas)
            };
            let mut received = receive();
            if received.as_ref().is_err_and(is_pending) {
                // The error was that of an earlier packet, and kept back what has arrived.
                received = receive();
            }
            match received {
                Ok(filled) => filled,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => {
                    // An ICMP error for an earlier packet; QUIC's timers detect the loss.
                    tracing::trace!(id = %socket.id, %error, "receive");
                    0
                }
            }
        };
        let is_wildcard = socket.local.ip().is_unspecified();
        for (meta, buffer) in metas[..filled].iter().zip(&self.buffers) {
            if meta.len == 0 || meta.stride == 0 {
                continue;
            }
            for datagram in buffer[..meta.len].chunks(meta.stride) {
                packets.push(Received {
                    socket: socket.id,
                    remote: meta.addr,
                    // The address is redundant if the socket is bound to one.
                    local_ip: meta.dst_ip.filter(|_| is_wildcard),
                    ecn: meta.ecn.map(|ecn| ecn as u8),
                    data: copy(&mut self.block, datagram),
                });
            }
        }
        filled
    }
}

/// Copies a packet into `block` if there is space, else into a new one.
fn copy(block: &mut BytesMut, datagram: &[u8]) -> BytesMut {
    if datagram.len() < SHARE_BYTES_MIN {
        return BytesMut::from(datagram);
    }
    if block.capacity() < datagram.len() {
        *block = BytesMut::with_capacity(BLOCK_BYTES.max(datagram.len()));
    }
    block.extend_from_slice(datagram);
    block.split()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_block_and_do_not_overlap() {
        let mut block = BytesMut::new();
        let packets: Vec<BytesMut> = (0..100_u8)
            .map(|fill| copy(&mut block, &[fill; 1400]))
            .collect();
        for (fill, packet) in (0..).zip(&packets) {
            assert_eq!(packet[..], [fill; 1400]);
        }
        let apart = |pair: &[BytesMut]| pair[1].as_ptr().addr() - pair[0].as_ptr().addr();
        assert_eq!(apart(&packets[..2]), 1400);
        let large = copy(&mut block, &[7; 60_000]);
        assert_eq!(large.len(), 60_000);
    }

    #[test]
    fn a_small_packet_holds_no_block() {
        let mut block = BytesMut::with_capacity(BLOCK_BYTES);
        let before = block.capacity();
        assert_eq!(copy(&mut block, b"ack")[..], *b"ack");
        assert_eq!(block.capacity(), before);
    }
}
