//! Measurement of this node's own links.
//!
//! | file | holds |
//! |---|---|
//! | `tracker` | one link: messages and samples in, estimate out |
//! | `plan` | division of the budget among links, and sizes of test messages |

pub(crate) mod plan;
pub(crate) mod tracker;

pub(crate) use tracker::Tracker;
pub use tracker::{LinkEstimate, Source};
