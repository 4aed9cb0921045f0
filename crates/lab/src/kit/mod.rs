//! Common parts of experiments.
//!
//! | module | holds |
//! |---|---|
//! | `experiment` | [`Experiment`], its options and its outcome |
//! | [`mod@recording`], [`corpus`] | recorded paths, and the selection of those that a run uses |
//! | [`sources`] | applications that make streams, in the lab and live |
//! | [`streams`] | sources over paths in virtual time, window by window |
//! | [`future`] | the scheduler that knows the future of simulated links |
//! | [`output`] | CSV, plots, and the page of `anabranch-lab report` |
//! | [`parallel`] | independent parts on all cores |

pub mod corpus;
pub(crate) mod experiment;
pub mod future;
pub mod output;
pub mod parallel;
pub mod recording;
pub(crate) mod series;
pub mod sources;
pub mod streams;

pub use experiment::{Experiment, Options, Outcome, Row};
