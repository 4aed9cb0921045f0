//! Journal of a session: packets, times, channels and outcomes, to find out why data
//! arrived late.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_sched::{ChannelView, arrival};

use crate::flight::{Item, Packet};

/// Number of entries kept until the host takes them; later ones are left out.
const ENTRIES_MAX: usize = 1 << 20;

/// An event of a container.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Time.
    pub at: Instant,
    /// The channel of the container.
    pub channel: ChannelId,
    /// The container's number there; unique within the channel.
    pub container: u64,
    /// The event.
    pub what: What,
}

/// Kind of an event of a container.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// It was sent with this fragment; one entry for each fragment in it.
    Sent {
        /// The stream.
        stream: StreamId,
        /// The ADU's number in its stream.
        sequence: u64,
        /// Position in the ADU at which the fragment begins, in bytes.
        offset: usize,
        /// The fragment's application bytes.
        bytes: usize,
        /// A second copy, sent before the first was known to be lost.
        is_copy: bool,
        /// Predicted time from its sending to its arrival (`anabranch_sched::arrival::one_way`).
        expected: Duration,
    },
    /// It was acknowledged.
    Acked {
        /// Time from its sending to the acknowledgement.
        rtt: Duration,
    },
    /// It was declared lost.
    Lost,
}

/// Entries that wait for the host, 2²⁰ at most. Key: session.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: Vec<Entry>,
}

impl Journal {
    pub(crate) fn note(&mut self, entry: Entry) {
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push(entry);
        }
    }

    /// Records that a container was sent on a channel in the state of `channel`.
    pub(crate) fn note_sent(&mut self, channel: &ChannelView, container: u64, packet: &Packet) {
        for item in packet.items() {
            let Item::Fragment {
                place,
                length,
                is_copy,
            } = *item
            else {
                continue;
            };
            self.note(Entry {
                at: packet.sent_at,
                channel: channel.id,
                container,
                what: What::Sent {
                    stream: place.stream,
                    sequence: place.sequence,
                    offset: place.offset,
                    bytes: length,
                    is_copy,
                    expected: arrival::one_way(channel),
                },
            });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::frame::Place;

    fn fragment(sequence: u64, is_copy: bool) -> Item {
        let place = Place {
            stream: StreamId(3),
            sequence,
            offset: 40,
        };
        Item::Fragment {
            place,
            length: 900,
            is_copy,
        }
    }

    #[test]
    fn each_fragment_of_a_container_has_an_entry() {
        let channel = ChannelView {
            id: ChannelId(2),
            slots: 0,
            packet_bytes: 1_200,
            rtt_smoothed: Duration::from_millis(60),
            rtt_min: Duration::from_millis(60),
            rtt_usual: Duration::ZERO,
            rtt_variation: Duration::ZERO,
            rate_bytes_per_s: 1e6,
            window_bytes: 60_000,
            in_flight_bytes: 0,
            loss: 0.0,
        };
        let mut packet = Packet::new(Instant::from_secs(4));
        packet.push(fragment(7, false));
        packet.push(fragment(8, true));
        let mut journal = Journal::default();
        journal.note_sent(&channel, 11, &packet);
        let entries = journal.take();
        let sent = |sequence, is_copy| Entry {
            at: Instant::from_secs(4),
            channel: ChannelId(2),
            container: 11,
            what: What::Sent {
                stream: StreamId(3),
                sequence,
                offset: 40,
                bytes: 900,
                is_copy,
                expected: Duration::from_millis(30),
            },
        };
        assert_eq!(entries, [sent(7, false), sent(8, true)]);
        assert_eq!(journal.take(), []);
    }

    #[test]
    fn entries_are_bounded() {
        let entry = Entry {
            at: Instant::EPOCH,
            channel: ChannelId(0),
            container: 0,
            what: What::Lost,
        };
        let mut journal = Journal::default();
        (0..ENTRIES_MAX + 3).for_each(|_| journal.note(entry));
        assert_eq!(journal.take().len(), ENTRIES_MAX);
    }
}
