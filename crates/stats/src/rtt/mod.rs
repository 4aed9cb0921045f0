//! Round-trip times: the smoothed one that transports use, and the distribution of the next one given
//! the last.
//!
//! | file | estimator | source |
//! |---|---|---|
//! | [`smoothed`] | smoothed RTT, variation, minimum, time-outs | RFC 6298, RFC 9002 §5 |
//! | [`conditional`] | p_k(x \| z): the RTT of packet i + k given that of packet i | [Horde §7.4.2] |

pub mod conditional;
pub mod smoothed;

pub use conditional::{ConditionalRtt, Forecast};
pub use smoothed::SmoothedRtt;
