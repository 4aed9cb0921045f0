//! Measurement of this node's own links.
//!
//! | file | holds |
//! |---|---|
//! | `tracker` | one link: messages and samples in, estimate out |
//! | `plan` | how the budget is divided among links, and which sizes are sent |

pub(crate) mod plan;
pub(crate) mod tracker;

pub(crate) use tracker::Tracker;
pub use tracker::{LinkEstimate, Source};
