//! Objectives over several ADUs, narrowed to the contexts that a search can change.

use super::{
    contexts::Involving,
    objectives::{Entry, Objectives},
    range::Outlook,
    schedule::Schedule,
};
use crate::program::{Objective, Shape};

/// Most bindings that are tried to narrow all objectives; those that come after are not narrowed further than to single ADUs.
const TRIES: u64 = 131_072;

fn is_over_several(objective: &Objective) -> bool {
    objective.shape() == Shape::Combinatorial
}

impl Objectives {
    /// Leaves out contexts of objectives over several ADUs that add nothing in any slot, until the next [`begin`](Self::begin), which is
    /// to be called before. `schedule` answers for ADUs without slots; `outlook` for all slots that they may take. Utilities
    /// do not change by this; only their computation does. Faults of contexts whose goal may be true are still found.
    ///
    /// O(candidates + contexts of the filters), times the nodes of each objective; at most 32,768 bindings for one objective, and 131,072 for
    /// all.
    pub fn narrow<S, O>(&mut self, schedule: &S, outlook: &O)
    where
        S: Schedule + ?Sized,
        O: Outlook + ?Sized,
    {
        self.is_narrowed = true;
        let mut left = TRIES;
        for entry in &mut self.entries {
            let Entry {
                objective,
                candidates,
                reach,
                ..
            } = entry;
            if is_over_several(objective) {
                let tried = reach.find((objective, candidates), schedule, outlook, left);
                left -= tried;
                self.tried += tried;
            }
        }
    }

    /// As [`utility_involving`](Self::utility_involving), of objectives over several ADUs alone: the part that a linear
    /// assignment by [`singles`](Self::singles) ignores.
    pub fn combinatorial_involving<S: Schedule + ?Sized>(
        &mut self,
        schedule: &S,
        adus: &[u32],
    ) -> f64 {
        self.sum(schedule, is_over_several, Involving::These(adus))
    }

    /// As [`utility`](Self::utility), of objectives over several ADUs alone.
    pub fn combinatorial<S: Schedule + ?Sized>(&mut self, schedule: &S) -> f64 {
        self.sum(schedule, is_over_several, Involving::Any)
    }

    /// An upper bound of [`combinatorial`](Self::combinatorial) in all schedules; infinite unless the set was [narrowed](Self::narrow).
    pub fn combinatorial_most(&self) -> f64 {
        if !self.is_narrowed {
            return f64::INFINITY;
        }
        self.several().map(|entry| entry.reach.most()).sum()
    }

    /// An upper bound of [`combinatorial_involving`](Self::combinatorial_involving) of one ADU, in all schedules; infinite unless the set
    /// was [narrowed](Self::narrow). Each context counts with the most that it can add, at least 0.
    pub fn combinatorial_most_of(&self, adu: u32) -> f64 {
        if !self.is_narrowed {
            return f64::INFINITY;
        }
        self.several().map(|entry| entry.reach.most_of(adu)).sum()
    }

    /// ADUs that objectives over several ADUs concern, in any order and possibly repeated; as of the last
    /// [`begin`](Self::begin) or [`narrow`](Self::narrow).
    pub fn companions(&self) -> impl Iterator<Item = u32> + '_ {
        let is_narrowed = self.is_narrowed;
        self.several().flat_map(move |entry| {
            let all = (0..entry.objective.adus.len()).filter(move |_| !is_narrowed);
            let all = all.flat_map(|number| entry.candidates.of(number).iter().copied());
            let near = is_narrowed.then(|| entry.reach.adus());
            all.chain(near.into_iter().flatten())
        })
    }

    fn several(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.entries.iter();
        entries.filter(|entry| is_over_several(&entry.objective))
    }
}
