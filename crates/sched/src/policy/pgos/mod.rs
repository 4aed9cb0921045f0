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
//!    go before the others of their priority or a lower one here, up to the rate that they asked for, unless a plan by objectives has them.
//!
//! Paths are visited, and streams on each path, by virtual deadlines; see [`share`] and [`path`] for both
//! and for what is done differently when a path is behind. Rule 2 as published would spread every stream
//! over all paths whenever its own has no slot for a millisecond, because a slot exists here only when a
//! packet may leave. So a packet of a stream that may be divided goes where it is expected first, be it
//! late or not, and whether or not its own path has a slot: to another path when it arrives there before its own could have
//! delivered what the stream has waiting, and never to one that is slower than waiting. A packet that waits for another path
//! does not hold back what is scheduled behind it on its own; and on the other path it goes before streams that it
//! precedes, once it is due: a frame of few packets would otherwise wait until a large one beside it is gone. A packet of a stream that is not to
//! be divided leaves its path only when it is late and the path stands still; that path then backs off, for
//! twice as long each time, and what is scheduled on it may leave at once.
//!
//! Before a frame of promised streams is expected, elastic data stays away from paths whose queue will last until then; see
//! [`hold`].
//!
//! A decision about promised streams costs O(channels), O(channels²) at worst where each path's first packet may be
//! divided; keeping the order of a path O(log of its shares), which are a few steps; see [`turns`]. Beginning a run of the pump costs O(streams that changed · log streams): queues
//! stay as they are between runs. A decision about elastic streams costs O(channels + log streams), and as much for
//! each that prefers to wait, once in a run; one about streams that wait for a promise O(streams). Nothing is allocated but
//! by [`Scheduler::remap`], and for streams that are new.

mod hold;
mod path;
#[cfg(test)]
mod replay;
mod share;
#[cfg(test)]
mod tests;
mod turns;

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};

use self::{
    hold::Hold,
    path::{DUE, Head, Path},
    share::{Nanos, Share, nanos},
};
use super::default::{EarliestArrival, Turn};
use crate::{Decision, PromiseScheduler, Scheduler};
use crate::{
    arrival::time_to_deliver,
    view::{Changes, StreamView, View},
};
use anabranch_spec::{ChannelMask, Plan};

/// A path on which a packet is later than this backs off.
const GRACE: Nanos = 5e6;
/// A packet is taken to another path when it arrives there earlier by more than this.
const GAIN: Duration = Duration::from_micros(500);

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
    /// Place where it was in the last view.
    place: usize,
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
    /// Shares that were taken from, and nothing was sent: until the next run begins.
    left_out: Vec<usize>,
    /// Time at which the last run began: shares are caught up with that as they are looked at.
    begun_at: Nanos,
    /// Some of the promised streams are on no path yet.
    has_afloat: bool,
    hold: Hold,
    /// A run has begun since the last mapping, and the streams that are ready have entered.
    has_entered: bool,
}

/// Progress of promised streams with what is scheduled.
#[derive(Clone, Copy, Debug)]
struct Backlog<'a> {
    promised: &'a [Promised],
    by_stream: &'a [(StreamId, usize)],
    shares: &'a [Share],
    now: Nanos,
}

impl Backlog<'_> {
    /// True if something of the owner's is scheduled for the running window, or an earlier one.
    fn is_scheduled(&self, owner: usize) -> bool {
        let mut shares = self.promised[owner].shares.clone();
        shares.any(|share| self.shares[share].is_scheduled(self.now))
    }

    /// A stream takes its chance with the elastic ones when it has no promise, or has sent all that is scheduled.
    fn turn(&self, stream: &StreamView) -> Turn {
        let owner = find(self.by_stream, stream.id);
        match owner.is_some_and(|owner| self.is_scheduled(owner)) {
            true => Turn::Closed,
            false => Turn::Open,
        }
    }
}

/// Index of a promised stream.
fn find(by_stream: &[(StreamId, usize)], stream: StreamId) -> Option<usize> {
    let at = by_stream
        .binary_search_by_key(&stream, |&(id, _)| id)
        .ok()?;
    Some(by_stream[at].1)
}

impl Pgos {
    fn find(&self, stream: StreamId) -> Option<usize> {
        find(&self.by_stream, stream)
    }

    /// State for decisions about elastic streams.
    fn split(&mut self, now: Nanos) -> (&mut EarliestArrival, Backlog<'_>) {
        let backlog = Backlog {
            promised: &self.promised,
            by_stream: &self.by_stream,
            shares: &self.shares,
            now,
        };
        (&mut self.elastic, backlog)
    }

    /// Index in the view of a promised stream that still has something to send. O(1) while it stays at its place;
    /// views are in order of streams.
    fn place(&mut self, view: &View<'_>, owner: usize) -> Option<usize> {
        let owner = &mut self.promised[owner];
        let id = owner.stream;
        let is_here = |place: usize| view.streams.get(place).is_some_and(|s| s.id == id);
        if !is_here(owner.place) {
            owner.place = view
                .streams
                .binary_search_by_key(&id, |stream| stream.id)
                .ok()?;
        }
        view.streams[owner.place]
            .is_waiting()
            .then_some(owner.place)
    }

    /// The stream whose turn it is on the path, with the stream's place in the view; those without anything to
    /// send are passed over.
    fn turn(&mut self, path: usize, view: &View<'_>, now: Nanos) -> Option<(usize, usize)> {
        match self.paths[path].head {
            Head::Unknown => {}
            Head::Nobody => return None,
            Head::Is { share, stream } if view.streams[stream].is_waiting() => {
                return Some((share, stream));
            }
            Head::Is { share, .. } => self.paths[path].take(&self.shares[share]),
        }
        loop {
            let Some(share) = self.paths[path].peek(&self.shares, now) else {
                self.paths[path].head = Head::Nobody;
                return None;
            };
            if let Some(stream) = self.place(view, self.shares[share].owner) {
                self.shares[share].catch_up(self.begun_at);
                self.paths[path].head = Head::Is { share, stream };
                return Some((share, stream));
            }
            self.paths[path].take(&self.shares[share]);
        }
    }

    /// All that the stream has entered its paths, unless it is there already.
    fn enter(&mut self, owner: usize, now: Nanos) {
        for share in &self.shares[self.promised[owner].shares.clone()] {
            if let Some(path) = self.paths.get_mut(share.path)
                && !path.holds(share)
            {
                path.enter(share, now);
            }
        }
    }

    /// Records that the stream may have begun or ceased to have data to send since the last run began.
    fn check(&mut self, view: &View<'_>, owner: usize, now: Nanos) {
        let is_ready = self.place(view, owner).is_some();
        let promised = &mut self.promised[owner];
        if is_ready && !promised.is_ready {
            for share in &mut self.shares[promised.shares.clone()] {
                share.ready_at = now;
            }
        }
        promised.is_ready = is_ready;
        if is_ready {
            self.enter(owner, now);
            return;
        }
        // One that is not scheduled now would hide those behind it.
        for share in &self.shares[self.promised[owner].shares.clone()] {
            if let Some(path) = self.paths.get_mut(share.path) {
                path.take(share);
            }
        }
    }

    /// Rules 1 and 2 together. Where both have a packet, and both are late, there is too little for all, and
    /// precedence decides.
    fn scheduled(&mut self, view: &View<'_>, now: Nanos) -> Option<Decision> {
        let here = self.scheduled_here(view, now);
        let is_here_late = here.is_some_and(|here| self.is_late(here.share, now));
        let first = here.map(|here| self.shares[here.share].owner);
        let elsewhere = self.scheduled_elsewhere(view, now, first);
        let goes_first = |turn: &Packet| {
            let is_late = self.is_late(turn.share, now);
            let may_split = self.promised[self.shares[turn.share].owner].may_split;
            here.is_none() || may_split || is_late && is_here_late
        };
        match elsewhere.filter(goes_first) {
            Some(turn) => {
                if self.is_late(turn.share, now) {
                    self.paths[turn.path].back_off(now);
                }
                Some(self.send(turn))
            }
            None => here.map(|turn| {
                if !is_here_late {
                    self.paths[turn.path].recover();
                }
                self.send(turn)
            }),
        }
    }

    fn send(&mut self, packet: Packet) -> Decision {
        self.paths[packet.path].take(&self.shares[packet.share]);
        self.taken = Some(packet.share);
        Decision::Send {
            stream: packet.stream,
            channels: ChannelMask::only(packet.channel),
        }
    }

    /// Rule 1: the free path whose turn it is, and on it the stream whose turn it is. What is due goes by precedence,
    /// whatever path it is scheduled on, because it may be taken to any.
    fn scheduled_here(&mut self, view: &View<'_>, now: Nanos) -> Option<Packet> {
        let mut best: Option<((usize, Nanos), Packet)> = None;
        for path in 0..self.paths.len() {
            let Some(here) = self.paths[path].place(view) else {
                continue;
            };
            if view.channels[here].slots == 0 {
                continue;
            }
            while let Some((share, stream)) = self.turn(path, view, now) {
                let key = (self.rank(share, now), self.paths[path].due);
                let is_later = |&(first, _): &((usize, Nanos), Packet)| {
                    first.0 < key.0 || first.0 == key.0 && first.1 <= key.1 + TIE
                };
                if best.as_ref().is_some_and(is_later) {
                    break;
                }
                if let Some(channel) = self.soonest(view, share, stream, here) {
                    let packet = Packet {
                        path,
                        share,
                        stream,
                        channel,
                    };
                    best = Some((key, packet));
                    break;
                }
                // It waits for another path until the next run; those behind it need not.
                self.paths[path].take(&self.shares[share]);
                self.left_out.push(share);
            }
        }
        best.map(|(_, packet)| packet)
    }

    /// The place in the order of precedence of a share whose next packet is due; of all others, one behind those.
    fn rank(&self, share: usize, now: Nanos) -> usize {
        let share = &self.shares[share];
        if share.due < now + DUE {
            share.owner
        } else {
            usize::MAX
        }
    }

    /// Place where a share's next packet goes when its own channel, `here`, has a slot: there, unless it arrives
    /// sooner by another. `None`: it waits, because the others, once they have slots, deliver all that
    /// the stream has waiting before one packet arrives here.
    fn soonest(&self, view: &View<'_>, share: usize, stream: usize, here: usize) -> Option<usize> {
        if !self.promised[self.shares[share].owner].may_split {
            return Some(here);
        }
        let outlook = self.elastic.outlook();
        let waiting = &view.streams[stream];
        let by_here_s = (outlook.cautious_s(here) - GAIN.as_secs_f64()).max(0.0);
        let others =
            (0..view.channels.len()).filter(|&channel| channel != here && waiting.may_use(channel));
        let mut sooner_bytes = 0.0;
        let mut sooner = None;
        for other in others {
            sooner_bytes += outlook.delivered_within(other, by_here_s);
            let arrival_s = outlook.cautious_s(other);
            if view.channels[other].slots > 0
                && arrival_s < by_here_s
                && sooner.is_none_or(|(first_s, _)| arrival_s < first_s)
            {
                sooner = Some((arrival_s, other));
            }
        }
        if let Some((_, other)) = sooner {
            return Some(other);
        }
        let packet = view.channels[here].packet_bytes as u64;
        let rest = waiting.backlog_bytes.saturating_sub(packet) as f64;
        (sooner_bytes <= rest).then_some(here)
    }

    /// Rule 2: what another path should have sent already. Where rule 1 has a packet of the stream `first`, only
    /// what is due of those that precede it.
    fn scheduled_elsewhere(
        &mut self,
        view: &View<'_>,
        now: Nanos,
        first: Option<usize>,
    ) -> Option<Packet> {
        if first == Some(0) {
            return None;
        }
        let mut best: Option<Packet> = None;
        for path in 0..self.paths.len() {
            let here = self.paths[path].place(view);
            if here.is_some_and(|channel| view.channels[channel].slots > 0) {
                // Rule 1 has it.
                continue;
            }
            let Some((share, stream)) = self.turn(path, view, now) else {
                continue;
            };
            if first.is_some_and(|first| self.rank(share, now) >= first) {
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
        let outlook = self.elastic.outlook();
        let other =
            super::free_channels(view, stream).min_by_key(|&channel| outlook.one_way(channel))?;
        let may_split = self.promised[self.shares[share].owner].may_split;
        let is_shunned = !may_split && self.paths[path].is_backing_off(now);
        let Some(here) = here.filter(|_| !is_shunned) else {
            return Some(other);
        };
        let wait = outlook.next_arrival(here);
        let here = &view.channels[here];
        let may_leave = if may_split {
            // What waits behind this packet is what its own path will be busy with.
            let waiting = view.streams[stream].backlog_bytes;
            let rest = waiting.saturating_sub(here.packet_bytes as u64);
            wait + time_to_deliver(here, rest) > outlook.one_way(other) + GAIN
        } else {
            // Its packets would overtake each other, unless the path stands still.
            self.is_late(share, now) && wait > here.rtt_smoothed * 2
        };
        may_leave.then_some(other)
    }

    fn is_late(&self, share: usize, now: Nanos) -> bool {
        self.shares[share].lateness(now) > GRACE
    }

    /// Streams that wait for a promise, up to what they asked for, behind elastic ones of a higher priority, but for those that a plan has.
    /// O(streams + promised streams · log streams).
    fn afloat(
        &mut self,
        view: &View<'_>,
        now: Nanos,
        is_planned: impl Fn(StreamId) -> bool,
    ) -> Decision {
        for owner in 0..self.promised.len() {
            if self.promised[owner].is_afloat {
                self.place(view, owner);
            }
        }
        let (elastic, backlog) = self.split(now);
        let is_next = |&(index, owner): &(usize, &Promised)| {
            let here = view.streams.get(owner.place);
            owner.is_afloat
                && !is_planned(owner.stream)
                && here.is_some_and(|view| view.id == owner.stream && view.is_waiting())
                && backlog.is_scheduled(index)
        };
        let promised = backlog.promised.iter().enumerate();
        let afloat = promised.filter(is_next).map(|(_, owner)| owner.place);
        let Some(highest) = afloat.clone().map(|at| view.streams[at].priority).max() else {
            return Decision::Wait;
        };
        let is_before = |(_, stream): &(usize, &StreamView)| {
            stream.priority > highest
                && stream.is_waiting()
                && !is_planned(stream.id)
                && backlog.turn(stream) == Turn::Open
        };
        let before = view.streams.iter().enumerate().filter(is_before);
        match elastic.next_of(view, before.map(|(place, _)| place)) {
            Decision::Wait => elastic.next_of(view, afloat),
            decision => decision,
        }
    }

    /// Decides about promised data, and data that wait for a promise up to the rate that was asked for, unless the stream `is_planned`:
    /// without a promise it has no precedence over what a plan knows to be worth more.
    pub(super) fn next_promised(
        &mut self,
        view: &View<'_>,
        is_planned: impl Fn(StreamId) -> bool,
    ) -> Decision {
        if self.promised.is_empty() || view.channels.iter().all(|channel| channel.slots == 0) {
            return Decision::Wait;
        }
        self.elastic.look(view);
        let now = nanos(view.now);
        self.leave_out_taken();
        if let Some(decision) = self.scheduled(view, now) {
            return decision;
        }
        match self.has_afloat {
            true => self.afloat(view, now, is_planned),
            false => Decision::Wait,
        }
    }

    /// The rest by earliest arrival, of streams that are `eligible` in this run.
    fn next_elastic(
        &mut self,
        view: &View<'_>,
        eligible: impl Fn(&StreamView) -> bool,
    ) -> Decision {
        let mut hold = std::mem::take(&mut self.hold);
        let unheld = View {
            channels: hold.channels(view),
            ..*view
        };
        let decision = self.next_unheld(&unheld, eligible);
        self.hold = hold;
        decision
    }

    fn next_unheld(&mut self, view: &View<'_>, eligible: impl Fn(&StreamView) -> bool) -> Decision {
        if view.channels.iter().all(|channel| channel.slots == 0) {
            return Decision::Wait;
        }
        self.elastic.look(view);
        if self.promised.is_empty() {
            return self.elastic.next(view, eligible, |_| Turn::Open);
        }
        let now = nanos(view.now);
        let (elastic, backlog) = self.split(now);
        elastic.next(view, eligible, |stream| backlog.turn(stream))
    }

    /// As the rest goes, with channels as `view` has them for this decision alone.
    pub(super) fn next_of(
        &mut self,
        view: &View<'_>,
        eligible: impl Fn(&StreamView) -> bool,
    ) -> Decision {
        self.elastic.look_anew();
        let decision = self.next_elastic(view, eligible);
        self.elastic.look_anew();
        decision
    }

    /// A share that was taken from without anything sent takes no part until the next run.
    fn leave_out_taken(&mut self) {
        self.left_out.extend(self.taken.take());
    }

    /// The paths of the plan, by channel, each going on where it was.
    fn map_paths(&mut self, at: Nanos, plan: &Plan, before: &[Path]) {
        let mut loads: Vec<(ChannelId, f64)> = Vec::new();
        for assignment in &plan.assignments {
            let window = assignment.window.as_nanos() as f64;
            for &(channel, bytes) in &assignment.shares {
                match loads.iter_mut().find(|load| load.0 == channel) {
                    Some(load) => load.1 += bytes / window,
                    None => loads.push((channel, bytes / window)),
                }
            }
        }
        loads.sort_unstable_by_key(|load| load.0);
        for (index, (channel, load)) in loads.into_iter().enumerate() {
            let mut parts = Vec::new();
            for (share, part) in self.shares.iter_mut().enumerate() {
                if part.channel == channel {
                    (part.path, part.number) = (index, parts.len());
                    parts.push((share, self.promised[part.owner].constraint));
                }
            }
            let mut path = Path::new(channel, at, load, &parts);
            if let Some(old) = before.iter().find(|old| old.channel == channel) {
                path.resume(old);
            }
            self.paths.push(path);
        }
    }
}

impl Scheduler for Pgos {
    fn begin(&mut self, view: &View<'_>, changes: Changes<'_>) {
        self.leave_out_taken();
        let changes = match self.has_entered {
            true => changes,
            false => Changes::Any,
        };
        self.has_entered = true;
        self.elastic.begin(view, changes);
        let now = nanos(view.now);
        self.begun_at = now;
        for path in &mut self.paths {
            path.head = Head::Unknown;
        }
        match changes {
            Changes::Only(streams) => {
                for &stream in streams {
                    if let Some(owner) = self.find(stream) {
                        self.check(view, owner, now);
                    }
                }
            }
            Changes::Any => {
                for owner in 0..self.promised.len() {
                    self.check(view, owner, now);
                }
            }
        }
        while let Some(share) = self.left_out.pop() {
            let owner = self.shares[share].owner;
            if self.place(view, owner).is_some() {
                self.enter(owner, now);
            }
        }
    }

    fn next(&mut self, view: &View<'_>) -> Decision {
        match self.next_promised(view, |_| false) {
            Decision::Wait => self.next_elastic(view, |_| true),
            decision => decision,
        }
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        let id = view.streams[stream].id;
        let is_taken = |share: usize| self.promised[self.shares[share].owner].stream == id;
        let owner = match self.taken.filter(|&share| is_taken(share)) {
            Some(share) => Some(self.shares[share].owner),
            None => self.find(id),
        };
        let Some(owner) = owner else {
            self.elastic.sent(&view.streams[stream], bytes);
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
            self.elastic.sent(&view.streams[stream], bytes);
            return;
        };
        let share = &mut self.shares[index];
        share.catch_up(self.begun_at);
        share.charge(bytes);
        if let Some(path) = self.paths.get_mut(share.path) {
            path.charge(now, bytes);
            if taken.is_some() || path.holds(share) {
                path.enter(share, now);
            }
        }
        let (elastic, backlog) = self.split(now);
        if !backlog.is_scheduled(owner) {
            elastic.touch(id);
        }
    }

    fn forget(&mut self, stream: StreamId) {
        self.elastic.forget(stream);
    }
}

impl PromiseScheduler for Pgos {
    fn remap(&mut self, now: Instant, plan: &Plan) {
        let at = nanos(now);
        let mut before = std::mem::take(self);
        self.elastic = before.elastic;
        for share in &mut before.shares {
            share.catch_up(before.begun_at);
        }
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
                place: known.map_or(0, |owner| owner.place),
                shares: first..self.shares.len(),
            });
            self.by_stream.push((assignment.stream, owner));
        }
        self.by_stream.sort_unstable();
        self.has_afloat = self.promised.iter().any(|promised| promised.is_afloat);
        self.left_out.reserve(self.shares.len());
        self.map_paths(at, plan, &before.paths);
    }

    fn expect(&mut self, promised: Option<Instant>) {
        self.hold.expect(promised);
    }

    fn held_until(&self) -> Option<Instant> {
        self.hold.until
    }
}
