//! Delay as a linear function of message size: the effective bandwidth and the least delay of a link.
//!
//! | file | estimator | source |
//! |---|---|---|
//! | [`mod@line`] | least squares, online, with forgetting | [Daemons §3, Eqs. (5), (6) for degree 1] |
//! | [`theil_sen`] | the median of slopes, for outliers | Theil 1950, Sen 1968 |
//! | [`link`] | effective bandwidth and d_min, with the fallback; EBW of a path | [Daemons §3, Eqs. (2)–(4)] |
//! | [`bound`] | the distribution-free bound on the fit's error | [Daemons §3, Eqs. (8), (10)] |

pub mod bound;
pub mod line;
pub mod link;
pub mod theil_sen;

pub use line::{Line, LineFit, Scatter};
pub use link::{DelaySource, LinkEstimate, LinkEstimator};
pub use theil_sen::TheilSen;
