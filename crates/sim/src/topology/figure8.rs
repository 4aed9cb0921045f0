//! The testbed of IQ-Paths: two overlay paths with cross-traffic [IQ-Paths Figure 8].

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_link::{
    Config, Queue, RateSource, Traffic,
    duplex::Configs,
    traffic::{ParetoOnOff, Sizes},
};

use super::Topology;

/// Name of the path with the steadier and lower available bandwidth.
pub const PATH_A: &str = "path A";
/// Name of the path with the higher and more variable available bandwidth.
pub const PATH_B: &str = "path B";

/// Rate of every wire: "all link capacities are 100 Mbps" [IQ-Paths §VI-B].
const RATE: Rate = Rate::from_mbps(100);
/// One-way delay of each of the two shared wires. Assumed: the testbed "emulates a realistic wide area setting" without
/// further detail.
const DELAY_SHARED: Duration = Duration::from_millis(10);
/// One-way delay of every other wire. Assumed.
const DELAY_EDGE: Duration = Duration::from_millis(1);

/// The server N-1 reaches the client N-6 over N-3 and N-5 (path A) and over N-2 and N-4 (path B).
///
/// N-9 to N-11 send cross-traffic over the wire from N-3 to N-5, N-12 to N-14 over that from N-2 to N-4. Text and
/// caption name nodes, capacities and the shared wires. The figure's drawing is not available; the assignment of
/// senders to wires, the sinks N-7 and N-8, the letters of the paths, and all delays are assumed (`deviation:
/// figure8-testbed`).
///
/// The NLANR recordings are no longer available. They are replaced by Pareto on–off aggregates (α = 1.5, H = 0.75),
/// fitted to the available bandwidth per second in Table III: path B, as WFQ used it alone, 45.8 Mbit/s with a
/// deviation of 11.4, above 24.9 in 95 % and 19.7 in 99 % of the time; path A 38.6 Mbit/s, the rest of the 84.4 that
/// MSFQ got from both, and steady (`deviation: figure8-traffic`).
pub fn figure8() -> Topology {
    figure8_with(
        // Many slow sources: 61.4 Mbit/s in all three, with little variation.
        [(); 3].map(|()| users(60, Rate::from_kbps(682))),
        // Few fast sources: 54.2 Mbit/s in all three, with much variation.
        [(); 3].map(|()| users(3, Rate::from_kbps(12_044))),
    )
}

/// The network of [`figure8`] with other cross-traffic: that of N-9 to N-11 on path A, that of N-12 to N-14 on path B.
/// For recordings, as the paper replayed them, see [`Replay`](anabranch_link::traffic::Replay): three sources may play
/// one recording from different positions.
pub fn figure8_with(path_a: [Traffic; 3], path_b: [Traffic; 3]) -> Topology {
    let mut topology = Topology::default();
    let wire = |delay| {
        Configs::symmetric(Config {
            rate: RateSource::Constant(RATE),
            delay,
            // Assumed.
            queue: Queue::time(Duration::from_millis(50)),
            ..Config::default()
        })
    };
    topology
        .wire("N-1", "N-3", wire(DELAY_EDGE))
        .wire("N-3", "N-5", wire(DELAY_SHARED))
        .wire("N-5", "N-6", wire(DELAY_EDGE))
        .wire("N-1", "N-2", wire(DELAY_EDGE))
        .wire("N-2", "N-4", wire(DELAY_SHARED))
        .wire("N-4", "N-6", wire(DELAY_EDGE))
        .wire("N-5", "N-7", wire(DELAY_EDGE))
        .wire("N-4", "N-8", wire(DELAY_EDGE))
        .route(PATH_A, &["N-1", "N-3", "N-5", "N-6"])
        .route(PATH_B, &["N-1", "N-2", "N-4", "N-6"]);
    for (node, traffic) in ["N-9", "N-10", "N-11"].into_iter().zip(path_a) {
        topology
            .wire(node, "N-3", wire(DELAY_EDGE))
            .cross(&[node, "N-3", "N-5", "N-7"], traffic);
    }
    for (node, traffic) in ["N-12", "N-13", "N-14"].into_iter().zip(path_b) {
        topology
            .wire(node, "N-2", wire(DELAY_EDGE))
            .cross(&[node, "N-2", "N-4", "N-8"], traffic);
    }
    topology
}

/// Users of one node, each active half of the time.
fn users(sources: u32, peak: Rate) -> Traffic {
    Traffic::ParetoOnOff(ParetoOnOff {
        sources,
        peak,
        on_mean: Duration::from_millis(500),
        off_mean: Duration::from_millis(500),
        shape: 1.5,
        // Assumed.
        sizes: Sizes::Fixed(1_000),
    })
}
