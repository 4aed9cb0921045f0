//! Batches: what is read from a device, or written to it, at once. Consecutive segments of a connection are one large packet there, which
//! the kernel or this module divides and joins (segmentation offload).
//!
//! A large packet has the header of one packet, as if that were as long, and a checksum that covers the addresses and the length only.

use std::{
    io,
    sync::{MutexGuard, PoisonError},
};

use tun_rs::{
    ExpandBuffer, GROTable, VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6,
    VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN, VirtioNetHdr, gso_split,
};

use super::Tun;

/// Largest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;
/// Flag of a header: the checksum is still to be computed.
const NEEDS_CHECKSUM: u8 = 1;
/// Flag in the type of a large packet: its first segment has a mark of congestion.
const VIRTIO_NET_HDR_GSO_ECN: u8 = 0x80;
/// Packets that are written at once at most: a large packet takes no more of them.
pub const WRITES_MAX: usize = 64;
/// Packets into which a large one may be divided: those of the smallest segments that a kernel sends.
const SEGMENTS_MAX: usize = 128;
/// Buffers that keep the memory of a large packet.
const LARGE_KEPT: usize = 4;
/// Batches that a device keeps: each takes a megabyte.
const BATCHES_KEPT: usize = 4;
/// Bytes of a segment: those of the largest MTU of a tunnel.
const SEGMENT_BYTES_MAX: usize = 9216;

/// A read: one packet, or several in one.
#[derive(Debug)]
pub struct ReadBatch {
    raw: Vec<u8>,
    length: usize,
    header: VirtioNetHdr,
    /// Empty until a large packet is divided.
    segments: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

impl Default for ReadBatch {
    fn default() -> Self {
        Self {
            raw: vec![0; VIRTIO_NET_HDR_LEN + PACKET_BYTES_MAX],
            length: 0,
            header: VirtioNetHdr::default(),
            segments: Vec::new(),
            sizes: Vec::new(),
        }
    }
}

fn malformed(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl ReadBatch {
    /// The packet as it was read, which may be a large one.
    pub fn whole(&mut self) -> &mut [u8] {
        &mut self.raw[VIRTIO_NET_HDR_LEN..VIRTIO_NET_HDR_LEN + self.length]
    }

    /// True if the checksum of the transport protocol covers the addresses and the length only, and is not complemented: the kernel adds the
    /// rest when it is [handed back](Tun::try_put).
    pub fn has_partial_checksum(&self) -> bool {
        self.header.flags & NEEDS_CHECKSUM != 0
    }

    /// Calls `each` with every packet of the read, divided and with its checksum.
    ///
    /// # Errors
    /// The kernel described the packet in a way that is not understood.
    pub fn divide(&mut self, mut each: impl FnMut(&mut [u8])) -> io::Result<()> {
        let (header, is_partial) = (self.header, self.has_partial_checksum());
        let is_large = matches!(
            header.gso_type & !VIRTIO_NET_HDR_GSO_ECN,
            VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_TCPV6 | VIRTIO_NET_HDR_GSO_UDP_L4
        );
        let packet = &mut self.raw[VIRTIO_NET_HDR_LEN..VIRTIO_NET_HDR_LEN + self.length];
        if !is_large {
            if is_partial {
                complete(packet, header.csum_start.into(), header.csum_offset.into())?;
            }
            each(packet);
            return Ok(());
        }
        let at = usize::from(header.csum_start);
        let is_udp = header.gso_type == VIRTIO_NET_HDR_GSO_UDP_L4;
        let header_bytes = match is_udp {
            true => 8,
            false => {
                let offset = packet.get(at + 12).ok_or(malformed("a short segment"))?;
                usize::from(offset >> 4) * 4
            }
        };
        // The length in the header may be that of the first segment where packets are forwarded.
        let header = VirtioNetHdr {
            hdr_len: u16::try_from(at + header_bytes).map_err(|_| malformed("a long header"))?,
            ..header
        };
        if self.segments.is_empty() {
            self.segments = vec![vec![0; SEGMENT_BYTES_MAX]; SEGMENTS_MAX];
            self.sizes = vec![0; SEGMENTS_MAX];
        }
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let (segments, sizes) = (&mut self.segments, &mut self.sizes);
        let count = gso_split(packet, header, segments, sizes, 0, is_v6)?;
        for (segment, &size) in segments.iter_mut().zip(sizes.iter()).take(count) {
            each(&mut segment[..size]);
        }
        Ok(())
    }
}

/// Completes a partial checksum at `start + offset`, which covers the bytes from `start` on (RFC 1071).
fn complete(packet: &mut [u8], start: usize, offset: usize) -> io::Result<()> {
    let at = start + offset;
    if packet.len() < at + 2 {
        return Err(malformed("a short packet"));
    }
    let before = u16::from_be_bytes([packet[at], packet[at + 1]]);
    packet[at..at + 2].fill(0);
    let sum = !tun_rs::checksum(&packet[start..], before.into());
    // 0 would mean that there is none (RFC 768); both zeros are the same sum.
    let sum = if sum == 0 { u16::MAX } else { sum };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// A packet behind the header that it has where a device offloads.
pub(super) fn with_header(packet: &[u8]) -> Vec<u8> {
    [&[0; VIRTIO_NET_HDR_LEN], packet].concat()
}

/// A packet to be written, with room for the header of the device in front. It grows when segments are joined to it.
#[derive(Default)]
struct Buffer(Vec<u8>);

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl ExpandBuffer for Buffer {
    /// Segments are joined as long as they fit here with twice the header of the device; a vector's own capacity is that of
    /// one packet, in which nothing else fits.
    fn buf_capacity(&self) -> usize {
        2 * VIRTIO_NET_HDR_LEN + PACKET_BYTES_MAX
    }

    fn buf_resize(&mut self, length: usize, value: u8) {
        self.0.resize(length, value);
    }

    fn buf_extend_from_slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Packets that are to be written, in order; consecutive segments of a connection are joined.
#[derive(Default)]
pub struct WriteBatch {
    buffers: Vec<Buffer>,
    used: usize,
    table: GROTable,
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch")
            .field("packets", &self.used)
            .finish_non_exhaustive()
    }
}

impl WriteBatch {
    /// Adds a packet.
    pub fn push(&mut self, packet: &[u8]) {
        if self.used == self.buffers.len() {
            self.buffers.push(Buffer::default());
        }
        let Buffer(buffer) = &mut self.buffers[self.used];
        self.used += 1;
        buffer.clear();
        buffer.extend_from_slice(&[0; VIRTIO_NET_HDR_LEN]);
        buffer.extend_from_slice(packet);
    }

    /// Packets that were added since the last write.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }
}

impl Tun {
    /// Reads what there is next.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; the device is gone.
    pub fn try_recv_batch(&self, batch: &mut ReadBatch) -> io::Result<()> {
        if !self.offloads {
            let place = &mut batch.raw[VIRTIO_NET_HDR_LEN..];
            batch.length = self.device.try_recv(place)?;
            batch.header = VirtioNetHdr::default();
            return Ok(());
        }
        let length = self.device.try_recv(&mut batch.raw)?;
        batch.length = length.saturating_sub(VIRTIO_NET_HDR_LEN);
        batch.header = VirtioNetHdr::decode(&batch.raw)?;
        Ok(())
    }

    /// Hands what was read back to the kernel, as if it had arrived at the interface; its addresses may have been changed.
    ///
    /// # Errors
    /// As [`Tun::try_send`].
    pub fn try_put(&self, batch: &ReadBatch) -> io::Result<usize> {
        let end = VIRTIO_NET_HDR_LEN + batch.length;
        match self.offloads {
            true => self.device.try_send(&batch.raw[..end]),
            false => self.device.try_send(&batch.raw[VIRTIO_NET_HDR_LEN..end]),
        }
    }

    /// An empty batch: one that was [put back](Tun::put_back), or a new one.
    pub fn batch(&self) -> WriteBatch {
        self.batches().pop().unwrap_or_default()
    }

    /// Takes a batch that is not needed now, so that its memory serves the next one. Packets that it has are lost.
    pub fn put_back(&self, mut batch: WriteBatch) {
        batch.used = 0;
        let mut batches = self.batches();
        if batches.len() < BATCHES_KEPT {
            batches.push(batch);
        }
    }

    fn batches(&self) -> MutexGuard<'_, Vec<WriteBatch>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the packets of a batch to the kernel, and empties it. Those that the kernel refuses are lost.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn send_batch(&self, batch: &mut WriteBatch) -> io::Result<()> {
        let used = std::mem::take(&mut batch.used);
        let buffers = &mut batch.buffers[..used];
        let (offset, table) = (VIRTIO_NET_HDR_LEN, &mut batch.table);
        let sent = self.device.send_multiple(table, buffers, offset).await;
        // Large packets begin at the front, as a rule. Elsewhere, one has taken the memory of many.
        for Buffer(buffer) in buffers.iter_mut().skip(LARGE_KEPT) {
            if buffer.capacity() > SEGMENT_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
        sent.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071: a packet of UDP with a partial checksum at offset 6 of its header.
    #[test]
    fn a_partial_checksum_is_completed() {
        let mut packet = vec![0x45; 20];
        packet.extend([0x12, 0x34, 0, 53, 0, 12, 0xab, 0xcd, 1, 2, 3, 4]);
        complete(&mut packet, 20, 6).unwrap();
        let sum = tun_rs::checksum(&packet[20..], 0xabcd);
        assert_eq!(sum, 0xffff, "the sum with the complement");
        assert!(complete(&mut packet[..24], 20, 6).is_err());
    }

    #[test]
    fn a_large_packet_is_divided_into_parts_with_checksums_and_joined_again() {
        let mut batch = ReadBatch::default();
        let payload: Vec<u8> = (0..3000_u32).map(|n| n as u8).collect();
        let mut packet = vec![
            0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 2, 192, 0, 2, 1,
        ];
        packet[2..4].copy_from_slice(&(40 + payload.len() as u16).to_be_bytes());
        packet.extend([
            0x10, 0, 0, 80, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0,
        ]);
        packet.extend(&payload);
        batch.length = packet.len();
        batch.whole().copy_from_slice(&packet);
        batch.header = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            gso_type: VIRTIO_NET_HDR_GSO_TCPV4,
            // That of the whole packet, as where packets are forwarded.
            hdr_len: 3040,
            gso_size: 1360,
            csum_start: 20,
            csum_offset: 16,
        };
        assert!(batch.has_partial_checksum());
        let mut parts = Vec::new();
        batch.divide(|part| parts.push(part.to_vec())).unwrap();
        let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1400, 1400, 320]);
        let joined: Vec<u8> = parts.iter().flat_map(|part| part[40..].to_vec()).collect();
        assert_eq!(joined, payload);
        for (part, first) in parts.iter().zip([100_u32, 1460, 2820]) {
            assert_eq!(part[24..28], first.to_be_bytes());
            assert_eq!(tun_rs::checksum(&part[..20], 0), 0xffff);
            let pseudo = 6 + (part.len() - 20) as u64;
            let addresses = u64::from(tun_rs::checksum(&part[12..20], pseudo));
            assert_eq!(tun_rs::checksum(&part[20..], addresses), 0xffff);
        }
        // Only the last part ends what its sender wrote.
        assert_eq!([parts[0][33], parts[2][33]], [0x10, 0x18]);

        // Joined again, they are one write.
        let mut batch = WriteBatch::default();
        parts.iter().for_each(|part| batch.push(part));
        let WriteBatch { buffers, table, .. } = &mut batch;
        table.apply_gro(buffers, VIRTIO_NET_HDR_LEN, true).unwrap();
        let Buffer(first) = &buffers[0];
        assert_eq!(first[VIRTIO_NET_HDR_LEN + 40..], payload);
        let header = VirtioNetHdr::decode(first).unwrap();
        assert_eq!(
            (header.gso_type, header.gso_size),
            (VIRTIO_NET_HDR_GSO_TCPV4, 1360)
        );
    }
}
