//! Questions about several channels at once: rows of simultaneous samples, correlation.
//!
//! Quantiles of single channels do not add up: that two channels each keep their 95 % quantile does not
//! mean that both do with 95 %. So the samples of all channels for one sub-window are one row, and
//! splits, sums and conjunctions are counted over rows (DESIGN §5; erratum to [IQ-Paths] Theorem 1).
//!
//! | file | estimator | source |
//! |---|---|---|
//! | [`rows`] | the sliding matrix; P(b₁ ≥ x₁ and b₂ ≥ x₂); levels of sums and splits | [IQ-Paths §IV, §V-B.2] |
//! | [`correlation`] | Pearson and Spearman with p-values | [Horde §A.5.2, Figure A-25] |
//! | [`effective`] | how many independent samples a series is worth | Bartlett 1935; Pyper & Peterman 1998 |
//! | [`student`] | the t distribution's tail | Abramowitz & Stegun §26.5, §26.7 |

pub mod correlation;
pub mod effective;
pub mod rows;
pub mod student;

pub use correlation::{Correlation, Correlator, Kind};
pub use rows::{Cell, JointWindow, Level, Share};
