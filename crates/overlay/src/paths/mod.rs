//! Choice of the paths that a message should take.
//!
//! | file | holds |
//! |---|---|
//! | `trust` | trust in published links, after measurements on routes in use |
//! | `map` | the graph of all links, from records and this node's measurements |
//! | `fault` | location of a path's failure, as far as its source knows |
//! | `keep` | routes of one destination, changed when a change is worthwhile |

mod fault;
pub(crate) mod keep;
pub(crate) mod map;
pub(crate) mod trust;

pub use fault::Fault;
pub use keep::{Path, Routes};
