//! Estimation of paths: from the outcomes of packets to distributions of bandwidth, loss and delay, shared bottlenecks, and the
//! expected outcome of the next packet.
//!
//! One [`Estimator`] for each session takes each packet once, when it is sent and when its outcome is known; an outcome is
//! put into the order of sending once ([`PacketOrder`]), and every statistic that needs the order takes it from there.
//! Nothing here depends on a clock, a transport or a session: a recorded run can be replayed through it.
//!
//! | module | holds |
//! |---|---|
//! | [`estimator`] | [`Estimator`]: the estimates of all paths of a session |
//! | [`order`] | [`PacketOrder`]: outcomes in the order of sending |
//! | `paths` | windows of bandwidth, losses, round trips, shared bottlenecks |
//! | [`on_time`] | the probability that data sent now arrives in time |
//! | [`report`] | [`PathReport`]: the estimates of one path |
//! | [`model`] | [`ChannelModel`](model::ChannelModel)s: the expected outcome of a packet, by technology; slots and phantoms |
//! | `models` | the models of a session's channels, while it plans |

pub mod estimator;
pub mod model;
mod models;
pub mod on_time;
pub mod order;
mod paths;
pub mod report;

pub use estimator::{Acked, Estimator};
pub use order::{Outcome, PacketOrder, Settled};
pub use paths::{Ends, Kept, RECENT_WINDOWS, Replaced};
pub use report::{PathReport, Promise};
