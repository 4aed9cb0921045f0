//! Interface of a policy: one trait that every scheduler implements, one for promised streams, one for planning.

use std::{fmt, time::Duration};

use anabranch_base::{Instant, StreamId};
use anabranch_hose::Objectives;
use anabranch_spec::{ChannelMask, Plan};

use crate::{
    objective::Cycle,
    view::{Changes, View},
};

/// One decision of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Put the next fragment of this stream into a slot of each of these channels.
    Send {
        /// Index into [`View::streams`].
        stream: usize,
        /// Indices into [`View::channels`]; not empty, each with a slot.
        channels: ChannelMask,
    },
    /// Put the next fragment of this ADU of the stream, and not of another, into a slot of each of these channels.
    /// If it has none, the scheduler is asked again. Only of a [`PlanScheduler`].
    SendAdu {
        /// Index into [`View::streams`].
        stream: usize,
        /// Its sequence.
        adu: u64,
        /// As above.
        channels: ChannelMask,
    },
    /// Leave the remaining slots unused for now. The scheduler is asked again when anything changes.
    Wait,
}

/// Data that shares a packet with the fragment for which it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesced {
    /// Index into [`View::streams`].
    pub stream: usize,
    /// Its ADU; `None`: the one that it sends next.
    pub adu: Option<u64>,
}

/// The scheduler of one session: chooses the stream and the channels of each packet.
///
/// The session calls [`begin`](Self::begin), then [`next`](Self::next) until the answer is [`Decision::Wait`], and after each
/// decision to send calls [`sent`](Self::sent) with its outcome; the view is up to date before every call.
pub trait Scheduler: Send + fmt::Debug {
    /// Begins a run of decisions. Until the next run no stream begins to wait, streams and channels keep their places in
    /// the view, and of channels only slots and bytes in flight change. O(streams that changed · log streams).
    fn begin(&mut self, view: &View<'_>, changes: Changes<'_>) {
        let _ = (view, changes);
    }

    /// Decides about one fragment. Must not answer with a channel that has no slot.
    fn next(&mut self, view: &View<'_>) -> Decision;

    /// Records that a decision was carried out: `bytes` application bytes were sent on each of its channels.
    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize);

    /// Forgets a stream that is closed.
    fn forget(&mut self, stream: StreamId);
}

/// A scheduler that serves promised streams by the plan of the admission controller.
pub trait PromiseScheduler: Scheduler {
    /// Takes a new mapping of promised streams to paths. Data sent in the current window still counts.
    fn remap(&mut self, now: Instant, plan: &Plan);

    /// Time at which promised data are expected, if the application continues as before; called after
    /// [`Scheduler::begin`].
    fn expect(&mut self, promised: Option<Instant>);

    /// Time until which slots are held back for promised data that are expected. They count as in use with respect to
    /// the network.
    fn held_until(&self) -> Option<Instant>;
}

/// A scheduler that decides about single ADUs, by objectives or otherwise: it plans a cycle of ADUs and slots, and then decides by
/// that plan. It serves promised streams first.
///
/// [`prepare`](Self::prepare) precedes [`Scheduler::begin`]; [`plan`](Self::plan) follows it, and is called again when the
/// scheduler waits although it sent something since and slots are left; each time if [`is_due`](Self::is_due).
pub trait PlanScheduler: PromiseScheduler {
    /// Prepares a run of decisions: `None` if no single ADU matters in it. Otherwise it plans, with the slots that are
    /// expected within this time.
    fn prepare(&mut self, objectives: &Objectives) -> Option<Duration>;

    /// True if a cycle is to be planned now: false if a plan would leave waiting what waits, as the last one did. Asked when there is
    /// a slot and something waits.
    fn is_due(&self, view: &View<'_>) -> bool {
        let _ = view;
        true
    }

    /// Most slots of one channel that matter to a plan for so many ADUs, or fragments of them: the cycle needs no more. All of them unless a
    /// policy states fewer.
    fn slots_each(&self, adus: usize) -> usize {
        let _ = adus;
        usize::MAX
    }

    /// Plans a cycle, when there is a slot and something waits: ADUs that may be sent now, slots that exist and those that are
    /// expected. The channels of slots are indices into [`View::channels`].
    fn plan(&mut self, view: &View<'_>, cycle: &Cycle, objectives: &mut Objectives);

    /// The slot of each ADU of the cycle that [`plan`](PlanScheduler::plan) was last called with; `None` if that cycle was not
    /// planned, because its time had not come.
    fn planned(&self) -> Option<&[Option<u32>]> {
        None
    }

    /// Chooses data to share a packet on these channels in which `space` bytes are left.
    fn coalesce(
        &mut self,
        view: &View<'_>,
        channels: ChannelMask,
        space: usize,
    ) -> Option<Coalesced>;

    /// True if fragments in flight of this stream may be sent once more, on another channel than the one that they were
    /// assigned to, where that keeps them in time.
    fn may_copy(&self, objectives: &Objectives, stream: StreamId) -> bool;

    /// Time at which it is to be asked again although nothing has changed.
    fn wakes_at(&self) -> Option<Instant>;
}

/// A scheduler with the traits that it implements. Calls of traits that it does not implement do nothing.
#[derive(Debug)]
pub enum AnyScheduler {
    /// Makes no difference for promised streams, and does not plan.
    Plain(Box<dyn Scheduler>),
    /// Serves promised streams.
    Promises(Box<dyn PromiseScheduler>),
    /// Plans, and serves promised streams.
    Plans(Box<dyn PlanScheduler>),
}

impl AnyScheduler {
    fn promises(&mut self) -> Option<&mut dyn PromiseScheduler> {
        match self {
            Self::Plain(_) => None,
            Self::Promises(scheduler) => Some(scheduler.as_mut()),
            Self::Plans(scheduler) => Some(scheduler.as_mut()),
        }
    }

    fn plans(&mut self) -> Option<&mut dyn PlanScheduler> {
        match self {
            Self::Plans(scheduler) => Some(scheduler.as_mut()),
            _ => None,
        }
    }

    /// See [`PromiseScheduler::remap`].
    pub fn remap(&mut self, now: Instant, plan: &Plan) {
        if let Some(scheduler) = self.promises() {
            scheduler.remap(now, plan);
        }
    }

    /// See [`PromiseScheduler::expect`].
    pub fn expect(&mut self, promised: Option<Instant>) {
        if let Some(scheduler) = self.promises() {
            scheduler.expect(promised);
        }
    }

    /// See [`PromiseScheduler::held_until`].
    pub fn held_until(&self) -> Option<Instant> {
        match self {
            Self::Plain(_) => None,
            Self::Promises(scheduler) => scheduler.held_until(),
            Self::Plans(scheduler) => scheduler.held_until(),
        }
    }

    /// See [`PlanScheduler::prepare`].
    pub fn prepare(&mut self, objectives: &Objectives) -> Option<Duration> {
        self.plans()?.prepare(objectives)
    }

    /// See [`PlanScheduler::is_due`].
    pub fn is_due(&self, view: &View<'_>) -> bool {
        match self {
            Self::Plans(scheduler) => scheduler.is_due(view),
            _ => false,
        }
    }

    /// See [`PlanScheduler::slots_each`].
    pub fn slots_each(&self, adus: usize) -> usize {
        match self {
            Self::Plans(scheduler) => scheduler.slots_each(adus),
            _ => usize::MAX,
        }
    }

    /// See [`PlanScheduler::plan`].
    pub fn plan(&mut self, view: &View<'_>, cycle: &Cycle, objectives: &mut Objectives) {
        if let Some(scheduler) = self.plans() {
            scheduler.plan(view, cycle, objectives);
        }
    }

    /// See [`PlanScheduler::planned`].
    pub fn planned(&self) -> Option<&[Option<u32>]> {
        match self {
            Self::Plans(scheduler) => scheduler.planned(),
            _ => None,
        }
    }

    /// See [`PlanScheduler::coalesce`].
    pub fn coalesce(
        &mut self,
        view: &View<'_>,
        channels: ChannelMask,
        space: usize,
    ) -> Option<Coalesced> {
        self.plans()?.coalesce(view, channels, space)
    }

    /// See [`PlanScheduler::may_copy`].
    pub fn may_copy(&self, objectives: &Objectives, stream: StreamId) -> bool {
        match self {
            Self::Plans(scheduler) => scheduler.may_copy(objectives, stream),
            _ => false,
        }
    }

    /// See [`PlanScheduler::wakes_at`].
    pub fn wakes_at(&self) -> Option<Instant> {
        match self {
            Self::Plans(scheduler) => scheduler.wakes_at(),
            _ => None,
        }
    }
}

impl Scheduler for AnyScheduler {
    fn begin(&mut self, view: &View<'_>, changes: Changes<'_>) {
        match self {
            Self::Plain(scheduler) => scheduler.begin(view, changes),
            Self::Promises(scheduler) => scheduler.begin(view, changes),
            Self::Plans(scheduler) => scheduler.begin(view, changes),
        }
    }

    fn next(&mut self, view: &View<'_>) -> Decision {
        match self {
            Self::Plain(scheduler) => scheduler.next(view),
            Self::Promises(scheduler) => scheduler.next(view),
            Self::Plans(scheduler) => scheduler.next(view),
        }
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        match self {
            Self::Plain(scheduler) => scheduler.sent(view, stream, channels, bytes),
            Self::Promises(scheduler) => scheduler.sent(view, stream, channels, bytes),
            Self::Plans(scheduler) => scheduler.sent(view, stream, channels, bytes),
        }
    }

    fn forget(&mut self, stream: StreamId) {
        match self {
            Self::Plain(scheduler) => scheduler.forget(stream),
            Self::Promises(scheduler) => scheduler.forget(stream),
            Self::Plans(scheduler) => scheduler.forget(stream),
        }
    }
}
