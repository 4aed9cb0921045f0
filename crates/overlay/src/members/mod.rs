//! Who is in the overlay, as far as this node knows.
//!
//! | file | holds |
//! |---|---|
//! | `roster` | the table of members: states, versions, records, claims |
//! | `ring` | the order of members: who monitors whom, who keeps a session with whom |

pub(crate) mod ring;
pub(crate) mod roster;

pub use roster::State;
pub(crate) use roster::{Roster, Verdict};
