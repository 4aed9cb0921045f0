//! Scheduling of a session: the policy and its scheduler, the objectives in force, and the stream data that both use.

use anabranch_base::{Seed, StreamId};
use anabranch_sched::{AnyScheduler, Policy, Scheduler};

use super::{arrival_period::ArrivalPeriods, objectives::ActiveObjectives, planning::Planning};

/// Scheduling state. Key: session.
#[derive(Debug)]
pub(super) struct Scheduling {
    pub(super) policy: Policy,
    pub(super) scheduler: AnyScheduler,
    seed: Seed,
    pub(super) objectives: ActiveObjectives,
    pub(super) planning: Planning,
    pub(super) arrival_periods: ArrivalPeriods,
}

impl Scheduling {
    /// Scheduling by `policy`; `seed` is the seed of its random decisions.
    pub(super) fn new(policy: Policy, seed: Seed) -> Self {
        Self {
            policy,
            scheduler: policy.build(seed),
            seed,
            objectives: ActiveObjectives::default(),
            planning: Planning::default(),
            arrival_periods: ArrivalPeriods::default(),
        }
    }

    /// Replaces the policy and its scheduler.
    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        self.scheduler = policy.build(self.seed);
    }

    /// Forgets a stream that is over.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.scheduler.forget(stream);
        self.planning.forget(stream);
        self.arrival_periods.forget(stream);
    }
}
