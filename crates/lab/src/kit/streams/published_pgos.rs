//! PGOS as it was published, as a measure of ours [IQ-Paths §V-B.2b, Table I].
//!
//! In each scheduling window, packet k of x that a path carries for a stream has the virtual deadline `t_w/x·(k − 1)`, and so have the
//! packets of a path, which give the order in which paths are visited. A free path takes, the first that there is:
//!
//! 1. a packet that is scheduled on it, in the order of virtual deadlines;
//! 2. one that is scheduled on another path, the earliest deadline first, then the highest window constraint;
//! 3. one that is not scheduled.
//!
//! Data that a window did not send is not scheduled in the next. Ours differs in what it does when a path is behind (`sched::policy`).

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_sched::{
    Decision, PromiseScheduler, Scheduler,
    view::{StreamView, View},
};
use anabranch_spec::{ChannelMask, Plan};

/// Part of a promised stream that a path is to carry in each window.
#[derive(Clone, Debug)]
struct Share {
    stream: StreamId,
    channel: ChannelId,
    constraint: f64,
    window: Duration,
    bytes: f64,
    /// Number of the window that `sent` is about.
    number: u128,
    sent: f64,
}

/// The published scheduler.
#[derive(Debug, Default)]
pub struct PublishedPgos {
    shares: Vec<Share>,
    /// Share of the packet that was decided on last.
    taken: Option<usize>,
    /// Bytes of each stream that were not scheduled, over its weight.
    unscheduled: Vec<(StreamId, f64)>,
}

impl Share {
    fn begin(&mut self, now: Instant) {
        let number = now.since_epoch().as_nanos() / self.window.as_nanos().max(1);
        if number != self.number {
            self.number = number;
            self.sent = 0.0;
        }
    }

    fn is_scheduled(&self) -> bool {
        self.sent < self.bytes
    }

    /// Virtual deadline of its next packet, in windows since the epoch.
    fn due(&self) -> f64 {
        self.number as f64 + self.sent / self.bytes.max(1.0)
    }
}

impl PublishedPgos {
    /// Virtual deadline of the next packet that is scheduled on a path; infinite without one.
    fn path_due(&self, channel: ChannelId) -> f64 {
        let own = || self.shares.iter().filter(|share| share.channel == channel);
        let (sent, bytes) = own().fold((0.0, 0.0), |(sent, bytes), share| {
            (sent + share.sent.min(share.bytes), bytes + share.bytes)
        });
        match own().next() {
            Some(share) if sent < bytes => share.number as f64 + sent / bytes,
            _ => f64::INFINITY,
        }
    }

    /// The share with the earliest deadline, then the highest constraint, of those that `is_among`, and the place of its stream.
    fn earliest(
        &self,
        view: &View<'_>,
        channel: usize,
        is_among: impl Fn(&Share) -> bool,
    ) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        for (index, share) in self.shares.iter().enumerate() {
            if !share.is_scheduled() || !is_among(share) {
                continue;
            }
            let is_own = |stream: &StreamView| {
                stream.id == share.stream && stream.is_waiting() && stream.may_use(channel)
            };
            let Some(stream) = view.streams.iter().position(is_own) else {
                continue;
            };
            let is_before = best.is_none_or(|(other, _)| {
                let other = &self.shares[other];
                let order = share.due().total_cmp(&other.due());
                order
                    .then(other.constraint.total_cmp(&share.constraint))
                    .is_lt()
            });
            if is_before {
                best = Some((index, stream));
            }
        }
        best
    }

    /// A stream with something that is not scheduled: promised ones first, then that which had least for its weight.
    fn unscheduled(&self, view: &View<'_>, channel: usize) -> Option<usize> {
        let streams = view.streams.iter().enumerate();
        let ready = streams.filter(|(_, stream)| stream.is_waiting() && stream.may_use(channel));
        let had = |stream: &StreamView| {
            let mut all = self.unscheduled.iter();
            all.find(|(id, _)| *id == stream.id)
                .map_or(0.0, |(_, bytes)| *bytes)
        };
        let order = |stream: &StreamView| (stream.claim.is_none(), had(stream));
        let first = ready.min_by(|(_, one), (_, other)| {
            let (one, other) = (order(one), order(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        first.map(|(index, _)| index)
    }
}

impl Scheduler for PublishedPgos {
    fn next(&mut self, view: &View<'_>) -> Decision {
        for share in &mut self.shares {
            share.begin(view.now);
        }
        let channels = view.channels.iter().enumerate();
        let mut free: Vec<(f64, usize)> = channels
            .filter(|(_, channel)| channel.slots > 0)
            .map(|(index, channel)| (self.path_due(channel.id), index))
            .collect();
        free.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (_, channel) in free {
            let id = view.channels[channel].id;
            let here = self.earliest(view, channel, |share| share.channel == id);
            let scheduled =
                here.or_else(|| self.earliest(view, channel, |share| share.channel != id));
            self.taken = scheduled.map(|(share, _)| share);
            let stream = scheduled.map(|(_, stream)| stream);
            if let Some(stream) = stream.or_else(|| self.unscheduled(view, channel)) {
                return Decision::Send {
                    stream,
                    channels: ChannelMask::only(channel),
                };
            }
        }
        Decision::Wait
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _: ChannelMask, bytes: usize) {
        if let Some(share) = self.taken.take() {
            self.shares[share].sent += bytes as f64;
            return;
        }
        let StreamView { id, weight, .. } = view.streams[stream];
        let bytes = bytes as f64 / f64::from(weight.max(1));
        match self.unscheduled.iter_mut().find(|(known, _)| *known == id) {
            Some((_, sum)) => *sum += bytes,
            None => self.unscheduled.push((id, bytes)),
        }
    }

    fn forget(&mut self, stream: StreamId) {
        self.shares.retain(|share| share.stream != stream);
        self.unscheduled.retain(|(known, _)| *known != stream);
        self.taken = None;
    }
}

impl PromiseScheduler for PublishedPgos {
    fn remap(&mut self, now: Instant, plan: &Plan) {
        let before = std::mem::take(&mut self.shares);
        self.taken = None;
        for assignment in &plan.assignments {
            for &(channel, bytes) in &assignment.shares {
                let mut share = Share {
                    stream: assignment.stream,
                    channel,
                    constraint: assignment.constraint,
                    window: assignment.window,
                    bytes,
                    number: 0,
                    sent: 0.0,
                };
                share.begin(now);
                let is_same = |old: &&Share| {
                    (old.stream, old.channel, old.number)
                        == (share.stream, share.channel, share.number)
                };
                if let Some(old) = before.iter().find(is_same) {
                    share.sent = old.sent;
                }
                self.shares.push(share);
            }
        }
    }

    fn expect(&mut self, _: Option<Instant>) {}

    fn held_until(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::ChannelId;
    use anabranch_sched::view::ChannelView;
    use anabranch_spec::{Assignment, ChannelChoice, Claim, Priority};

    use super::*;

    const WINDOW: Duration = Duration::from_secs(1);

    fn channel(id: u64, slots: usize) -> ChannelView {
        ChannelView {
            id: ChannelId(id),
            slots,
            packet_bytes: 1_000,
            rtt_smoothed: WINDOW,
            rtt_min: WINDOW,
            rtt_usual: Duration::ZERO,
            rtt_variation: WINDOW,
            rate_bytes_per_s: 1e6,
            window_bytes: 1_000_000,
            in_flight_bytes: 0,
            loss: 0.0,
        }
    }

    fn stream(id: u64, is_promised: bool) -> StreamView {
        StreamView {
            id: StreamId(id),
            priority: Priority::NORMAL,
            weight: 100,
            backlog_bytes: 100_000,
            deadline: None,
            pinned: None,
            choice: ChannelChoice::default(),
            redundant: false,
            claim: is_promised.then_some(Claim {
                bytes_per_s: 1e3,
                window: WINDOW,
                rank: 0,
            }),
        }
    }

    fn assignment(stream: u64, constraint: f64, shares: &[(u64, f64)]) -> Assignment {
        Assignment {
            stream: StreamId(stream),
            window: WINDOW,
            window_bytes: shares.iter().map(|(_, bytes)| bytes).sum(),
            constraint,
            may_split: true,
            shares: shares
                .iter()
                .map(|&(channel, bytes)| (ChannelId(channel), bytes))
                .collect(),
        }
    }

    /// Streams and channels of the next packets, each of 1,000 bytes.
    fn packets(
        scheduler: &mut PublishedPgos,
        view: &View<'_>,
        count: usize,
    ) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        while found.len() < count {
            let Decision::Send { stream, channels } = scheduler.next(view) else {
                break;
            };
            scheduler.sent(view, stream, channels, 1_000);
            let channel = (0..2).find(|channel| channels.contains(*channel)).unwrap();
            found.push((stream, channel));
        }
        found
    }

    /// Table I: the path's own, then another path's, then the rest.
    #[test]
    fn precedence_is_that_of_table_1() {
        let mut scheduler = PublishedPgos::default();
        let plan = Plan {
            assignments: vec![
                assignment(1, 1.0, &[(0, 2_000.0)]),
                assignment(2, 0.9, &[(1, 1_000.0)]),
            ],
        };
        scheduler.remap(Instant::EPOCH, &plan);
        let streams = [stream(0, false), stream(1, true), stream(2, true)];
        let both = [channel(0, 9), channel(1, 9)];
        let view = View {
            now: Instant::from_millis(10),
            channels: &both,
            streams: &streams,
        };
        // Path 0 and path 1 begin together; path 0 has a second packet, at the middle of the window. Then neither has any.
        let found = packets(&mut scheduler, &view, 5);
        assert_eq!(found, [(1, 0), (2, 1), (1, 0), (1, 0), (2, 0)]);
        // In the next window, path 1 is blocked: what is scheduled there goes to path 0, the earliest first.
        let one = [channel(0, 9), channel(1, 0)];
        let view = View {
            now: Instant::from_millis(1_010),
            channels: &one,
            streams: &streams,
        };
        let found = packets(&mut scheduler, &view, 3);
        assert_eq!(found, [(1, 0), (1, 0), (2, 0)]);
        let mut view = view;
        let elastic = [stream(0, false)];
        view.streams = &elastic;
        assert_eq!(packets(&mut scheduler, &view, 1), [(0, 0)]);
        let none = [channel(0, 0), channel(1, 0)];
        view.channels = &none;
        assert_eq!(scheduler.next(&view), Decision::Wait);
    }
}
