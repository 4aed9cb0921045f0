//! Report of the estimates of one path.

use std::time::Duration;

use anabranch_base::{ChannelId, Rate};

/// Measurements of a path over the last 500 windows with traffic. Values that are not known yet
/// are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct PathReport {
    /// Length of a window.
    pub window: Duration,
    /// Windows measured so far.
    pub samples: u64,
    /// The share of them in which the sender ran out of data, so that the path may carry more than was measured.
    pub censored_fraction: f64,
    /// Mean bandwidth, estimated with censoring taken into account; an underestimate where even the
    /// largest window was censored.
    pub bandwidth_mean: Option<Rate>,
    /// Bandwidth that 95 % of windows exceed.
    pub bandwidth_p5: Option<Rate>,
    /// Bandwidth that 90 % of windows exceed.
    pub bandwidth_p10: Option<Rate>,
    /// Bandwidth that half of all windows exceed.
    pub bandwidth_p50: Option<Rate>,
    /// Bandwidth that 10 % of windows exceed.
    pub bandwidth_p90: Option<Rate>,
    /// Rates that the next window will reach, with the probability of each.
    pub promises: [Promise; 3],
    /// Time that the next round-trip time will not exceed with probability 0.95, given the last.
    pub rtt_next_p95: Option<Duration>,
    /// Packets lost, of the last 2,000.
    pub loss_fraction: Option<f64>,
    /// Mean number of packets lost in a row.
    pub burst_mean_packets: Option<f64>,
    /// Channels that were found to share this one's bottleneck.
    pub shares_with: Vec<ChannelId>,
}

/// A rate that a path will reach in its next window, and the share of such promises that were kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The probability.
    pub probability: f64,
    /// The rate; `None` while too little is known.
    pub rate: Option<Rate>,
    /// The share of such promises that were kept.
    pub kept_fraction: Option<f64>,
}
