//! Admission control: whether the promise that a stream demands can be given, on which paths, and what could be given instead.
//!
//! The evidence is the sample history of the paths' capacity; the mapping finds a set of paths for every promised stream
//! [IQ-Paths §V]; a promise that is in force is reviewed window by window, renewed, or withdrawn with notice. Nothing here
//! depends on packets or sessions: the input is rows of samples, the output grants, refusals and a plan for the scheduler.
//!
//! | module | holds |
//! |---|---|
//! | [`guarantee`] | rates that a distribution of bandwidth supports: Lemmas 1 and 2, splits, buffers |
//! | [`mapping`] | resource mapping: promised streams onto paths, and the guarantees that could be given instead |
//! | [`promise`] | promises to streams: admission, renewal, notice, withdrawal, statistics |

pub mod guarantee;
pub mod mapping;
pub mod promise;

pub use mapping::{Offer, Reduction, Term};
pub use promise::{
    Account, AdmissionController, Candidate, Explanation, Grant, Kind, LATE, LateAfter, Measured,
    Notice, PROBABILITIES, Prior, Promises, Reason, Refusal, Reservation, Standing, Steadiness,
    Uplink,
};
