//! Receiving many packets with one call, without copying each.

use std::io::{self, IoSliceMut};

use anabranch_session::Received;
use bytes::BytesMut;
use noq_udp::RecvMeta;
use tokio::io::Interest;

use crate::socket::Socket;

/// The largest thing one buffer can receive: a full train of coalesced packets.
const BUFFER_BYTES: usize = 64 << 10;
/// Buffers filled by one call.
const BUFFERS: usize = 16;
/// Trains at least this long are cut up in place, and their memory stays shared until the last packet
/// is gone. Shorter ones are copied, so that one small packet never holds a large buffer.
const SHARE_BYTES_MIN: usize = 16 << 10;

/// Buffers for receiving, reused from call to call. Belongs to the driver's task.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffers: Vec<BytesMut>,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            buffers: (0..BUFFERS)
                .map(|_| BytesMut::zeroed(BUFFER_BYTES))
                .collect(),
        }
    }
}

impl Inbox {
    /// Takes what `socket` has received, at most [`BUFFERS`] trains, and appends the packets to
    /// `packets`. The number of packets taken; 0 when there are none.
    pub(crate) fn receive(&mut self, socket: &Socket, packets: &mut Vec<Received>) -> usize {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let filled = {
            let mut slices: Vec<IoSliceMut<'_>> = self
                .buffers
                .iter_mut()
                .map(|buffer| IoSliceMut::new(buffer))
                .collect();
            let io = socket.io();
            let result = io.try_io(Interest::READABLE, || {
                socket.state().recv(io.into(), &mut slices, &mut metas)
            });
            match result {
                Ok(filled) => filled,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => {
                    // An ICMP answer to something sent earlier; QUIC's timers notice by themselves.
                    tracing::trace!(id = %socket.id, %error, "receive");
                    0
                }
            }
        };
        let before = packets.len();
        let is_wildcard = socket.local.ip().is_unspecified();
        for (meta, buffer) in metas[..filled].iter().zip(&mut self.buffers) {
            if meta.len == 0 || meta.stride == 0 {
                continue;
            }
            let mut packet = |data: BytesMut| {
                packets.push(Received {
                    socket: socket.id,
                    remote: meta.addr,
                    // A socket bound to one address needs no reminder of it.
                    local_ip: meta.dst_ip.filter(|_| is_wildcard),
                    ecn: meta.ecn.map(|ecn| ecn as u8),
                    data,
                });
            };
            if meta.len >= SHARE_BYTES_MIN {
                let full = std::mem::replace(buffer, BytesMut::zeroed(BUFFER_BYTES));
                cut(full, meta.len, meta.stride, &mut packet);
            } else {
                for datagram in buffer[..meta.len].chunks(meta.stride) {
                    packet(BytesMut::from(datagram));
                }
            }
        }
        packets.len() - before
    }
}

/// Cuts the first `length` bytes of `train` into packets of `stride` bytes, the last may be shorter.
fn cut(mut train: BytesMut, length: usize, stride: usize, packet: &mut impl FnMut(BytesMut)) {
    train.truncate(length);
    while train.len() > stride {
        packet(train.split_to(stride));
    }
    packet(train);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_is_cut_where_its_packets_end() {
        let train = BytesMut::from(&b"aaaabbbbcc______"[..]);
        let mut packets = Vec::new();
        cut(train, 10, 4, &mut |packet| packets.push(packet));
        assert_eq!(packets, [&b"aaaa"[..], b"bbbb", b"cc"]);
        packets.clear();
        cut(BytesMut::from(&b"aaaa"[..]), 4, 4, &mut |packet| {
            packets.push(packet);
        });
        assert_eq!(packets, [&b"aaaa"[..]]);
    }
}
