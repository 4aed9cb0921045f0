//! Shared bottlenecks of channels.
//!
//! RFC 8382 summarises each channel's delays over some ten seconds and groups channels with like
//! summaries. That needs no common clock and little data, but unlike bottlenecks may have like
//! summaries and one bottleneck may look unlike through two paths. A sender that sees both channels has
//! more: the delays themselves, at the same time. Packets that wait in one queue see it rise and fall
//! together, so the decision here is based on the cross-correlation of the two delay series, with the
//! standard deviation that it would have for independent queues, and on hysteresis; the summaries are
//! kept beside it, for they show whether a channel is congested at all.
//!
//! | file | estimator | source |
//! |---|---|---|
//! | [`flow`] | skewness, variability, oscillation, loss of one channel | RFC 8382 §3.2, §4 |
//! | [`group`] | groups by these | RFC 8382 §3.3 |
//! | [`coherence`] | cross-correlation of delays over lags, and what it is worth | Bartlett 1935; Rubenstein, Kurose & Towsley 2002 |
//! | `own_load` (private) | what a channel's own traffic explains of its delay | Haykin, Adaptive Filter Theory, §10.3 |
//! | [`detector`] | all of it for the channels of a session: verdicts and groups | |

pub mod coherence;
pub mod detector;
pub mod flow;
pub mod group;
mod own_load;

pub use coherence::{Coherence, CoherenceMatrix};
pub use detector::{Detector, Verdict};
pub use flow::{FlowStats, Parameters, Summary};
pub use group::{Group, Grouper};
