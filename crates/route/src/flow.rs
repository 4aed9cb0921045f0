//! Bounds on every set of paths: the maximum flow, and the quickest flow.
//!
//! Both are references for the greedy choice of [`crate::multiple`]: they may take back part of an earlier path if that
//! lets two others through.

mod residual;

use std::time::Duration;

use anabranch_base::Rate;

use crate::{
    graph::{Graph, Path},
    quickest::{Query, Target},
};
use residual::Residual;

/// Maximum rate of all paths together from source to sink, within the relays' headroom (`query.bytes` and `hops_max` are
/// ignored): by augmenting paths of least delay, O(paths · links · log nodes).
///
/// # Panics
/// As [`crate::quickest::Finder::quickest`].
pub fn maximum(graph: &Graph, query: &Query<'_>) -> Rate {
    let mut residual = Residual::new(graph, query);
    let mut total = 0u64;
    while let Some(step) = residual.shortest() {
        total = total.saturating_add(step.bandwidth_bps);
        residual.augment(&step);
    }
    Rate::from_bps(total)
}

/// Quickest flow: the earliest completion of a message over any number of paths, and paths that reach it.
#[derive(Debug, Clone, PartialEq)]
pub struct QuickestFlow {
    /// Time at which the message is complete.
    pub finish: Duration,
    /// Paths that can be used together, the shortest first.
    pub paths: Vec<Path>,
}

/// Earliest completion of a message by any division over any paths, when each carries at a steady rate: the quickest flow
/// [Burkard, Dlaska, Klinz 1993; Ford and Fulkerson 1958]. `None` if there is no path.
///
/// Paths are added in the order of delay, in the residual network of the flow (which may take back part of an earlier
/// one), while that makes the message earlier: T(f) = (r + Σ bᵢ·dᵢ)/Σ bᵢ falls exactly while the next delay is below it.
/// Relays' headroom is respected, `hops_max` is ignored. O(paths · links · log nodes).
///
/// # Panics
/// As [`crate::quickest::Finder::quickest`].
pub fn quickest(graph: &Graph, query: &Query<'_>) -> Option<QuickestFlow> {
    let mut residual = Residual::new(graph, query);
    let mut target = Target::message(query.bytes);
    while let Some(step) = residual.shortest() {
        if target.time() <= step.delay_ns {
            break;
        }
        target.choose(step.bandwidth_bps, step.delay_ns);
        residual.augment(&step);
    }
    let finish = target.time();
    (finish < u64::MAX).then(|| QuickestFlow {
        finish: Duration::from_nanos(finish),
        paths: residual.into_paths(graph),
    })
}

#[cfg(test)]
mod tests;
