//! View of a policy.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_spec::{ChannelChoice, Claim, Priority};

/// One channel that can carry data now or soon. Suspected and closing channels are not shown.
#[derive(Clone, Debug, PartialEq)]
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
    /// Usual round-trip time without a queue: beyond the shortest one, it includes jitter and batches of acknowledgements. Zero while
    /// unknown.
    pub rtt_usual: Duration,
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
    /// The channels that it may use, by preference, as indices into [`View::channels`]; none whose quota is used up.
    pub choice: ChannelChoice,
    /// Its packets are sent on every channel that it may use and that has a slot.
    pub redundant: bool,
    /// Its promise; `None` for elastic streams, and while no promise is in force.
    pub claim: Option<Claim>,
}

impl StreamView {
    /// True if there is something that may be sent now. Policies pass over streams of which this is not true.
    pub fn is_waiting(&self) -> bool {
        self.backlog_bytes > 0
    }

    /// True if the stream may use the channel with this index.
    pub fn may_use(&self, channel: usize) -> bool {
        let is_elsewhere = self.pinned.is_some_and(|only| only != Some(channel));
        !is_elsewhere && self.choice.all().contains(channel)
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

/// Streams whose views may differ from what they were when the last run of decisions began; those that are not in the
/// view do not wait.
#[derive(Clone, Copy, Debug)]
pub enum Changes<'a> {
    /// Any.
    Any,
    /// None but these; some may be listed twice.
    Only(&'a [StreamId]),
}
