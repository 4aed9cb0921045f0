//! Predictive guarantee overlay scheduling [IQ-Paths §V-B.2b]: promised streams by their plan, the rest by
//! earliest arrival.
//!
//! The precedence is that of Table I:
//!
//! 1. packets scheduled on the path that has a slot;
//! 2. packets scheduled on another path, the earliest virtual deadline first, then the highest window
//!    constraint;
//! 3. packets that are not scheduled: elastic streams, and what a promised stream sends beyond its promise.
//!    [`EarliestArrival`] decides about these. Streams that still wait for a promise, and so are on no path,
//!    go before the others here, up to the rate that they asked for.
//!
//! Paths are visited, and streams on each path, by virtual deadlines; see [`share`] and [`path`] for both
//! and for what is done differently when a path is behind. Rule 2 as published would spread every stream
//! over all paths whenever its own has no slot for a millisecond, because a slot exists here only when a
//! packet may leave. So a packet is taken to another path only when it is late, or arrives there before its own
//! could have delivered what the stream has waiting, and one whose
//! stream is not to be divided only when it is late and its path stands still. A path that packets had to
//! leave because they were late backs off, for twice as long each time, and what is scheduled on it may leave
//! at once.
//!
//! A decision costs O(log streams + channels); beginning a run of the pump O(streams in the view). Nothing is
//! allocated but by [`Scheduler::remap`].

mod path;
mod share;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};

use self::{
    path::Path,
    share::{Nanos, Share, nanos},
};
use super::{Decision, Scheduler, default::EarliestArrival};
use crate::{
    arrival::{next_arrival, one_way, time_to_deliver},
    plan::Plan,
    view::{ChannelMask, View},
};

/// A path on which a packet is later than this backs off.
const GRACE: Nanos = 5e6;
/// A packet is taken to another path when it arrives there earlier by more than this.
const GAIN: Duration = Duration::from_millis(2);

/// The channel of a share that is on none.
const NOWHERE: ChannelId = ChannelId(u64::MAX);
/// Deadlines that differ by less are equal.
const TIE: Nanos = 1.0;

/// A promised stream. Its index is its place in the order of precedence.
#[derive(Clone, Debug)]
struct Promised {
    stream: StreamId,
    constraint: f64,
    may_split: bool,
    is_ready: bool,
    /// It is on no path yet; its one share counts what it sends.
    is_afloat: bool,
    /// Its shares, as indices.
    shares: std::ops::Range<usize>,
}

/// A packet that may be sent.
#[derive(Clone, Copy, Debug)]
struct Packet {
    /// Index of the path that it is scheduled on, and of its share there.
    path: usize,
    share: usize,
    /// Its stream's place in the view.
    stream: usize,
    /// The place of the channel that would take it.
    channel: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pgos {
    elastic: EarliestArrival,
    promised: Vec<Promised>,
    /// Indices into `promised`, by stream, ascending.
    by_stream: Vec<(StreamId, usize)>,
    shares: Vec<Share>,
    paths: Vec<Path>,
    /// The share that the last decision took from, until it is known what was sent.
    taken: Option<usize>,
}

impl Pgos {
    fn find(&self, stream: StreamId) -> Option<usize> {
        let at = self
            .by_stream
            .binary_search_by_key(&stream, |&(id, _)| id)
            .ok()?;
        Some(self.by_stream[at].1)
    }

    /// Index in the view of a stream that still has something to send. Views are in order of streams.
    fn place(view: &View<'_>, stream: StreamId) -> Option<usize> {
        view.streams
            .binary_search_by_key(&stream, |stream| stream.id)
            .ok()
    }

    /// Whose turn it is on the path, with the stream's place in the view; those without anything to
    /// send are passed over.
    fn turn(&mut self, path: usize, view: &View<'_>, now: Nanos) -> Option<(usize, usize)> {
        loop {
            let share = self.paths[path].peek(&self.shares, now)?;
            let owner = &self.promised[self.shares[share].owner];
            if let Some(place) = Self::place(view, owner.stream) {
                return Some((share, place));
            }
            self.paths[path].take(share);
        }
    }

    /// Rules 1 and 2 together. Where both have a packet, and both are late, there is too little for all, and
    /// precedence decides.
    fn scheduled(&mut self, view: &View<'_>, now: Nanos) -> Option<Decision> {
        let here = self.scheduled_here(view, now);
        if let Some(turn) = here
            && !self.is_late(turn.share, now)
        {
            self.paths[turn.path].recover();
            return Some(self.send(turn));
        }
        let elsewhere = self.scheduled_elsewhere(view, now);
        let goes_first = |turn: &Packet| {
            here.is_none_or(|here| {
                let owner = |packet: &Packet| self.shares[packet.share].owner;
                self.is_late(turn.share, now) && owner(turn) < owner(&here)
            })
        };
        match elsewhere.filter(goes_first) {
            Some(turn) => {
                if self.is_late(turn.share, now) {
                    self.paths[turn.path].back_off(now);
                }
                Some(self.send(turn))
            }
            None => here.map(|turn| self.send(turn)),
        }
    }

    fn send(&mut self, packet: Packet) -> Decision {
        self.paths[packet.path].take(packet.share);
        self.taken = Some(packet.share);
        Decision::Send {
            stream: packet.stream,
            channels: ChannelMask::only(packet.channel),
        }
    }

    /// Rule 1: the free path whose turn it is, and on it the stream whose turn it is.
    fn scheduled_here(&mut self, view: &View<'_>, now: Nanos) -> Option<Packet> {
        let mut best: Option<(Nanos, Packet)> = None;
        for path in 0..self.paths.len() {
            let Some(channel) = place_of(view, &self.paths[path]) else {
                continue;
            };
            let due = self.paths[path].due;
            if view.channels[channel].slots == 0
                || best.is_some_and(|(first, _)| first <= due + TIE)
            {
                continue;
            }
            if let Some((share, stream)) = self.turn(path, view, now) {
                let packet = Packet {
                    path,
                    share,
                    stream,
                    channel,
                };
                best = Some((due, packet));
            }
        }
        best.map(|(_, packet)| packet)
    }

    /// Rule 2: what another path should have sent already.
    fn scheduled_elsewhere(&mut self, view: &View<'_>, now: Nanos) -> Option<Packet> {
        let mut best: Option<Packet> = None;
        for path in 0..self.paths.len() {
            let Some((share, stream)) = self.turn(path, view, now) else {
                continue;
            };
            let here = place_of(view, &self.paths[path]);
            if here.is_some_and(|channel| view.channels[channel].slots > 0) {
                // Rule 1 has it.
                continue;
            }
            let (due, constraint) = self.urgency(share);
            let is_later = best.is_some_and(|first| {
                let (first_due, first_constraint) = self.urgency(first.share);
                (first_due, -first_constraint) <= (due, -constraint)
            });
            if is_later {
                continue;
            }
            if let Some(channel) = self.refuge(view, path, share, stream, here, now) {
                best = Some(Packet {
                    path,
                    share,
                    stream,
                    channel,
                });
            }
        }
        best
    }

    fn urgency(&self, share: usize) -> (Nanos, f64) {
        let share = &self.shares[share];
        (share.due, self.promised[share.owner].constraint)
    }

    /// The free channel to which a share's next packet may be taken, if it may.
    fn refuge(
        &self,
        view: &View<'_>,
        path: usize,
        share: usize,
        stream: usize,
        here: Option<usize>,
        now: Nanos,
    ) -> Option<usize> {
        let other = super::free_channels(view, stream)
            .min_by_key(|&channel| one_way(&view.channels[channel]))?;
        let Some(here) = here.filter(|_| !self.paths[path].is_backing_off(now)) else {
            return Some(other);
        };
        let here = &view.channels[here];
        let wait = next_arrival(here);
        let owner = &self.promised[self.shares[share].owner];
        let may_leave = if owner.may_split {
            // What waits behind this packet is what its own path will be busy with.
            let waiting = view.streams[stream].backlog_bytes;
            let rest = waiting.saturating_sub(here.packet_bytes as u64);
            self.is_late(share, now)
                || wait + time_to_deliver(here, rest) > one_way(&view.channels[other]) + GAIN
        } else {
            // Its packets would overtake each other, unless the path stands still.
            self.is_late(share, now) && wait > here.rtt_smoothed * 2
        };
        may_leave.then_some(other)
    }

    fn is_late(&self, share: usize, now: Nanos) -> bool {
        self.shares[share].lateness(now) > GRACE
    }

    /// Whether the stream waits for a promise, and has not sent all that it asked for.
    fn is_afloat(&self, stream: StreamId, now: Nanos) -> bool {
        self.find(stream).is_some_and(|owner| {
            let owner = &self.promised[owner];
            owner.is_afloat && self.shares[owner.shares.start].is_scheduled(now)
        })
    }

    /// Whether the stream has sent all that is scheduled, so that more of it takes its chance with the
    /// elastic ones.
    fn is_beyond(&self, stream: StreamId, now: Nanos) -> bool {
        let Some(owner) = self.find(stream) else {
            return true;
        };
        let mut shares = self.promised[owner].shares.clone();
        shares.all(|share| !self.shares[share].is_scheduled(now))
    }
}

/// The channel of a path in the view.
fn place_of(view: &View<'_>, path: &Path) -> Option<usize> {
    view.channels
        .iter()
        .position(|channel| channel.id == path.channel)
}

impl Scheduler for Pgos {
    fn begin(&mut self, view: &View<'_>) {
        self.taken = None;
        if self.promised.is_empty() {
            return;
        }
        let now = nanos(view.now);
        for path in &mut self.paths {
            path.clear();
        }
        let mut streams = view.streams.iter().map(|stream| stream.id).peekable();
        for &(id, owner) in &self.by_stream {
            while streams.next_if(|&next| next < id).is_some() {}
            let is_ready = streams.peek() == Some(&id);
            let owner = &mut self.promised[owner];
            for index in owner.shares.clone() {
                let share = &mut self.shares[index];
                share.catch_up(now);
                if !is_ready {
                    continue;
                }
                if !owner.is_ready {
                    share.ready_at = now;
                }
                if let Some(path) = self
                    .paths
                    .iter_mut()
                    .find(|path| path.channel == share.channel)
                {
                    path.enter(index, share, owner.constraint);
                }
            }
            owner.is_ready = is_ready;
        }
    }

    fn next(&mut self, view: &View<'_>) -> Decision {
        if self.promised.is_empty() {
            return self.elastic.next(view);
        }
        if view.channels.iter().all(|channel| channel.slots == 0) {
            return Decision::Wait;
        }
        let now = nanos(view.now);
        self.taken = None;
        if let Some(decision) = self.scheduled(view, now) {
            return decision;
        }
        if self.promised.iter().any(|promised| promised.is_afloat) {
            let decision = self
                .elastic
                .next_of(view, |stream| self.is_afloat(stream.id, now));
            if decision != Decision::Wait {
                return decision;
            }
        }
        self.elastic
            .next_of(view, |stream| self.is_beyond(stream.id, now))
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        let id = view.streams[stream].id;
        let Some(owner) = self.find(id) else {
            self.elastic.sent(view, stream, channels, bytes);
            return;
        };
        let now = nanos(view.now);
        let taken = self
            .taken
            .take_if(|share| self.shares[*share].owner == owner);
        let share = taken.or_else(|| {
            // It came along in another stream's packet, or as elastic traffic.
            let mut shares = self.promised[owner].shares.clone();
            let on_channel = |&share: &usize| {
                channels
                    .iter()
                    .any(|channel| view.channels[channel].id == self.shares[share].channel)
            };
            shares
                .clone()
                .find(on_channel)
                .or_else(|| shares.next())
                .filter(|&share| self.shares[share].is_scheduled(now))
        });
        let Some(index) = share else {
            self.elastic.sent(view, stream, channels, bytes);
            return;
        };
        let share = &mut self.shares[index];
        share.charge(bytes);
        let constraint = self.promised[owner].constraint;
        if let Some(path) = self
            .paths
            .iter_mut()
            .find(|path| path.channel == share.channel)
        {
            path.charge(now, bytes);
            if taken.is_some() {
                path.enter(index, share, constraint);
            }
        }
    }

    fn forget(&mut self, stream: StreamId) {
        self.elastic.forget(stream);
    }

    fn remap(&mut self, now: Instant, plan: &Plan) {
        let at = nanos(now);
        let before = std::mem::take(self);
        self.elastic = before.elastic;
        for assignment in &plan.assignments {
            let owner = self.promised.len();
            let first = self.shares.len();
            let known = before
                .by_stream
                .binary_search_by_key(&assignment.stream, |&(id, _)| id)
                .ok()
                .map(|place| &before.promised[before.by_stream[place].1]);
            let old = known.map_or(&[][..], |owner| &before.shares[owner.shares.clone()]);
            let afloat = [(NOWHERE, assignment.window_bytes)];
            let is_afloat = assignment.shares.is_empty();
            let shares = if is_afloat {
                &afloat
            } else {
                assignment.shares.as_slice()
            };
            for &(channel, bytes) in shares {
                let mut share = Share::new(now, owner, channel, assignment.window, bytes);
                let same = old.iter().find(|old| old.channel == channel);
                // On a new path it goes on where it was furthest behind: nothing falls out of the window.
                let behind = old.iter().min_by(|a, b| a.due.total_cmp(&b.due));
                if let Some(before) = same.or(behind) {
                    share.resume(before);
                }
                self.shares.push(share);
            }
            self.promised.push(Promised {
                stream: assignment.stream,
                constraint: assignment.constraint,
                may_split: assignment.may_split,
                is_ready: known.is_some_and(|owner| owner.is_ready),
                is_afloat,
                shares: first..self.shares.len(),
            });
            self.by_stream.push((assignment.stream, owner));
        }
        self.by_stream.sort_unstable();
        let mut loads: Vec<(ChannelId, f64, usize)> = Vec::new();
        for assignment in &plan.assignments {
            let window = assignment.window.as_nanos() as f64;
            for &(channel, bytes) in &assignment.shares {
                match loads.iter_mut().find(|load| load.0 == channel) {
                    Some(load) => {
                        load.1 += bytes / window;
                        load.2 += 1;
                    }
                    None => loads.push((channel, bytes / window, 1)),
                }
            }
        }
        loads.sort_unstable_by_key(|load| load.0);
        self.paths = loads
            .into_iter()
            .map(|(channel, load, shares)| {
                let mut path = Path::new(channel, at, load, shares);
                if let Some(old) = before.paths.iter().find(|old| old.channel == channel) {
                    path.resume(old);
                }
                path
            })
            .collect();
    }
}
