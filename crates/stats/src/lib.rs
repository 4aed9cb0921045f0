//! Path statistics: distributions, predictors and estimators over what the channels measured.
//!
//! One estimator per file; no clocks, no input or output. Estimators report when they know too little
//! instead of inventing a number.

pub mod bandwidth;
pub mod bottleneck;
pub mod change;
pub mod durable;
pub mod evidence;
pub mod forecast;
mod growing;
pub mod joint;
pub mod loss;
pub mod mean;
pub mod order;
pub mod regression;
pub mod rtt;
pub mod score;
