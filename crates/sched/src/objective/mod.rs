//! Objective-driven scheduling: of all assignments of ADUs to slots, one that is worth much to applications.
//!
//! A [`Cycle`] is what there is to decide about: slots that exist, phantom slots that are expected, ADUs that
//! wait, what was sent lately. Objectives define the worth of a schedule [Horde Chapters 4 to 6]; a [`Planner`]
//! looks for a good one.
//!
//! | module | holds |
//! |---|---|
//! | [`cycle`] | [`Cycle`], and [`Placed`]: a cycle with a schedule, as objectives see it |
//! | `just_sent` | [`JustSent`]: an ADU in the slot that it took, beside those sent before |
//! | [`turns`] | [`Turns`]: of which streams the ADUs of a cycle are |
//! | [`random_walk`] | the published search: the best of 25 random schedules |
//! | [`assign`] | ours: the exact assignment under objectives over one ADU, then local search under the others |
//! | `table` | what each ADU is worth in each slot by itself, and the assignment, kept from cycle to cycle |
//! | `concerns`, `worths` | which objectives an ADU passes; what they make of it in each slot |
//! | `keyed`, `reading`, `classes` | which ADUs and slots were there before; what objectives look at; slots that are alike |
//! | `prospects`, `local` | facts of all slots together, which tell the contexts that matter; that search |
//! | `lifetime` | slots in which an ADU would be late |

pub mod assign;
mod classes;
mod concerns;
pub mod cycle;
mod just_sent;
mod keyed;
mod lifetime;
mod local;
mod prospects;
pub mod random_walk;
mod reading;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_kept;
#[cfg(test)]
mod tests_library;
#[cfg(test)]
mod tests_narrow;
pub mod turns;
mod worths;

use std::fmt;

use anabranch_hose::Objectives;

pub use self::{
    assign::Assign,
    cycle::{Adu, Channel, Cycle, Fields, Outcome, Placed, Sent, Stream},
    just_sent::JustSent,
    random_walk::RandomWalk,
    turns::Turns,
};

/// The slot of each ADU of a cycle, as an index into [`Cycle::slots`]; `None`: not sent in this cycle.
pub type Schedule = Vec<Option<u32>>;

/// Bindings of variables to ADUs that the search for one plan tries before it takes the best that it has found. The evaluation under
/// way is completed, which is bounded by [`Limits::tries`](anabranch_hose::Limits) for each objective.
pub const BINDINGS_MAX: u64 = 200_000;

/// Most evaluations of an objective over one ADU for one slot in a plan of [`Assign`]; slots that are alike count once. ADUs that are left
/// are placed as if no objective were about them.
pub const EVALUATIONS_MAX: u64 = 1_000_000;

/// Looks for a good schedule.
pub trait Planner: Send + fmt::Debug {
    /// Writes a schedule of `cycle` into `schedule`: each ADU in at most one slot that is large enough, each
    /// slot with at most one ADU.
    fn plan(&mut self, cycle: &Cycle, objectives: &mut Objectives, schedule: &mut Schedule);
}
