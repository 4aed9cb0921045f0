//! Statistics of a channel.

use std::time::Duration;

use anabranch_base::Rate;

/// A snapshot of a channel's measurements. Counters run from the opening of the channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Smoothed round-trip time; zero before the first sample.
    pub rtt_smoothed: Duration,
    /// Shortest round-trip time seen.
    pub rtt_min: Duration,
    /// Mean round trip of the packets of the round with the least queue, of the last seconds: jitter, batches of acknowledgements, and
    /// the peer's waiting included; zero before the first round with enough packets.
    pub rtt_usual: Duration,
    /// Newest round-trip time.
    pub rtt_latest: Duration,
    /// Mean deviation of the round-trip time (RFC 9002 §5.3).
    pub rtt_variation: Duration,
    /// Smoothed rate at which the peer confirms delivery, IP headers excluded.
    pub rate_delivered: Rate,
    /// Rate at which packets may leave.
    pub rate_paced: Rate,
    /// UDP payload bytes sent and neither acknowledged nor lost.
    pub in_flight_bytes: u64,
    /// UDP payload bytes that may be in flight.
    pub window_bytes: u64,
    /// UDP payload of a full packet.
    pub mtu_bytes: usize,
    /// Ack-eliciting packets sent.
    pub packets_sent: u64,
    /// Packets confirmed.
    pub packets_acked: u64,
    /// Packets declared lost, those that arrived late included.
    pub packets_lost: u64,
    /// UDP payload bytes of ack-eliciting packets sent.
    pub bytes_sent: u64,
    /// UDP payload bytes confirmed.
    pub bytes_acked: u64,
    /// UDP payload bytes declared lost.
    pub bytes_lost: u64,
    /// Congestion events that reached the controller.
    pub congestion_events: u64,
    /// Of these, events caused by ECN marks.
    pub ecn_events: u64,
    /// Losses that turned out to be reordering.
    pub spurious_events: u64,
}

/// Load of a channel since it was last taken ([`Channel::take_load`](crate::Channel::take_load)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// UDP payload bytes confirmed since the channel opened.
    pub acked_bytes: u64,
    /// Smallest round trip; `None` if nothing was acknowledged.
    pub rtt: Option<Duration>,
    /// There was more to send than could leave.
    pub is_busy: bool,
    /// The [ceiling](crate::Channel::set_ceiling) was the limit at some time.
    pub is_capped: bool,
}

impl Stats {
    /// Lost packets as a fraction of those whose outcome is known; 0 if none is.
    pub fn loss_fraction(&self) -> f64 {
        let known = self.packets_acked + self.packets_lost;
        if known == 0 {
            return 0.0;
        }
        self.packets_lost as f64 / known as f64
    }
}
