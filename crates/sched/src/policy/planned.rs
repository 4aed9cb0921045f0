//! Planned policies: ADUs are put into slots by a planner.

mod standing;
mod walk;

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_hose::{AduFact, Objective, Objectives, Shape, Variable, syntax::ast::VariableKind};

use self::standing::Standing;
pub use self::walk::Walk;
use super::pgos::Pgos;
use crate::{Coalesced, Decision, PlanScheduler, PromiseScheduler, Scheduler};
use crate::{
    objective::{Adu, Assign, Cycle, Planner, Schedule},
    view::{Changes, ChannelView, StreamView, View},
};
use anabranch_spec::{ChannelMask, Plan};

/// Time by which [`Assign`] looks ahead [Horde §7.3: "in the neighbourhood of 300 ms"].
const LOOK_AHEAD: Duration = Duration::from_millis(300);
/// Least time after which data that wait for a better slot are considered again.
const WAKE_MIN: Duration = Duration::from_millis(5);
/// The most: the worth of an ADU changes while it waits.
const WAKE_MAX: Duration = Duration::from_millis(50);
/// Slots of a channel in a cycle, besides one for each ADU that waits: a later one may be less likely to lose its packet.
const SLOTS_SPARE: usize = 2;
/// The round trip of a channel that is not counted on.
const NEVER: Duration = Duration::from_secs(3_600);
/// Overhead of a coalesced fragment, at most.
const HEAD_BYTES: usize = 24;

/// An ADU, or a fragment of one, that goes into a slot which exists.
#[derive(Clone, Copy, Debug)]
struct Entry {
    channel: ChannelId,
    stream: StreamId,
    adu: u64,
    bytes: u32,
    turn: u32,
    /// An objective over several ADUs is about it: it shares no packet.
    is_alone: bool,
}

/// Promised streams first, as [`Pgos`] has them; then what the planner puts into slots that exist. What it puts into
/// phantoms, or nowhere, waits.
///
/// By assignment, streams of which no ADU passes any objective's filter are left to the default policy: they take
/// as many slots as the assignment gave them, or gave nobody, as the default would; but they do not wait for
/// channels for which others wait already.
#[derive(Debug)]
pub(super) struct Planned {
    promised: Pgos,
    planner: Box<dyn Planner>,
    look_ahead: Duration,
    /// From one cycle to the next; zero: whenever it is asked.
    period: Duration,
    /// As many slots are enough for a cycle before its time.
    slots: usize,
    by_assignment: bool,
    /// No objective is about ADUs: the default policy has it all.
    is_free: bool,
    planned_at: Option<Instant>,
    wakes_at: Option<Instant>,
    /// By assignment: what the last plan left, and whether it still holds.
    standing: Standing,
    schedule: Schedule,
    /// True if it is of the cycle that came last.
    is_fresh: bool,
    /// The next one last.
    entries: Vec<Entry>,
    /// For each ADU of the cycle: whether an objective over it alone, and over several, is about it.
    concerned: Vec<(bool, bool)>,
    /// Streams that objectives are about, ascending.
    streams: Vec<StreamId>,
    /// Slots that other streams may take,
    left: usize,
    /// channels for which ADUs wait that objectives are about, by index in the view,
    awaited: ChannelMask,
    /// and channels as the other streams see them.
    channels: Vec<ChannelView>,
}

impl Planned {
    fn new(planner: Box<dyn Planner>, look_ahead: Duration) -> Self {
        Self {
            promised: Pgos::default(),
            planner,
            look_ahead,
            period: Duration::ZERO,
            slots: 1,
            by_assignment: false,
            is_free: false,
            planned_at: None,
            wakes_at: None,
            standing: Standing::default(),
            schedule: Schedule::new(),
            is_fresh: false,
            entries: Vec::new(),
            concerned: Vec::new(),
            streams: Vec::new(),
            left: 0,
            awaited: ChannelMask::NONE,
            channels: Vec::new(),
        }
    }

    /// By the best assignment, anew whenever something changes.
    pub(super) fn by_assignment(planner: Assign) -> Self {
        Self {
            by_assignment: true,
            is_free: true,
            ..Self::new(Box::new(planner), LOOK_AHEAD)
        }
    }

    /// By a planner that plans in cycles.
    pub(super) fn by_cycles(planner: Box<dyn Planner>, walk: Walk) -> Self {
        let ms = |ms: u16| Duration::from_millis(u64::from(ms));
        Self {
            period: ms(walk.period_ms),
            slots: usize::from(walk.slots.max(1)),
            ..Self::new(planner, ms(walk.look_ahead_ms))
        }
    }

    /// Finds which ADUs of the cycle objectives are about. O(objectives × ADUs).
    fn note_concerned(&mut self, cycle: &Cycle, objectives: &Objectives) {
        let is_known = self.by_assignment;
        self.concerned.clear();
        self.concerned.resize(cycle.adus.len(), (!is_known, false));
        self.streams.clear();
        if !is_known {
            return;
        }
        for single in objectives.singles() {
            for &adu in single.adus {
                if let Some(concerned) = self.concerned.get_mut(adu as usize) {
                    concerned.0 = true;
                }
            }
        }
        for adu in objectives.companions() {
            if let Some(concerned) = self.concerned.get_mut(adu as usize) {
                concerned.1 = true;
            }
        }
        let adus = cycle.adus.iter().zip(&self.concerned);
        let concerned = adus.filter(|(_, (alone, together))| *alone || *together);
        self.streams.extend(concerned.map(|(adu, _)| adu.stream));
        // ADUs are in order of streams.
        self.streams.dedup();
    }

    fn is_concerned(&self, stream: StreamId) -> bool {
        !self.by_assignment || is_among(&self.streams, stream)
    }

    /// Takes what goes into slots that exist.
    fn take_schedule(&mut self, view: &View<'_>, cycle: &Cycle) {
        self.entries.clear();
        let real = cycle.slots.iter().filter(|slot| !slot.is_phantom()).count();
        self.left = if self.by_assignment { real } else { 0 };
        self.awaited = ChannelMask::NONE;
        let mut wait_ms = f64::INFINITY;
        let mut has_left = false;
        for (at, (adu, slot)) in cycle.adus.iter().zip(&self.schedule).enumerate() {
            let slot = slot.map(|slot| &cycle.slots[slot as usize]);
            if !self.is_concerned(adu.stream) {
                continue;
            }
            match slot {
                Some(slot) if !slot.is_phantom() => {
                    self.left = self.left.saturating_sub(1);
                    self.entries
                        .push(entry(view, adu, slot.channel, self.concerned[at].1));
                }
                Some(phantom) => {
                    has_left = true;
                    wait_ms = wait_ms.min(phantom.wait_ms);
                    self.awaited = self.awaited.with(phantom.channel as usize);
                }
                None => has_left = true,
            }
        }
        self.entries
            .sort_unstable_by_key(|entry| std::cmp::Reverse((entry.turn, entry.stream, entry.adu)));
        self.wakes_at = if self.period > Duration::ZERO {
            Some(view.now + self.period)
        } else if has_left {
            let wait = wait_ms.min(WAKE_MAX.as_secs_f64() * 1e3) / 1e3;
            Some(view.now + Duration::from_secs_f64(wait).max(WAKE_MIN))
        } else {
            None
        };
    }

    /// The place of an entry's stream and channel in the view, if it can be sent.
    fn place(view: &View<'_>, entry: &Entry) -> Option<(usize, usize)> {
        let stream = view
            .streams
            .binary_search_by_key(&entry.stream, |stream| stream.id)
            .ok()?;
        let channel = (view.channels.iter()).position(|channel| channel.id == entry.channel)?;
        let waiting = &view.streams[stream];
        (waiting.is_waiting() && waiting.may_use(channel)).then_some((stream, channel))
    }
}

fn is_among(streams: &[StreamId], stream: StreamId) -> bool {
    streams.binary_search(&stream).is_ok()
}

/// True if the objective asks of ADUs of the stream what they cost, or which channel carries them.
fn binds(objective: &Objective, stream: StreamId) -> bool {
    let is_bound = |fact: &AduFact| {
        let is_of_time = matches!(
            fact,
            AduFact::Loss | AduFact::Latency | AduFact::Jitter | AduFact::Late
        );
        fact.is_of_slot() && !is_of_time
    };
    let of_adus = |variable: &&Variable| variable.kind() == VariableKind::Adu;
    let mut variables = objective.variables().iter().filter(of_adus);
    objective.reads().iter().any(is_bound)
        && variables.any(|variable| {
            let streams = variable.streams();
            streams.is_none_or(|streams| streams.contains(&stream))
        })
}

fn entry(view: &View<'_>, adu: &Adu, channel: u32, is_alone: bool) -> Entry {
    Entry {
        channel: view.channels[channel as usize].id,
        stream: adu.stream,
        adu: adu.sequence,
        bytes: adu.bytes,
        turn: adu.turn,
        is_alone,
    }
}

impl Scheduler for Planned {
    fn begin(&mut self, view: &View<'_>, changes: Changes<'_>) {
        self.promised.begin(view, changes);
        if self.by_assignment && self.wakes_at.is_some_and(|at| at <= view.now) {
            // Whoever plans in this run says when to plan next.
            self.wakes_at = None;
        }
    }

    fn next(&mut self, view: &View<'_>) -> Decision {
        if self.is_free {
            return self.promised.next(view);
        }
        let (by_assignment, streams) = (self.by_assignment, &self.streams);
        let is_planned = |stream| !by_assignment || is_among(streams, stream);
        let promised = self.promised.next_promised(view, is_planned);
        if promised != Decision::Wait {
            return promised;
        }
        while let Some(entry) = self.entries.pop() {
            if let Some((stream, channel)) = Self::place(view, &entry)
                && view.channels[channel].slots > 0
            {
                return Decision::SendAdu {
                    stream,
                    adu: entry.adu,
                    channels: ChannelMask::only(channel),
                };
            }
        }
        if self.left == 0 {
            return Decision::Wait;
        }
        self.left -= 1;
        self.channels.clear();
        self.channels.extend_from_slice(view.channels);
        for channel in self.awaited.iter() {
            if let Some(awaited) = self.channels.get_mut(channel)
                && awaited.slots == 0
            {
                awaited.rtt_smoothed = NEVER;
            }
        }
        let view = View {
            channels: &self.channels,
            ..*view
        };
        // Only by assignment is anything left.
        let concerned = &self.streams;
        self.promised
            .next_of(&view, |stream| !is_among(concerned, stream.id))
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        self.promised.sent(view, stream, channels, bytes);
        if self.by_assignment {
            self.standing.sent(view.streams[stream].id, bytes);
        }
    }

    fn forget(&mut self, stream: StreamId) {
        self.promised.forget(stream);
    }
}

impl PromiseScheduler for Planned {
    fn remap(&mut self, now: Instant, plan: &Plan) {
        self.promised.remap(now, plan);
    }

    fn expect(&mut self, promised: Option<Instant>) {
        self.promised.expect(promised);
    }

    fn held_until(&self) -> Option<Instant> {
        self.promised.held_until()
    }
}

impl PlanScheduler for Planned {
    fn prepare(&mut self, objectives: &Objectives) -> Option<Duration> {
        let is_about_adus = |shape| shape != Shape::Streams;
        let mut shapes = objectives.iter().map(|(_, objective)| objective.shape());
        self.is_free = self.by_assignment && !shapes.any(is_about_adus);
        self.entries.clear();
        self.left = 0;
        if self.by_assignment {
            self.standing.compare(objectives);
        } else if self.period.is_zero() {
            self.wakes_at = None;
        }
        (!self.is_free).then_some(self.look_ahead)
    }

    fn is_due(&self, view: &View<'_>) -> bool {
        !self.by_assignment || !self.standing.holds(view)
    }

    fn slots_each(&self, adus: usize) -> usize {
        if self.by_assignment {
            adus.saturating_add(SLOTS_SPARE)
        } else {
            usize::MAX
        }
    }

    fn plan(&mut self, view: &View<'_>, cycle: &Cycle, objectives: &mut Objectives) {
        let is_due = |at: Instant| at == view.now || view.now.since(at) >= self.period;
        let slots: usize = view.channels.iter().map(|channel| channel.slots).sum();
        self.is_fresh = self.planned_at.is_none_or(is_due) || slots >= self.slots;
        if !self.is_fresh {
            return;
        }
        self.planned_at = Some(view.now);
        self.planner.plan(cycle, objectives, &mut self.schedule);
        self.note_concerned(cycle, objectives);
        self.take_schedule(view, cycle);
        if self.by_assignment {
            let until = self.wakes_at.unwrap_or(view.now + WAKE_MAX);
            let concerned = &self.streams;
            let is_planned = |stream| is_among(concerned, stream);
            self.standing
                .record(view, (cycle, &self.schedule), until, is_planned);
        }
    }

    fn planned(&self) -> Option<&[Option<u32>]> {
        self.is_fresh.then_some(&self.schedule)
    }

    fn coalesce(
        &mut self,
        view: &View<'_>,
        channels: ChannelMask,
        space: usize,
    ) -> Option<Coalesced> {
        let may_go = |entry: &Entry| {
            let place = Self::place(view, entry).filter(|_| !entry.is_alone);
            place.filter(|&(_, channel)| channels.contains(channel))
        };
        let fits = |entry: &Entry| entry.bytes as usize + HEAD_BYTES <= space;
        // The next one is last. What fits goes before a part of what does not.
        let whole = |entry: &Entry| fits(entry) && may_go(entry).is_some();
        let found = self.entries.iter().rposition(whole);
        let found = found.or_else(|| (self.entries.iter()).rposition(|e| may_go(e).is_some()));
        if let Some(at) = found {
            let entry = &mut self.entries[at];
            let coalesce = Coalesced {
                stream: may_go(entry)?.0,
                adu: Some(entry.adu),
            };
            if fits(entry) {
                self.entries.remove(at);
            } else {
                entry.bytes -= space.saturating_sub(HEAD_BYTES) as u32;
            }
            return Some(coalesce);
        }
        let may_come = |stream: &StreamView| {
            stream.is_waiting()
                && channels.iter().all(|channel| stream.may_use(channel))
                && !self.is_concerned(stream.id)
        };
        let stream = view.streams.iter().position(may_come)?;
        Some(Coalesced { stream, adu: None })
    }

    /// By assignment, unless an objective may keep what it is about off a channel: for what it costs, or which it is.
    fn may_copy(&self, objectives: &Objectives, stream: StreamId) -> bool {
        self.by_assignment
            && !objectives
                .iter()
                .any(|(_, objective)| binds(objective, stream))
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.wakes_at
    }
}

#[cfg(test)]
mod tests;
