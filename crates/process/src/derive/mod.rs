//! Derived streams: each is a source stream and a pipeline, computed once for all of its subscribers.
//!
//! The host pushes each ADU of a source into the [`Table`], and takes from it what is queued for each subscriber whenever the
//! stream to that subscriber has room. A subscriber that does not take its ADUs affects its own queue only: of an unreliable
//! one the oldest ADUs are lost, each as a whole; a reliable one ends once its queue is full.
//!
//! | module | contents |
//! |---|---|
//! | `derivation` | one pipeline at work, and for whom |
//! | `distribution` | derived ADUs in the queues, within the memory of the subscribers |
//! | `paying` | fuel of WebAssembly modules, by the peers that they run for |
//! | `queue` | [`Delivery`], and the queue of one subscriber |
//! | `table` | [`Table`]: derivations and subscribers |
//! | `terms` | names, bounds, errors and results of the table |

mod derivation;
mod distribution;
mod paying;
mod queue;
mod table;
mod terms;

pub(crate) use distribution::charge_state;
pub use queue::{Delivery, Derived};
pub use table::Table;
pub use terms::{Bounds, DeriveError, Pushed, SourceId, Status, SubscriberId};
