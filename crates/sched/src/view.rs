//! View of a policy.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};

use crate::spec::Priority;

/// One channel that can carry data now or soon. Suspected and closing channels are not shown.
#[derive(Clone, Debug)]
pub struct ChannelView {
    /// The channel.
    pub id: ChannelId,
    /// Packets that may leave now; counted down by the session as decisions are carried out.
    pub slots: usize,
    /// Application bytes that fit one packet, headers excluded (approximately).
    pub packet_bytes: usize,
    /// Smoothed round-trip time.
    pub rtt_smoothed: Duration,
    /// Shortest round-trip time.
    pub rtt_min: Duration,
    /// Deviation of the round-trip time.
    pub rtt_variation: Duration,
    /// Rate at which the channel delivers, in bytes per second; 0 while unknown.
    pub rate_bytes_per_s: f64,
    /// Bytes that may be in flight.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Fraction of packets lost.
    pub loss: f64,
}

/// One stream that has something to send and may send it, or had lately.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamView {
    /// The stream.
    pub id: StreamId,
    /// Its priority.
    pub priority: Priority,
    /// Its weight among equals.
    pub weight: u32,
    /// Bytes waiting, those to be sent again included; 0 when there is nothing that may be sent now.
    pub backlog_bytes: u64,
    /// Time at which its oldest waiting ADU becomes useless.
    pub deadline: Option<Instant>,
    /// The only channel it may use, as an index into [`View::channels`]; `Some(None)` when that
    /// channel is not there.
    pub pinned: Option<Option<usize>>,
    /// What it was promised; `None` for elastic streams, and while no promise is in force.
    pub claim: Option<Claim>,
}

/// What a promised stream may count on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The rate that each window needs, in bytes per second.
    pub bytes_per_s: f64,
    /// The window.
    pub window: Duration,
    /// Place in the order of precedence, 0 first: by probability, then bound on late packets, then window
    /// constraint [IQ-Paths §V-B.2].
    pub rank: u32,
}

impl StreamView {
    /// True if there is something that may be sent now. Policies pass over streams of which this is not true.
    pub fn is_waiting(&self) -> bool {
        self.backlog_bytes > 0
    }

    /// True if the stream may use the channel with this index.
    pub fn may_use(&self, channel: usize) -> bool {
        match self.pinned {
            None => true,
            Some(only) => only == Some(channel),
        }
    }
}

/// Everything there is to decide about. A policy answers with indices into these slices.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Instant,
    /// Channels, in a stable order.
    pub channels: &'a [ChannelView],
    /// Streams, by id, ascending: those that are waiting, and perhaps some that were.
    pub streams: &'a [StreamView],
}

/// Which streams' views may differ from what they were when the last run of decisions began; those that are not in the
/// view do not wait.
#[derive(Clone, Copy, Debug)]
pub enum Changes<'a> {
    /// Any.
    Any,
    /// None but these; some may be listed twice.
    Only(&'a [StreamId]),
}

/// A set of channels, by index into [`View::channels`]; at most 64 channels are ever shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChannelMask(u64);

impl ChannelMask {
    /// No channel.
    pub const NONE: Self = Self(0);

    /// Just this channel.
    pub const fn only(index: usize) -> Self {
        Self(1 << index)
    }

    /// Adds a channel.
    pub const fn with(self, index: usize) -> Self {
        Self(self.0 | 1 << index)
    }

    /// True if the channel is in the set.
    pub const fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    /// True if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The channels of the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let index = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                index
            })
        })
    }
}
