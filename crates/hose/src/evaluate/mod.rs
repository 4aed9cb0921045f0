//! Utility of a schedule.
//!
//! For each objective: every binding of its variables to ADUs that pass their filters is a *context*; in each context
//! whose goal is true, its gains are added [Horde §6.3]. An ADU that is not sent is in no context, so it is worth the
//! base utility, zero.
//!
//! | module | contents |
//! |---|---|
//! | `schedule` | [`Schedule`]: the facts that the caller supplies |
//! | `machine` | evaluation of one node in one context |
//! | `batch` | gains of an objective over one ADU in many slots at once |
//! | `contexts` | the contexts of one objective, with a bound |
//! | `objectives` | [`Objectives`]: those in force, their candidates, sums and faults |
//! | `range`, `reach`, `narrow` | [`Range`]s of values over all slots; the contexts that some slot makes count |
//! | `tally` | [`Tally`]: contexts, utility and faults of what was sent lately |
//! | `sent` | evaluation of what was sent, for tallies |
//! | `faults` | [`Faults`]: errors of an evaluation, and their results |

mod batch;
mod contexts;
mod faults;
pub(crate) mod machine;
mod narrow;
mod objectives;
mod range;
mod reach;
mod schedule;
mod sent;
mod tally;

pub use batch::{Batch, Places};
pub(crate) use contexts::{ByStream, Candidates, Involving, visit};
pub use faults::Faults;
pub(crate) use machine::{Machine, constant};
pub use objectives::{
    InjectError, Injected, Limits, OBJECTIVES_MAX, ObjectiveId, Objectives, Single,
};
pub use range::{Outlook, Range};
pub use schedule::Schedule;
pub use tally::{TALLY_WINDOW, Tally};
