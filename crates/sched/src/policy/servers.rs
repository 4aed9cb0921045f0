//! Channels as a multi-server queue sees them: a mean rate each, and when they are idle.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant};
use anabranch_spec::ChannelMask;

use crate::{
    arrival,
    view::{ChannelView, View},
};

/// Time between two looks at the rates.
const PERIOD: Duration = Duration::from_millis(200);
/// Weight of the newest look in the exponentially weighted moving average; with [`PERIOD`], a memory of
/// about two seconds. It is the mean predictor that [IQ-Paths §IV] argues against.
const GAIN: f64 = 0.1;

/// One channel.
#[derive(Clone, Copy, Debug)]
struct Server {
    id: ChannelId,
    /// EWMA of the delivery rate, in bytes per second; above 0.
    rate: f64,
    /// Until then it works, at its mean rate, on what it was given; in seconds since the epoch.
    busy_until_s: f64,
}

/// The channels of the view, in its order. One per session.
#[derive(Debug, Default)]
pub(super) struct Servers {
    servers: Vec<Server>,
    looked_at: Option<Instant>,
}

impl Servers {
    /// Brings the channels up to date; to be called at the start of every decision. O(channels), and
    /// allocates only when channels come.
    pub(super) fn look(&mut self, view: &View<'_>) {
        let is_due = self.looked_at.is_none_or(|at| view.now.since(at) >= PERIOD);
        let same = |server: &Server, channel: &ChannelView| server.id == channel.id;
        let is_same = self.servers.len() == view.channels.len()
            && self
                .servers
                .iter()
                .zip(view.channels)
                .all(|(s, c)| same(s, c));
        if !is_same {
            self.replace(view);
        }
        if is_due {
            self.looked_at = Some(view.now);
            for (server, channel) in self.servers.iter_mut().zip(view.channels) {
                server.rate += GAIN * (rate_now(channel) - server.rate);
            }
        }
    }

    /// EWMA of the rate of the channel with this index, in bytes per second.
    pub(super) fn rate(&self, index: usize) -> f64 {
        self.servers[index].rate
    }

    /// Rate that all of them carry on average, in bytes per second.
    pub(super) fn rate_total(&self) -> f64 {
        self.servers.iter().map(|server| server.rate).sum()
    }

    /// Of these channels, the one that falls idle first.
    pub(super) fn next_idle(&self, indices: impl Iterator<Item = usize>) -> Option<usize> {
        indices.min_by(|&a, &b| {
            let until = |index: usize| self.servers[index].busy_until_s;
            until(a).total_cmp(&until(b))
        })
    }

    /// Each of these channels was given `bytes`.
    pub(super) fn charge(&mut self, now: Instant, channels: ChannelMask, bytes: usize) {
        for index in channels.iter() {
            let server = &mut self.servers[index];
            let start = server.busy_until_s.max(now.as_secs_f64());
            server.busy_until_s = start + bytes as f64 / server.rate;
        }
    }

    fn replace(&mut self, view: &View<'_>) {
        let known = std::mem::take(&mut self.servers);
        let find = |channel: &ChannelView| known.iter().find(|server| server.id == channel.id);
        self.servers = view
            .channels
            .iter()
            .map(|channel| {
                find(channel).copied().unwrap_or(Server {
                    id: channel.id,
                    rate: rate_now(channel),
                    busy_until_s: 0.0,
                })
            })
            .collect();
    }
}

/// Rate that the channel delivers, kept above 0 so that it can divide.
fn rate_now(channel: &ChannelView) -> f64 {
    arrival::rate(channel).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::tests::channel;

    #[test]
    fn the_mean_follows_slowly() {
        let mut servers = Servers::default();
        let mut look = |now_ms, mbps: f64| {
            let channels = [channel(0, 1, 20, mbps)];
            servers.look(&View {
                now: Instant::from_millis(now_ms),
                channels: &channels,
                streams: &[],
            });
            servers.rate(0) * 8.0 / 1e6
        };
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(near(look(0, 10.0), 10.0));
        assert!(near(look(100, 20.0), 10.0), "not due yet");
        assert!(near(look(200, 20.0), 11.0));
        assert!(near(look(400, 20.0), 11.9));
    }

    #[test]
    fn bytes_keep_a_server_busy_for_as_long_as_they_take_on_average() {
        let channels = [channel(0, 9, 20, 8.0), channel(1, 9, 20, 4.0)];
        let view = View {
            now: Instant::from_secs(1),
            channels: &channels,
            streams: &[],
        };
        let mut servers = Servers::default();
        servers.look(&view);
        assert!((servers.rate_total() - 1.5e6).abs() < 1e-6, "12 Mbit/s");
        let mut order = Vec::new();
        for _ in 0..6 {
            let next = servers.next_idle(0..2).unwrap();
            servers.charge(view.now, ChannelMask::only(next), 1000);
            order.push(next);
        }
        assert_eq!(order, [0, 1, 0, 0, 1, 0]);
    }
}
