//! Ogg: packets from the pages of a stream, and pages of packets (RFC 3533 §6).
//!
//! ```text
//!  0        4         5       6             14       18         22    26         27
//!  +--------+---------+-------+-------------+--------+----------+-----+----------+----------+------
//!  | "OggS" | version | flags | granule     | serial | sequence | CRC | segments | lengths  | body
//!  |        | = 0     |       | (u64)       | (u32)  | (u32)    |     | (u8)     | of each  |
//!  +--------+---------+-------+-------------+--------+----------+-----+----------+----------+------
//! ```
//!
//! In little-endian order. A packet ends with the first of its segments that is shorter than 255 bytes.

use std::collections::VecDeque;

const MAGIC: &[u8; 4] = b"OggS";
const HEAD_BYTES: usize = 27;
/// Bytes of a segment that is not the last of its packet.
const SEGMENT_BYTES: u8 = 255;
/// Longest packet that is kept; of a longer one, such as comments with a picture, what follows is dropped.
const PACKET_BYTES_MAX: usize = 64 << 10;
const CONTINUES: u8 = 1;
pub(super) const BEGINS: u8 = 2;

/// Bytes are none of Ogg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OggError {
    /// Something else is in the place of a page.
    #[error("there is no page of Ogg where one should begin")]
    NoPage,
    /// The checksum of a page is wrong.
    #[error("a page of Ogg is damaged: its checksum is wrong")]
    Checksum,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its bytes; the first 64 KiB of a longer one.
    pub bytes: Vec<u8>,
    /// Position of the page on which it ends, as the format of its stream counts.
    pub granule: u64,
    /// Serial number of its stream.
    pub serial: u32,
    /// Number of the page on which it ends.
    pub sequence: u32,
    /// It begins a stream.
    pub is_first: bool,
}

/// Reader of the packets of all streams, in the order in which they end, from bytes that come in pieces. The memory is that of a page, and
/// of a packet.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    buffer: VecDeque<u8>,
    /// Bytes of whole pages that were read.
    read: u64,
    /// Stream and begin of a packet whose end has not come.
    open: Option<(u32, Vec<u8>)>,
}

impl Reader {
    /// Takes bytes, and returns the packets that are whole with them.
    ///
    /// # Errors
    /// They are no pages, or damaged.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Packet>, OggError> {
        self.buffer.extend(bytes);
        let mut packets = Vec::new();
        while let Some(page) = self.page()? {
            self.read += page.len() as u64;
            self.unpack(&page, &mut packets);
        }
        Ok(packets)
    }

    /// Bytes of the pages that were whole.
    pub const fn read(&self) -> u64 {
        self.read
    }

    /// Takes the page at the front, if it is whole.
    fn page(&mut self) -> Result<Option<Vec<u8>>, OggError> {
        let begin = self.buffer.iter().zip(MAGIC);
        if begin.into_iter().any(|(own, wanted)| own != wanted) {
            return Err(OggError::NoPage);
        }
        let Some(&segments) = self.buffer.get(HEAD_BYTES - 1) else {
            return Ok(None);
        };
        if self.buffer[4] != 0 {
            return Err(OggError::NoPage);
        }
        let head = HEAD_BYTES + usize::from(segments);
        if self.buffer.len() < head {
            return Ok(None);
        }
        let lengths = self.buffer.range(HEAD_BYTES..head);
        let whole = head + lengths.map(|length| usize::from(*length)).sum::<usize>();
        if self.buffer.len() < whole {
            return Ok(None);
        }
        let mut page: Vec<u8> = self.buffer.drain(..whole).collect();
        let stated = number(&page, 22);
        page[22..26].fill(0);
        match crc(&page) == stated {
            true => Ok(Some(page)),
            false => Err(OggError::Checksum),
        }
    }

    fn unpack(&mut self, page: &[u8], packets: &mut Vec<Packet>) {
        let (flags, serial, sequence) = (page[5], number(page, 14), number(page, 18));
        let granule = u64::from(number(page, 6)) | u64::from(number(page, 10)) << 32;
        let segments = usize::from(page[HEAD_BYTES - 1]);
        let (lengths, mut body) = page[HEAD_BYTES..].split_at(segments);
        let open = self.open.take().filter(|(of, _)| *of == serial);
        // The end of a packet whose begin is not known is left out.
        let mut is_known = flags & CONTINUES == 0 || open.is_some();
        let mut bytes = match (open, flags & CONTINUES) {
            (Some((_, begin)), CONTINUES) => begin,
            _ => Vec::new(),
        };
        let mut is_first = flags & BEGINS != 0;
        let mut is_open = false;
        for length in lengths {
            let (segment, rest) = body.split_at(usize::from(*length));
            let space = PACKET_BYTES_MAX - bytes.len();
            bytes.extend(&segment[..segment.len().min(space)]);
            body = rest;
            is_open = *length == SEGMENT_BYTES;
            if is_open {
                continue;
            }
            let bytes = std::mem::take(&mut bytes);
            if std::mem::replace(&mut is_known, true) {
                packets.push(Packet {
                    bytes,
                    granule,
                    serial,
                    sequence,
                    is_first: std::mem::take(&mut is_first),
                });
            }
        }
        if is_open && is_known {
            self.open = Some((serial, bytes));
        }
    }
}

/// A page with packets that are whole; all of them have at most 255 segments: one each, and one for every 255 bytes.
pub(super) fn page(
    (serial, sequence): (u32, u32),
    flags: u8,
    granule: u64,
    packets: &[&[u8]],
) -> Vec<u8> {
    let mut lengths = Vec::new();
    for packet in packets {
        let whole = packet.len() / usize::from(SEGMENT_BYTES);
        lengths.extend(std::iter::repeat_n(SEGMENT_BYTES, whole));
        lengths.push((packet.len() % usize::from(SEGMENT_BYTES)) as u8);
    }
    debug_assert!(lengths.len() <= 255, "they fit on a page");
    let mut page = MAGIC.to_vec();
    page.extend([0, flags]);
    page.extend(granule.to_le_bytes());
    page.extend(serial.to_le_bytes());
    page.extend(sequence.to_le_bytes());
    page.extend([0; 4]);
    page.push(lengths.len() as u8);
    page.extend(lengths);
    packets.iter().for_each(|packet| page.extend(*packet));
    let sum = crc(&page);
    page[22..26].copy_from_slice(&sum.to_le_bytes());
    page
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes[at..].first_chunk().copied().unwrap_or_default();
    u32::from_le_bytes(four)
}

/// Checksum of a page whose own field is zero: polynomial 0x04c11db7, most significant bit first, from zero, not inverted.
fn crc(page: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut sum = (at as u32) << 24;
            let mut bit = 0;
            while bit < 8 {
                sum = sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 };
                bit += 1;
            }
            table[at] = sum;
            at += 1;
        }
        table
    };
    page.iter().fold(0, |sum: u32, byte| {
        sum << 8 ^ TABLE[(sum >> 24) as usize ^ usize::from(*byte)]
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_format() {
        // CRC-32 with this polynomial over "123456789", neither reflected nor inverted.
        assert_eq!(crc(b"123456789"), 0x89a1_897f);
    }

    #[test]
    fn packets_go_on_over_pages() {
        let long = vec![7_u8; 255 * 255 + 10];
        // As another program divides it: 255 whole segments, and the rest on the next page.
        let mut first = page((1, 0), BEGINS, u64::MAX, &[&long[..255 * 254]]);
        // The last length says that the packet ended; it goes on.
        assert_eq!(first[26], 255);
        first[27 + 254] = 255;
        first.extend(vec![7_u8; 255]);
        first[22..26].fill(0);
        let sum = crc(&first);
        first[22..26].copy_from_slice(&sum.to_le_bytes());
        let second = page((1, 1), CONTINUES, 9, &[&long[255 * 255..], b"next"]);
        let mut reader = Reader::default();
        assert_eq!(reader.push(&first), Ok(vec![]));
        let packets = reader.push(&second).unwrap();
        assert_eq!(packets.len(), 2);
        assert_eq!(packets[0].bytes, long);
        assert_eq!(
            (packets[1].granule, &packets[1].bytes[..]),
            (9, &b"next"[..])
        );
        assert_eq!(reader.read(), (first.len() + second.len()) as u64);
        // Without its begin, a packet is left out.
        let packets = Reader::default().push(&second).unwrap();
        assert_eq!(packets.len(), 1);
    }

    #[test]
    fn damage_is_noticed() {
        let whole = page((1, 0), 0, 0, &[b"abc"]);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let mut reader = Reader::default();
            // A length that is longer waits for more, which is not a page then.
            let read = reader.push(&[bytes, whole.clone()].concat());
            assert!(read.is_err(), "{at}: {read:?}");
        }
    }

    proptest! {
        #[test]
        fn packets_are_read_as_they_are_written(
            packets in vec(vec(any::<u8>(), 0..600), 1..40),
            (serial, granule) in any::<(u32, u64)>(),
            piece in 1_usize..300,
        ) {
            let mut bytes = Vec::new();
            for (sequence, packet) in (0..).zip(&packets) {
                bytes.extend(page((serial, sequence), 0, granule, &[packet]));
            }
            let mut reader = Reader::default();
            let mut read = Vec::new();
            for piece in bytes.chunks(piece) {
                read.extend(reader.push(piece).unwrap());
            }
            prop_assert!(read.iter().all(|packet| (packet.serial, packet.granule) == (serial, granule)));
            let read: Vec<Vec<u8>> = read.into_iter().map(|packet| packet.bytes).collect();
            prop_assert_eq!(read, packets);
        }

        #[test]
        fn any_bytes_are_pages_or_refused(bytes in vec(any::<u8>(), 0..300), cut in 0_usize..300) {
            let all = [&MAGIC[..], &[0], &bytes].concat();
            let (one, other) = all.split_at(cut.min(all.len()));
            let mut reader = Reader::default();
            if reader.push(one).is_ok() {
                let _ = reader.push(other);
            }
        }
    }
}
