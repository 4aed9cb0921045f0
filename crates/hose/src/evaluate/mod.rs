//! Utility of a schedule.
//!
//! For each objective: every way to bind its variables to ADUs that pass their filters is a *context*; in each
//! context whose goal is true, its gains are added [Horde §6.3]. An ADU that is not sent is in no context, so
//! that it is worth the base utility, zero.
//!
//! | module | holds |
//! |---|---|
//! | `schedule` | [`Schedule`]: what the caller answers |
//! | `machine` | the value of one node in one context |
//! | `batch` | what an objective over one ADU adds in many slots, side by side |
//! | `contexts` | the contexts of one objective, with a bound |
//! | `objectives` | [`Objectives`]: those in force, their candidates, sums and faults |
//! | `faults` | [`Faults`]: what went wrong in an evaluation, and what it comes to |

mod batch;
mod contexts;
mod faults;
pub(crate) mod machine;
mod objectives;
mod schedule;

pub use batch::{Batch, Places};
pub(crate) use contexts::{ByStream, Candidates, Involving, visit};
pub use faults::Faults;
pub(crate) use machine::{Machine, constant};
pub use objectives::{
    InjectError, Injected, Limits, OBJECTIVES_MAX, ObjectiveId, Objectives, Single,
};
pub use schedule::Schedule;
