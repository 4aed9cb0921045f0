//! Place of an operator: where on the paths from a source to its subscribers it costs least.
//!
//! A candidate is the source itself or a node that both sides authorise. Its legs are known by the rates that they had in windows, its
//! processor by the time of a unit of work, the operator by its work and by what it lets pass. All pairs of windows of two legs are taken
//! as equally probable, so that the share of them in which the demand is kept is the probability of keeping it, and is computed exactly. One
//! operator (a pipeline counts as one) has one place, so that looking at each candidate finds the best.
//!
//! | file | holds |
//! |---|---|
//! | `leg` | [`Leg`]: the rates and the delay of a leg |
//! | `estimate` | [`Estimate`]: what an operator costs at a candidate |
//! | `choice` | [`best`]: the candidate with the least cost |
//! | `meter` | [`Meter`]: means of a stream where its operator is |
//! | `keeper` | [`Keeper`]: hysteresis, so that places do not alternate |

mod choice;
mod estimate;
mod keeper;
mod leg;
mod meter;
#[cfg(test)]
mod tests;

pub use choice::best;
pub use estimate::{Candidate, Demand, Estimate, Flow, Last, Part, Processor};
pub use keeper::{Keeper, Rules};
pub use leg::{Leg, RATES_MAX};
pub use meter::{Derived, Measured, Meter, Totals};
