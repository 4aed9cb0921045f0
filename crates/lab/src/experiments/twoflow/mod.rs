//! Stored video in two flows [Two-flow §5, §6].
//!
//! | file | holds |
//! |---|---|
//! | `rates` | one and two reliable flows [Figures 4, 9] |
//! | `session` | one session, segment by segment [Figures 5, 6] |
//! | `sessions` | 1 to 50 sessions [Figure 7, Tables I, II] |
//! | `arrivals` | sessions that join and leave [Figures 8, 13] |
//! | `evita` | prefixes and losses by number of sessions [Figures 10, 11, 12] |
//! | `adapt` | a pipe that is too narrow [Figure 14] |
//! | `film`, `parts` | the film; the schedule of its parts in each flow |
//! | `flow`, `pumped`, `sink` | senders of one flow, or of all of them; receivers |
//! | `plan`, `packets` | the plan of a session; the sizes of its packets |
//! | `scene`, `measure` | the pipe; results of a session |

mod adapt;
mod arrivals;
mod evita;
mod film;
mod flow;
mod measure;
mod packets;
mod parts;
mod plan;
mod pumped;
mod rates;
mod scene;
mod session;
mod sessions;
mod sink;

pub use adapt::EXPERIMENT as ADAPT;
pub use arrivals::EXPERIMENT as ARRIVALS;
pub use evita::{LOSSES, PREFIX};
pub use film::{FilmError, check_film};
pub use rates::EXPERIMENT as RATES;
pub use session::EXPERIMENT as SESSION;
pub use sessions::EXPERIMENT as SESSIONS;
