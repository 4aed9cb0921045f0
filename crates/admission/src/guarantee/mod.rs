//! The mathematics of guarantees: what a distribution of available bandwidth lets one promise.
//!
//! Pure functions over anything that answers F(b) and M\[b\] ([`Distribution`]), and over simultaneous
//! samples of several paths (`anabranch_stats::joint::JointWindow`). Numbered equations, proofs and
//! counter-examples stand in `spec/guarantees.md`.
//!
//! | module | holds | equations |
//! |---|---|---|
//! | [`distribution`] | [`Distribution`], and what is left of a path after more important streams | (1)–(4) |
//! | [`served`] | Lemma 1: the probability that a window serves x packets, and its inverse | (5), (6) |
//! | [`late`] | Lemma 2: the mean number of late packets, and its inverse | (7), (8) |
//! | [`split`] | one stream over several paths: what holds of the joint distribution | (9)–(15) |
//! | [`buffers`] | sender and receiver buffers [IQ-Paths §V-C] | (16)–(21) |

pub mod buffers;
pub mod distribution;
pub mod late;
mod scale;
pub mod served;
pub mod split;

pub use distribution::{Distribution, Residual};
pub use scale::Scale;
