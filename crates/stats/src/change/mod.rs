//! Change of a distribution: the two-sample Kolmogorov–Smirnov test, once and sliding.
//!
//! | file | estimator | source |
//! |---|---|---|
//! | [`kolmogorov`] | the statistic D and its p-value, exact and asymptotic | Kolmogorov 1933, Smirnov 1939, Stephens 1970 |
//! | [`drift`] | a detector that follows a stream | [IQ-Paths §V-B.2]: re-map when a distribution moves |

pub mod drift;
pub mod kolmogorov;

pub use drift::{Drift, DriftDetector};
