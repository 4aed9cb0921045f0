//! Snapshots of a session for people and programs.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, NodeId, SessionId, SocketId, StreamId};
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
    /// Bytes received again and removed.
    pub duplicate_bytes: u64,
    /// ADUs dropped because the application did not read an unreliable stream.
    pub dropped_adus: u64,
}
