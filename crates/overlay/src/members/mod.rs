//! Membership of the overlay, as far as this node knows it.
//!
//! | file | holds |
//! |---|---|
//! | `member_table` | the member table: states, versions, records, claims |
//! | `ring` | the order of members, from which monitors and sessions follow |

pub(crate) mod member_table;
pub(crate) mod ring;

pub use member_table::State;
pub(crate) use member_table::{MemberTable, Verdict};
