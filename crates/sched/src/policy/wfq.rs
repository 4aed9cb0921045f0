//! Weighted fair queueing on one path.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};

use super::{fair::FairQueue, free_channels, one_channel, servers::Servers};
use crate::view::View;
use crate::{Decision, Scheduler};
use anabranch_spec::ChannelMask;

/// For so long all channels are used, to learn what they carry.
const LEARNING: Duration = Duration::from_secs(5);

/// The first row of [IQ-Paths] Table III: all messages over one path, shared by weight [Demers, Keshav &
/// Shenker 1989]. It knows no priorities and no promises.
///
/// The path is the one with the largest mean rate when it has learned what they carry; it stays with it,
/// however the others do later. While that path is away, it uses the best of those that are there. Streams
/// that are pinned stay where they are pinned.
#[derive(Debug, Default)]
pub(super) struct Wfq {
    queue: FairQueue,
    servers: Servers,
    began_at: Option<Instant>,
    channel: Option<ChannelId>,
}

impl Wfq {
    /// The channel to use, as an index; `None` while it learns, and without a channel.
    fn path(&mut self, view: &View<'_>) -> Option<usize> {
        let began_at = *self.began_at.get_or_insert(view.now);
        if view.now.since(began_at) < LEARNING {
            return None;
        }
        let index_of = |id| view.channels.iter().position(|channel| channel.id == id);
        if let Some(index) = self.channel.and_then(index_of) {
            return Some(index);
        }
        let rate = |&index: &usize| self.servers.rate(index);
        let best = (0..view.channels.len()).max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        self.channel.get_or_insert(view.channels[best].id);
        Some(best)
    }
}

impl Scheduler for Wfq {
    fn next(&mut self, view: &View<'_>) -> Decision {
        self.servers.look(view);
        let path = self.path(view);
        let rate = path.map_or(self.servers.rate_total(), |path| self.servers.rate(path));
        let servers = &self.servers;
        let picked = self.queue.pick(view, rate, |stream| {
            let is_pinned = view.streams[stream].pinned.is_some();
            let usable = |&index: &usize| is_pinned || path.is_none_or(|path| path == index);
            servers.next_idle(free_channels(view, stream).filter(usable))
        });
        one_channel(picked)
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        self.queue.charge(&view.streams[stream], bytes);
        self.servers.charge(view.now, channels, bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.queue.forget(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{arrival::tests::channel, pick::tests::stream, view::ChannelView};
    use anabranch_spec::Priority;

    fn decide(wfq: &mut Wfq, now_s: u64, channels: &[ChannelView]) -> Option<u64> {
        let streams = [stream(0, Priority::NORMAL, 100, 1 << 20)];
        let view = View {
            now: Instant::from_secs(now_s),
            channels,
            streams: &streams,
        };
        let Decision::Send { stream, channels } = wfq.next(&view) else {
            return None;
        };
        wfq.sent(&view, stream, channels, 1400);
        channels
            .iter()
            .next()
            .map(|index| view.channels[index].id.0)
    }

    #[test]
    fn it_learns_and_then_stays_on_the_fattest_path() {
        let mut wfq = Wfq::default();
        let both = [channel(3, 9, 20, 10.0), channel(5, 9, 90, 30.0)];
        let learned: Vec<_> = (0..4).map(|_| decide(&mut wfq, 0, &both)).collect();
        assert!(
            learned.contains(&Some(3)) && learned.contains(&Some(5)),
            "{learned:?}"
        );
        assert_eq!(decide(&mut wfq, 6, &both), Some(5));
        // Neither a better path nor a full one moves it.
        let other_is_better = [channel(3, 9, 20, 100.0), channel(5, 9, 90, 1.0)];
        assert_eq!(decide(&mut wfq, 60, &other_is_better), Some(5));
        let full = [channel(3, 9, 20, 10.0), channel(5, 0, 90, 30.0)];
        assert_eq!(decide(&mut wfq, 61, &full), None);
        // Only its absence does, for as long as it lasts.
        assert_eq!(decide(&mut wfq, 62, &both[..1]), Some(3));
        assert_eq!(decide(&mut wfq, 63, &both), Some(5));
    }
}
