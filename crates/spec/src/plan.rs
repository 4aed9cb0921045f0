//! Plan: the rate of each promised stream on each path.

use std::time::Duration;

use anabranch_base::{ChannelId, StreamId};

/// The paths of one promised stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The stream.
    pub stream: StreamId,
    /// Its window.
    pub window: Duration,
    /// Bytes that a window needs.
    pub window_bytes: f64,
    /// x/y of its window constraint; 1 without one.
    pub constraint: f64,
    /// Its packets may be sent on other paths when theirs is late; else only when that stands still.
    pub may_split: bool,
    /// Bytes that each of its paths is to carry in a window; none is 0. Empty when nothing is promised
    /// yet: then it goes wherever it arrives first, before elastic streams of its priority or a lower one.
    pub shares: Vec<(ChannelId, f64)>,
}

/// The mapping of all promised streams, in order of precedence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The streams, the first in precedence first.
    pub assignments: Vec<Assignment>,
}

/// The rate that a promised stream may count on, and its precedence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The rate that each window needs, in bytes per second.
    pub bytes_per_s: f64,
    /// The window.
    pub window: Duration,
    /// Place in the order of precedence, 0 first: by probability, then bound on late packets, then window
    /// constraint [IQ-Paths §V-B.2].
    pub rank: u32,
}
