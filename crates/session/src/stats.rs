//! Snapshots of a session for people and programs.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, NodeId, Rate, SessionId, SocketId, StreamId};
use anabranch_channel::Stats;
use anabranch_sched::{Policy, StreamSpec};

/// A session.
#[derive(Clone, Debug)]
pub struct SessionStats {
    /// The session.
    pub session: SessionId,
    /// The other node.
    pub peer: NodeId,
    /// The peer opened it.
    pub incoming: bool,
    /// Its scheduling policy.
    pub policy: Policy,
    /// Channels that carry data now.
    pub channels_active: usize,
    /// Open streams.
    pub streams: usize,
    /// Bytes held for sending.
    pub send_held_bytes: u64,
    /// Bytes held for the application to read.
    pub recv_held_bytes: u64,
}

/// What a channel is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    /// The handshake has not finished.
    Connecting,
    /// It carries data.
    Active,
    /// It is silent and being probed.
    Suspected,
}

/// A channel of a session.
#[derive(Clone, Debug)]
pub struct ChannelReport {
    /// The channel.
    pub channel: ChannelId,
    /// Its local socket.
    pub socket: SocketId,
    /// The peer's address.
    pub remote: SocketAddr,
    /// What it is doing.
    pub state: ChannelState,
    /// What is measured on it.
    pub stats: Stats,
    /// Application bytes sent on it, repairs and copies included.
    pub payload_sent_bytes: u64,
    /// Application bytes received on it, duplicates included.
    pub payload_received_bytes: u64,
    /// One-way delay above its smallest value, as the peer reported it last: smallest, mean and
    /// largest of the last report period.
    pub delay_variation: Option<(Duration, Duration, Duration)>,
    /// What its path was measured to hold; `None` before anything was acknowledged.
    pub path: Option<PathReport>,
}

/// What a path was measured to hold, over the last 500 windows with traffic. Whatever is not known yet
/// is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct PathReport {
    /// Length of a window.
    pub window: Duration,
    /// Windows measured so far.
    pub samples: u64,
    /// The share of them in which the sender ran dry, so that the path may hold more than was measured.
    pub censored_fraction: f64,
    /// Mean bandwidth, estimated with censoring taken into account; an underestimate where even the
    /// largest window was censored.
    pub bandwidth_mean: Option<Rate>,
    /// What 95 % of windows exceed.
    pub bandwidth_p5: Option<Rate>,
    /// What 90 % of windows exceed.
    pub bandwidth_p10: Option<Rate>,
    /// Rates that the next window will reach, with the probability of each.
    pub promises: [Promise; 3],
    /// What the next round-trip time will not exceed with probability 0.95, given the last.
    pub rtt_next_p95: Option<Duration>,
    /// Packets lost, of the last 2,000.
    pub loss_fraction: Option<f64>,
    /// Mean number of packets lost in a row.
    pub burst_mean_packets: Option<f64>,
    /// Channels that were found to share this one's bottleneck.
    pub shares_with: Vec<ChannelId>,
}

/// A rate that a path will reach in its next window, and how such promises have fared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// With this probability.
    pub probability: f64,
    /// This rate; `None` while too little is known.
    pub rate: Option<Rate>,
    /// The share of such promises that were kept.
    pub kept_fraction: Option<f64>,
}

/// A stream of a session. Counters of a direction that the stream does not have are zero.
#[derive(Clone, Debug)]
pub struct StreamStats {
    /// The stream.
    pub stream: StreamId,
    /// What it asked for.
    pub spec: StreamSpec,
    /// ADUs and bytes accepted for sending.
    pub sent_adus: u64,
    /// Bytes accepted for sending.
    pub sent_bytes: u64,
    /// ADUs known to be at the peer's node.
    pub acked_adus: u64,
    /// ADUs lost for good.
    pub lost_adus: u64,
    /// ADUs that outlived their lifetime.
    pub expired_adus: u64,
    /// Bytes sent again after a loss.
    pub repaired_bytes: u64,
    /// Bytes sent twice on purpose.
    pub copied_bytes: u64,
    /// Bytes waiting to be sent.
    pub backlog_bytes: u64,
    /// ADUs received whole.
    pub received_adus: u64,
    /// Bytes of these.
    pub received_bytes: u64,
    /// Bytes that have arrived, each counted once, those of incomplete ADUs included.
    pub arrived_bytes: u64,
    /// Bytes received again and removed.
    pub duplicate_bytes: u64,
    /// ADUs dropped because the application did not read an unreliable stream.
    pub dropped_adus: u64,
}
