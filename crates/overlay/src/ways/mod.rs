//! Which ways a message should take.
//!
//! | file | holds |
//! |---|---|
//! | `trust` | how far published links are believed, after what was measured on routes in use |
//! | `map` | the graph of all links, from records and from what this node measures |
//! | `keep` | routes of one destination, changed when it is worth it |

pub(crate) mod keep;
pub(crate) mod map;
pub(crate) mod trust;

pub use keep::{Routes, Way};
