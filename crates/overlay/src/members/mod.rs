//! Membership of the overlay, as far as this node knows it.
//!
//! | file | holds |
//! |---|---|
//! | `member_table` | the member table: states, versions, records, claims |
//! | `moves` | places of members in a table that takes over from another one |
//! | `ring` | the order of members, from which monitors and sessions follow |

pub(crate) mod member_table;
mod moves;
pub(crate) mod ring;

pub use member_table::State;
pub(crate) use member_table::{MemberTable, Verdict};
pub(crate) use moves::Moves;
