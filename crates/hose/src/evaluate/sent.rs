//! Evaluation of what was sent, for the tallies of objectives.
//!
//! A planner evaluates many slots for an ADU, most of which it never takes. A tally counts an ADU once, in the slot that it
//! took, with the others that were sent before it.

use anabranch_base::Instant;

use super::{
    contexts::{ByStream, Candidates, Involving, visit},
    faults::Faults,
    machine::Machine,
    objectives::{Entry, ObjectiveId, Objectives},
    schedule::Schedule,
    tally::Tally,
};
use crate::program::Shape;

/// Bindings that are tried for one objective and one ADU; the tally leaves out the rest.
const TRIES: u64 = 2_000;

/// Working memory, kept between calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    by_stream: ByStream,
    candidates: Candidates,
}

impl Objectives {
    /// Records that an ADU was sent: its contexts in `schedule` count in the tallies of objectives over ADUs. `schedule` holds
    /// the ADU in its slot and, if objectives over several ADUs are in force, some that were sent before it.
    ///
    /// O(objectives over one ADU + objectives over several × ADUs in `schedule`), and at most 2,000 contexts of an objective over several; no allocation but for
    /// memory that is kept.
    pub fn note_sent<S: Schedule + ?Sized>(&mut self, now: Instant, schedule: &S, adu: u32) {
        let Sent {
            by_stream,
            candidates,
        } = &mut self.sent;
        let mut entries = self.entries.iter();
        if entries.any(|entry| entry.objective.shape() == Shape::Combinatorial) {
            by_stream.fill(schedule);
        }
        for entry in &mut self.entries {
            if entry.objective.shape() == Shape::Streams {
                continue;
            }
            let found = if entry.objective.shape() == Shape::Single {
                candidates.find_only(&entry.objective, schedule, adu)
            } else {
                candidates.find(&entry.objective, schedule, by_stream)
            };
            let these = &[adu];
            let involving = Involving::These(these);
            entry.count(now, schedule, candidates, involving, found);
        }
    }

    /// Counts the contexts of objectives over streams alone, which no ADU decides, in their tallies; to be called at regular
    /// times.
    pub fn note_streams<S: Schedule + ?Sized>(&mut self, now: Instant, schedule: &S) {
        let none = Candidates::default();
        for entry in &mut self.entries {
            if entry.objective.shape() == Shape::Streams {
                entry.count(now, schedule, &none, Involving::Any, Faults::NONE);
            }
        }
    }

    /// Contexts, utility and faults of each objective within the last minute, in order of injection.
    pub fn tallies(&self, now: Instant) -> impl Iterator<Item = (ObjectiveId, Tally)> + '_ {
        self.entries.iter().map(move |entry| {
            let mut tally = entry.tally.sum(now);
            tally.faults = tally.faults.union(entry.fresh);
            (entry.id, tally)
        })
    }
}

impl Entry {
    /// Adds the contexts of a schedule to the tally.
    fn count<S: Schedule + ?Sized>(
        &mut self,
        now: Instant,
        schedule: &S,
        candidates: &Candidates,
        involving: Involving<'_>,
        found: Faults,
    ) {
        let objective = &self.objective;
        let mut tally = Tally::default();
        let mut faults = found;
        let mut machine = Machine::new(objective, schedule);
        let mut at = |machine: &mut Machine<'_, S>| {
            let before = std::mem::take(&mut machine.faults);
            let gain = machine.outcome(objective);
            tally.contexts += 1;
            tally.contexts_met += u64::from(gain.is_some());
            tally.utility += gain.unwrap_or(0.0);
            tally.contexts_faulty += u64::from(!machine.faults.is_empty());
            faults = faults.union(machine.faults);
            machine.faults = before;
        };
        visit(
            objective,
            candidates,
            &mut machine,
            involving,
            TRIES,
            &mut at,
        );
        self.add_faults(faults);
        tally.faults = std::mem::take(&mut self.fresh);
        if tally != Tally::default() {
            self.tally.add(now, &tally);
        }
    }
}
