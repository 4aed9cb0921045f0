//! Usage of a session's paths: measurements by real traffic, better than those by test messages.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, Rate};
use anabranch_session::{ChannelReport, ChannelStatus};
use serde::{Deserialize, Serialize};

/// Share of its windows in which a path was the limit, from which on it counts as the limit …
const LIMITED: f64 = 0.8;
/// … if there are at least so many windows.
const WINDOWS_MIN: u64 = 3;

/// Recent measurements of one of a session's paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathUse {
    /// Address that packets of this path are sent to; `None`: the direct link.
    pub near: Option<SocketAddr>,
    /// Rate confirmed to have arrived, in bits a second …
    pub rate_bps: u64,
    /// … over so many milliseconds.
    pub window_ms: u64,
    /// True if the path was the limit: there was something to send all the time.
    pub limited: bool,
    /// Least round trip, in microseconds; 0: not measured.
    pub rtt_min_us: u64,
    /// Paths with the same number were detected to share a bottleneck; 0: with none.
    pub group: u8,
}

impl PathUse {
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.rate_bps)
    }

    pub(super) fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms)
    }

    pub(super) fn rtt_min(&self) -> Option<Duration> {
        (self.rtt_min_us > 0).then(|| Duration::from_micros(self.rtt_min_us))
    }
}

/// Counters of a channel that only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    acked_bytes: u64,
    windows: u64,
    censored: u64,
}

impl Counters {
    fn of(channel: &ChannelReport) -> Self {
        let (windows, fraction) =
            (channel.path.as_ref()).map_or((0, 0.0), |path| (path.samples, path.censored_fraction));
        Self {
            acked_bytes: channel.stats.bytes_acked,
            windows,
            censored: (windows as f64 * fraction).round() as u64,
        }
    }

    /// Difference to `before`; `None` if the channel is a different one.
    fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            acked_bytes: self.acked_bytes.checked_sub(before.acked_bytes)?,
            windows: self.windows.checked_sub(before.windows)?,
            censored: self.censored.checked_sub(before.censored)?,
        })
    }

    fn is_limited(&self) -> bool {
        let full = self.windows.saturating_sub(self.censored);
        self.windows >= WINDOWS_MIN && full as f64 >= self.windows as f64 * LIMITED
    }
}

/// Usage counters: report what the paths of a session carried between two looks at its channels.
#[derive(Debug, Default)]
pub(super) struct Usage(BTreeMap<ChannelId, Counters>);

impl Usage {
    /// Traffic of the active channels since the last look, `elapsed` ago, by path; `is_relayed` is true if an address belongs
    /// to a relayed one. Channels that are new since then are left out.
    pub(super) fn look(
        &mut self,
        channels: &[ChannelReport],
        elapsed: Duration,
        is_relayed: impl Fn(&SocketAddr) -> bool,
    ) -> Vec<PathUse> {
        let path = |channel: &ChannelReport| Some(channel.remote).filter(|near| is_relayed(near));
        let active = (channels.iter()).filter(|channel| channel.state == ChannelStatus::Active);
        let mut paths: BTreeMap<Option<SocketAddr>, PathUse> = BTreeMap::new();
        let mut counters = BTreeMap::new();
        for channel in active {
            let now = Counters::of(channel);
            counters.insert(channel.channel, now);
            let before = self.0.get(&channel.channel);
            let Some(new) = before.and_then(|before| now.since(before)) else {
                continue;
            };
            let bytes_per_s = new.acked_bytes as f64 / elapsed.as_secs_f64().max(1e-3);
            let rtt_us = channel.stats.rtt_min.as_micros() as u64;
            let near = path(channel);
            let found = paths.entry(near).or_insert_with(|| PathUse {
                near,
                window_ms: elapsed.as_millis() as u64,
                limited: true,
                ..PathUse::default()
            });
            found.rate_bps += (bytes_per_s * 8.0) as u64;
            found.rtt_min_us = match found.rtt_min_us {
                0 => rtt_us,
                other => other.min(rtt_us),
            };
            // If there are several channels on the direct link, each has to be full.
            found.limited &= new.is_limited();
        }
        self.0 = counters;
        for (number, group) in (1..=u8::MAX).zip(groups(channels)) {
            let members: Vec<_> = group.iter().map(|channel| path(channel)).collect();
            // Channels of one path share its links anyway.
            if members.iter().any(|path| path != &members[0]) {
                for near in &members {
                    if let Some(path) = paths.get_mut(near) {
                        path.group = number;
                    }
                }
            }
        }
        paths.into_values().collect()
    }
}

/// Groups of channels that share a bottleneck; each channel is in one group at most.
fn groups(channels: &[ChannelReport]) -> Vec<Vec<&ChannelReport>> {
    let mut groups: Vec<Vec<&ChannelReport>> = Vec::new();
    for channel in channels {
        let Some(path) = channel
            .path
            .as_ref()
            .filter(|path| !path.shares_with.is_empty())
        else {
            continue;
        };
        let shares = |other: &&ChannelReport| path.shares_with.contains(&other.channel);
        match groups.iter_mut().find(|group| group.iter().any(shares)) {
            Some(group) => group.push(channel),
            None => groups.push(vec![channel]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

#[cfg(test)]
mod tests {
    use anabranch_base::SocketId;
    use anabranch_session::PathReport;

    use super::*;

    const DIRECT: u16 = 1;

    /// Channel with `full` of `windows` windows not censored.
    fn channel(
        id: u64,
        port: u16,
        acked: u64,
        (full, windows): (u64, u64),
        shares: &[u64],
    ) -> ChannelReport {
        let stats = anabranch_session::Stats {
            bytes_acked: acked,
            rtt_min: Duration::from_millis(20),
            ..Default::default()
        };
        ChannelReport {
            channel: ChannelId(id),
            socket: SocketId(0),
            interface: None,
            remote: SocketAddr::from(([192, 0, 2, 1], port)),
            state: ChannelStatus::Active,
            taken_out: None,
            silent_since: None,
            stats,
            payload_sent_bytes: 0,
            payload_received_bytes: 0,
            delay_variation: None,
            path: Some(PathReport {
                window: Duration::from_millis(200),
                samples: windows,
                censored_fraction: (windows - full) as f64 / windows.max(1) as f64,
                bandwidth_mean: None,
                bandwidth_p5: None,
                bandwidth_p10: None,
                bandwidth_p50: None,
                bandwidth_p90: None,
                promises: [0.9, 0.95, 0.99].map(|probability| anabranch_session::Promise {
                    probability,
                    rate: None,
                    kept_fraction: None,
                }),
                rtt_next_p95: None,
                loss_fraction: None,
                burst_mean_packets: None,
                shares_with: shares.iter().copied().map(ChannelId).collect(),
            }),
            model: None,
        }
    }

    #[test]
    fn each_path_reports_what_it_carried() {
        let mut usage = Usage::default();
        let is_relayed = |near: &SocketAddr| near.port() != DIRECT;
        let first = [
            channel(0, DIRECT, 1_000, (5, 5), &[]),
            channel(1, 7, 500, (0, 5), &[]),
        ];
        let second = Duration::from_secs(1);
        assert!(
            usage.look(&first, second, is_relayed).is_empty(),
            "nothing to compare with"
        );
        let then = [
            channel(0, DIRECT, 126_000, (10, 10), &[1]),
            channel(1, 7, 125_500, (1, 10), &[0]),
            channel(2, 8, 9_000, (10, 10), &[]),
        ];
        let paths = usage.look(&then, second, is_relayed);
        let rates: Vec<_> = paths
            .iter()
            .map(|path| {
                (
                    path.near.map(|near| near.port()),
                    path.rate_bps,
                    path.limited,
                )
            })
            .collect();
        assert_eq!(
            rates,
            [(None, 1_000_000, true), (Some(7), 1_000_000, false)],
            "a new channel has no measurements yet"
        );
        assert!(paths[0].group > 0 && paths[0].group == paths[1].group);
        assert_eq!(paths[0].rtt_min(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn two_channels_of_one_path_count_together() {
        let mut usage = Usage::default();
        let both = |acked, full| {
            [
                channel(0, DIRECT, acked, (5, 5), &[1]),
                channel(1, DIRECT, acked, (full, 5), &[0]),
            ]
        };
        usage.look(&both(0, 5), Duration::from_secs(1), |_| false);
        let mut later = both(250_000, 5);
        for channel in &mut later {
            channel.path.as_mut().unwrap().samples = 10;
        }
        let paths = usage.look(&later, Duration::from_secs(2), |_| false);
        assert_eq!(
            (
                paths.len(),
                paths[0].rate_bps,
                paths[0].limited,
                paths[0].group
            ),
            (1, 2_000_000, true, 0)
        );
    }
}
