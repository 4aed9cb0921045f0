//! Statistics of a session: snapshots of its channels and streams.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, NodeId, SessionId, SocketId, StreamId};
use anabranch_channel::Stats;
use anabranch_estimate::{PathReport, model::Technology};
use anabranch_sched::Policy;
use anabranch_spec::StreamSpec;

use crate::{recv, send, session::TakenOut};

/// Statistics of a session.
#[derive(Clone, Debug)]
pub struct SessionStats {
    /// The session.
    pub session: SessionId,
    /// The other node.
    pub peer: NodeId,
    /// True if the peer opened it.
    pub incoming: bool,
    /// Version of the wire format in use: the older one of both ends; 1 until the peer has stated its own.
    pub wire_version: u64,
    /// Its scheduling policy.
    pub policy: Policy,
    /// Channels that carry data now.
    pub channels_active: usize,
    /// Open streams.
    pub streams: usize,
    /// Application bytes sent over the session's life, repairs and copies included.
    pub payload_sent_bytes: u64,
    /// Bytes of second copies over the session's life, which [`Config::copies_max`](crate::Config::copies_max) bounds.
    pub copied_bytes: u64,
    /// Bytes that each stream may hold for sending now; the last ADU may exceed it.
    pub send_buffer_bytes: u64,
    /// Bytes held for sending.
    pub send_held_bytes: u64,
    /// Bytes held for the application to read, with the overhead of each ADU.
    pub recv_held_bytes: u64,
    /// ADUs dropped over the session's life, those of streams that are over included.
    pub dropped: DroppedAdus,
}

/// ADUs that did not reach an application, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedAdus {
    /// Lost on the way; their streams do not repair, or not any more.
    pub lost: u64,
    /// To send, or received, and their lifetime was over or was going to be.
    pub expired: u64,
    /// Not sent, or not completely: their streams were given more than their share, or their applications discarded them.
    pub shed: u64,
    /// Received, and the application did not read in time (unreliable streams).
    pub unread: u64,
}

/// ADUs that an application gave up before all of each was sent, with [`StreamMut::discard`](crate::StreamMut::discard).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Their number.
    pub adus: u64,
    /// Their bytes, those included that were sent.
    pub bytes: u64,
}

impl DroppedAdus {
    /// The causes by name, with their counts.
    pub const fn by_cause(&self) -> [(&'static str, u64); 4] {
        [
            ("lost", self.lost),
            ("expired", self.expired),
            ("shed", self.shed),
            ("unread", self.unread),
        ]
    }

    pub(crate) fn add_sent(&mut self, counters: &send::Counters) {
        self.lost += counters.lost_adus;
        self.expired += counters.expired_adus;
        self.shed += counters.shed_adus;
    }

    pub(crate) fn add_received(&mut self, counters: &recv::Counters) {
        self.expired += counters.expired_adus;
        self.unread += counters.dropped_adus;
    }
}

/// Status of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelStatus {
    /// It carries data.
    Active,
    /// It is silent and being probed.
    Suspected,
}

impl fmt::Display for ChannelStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Suspected => "not responding",
        })
    }
}

/// A channel of a session, whose peer has answered.
#[derive(Clone, Debug)]
pub struct ChannelReport {
    /// The channel.
    pub channel: ChannelId,
    /// Its local socket.
    pub socket: SocketId,
    /// Name of the interface or place of that socket, if it is known.
    pub interface: Option<Arc<str>>,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Its status.
    pub state: ChannelStatus,
    /// The order by which it carries no data of streams; `None`: it is in use.
    pub taken_out: Option<TakenOut>,
    /// Time since which it has not responded; `None`: it responds.
    pub silent_since: Option<Instant>,
    /// Measurements of it.
    pub stats: Stats,
    /// Application bytes sent on it, repairs and copies included.
    pub payload_sent_bytes: u64,
    /// Application bytes received on it, duplicates included.
    pub payload_received_bytes: u64,
    /// One-way delay above its smallest value, as the peer reported it last: smallest, mean and
    /// largest of the last report period.
    pub delay_variation: Option<(Duration, Duration, Duration)>,
    /// Measurements of its path; `None` before anything was acknowledged.
    pub path: Option<PathReport>,
    /// Technology whose model predicts it, configured or recognised; `None` while the session's policy does
    /// not plan.
    pub model: Option<Technology>,
}

/// A stream of a session. Counters of a direction that the stream does not have are zero.
#[derive(Clone, Debug)]
pub struct StreamStats {
    /// The stream.
    pub stream: StreamId,
    /// Its spec.
    pub spec: StreamSpec,
    /// ADUs and bytes accepted for sending.
    pub sent_adus: u64,
    /// Bytes accepted for sending.
    pub sent_bytes: u64,
    /// ADUs known to be at the peer's node.
    pub acked_adus: u64,
    /// ADUs lost permanently.
    pub lost_adus: u64,
    /// ADUs that outlived their lifetime: those to send that were dropped here and, of unreliable streams, those that took too
    /// long on their way and were dropped on arrival.
    pub expired_adus: u64,
    /// ADUs dropped before they were sent, because the stream was given more than its share, or before they were sent completely, because
    /// its application discarded them.
    pub shed_adus: u64,
    /// Bytes sent again after a loss.
    pub repaired_bytes: u64,
    /// Bytes sent twice on purpose.
    pub copied_bytes: u64,
    /// Bytes waiting to be sent.
    pub backlog_bytes: u64,
    /// Bytes known to be at the peer's node, by the channel that carried them, copies included, without the first packet of the stream;
    /// of the last 16 channels.
    pub acked_by_channel: Vec<(ChannelId, u64)>,
    /// ADUs received, whole or in part.
    pub received_adus: u64,
    /// ADUs received in part.
    pub partial_adus: u64,
    /// Bytes of all ADUs received.
    pub received_bytes: u64,
    /// Bytes that have arrived, each counted once, those of incomplete ADUs included.
    pub arrived_bytes: u64,
    /// Bytes received again and removed.
    pub duplicate_bytes: u64,
    /// ADUs dropped because the application did not read an unreliable stream.
    pub dropped_adus: u64,
}

impl ChannelReport {
    /// Both ends, such as `wlan0 → 203.0.113.7:4433`; the peer's address alone if the interface is not known.
    pub fn ends(&self) -> String {
        match &self.interface {
            Some(interface) => format!("{interface} → {}", self.remote),
            None => self.remote.to_string(),
        }
    }
}

impl StreamStats {
    /// Statistics of a stream of which nothing was sent or received yet.
    pub fn new(stream: StreamId, spec: StreamSpec) -> Self {
        Self {
            stream,
            spec,
            sent_adus: 0,
            sent_bytes: 0,
            acked_adus: 0,
            lost_adus: 0,
            expired_adus: 0,
            shed_adus: 0,
            repaired_bytes: 0,
            copied_bytes: 0,
            backlog_bytes: 0,
            acked_by_channel: Vec::new(),
            received_adus: 0,
            partial_adus: 0,
            received_bytes: 0,
            arrived_bytes: 0,
            duplicate_bytes: 0,
            dropped_adus: 0,
        }
    }
}

/// One of the latencies that a session's packets meet: that of a channel, or of several that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyMode {
    /// Mean of their smoothed round-trip times.
    pub rtt_mean: Duration,
    /// Mean deviation of the round-trip time (that of RFC 6298), the largest among them. The variance of a
    /// normal distribution with this mean deviation is π/2 times its square.
    pub rtt_deviation: Duration,
    /// The channels, in the order in which they were opened.
    pub channels: Vec<ChannelId>,
}

/// The modes of the latency distribution over these channels, the shortest first [Horde §3.2.5]: channels
/// that carry data and were measured. Two are one mode when they were found to share a bottleneck, so that
/// their round-trip times vary together, and their means differ by no more than the smaller deviation.
///
/// O(channels²).
pub fn latency_modes(channels: &[ChannelReport]) -> Vec<LatencyMode> {
    let measured = channels
        .iter()
        .filter(|channel| channel.state == ChannelStatus::Active)
        .filter(|channel| !channel.stats.rtt_smoothed.is_zero());
    let mut modes: Vec<Vec<&ChannelReport>> = Vec::new();
    for channel in measured {
        let same = modes.iter_mut().find(|mode| is_alike(mode[0], channel));
        match same {
            Some(mode) => mode.push(channel),
            None => modes.push(vec![channel]),
        }
    }
    let mut modes: Vec<LatencyMode> = modes.iter().map(|mode| mode_of(mode)).collect();
    modes.sort_by_key(|mode| mode.rtt_mean);
    modes
}

fn is_alike(one: &ChannelReport, other: &ChannelReport) -> bool {
    let shares = |path: &PathReport| path.shares_with.contains(&other.channel);
    let (a, b) = (&one.stats, &other.stats);
    one.path.as_ref().is_some_and(shares)
        && a.rtt_smoothed.abs_diff(b.rtt_smoothed) <= a.rtt_variation.min(b.rtt_variation)
}

fn mode_of(mode: &[&ChannelReport]) -> LatencyMode {
    let sum: Duration = mode.iter().map(|channel| channel.stats.rtt_smoothed).sum();
    let deviations = mode.iter().map(|channel| channel.stats.rtt_variation);
    LatencyMode {
        rtt_mean: sum / mode.len() as u32,
        rtt_deviation: deviations.max().unwrap_or_default(),
        channels: mode.iter().map(|channel| channel.channel).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_estimate::Promise;

    fn channel(id: u64, rtt_ms: u64, deviation_ms: u64, shares_with: &[u64]) -> ChannelReport {
        ChannelReport {
            channel: ChannelId(id),
            socket: SocketId(0),
            interface: None,
            remote: SocketAddr::from(([192, 0, 2, 1], 4433)),
            state: ChannelStatus::Active,
            taken_out: None,
            silent_since: None,
            stats: Stats {
                rtt_smoothed: Duration::from_millis(rtt_ms),
                rtt_variation: Duration::from_millis(deviation_ms),
                ..Stats::default()
            },
            payload_sent_bytes: 0,
            payload_received_bytes: 0,
            delay_variation: None,
            path: Some(PathReport {
                window: Duration::from_millis(200),
                samples: 0,
                censored_fraction: 0.0,
                bandwidth_mean: None,
                bandwidth_p5: None,
                bandwidth_p10: None,
                bandwidth_p50: None,
                bandwidth_p90: None,
                promises: [0.9, 0.95, 0.99].map(|probability| Promise {
                    probability,
                    rate: None,
                    kept_fraction: None,
                }),
                rtt_next_p95: None,
                loss_fraction: None,
                burst_mean_packets: None,
                shares_with: shares_with.iter().map(|&id| ChannelId(id)).collect(),
            }),
            model: None,
        }
    }

    fn modes(channels: &[ChannelReport]) -> Vec<(u64, u64, Vec<u64>)> {
        let modes = latency_modes(channels);
        let row = |mode: &LatencyMode| {
            let channels = mode.channels.iter().map(|channel| channel.0).collect();
            let [mean, deviation] = [mode.rtt_mean, mode.rtt_deviation];
            (
                mean.as_millis() as u64,
                deviation.as_millis() as u64,
                channels,
            )
        };
        modes.iter().map(row).collect()
    }

    /// Two GPRS channels and one CDMA2000 channel: three modes, or two if the GPRS channels vary together.
    #[test]
    fn the_example_of_the_thesis() {
        let apart = [
            channel(1, 700, 90, &[]),
            channel(2, 720, 80, &[]),
            channel(3, 300, 40, &[]),
        ];
        let three = [(300, 40, vec![3]), (700, 90, vec![1]), (720, 80, vec![2])];
        assert_eq!(modes(&apart), three);
        let mut together = [
            channel(1, 700, 90, &[2]),
            channel(2, 720, 80, &[1]),
            channel(3, 300, 40, &[]),
        ];
        let two = [(300, 40, vec![3]), (710, 90, vec![1, 2])];
        assert_eq!(modes(&together), two);
        // A shared bottleneck with a longer path behind it; a channel that is silent.
        together[1].stats.rtt_smoothed = Duration::from_millis(781);
        together[2].state = ChannelStatus::Suspected;
        assert_eq!(modes(&together), [(700, 90, vec![1]), (781, 80, vec![2])]);
        assert_eq!(modes(&[]), []);
    }
}
