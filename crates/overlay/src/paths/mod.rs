//! Paths that a message should take.
//!
//! | file | holds |
//! |---|---|
//! | `trust` | how far published links are believed, after what was measured on routes in use |
//! | `map` | the graph of all links, from records and from what this node measures |
//! | `fault` | where a way failed, as its source knows it |
//! | `keep` | routes of one destination, changed when it is worth it |

mod fault;
pub(crate) mod keep;
pub(crate) mod map;
pub(crate) mod trust;

pub use fault::Fault;
pub use keep::{Path, Routes};
