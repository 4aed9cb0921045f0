//! Random overlays.

use std::time::Duration;

use anabranch_base::{Random, Rate, Seed};
use anabranch_route::{Estimate, Graph, Link, NodeIndex};

/// The source of every transfer, and its sink.
pub(super) const SOURCE: NodeIndex = NodeIndex(0);
pub(super) const SINK: NodeIndex = NodeIndex(1);
/// Part of the pairs of nodes that have a virtual link; source and sink always have one.
const DENSITY: f64 = 0.7;

/// A virtual link between two nodes, alike in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wire {
    pub(super) ends: [NodeIndex; 2],
    pub(super) rate: Rate,
    pub(super) delay: Duration,
}

/// Rates from 2 to 40 Mbit/s, all decades alike; one-way delays of 5 to 50 ms, in whole milliseconds.
fn wire(random: &mut Random, ends: [NodeIndex; 2]) -> Wire {
    Wire {
        ends,
        rate: Rate::from_kbps((2_000.0 * 20f64.powf(random.unit())) as u64),
        delay: Duration::from_millis(random.between(5, 50)),
    }
}

/// An overlay of `nodes` nodes.
pub(super) fn draw(seed: Seed, nodes: u32) -> Vec<Wire> {
    let mut random = seed.stream("overlay");
    let mut wires = Vec::new();
    for a in 0..nodes {
        for b in a + 1..nodes {
            let ends = [NodeIndex(a), NodeIndex(b)];
            let is_there = random.chance(DENSITY) || ends == [SOURCE, SINK];
            let wire = wire(&mut random, ends);
            wires.extend(is_there.then_some(wire));
        }
    }
    wires
}

/// The graph of an overlay, if its wires are as estimated.
pub(super) fn graph(nodes: u32, wires: &[Wire], estimates: &[Estimate]) -> Graph {
    let both = wires.iter().zip(estimates).flat_map(|(wire, &estimate)| {
        let [a, b] = wire.ends;
        [(a, b), (b, a)].map(|(from, to)| Link { from, to, estimate })
    });
    Graph::new(nodes as usize, both)
}

/// Estimates equal to the true parameters.
pub(super) fn truth(wires: &[Wire]) -> Vec<Estimate> {
    let estimate = |wire: &Wire| Estimate {
        bandwidth: wire.rate,
        delay_min: wire.delay,
        error: 0.0,
    };
    wires.iter().map(estimate).collect()
}
