//! Causes of late frames: the transit of every frame of the critical streams, from the sender's journal.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_session::journal::{Entry, What};

/// Dominant cause of the delay of a late frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// All of it had arrived, and waited for an earlier frame of its stream.
    Order,
    /// Its last packet was lost, or overtaken by its copy, and retransmitted.
    Repair,
    /// Its last packet waited for a slot at the sender.
    Sender,
    /// Its last packet waited in the queues of its path.
    Path,
}

impl Cause {
    /// All causes, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Order, Self::Repair, Self::Sender, Self::Path];

    /// Name, a single word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Repair => "repair",
            Self::Sender => "sender",
            Self::Path => "path",
        }
    }
}

/// Transit of one frame.
#[derive(Clone, Debug)]
pub struct Transit {
    /// Its number among the frames that the stream sent.
    pub sequence: u64,
    /// Time at which it was offered.
    pub offered_at: Instant,
    /// Time from the offer until it could be read.
    pub delay: Duration,
    /// Packets that it took, including retransmissions.
    pub packets: usize,
    /// Packets declared lost.
    pub lost: usize,
    /// Packets that were copies.
    pub copies: usize,
    /// Time from its offer until its first packet left.
    pub first_left: Duration,
    /// Times from its offer until the packet that arrived last left for the first time, and for the last time.
    pub last_left: [Duration; 2],
    /// Channel on which that packet arrived.
    pub last_channel: ChannelId,
    /// Time from leaving to acknowledgement, less the return delay; queueing included.
    pub last_transit: Duration,
    /// Expected value of that time.
    pub last_expected: Duration,
    /// Parts of the delay beyond that of an unused path, by cause.
    pub parts: [Duration; 4],
}

impl Transit {
    /// Cause of the largest part of its delay.
    pub fn cause(&self) -> Cause {
        let largest = Cause::ALL
            .into_iter()
            .zip(self.parts)
            .max_by_key(|(_, part)| *part);
        largest.map_or(Cause::Path, |(cause, _)| cause)
    }
}

/// Part of an ADU carried in a packet: the stream, the ADU's number there, bytes.
type Part = (StreamId, u64, usize);

/// One transmission of a fragment.
#[derive(Clone, Copy, Debug)]
struct Trip {
    channel: ChannelId,
    left_at: Instant,
    expected: Duration,
    is_copy: bool,
    /// Time at which it is known to have arrived, or to have been lost.
    arrived_at: Option<Instant>,
    is_lost: bool,
}

/// Fragments by their offset, with all transmissions of each.
type Pieces = BTreeMap<usize, Vec<Trip>>;

/// Collects journals, and derives the transits of frames at the end.
#[derive(Debug, Default)]
pub struct Lateness {
    frames: BTreeMap<(StreamId, u64), Pieces>,
    /// Contents of containers in flight.
    carried: HashMap<(ChannelId, u64), Vec<Part>>,
}

impl Lateness {
    /// Reads entries of these streams; `back` is the delay of acknowledgements.
    pub fn read(&mut self, entries: &[Entry], streams: &[StreamId], back: Duration) {
        for entry in entries {
            let container = (entry.channel, entry.container);
            match entry.what {
                What::Sent {
                    stream,
                    sequence,
                    offset,
                    is_copy,
                    expected,
                    ..
                } if streams.contains(&stream) => {
                    let pieces = self.frames.entry((stream, sequence)).or_default();
                    pieces.entry(offset).or_default().push(Trip {
                        channel: entry.channel,
                        left_at: entry.at,
                        expected,
                        is_copy,
                        arrived_at: None,
                        is_lost: false,
                    });
                    let carried = self.carried.entry(container).or_default();
                    carried.push((stream, sequence, offset));
                }
                What::Sent { .. } => {}
                What::Acked { rtt } => {
                    let transit = rtt.saturating_sub(back);
                    self.settle(container, |trip| {
                        trip.arrived_at = Some(trip.left_at + transit);
                    });
                }
                What::Lost => self.settle(container, |trip| trip.is_lost = true),
            }
        }
    }

    fn settle(&mut self, container: (ChannelId, u64), change: impl Fn(&mut Trip)) {
        for (stream, sequence, offset) in self.carried.remove(&container).unwrap_or_default() {
            let pieces = self.frames.get_mut(&(stream, sequence));
            let trips = pieces.and_then(|pieces| pieces.get_mut(&offset));
            let is_it = |trip: &&mut Trip| {
                trip.channel == container.0 && trip.arrived_at.is_none() && !trip.is_lost
            };
            if let Some(trip) = trips.and_then(|trips| trips.iter_mut().find(is_it)) {
                change(trip);
            }
        }
    }

    /// Transit of a frame that was offered and could be read at these times, over paths of which the shortest takes `least`;
    /// `None` if the journals contain nothing of it.
    pub fn transit(
        &self,
        (stream, sequence): (StreamId, u64),
        (offered_at, read_at): (Instant, Instant),
        least: Duration,
    ) -> Option<Transit> {
        let pieces = self.frames.get(&(stream, sequence))?;
        let trips = || pieces.values().flatten();
        let latest = pieces.values().filter_map(|trips| {
            let there = trips.iter().filter(|trip| trip.arrived_at.is_some());
            let best = there.min_by_key(|trip| trip.arrived_at)?;
            Some((best.arrived_at?, best, trips.first()?))
        });
        let (arrived_at, best, first) = latest.max_by_key(|&(at, ..)| at)?;
        let transit = arrived_at.since(best.left_at);
        let parts = [
            read_at.since(arrived_at),
            best.left_at.since(first.left_at),
            first.left_at.since(offered_at),
            transit.saturating_sub(least),
        ];
        Some(Transit {
            sequence,
            offered_at,
            delay: read_at.since(offered_at),
            packets: trips().count(),
            lost: trips().filter(|trip| trip.is_lost).count(),
            copies: trips().filter(|trip| trip.is_copy).count(),
            first_left: trips().map(|trip| trip.left_at).min()?.since(offered_at),
            last_left: [first, best].map(|trip| trip.left_at.since(offered_at)),
            last_channel: best.channel,
            last_transit: transit,
            last_expected: best.expected,
            parts,
        })
    }
}
