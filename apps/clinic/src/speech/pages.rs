//! Pages of a stream of speech: each packet at its place in time, with packets that ask for concealment where none came, as RFC 7845 §4.1
//! wants it. The stream has no mark at its end, since more may come.

use super::{
    PACKET_SAMPLES, Packet,
    ogg::{BEGINS, page},
    opus::{Head, concealment, tags},
};

/// Packets of concealment on a page.
const CONCEALED_MAX: u64 = 200;

/// Place of a packet, in packets of 20 ms from the begin.
pub type Place = u64;

/// A stream of pages.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// Serial number of the stream, and number of the next page.
    page: (u32, u32),
    head: Option<Head>,
    next: Place,
}

impl Pages {
    /// A new stream with a serial number.
    pub const fn new(serial: u32) -> Self {
        Self {
            page: (serial, 0),
            head: None,
            next: 0,
        }
    }

    /// Place after the last packet.
    pub const fn next(&self) -> Place {
        self.next
    }

    /// Goes on after a packet that is in the stream already.
    pub(super) fn follow(&mut self, packet: &Packet) {
        self.page = (packet.serial, packet.sequence.wrapping_add(1));
        if packet.is_first {
            self.head = Head::read(&packet.bytes);
        }
        if let Some(head) = self.head {
            let samples = packet.granule.saturating_sub(head.pre_skip.into());
            self.next = samples / u64::from(PACKET_SAMPLES);
        }
    }

    /// The pages for a packet at a place: concealment up to it, and the packet. Empty, if the place is before the end.
    pub fn put(&mut self, place: Place, packet: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        if place < self.next {
            return bytes;
        }
        let head = self.head.unwrap_or_else(|| {
            let head = Head::like(packet);
            self.page(BEGINS, 0, &[&head.to_packet()], &mut bytes);
            self.page(0, 0, &[&tags()], &mut bytes);
            head
        });
        self.head = Some(head);
        let end = |place: Place| place * u64::from(PACKET_SAMPLES) + u64::from(head.pre_skip);
        let concealed = concealment(packet);
        while self.next < place {
            let packets = (place - self.next).min(CONCEALED_MAX);
            let filling = vec![&concealed[..]; packets as usize];
            self.next += packets;
            self.page(0, end(self.next), &filling, &mut bytes);
        }
        self.next = place + 1;
        self.page(0, end(self.next), &[packet], &mut bytes);
        bytes
    }

    fn page(&mut self, flags: u8, granule: u64, packets: &[&[u8]], bytes: &mut Vec<u8>) {
        bytes.extend(page(self.page, flags, granule, packets));
        self.page.1 = self.page.1.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speech::Reader;

    #[test]
    fn gaps_are_packets_that_ask_for_concealment() {
        let mut pages = Pages::new(5);
        let mut bytes = pages.put(0, &[8, 1]);
        bytes.extend(pages.put(3, &[12, 2]));
        assert_eq!(pages.put(2, &[8, 9]), [0; 0]);
        bytes.extend(pages.put(504, &[8, 3]));
        let packets = Reader::default().push(&bytes).unwrap();
        assert_eq!(packets.len(), 2 + 505);
        assert!(packets[0].is_first);
        let body: Vec<&[u8]> = packets[2..7]
            .iter()
            .map(|packet| &packet.bytes[..])
            .collect();
        assert_eq!(body, [&[8, 1][..], &[12], &[12], &[12, 2], &[8]]);
        let last = packets.last().unwrap();
        assert_eq!((last.granule, last.serial), (505 * 960 + 312, 5));
        let mut other = Pages::new(6);
        packets.iter().for_each(|packet| other.follow(packet));
        assert_eq!((other.next(), other.page), (505, pages.page));
    }
}
