//! Lab: reproducible experiments, each a folder with plan, code and figures, and the program `anabranch-lab` that runs them.
//!
//! Every result has one shape: [`Outcome`], flat rows, units in the names of the fields.
//!
//! | module | holds |
//! |---|---|
//! | [`experiments`] | the experiments |
//! | [`kit`] | their common parts: recordings, applications, virtual worlds, output |

pub mod experiments;
pub mod kit;

pub use experiments::EXPERIMENTS;
pub use kit::{Experiment, Options, Outcome, Row};
