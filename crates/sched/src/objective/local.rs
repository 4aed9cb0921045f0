//! Local search under objectives over several ADUs.
//!
//! An ADU moves to a free slot, two ADUs change places, or one is left out, as long as the whole gains. Where no such
//! step gains anything, a few ADUs are thrown to other slots at random and the search goes on from there, back to
//! the best schedule if it ends in a worse one: iterated local search [Lourenço, Martin & Stützle, Handbook of
//! Metaheuristics, 2003]. So ADUs that only pay off together are found together.

use anabranch_base::Random;
use anabranch_hose::Objectives;

use super::{BINDINGS_MAX, Cycle, Placed, Schedule, table::Table};

/// Throws in a row that lead to nothing better, for each ADU concerned, before the search ends.
const KICKS: usize = 4;
/// ADUs that are thrown at a time, at most.
const THROWN: u64 = 4;

/// The schedule to be improved.
pub(super) struct Problem<'p> {
    pub(super) cycle: &'p Cycle,
    pub(super) objectives: &'p mut Objectives,
    /// Worth by objectives over one ADU.
    pub(super) table: &'p Table,
    /// ADUs that an objective over several may be about.
    pub(super) concerned: &'p [u32],
}

/// Memory of a search.
#[derive(Debug, Default)]
pub(super) struct Local {
    /// The ADU of each slot.
    occupants: Vec<Option<u32>>,
    best: Schedule,
    /// Attempts that are left.
    left: usize,
    /// More than the schedule can still gain.
    hope: f64,
    /// More than the contexts of each ADU can gain as the schedule is, if that is known.
    slack: Vec<Option<f64>>,
}

/// Hope below which the search ends: what breaks ties is of this size.
const HOPE_MIN: f64 = 1e-6;

impl Local {
    /// True once the search has used up its attempts, or the work that one plan may cost.
    fn is_spent(&self, problem: &Problem<'_>) -> bool {
        self.left == 0 || self.hope < HOPE_MIN || problem.objectives.tried() >= BINDINGS_MAX
    }
}

impl Local {
    /// Improves `schedule` in at most so many attempts and [`BINDINGS_MAX`] bindings; it is never worth less than it was.
    pub(super) fn search(
        &mut self,
        problem: &mut Problem<'_>,
        attempts: usize,
        random: &mut Random,
        schedule: &mut Schedule,
    ) {
        self.left = attempts;
        self.hope = problem.objectives.combinatorial_most();
        if self.hope.is_finite() {
            // It begins with the best by objectives over one ADU: no other is worth more by these.
            let placed = Placed {
                cycle: problem.cycle,
                slots: schedule,
            };
            self.hope -= problem.objectives.combinatorial(&placed);
        }
        if self.is_spent(problem) {
            return;
        }
        self.occupy(problem, schedule);
        self.slack.clear();
        self.slack.resize(problem.cycle.adus.len(), None);
        self.descend(problem, schedule);
        self.best.clone_from(schedule);
        let mut in_vain = 0;
        while !self.is_spent(problem) && in_vain < KICKS * problem.concerned.len() {
            let thrown = self.kick(problem, random, schedule);
            self.hope -= thrown;
            let gained = thrown + self.descend(problem, schedule);
            if gained > 1e-9 {
                self.best.clone_from(schedule);
                in_vain = 0;
            } else {
                self.hope += gained;
                schedule.clone_from(&self.best);
                self.occupy(problem, schedule);
                self.slack.fill(None);
                in_vain += 1;
            }
        }
    }

    fn occupy(&mut self, problem: &Problem<'_>, schedule: &Schedule) {
        self.occupants.clear();
        self.occupants.resize(problem.cycle.slots.len(), None);
        for (adu, slot) in schedule.iter().enumerate() {
            if let Some(slot) = slot {
                self.occupants[*slot as usize] = Some(adu as u32);
            }
        }
    }

    /// Steps that gain something, until none does or attempts run out; what they gain.
    fn descend(&mut self, problem: &mut Problem<'_>, schedule: &mut Schedule) -> f64 {
        let slots = problem.cycle.slots.len() as u32;
        let mut gained = 0.0;
        // ADUs in a row that found nothing better.
        let mut settled = 0;
        for &adu in problem.concerned.iter().cycle() {
            let mut has_gained = false;
            for to in (0..slots).map(Some).chain([None]) {
                if self.is_spent(problem) {
                    return gained;
                }
                if schedule[adu as usize] == to {
                    continue;
                }
                self.left -= 1;
                if !self.may_gain(problem, schedule, adu, to) {
                    continue;
                }
                if let Some(gain) = self.step(problem, schedule, adu, to, is_gain) {
                    gained += gain;
                    self.hope -= gain;
                    has_gained = true;
                }
            }
            settled = if has_gained { 0 } else { settled + 1 };
            if settled >= problem.concerned.len() {
                break;
            }
        }
        gained
    }

    /// False if an ADU in that slot, and its occupant where the ADU is, are worth no more together than now: by the difference in the
    /// table, and all that their contexts could gain.
    fn may_gain(
        &mut self,
        problem: &mut Problem<'_>,
        schedule: &Schedule,
        adu: u32,
        to: Option<u32>,
    ) -> bool {
        let from = schedule[adu as usize];
        let table = problem.table;
        let mut most = table.of(adu, to) - table.of(adu, from);
        let other = to.and_then(|to| self.occupants[to as usize]);
        if let Some(other) = other {
            most += table.of(other, from) - table.of(other, to);
        }
        for mover in [Some(adu), other].into_iter().flatten() {
            most += self.slack(problem, schedule, mover);
        }
        most > 0.0
    }

    /// More than the contexts of an ADU can gain.
    fn slack(&mut self, problem: &mut Problem<'_>, schedule: &Schedule, adu: u32) -> f64 {
        if let Some(known) = self.slack[adu as usize] {
            return known;
        }
        let placed = Placed {
            cycle: problem.cycle,
            slots: schedule,
        };
        let mut slack = problem.objectives.combinatorial_most_of(adu);
        if slack.is_finite() {
            slack -= problem.objectives.combinatorial_involving(&placed, &[adu]);
        }
        self.slack[adu as usize] = Some(slack);
        slack
    }

    /// Throws two ADUs or more to other slots, whatever that costs; what it gains.
    fn kick(
        &mut self,
        problem: &mut Problem<'_>,
        random: &mut Random,
        schedule: &mut Schedule,
    ) -> f64 {
        let mut gained = 0.0;
        for _ in 0..random.between(2, THROWN) {
            let one = random.below(problem.concerned.len() as u64) as usize;
            let to = random.below(problem.cycle.slots.len() as u64 + 1) as u32;
            let to = (to as usize != problem.cycle.slots.len()).then_some(to);
            let adu = problem.concerned[one];
            self.left = self.left.saturating_sub(1);
            if schedule[adu as usize] != to {
                gained += self
                    .step(problem, schedule, adu, to, |_, _| true)
                    .unwrap_or(0.0);
            }
        }
        gained
    }

    /// Takes an ADU to another slot, its occupant to where the ADU was, and back again if what both are worth before and
    /// after is not `wanted`; what it gains if they stay.
    fn step(
        &mut self,
        problem: &mut Problem<'_>,
        schedule: &mut Schedule,
        adu: u32,
        to: Option<u32>,
        wanted: impl Fn(f64, f64) -> bool,
    ) -> Option<f64> {
        let cycle = problem.cycle;
        let from = schedule[adu as usize];
        let other = to.and_then(|to| self.occupants[to as usize]);
        let fits = |adu: u32, slot: Option<u32>| {
            slot.is_none_or(|slot| cycle.fits(adu as usize, slot as usize))
        };
        if !fits(adu, to) || other.is_some_and(|other| !fits(other, from)) {
            return None;
        }
        let pair = [adu, other.unwrap_or(adu)];
        let movers = &pair[..1 + usize::from(other.is_some())];
        let before = worth(problem, schedule, movers);
        schedule[adu as usize] = to;
        if let Some(other) = other {
            schedule[other as usize] = from;
        }
        let after = worth(problem, schedule, movers);
        if wanted(before, after) {
            self.slack.fill(None);
            for (slot, adu) in [(to, Some(adu)), (from, other)] {
                if let Some(slot) = slot {
                    self.occupants[slot as usize] = adu;
                }
            }
            return Some(after - before);
        }
        schedule[adu as usize] = from;
        if let Some(other) = other {
            schedule[other as usize] = to;
        }
        None
    }
}

fn is_gain(before: f64, after: f64) -> bool {
    after > before + 1e-9 * before.abs().max(1.0)
}

/// Worth of these ADUs where they are, with all contexts that they are in.
fn worth(problem: &mut Problem<'_>, schedule: &Schedule, movers: &[u32]) -> f64 {
    let placed = Placed {
        cycle: problem.cycle,
        slots: schedule,
    };
    let alone = movers
        .iter()
        .map(|&adu| problem.table.of(adu, schedule[adu as usize]));
    let alone: f64 = alone.sum();
    alone + problem.objectives.combinatorial_involving(&placed, movers)
}
