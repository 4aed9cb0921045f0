//! The three sites of the transport daemons [Daemons Figure 5].

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_link::{
    Config, Queue, RateSource, Traffic,
    duplex::Configs,
    traffic::{ParetoOnOff, Sizes},
};

use super::Topology;

/// Name of the direct path.
pub const DIRECT: &str = "direct";
/// Name of the path through the daemon at GaTech.
pub const VIA_GATECH: &str = "via GaTech";

/// Network in which ORNL reaches LSU directly and through GaTech; there is a wire between every two sites.
///
/// From the paper: the direct path has a minimum delay of 35 ms (§3, Figure 2); a single stream got 1.14
/// Mbit/s on the mean of the 21 transfers of Table 1, between 0.66 and 1.88; two paths together got 2.41.
/// Assumed, because Figure 5 has no numbers: 3 Mbit/s bottlenecks with self-similar cross-traffic that
/// leaves 1.14 Mbit/s on the direct wire and 1.27 between GaTech and LSU, 10 and 30 ms of delay on the
/// two hops through GaTech (`deviation: three-sites`).
pub fn three_sites() -> Topology {
    let mut topology = Topology::default();
    let wire = |rate, delay_ms| {
        Configs::symmetric(Config {
            rate: RateSource::Constant(rate),
            delay: Duration::from_millis(delay_ms),
            queue: Queue::time(Duration::from_millis(100)),
            ..Config::default()
        })
    };
    topology
        .wire("ORNL", "LSU", wire(Rate::from_mbps(3), 35))
        .wire("ORNL", "GaTech", wire(Rate::from_mbps(10), 10))
        .wire("GaTech", "LSU", wire(Rate::from_mbps(3), 30))
        .cross(&["ORNL", "LSU"], users(Rate::from_kbps(1_860)))
        .cross(&["GaTech", "LSU"], users(Rate::from_kbps(1_730)))
        .route(DIRECT, &["ORNL", "LSU"])
        .route(VIA_GATECH, &["ORNL", "GaTech", "LSU"]);
    topology
}

/// Twenty users, each active a quarter of the time, with this mean rate together.
fn users(mean: Rate) -> Traffic {
    Traffic::ParetoOnOff(ParetoOnOff {
        sources: 20,
        peak: mean * (4.0 / 20.0),
        on_mean: Duration::from_millis(500),
        off_mean: Duration::from_millis(1_500),
        shape: 1.5,
        sizes: Sizes::Imix,
    })
}
