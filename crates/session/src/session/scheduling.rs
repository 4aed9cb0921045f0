//! Scheduling of a session: the policy and its scheduler, the objectives in force, and the stream data that both use.

use anabranch_base::{Instant, Seed, StreamId};
use anabranch_sched::{AnyScheduler, Policy, Scheduler};
use anabranch_spec::Plan;

use super::{arrival_period::ArrivalPeriods, objectives::ActiveObjectives, planning::Planning};
use crate::transcript::Recorder;

/// Scheduling state. Key: session.
#[derive(Debug)]
pub(super) struct Scheduling {
    pub(super) policy: Policy,
    pub(super) scheduler: AnyScheduler,
    /// The scheduler is not that of the policy.
    is_foreign: bool,
    seed: Seed,
    pub(super) objectives: ActiveObjectives,
    pub(super) planning: Planning,
    pub(super) arrival_periods: ArrivalPeriods,
    /// `None` while nothing is recorded.
    pub(super) recorder: Option<Box<Recorder>>,
}

impl Scheduling {
    /// Scheduling by `policy`; `seed` is the seed of its random decisions.
    pub(super) fn new(policy: Policy, seed: Seed) -> Self {
        Self {
            policy,
            scheduler: policy.build(seed),
            is_foreign: false,
            seed,
            objectives: ActiveObjectives::default(),
            planning: Planning::default(),
            arrival_periods: ArrivalPeriods::default(),
            recorder: None,
        }
    }

    /// Replaces the policy and its scheduler.
    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        self.is_foreign = false;
        self.scheduler = policy.build(self.seed);
        if let Some(recorder) = &mut self.recorder {
            recorder.policy(Some(policy), self.seed);
        }
    }

    /// Replaces the scheduler by one that has no name; the policy's name stays.
    pub(super) fn set_scheduler(&mut self, scheduler: AnyScheduler) {
        self.scheduler = scheduler;
        self.is_foreign = true;
        if let Some(recorder) = &mut self.recorder {
            recorder.policy(None, self.seed);
        }
    }

    /// Hands a mapping of promised streams to the scheduler.
    pub(super) fn remap(&mut self, now: Instant, plan: &Plan) {
        if let Some(recorder) = &mut self.recorder {
            recorder.plan(now, plan);
        }
        self.scheduler.remap(now, plan);
    }

    /// Begins to record in memory of so many bytes. `is_start`: the session begins now.
    pub(super) fn record(&mut self, now: Instant, bytes_max: usize, is_start: bool) {
        let mut recorder = Box::new(Recorder::new(now, bytes_max, is_start));
        let policy = (!self.is_foreign).then_some(self.policy);
        recorder.policy(policy, self.seed);
        self.recorder = Some(recorder);
    }

    /// Forgets a stream that is over.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.scheduler.forget(stream);
        if let Some(recorder) = &mut self.recorder {
            recorder.over(stream);
        }
        self.planning.forget(stream);
        self.arrival_periods.forget(stream);
    }
}
