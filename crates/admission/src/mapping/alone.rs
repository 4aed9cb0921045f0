//! Largest rate of a stream that is mapped alone: what its paths could be promised for, if nothing else were.

use anabranch_base::Rate;
use anabranch_spec::ChannelMask;

use super::{Capacity, DIVIDED_MAX, Load, Request, free_capacity};

/// A rate above all that are mapped: where the capacity depends on the rate that is asked for, the bisection begins here.
const RATE_MAX: Rate = Rate::from_mbps(1_000_000);

/// The largest rate with which [`super::map`] finds a place for `request` alone, in bits per second, whatever its own rate is;
/// `None`: too little is known of its paths. O(paths) questions to `capacity`.
pub(crate) fn largest(request: &Request, capacity: &mut dyn Capacity) -> Option<f64> {
    let nothing = Load::new(capacity.paths());
    let any = Request {
        rate_bps: RATE_MAX.as_bps() as f64,
        ..request.clone()
    };
    let mut free = |set: ChannelMask| {
        let (free_bps, _) = free_capacity(&any, set, &nothing, capacity)?;
        Some(free_bps)
    };
    let paths = any.paths(nothing.0.len());
    let mut singles: Vec<(usize, f64)> = paths
        .filter_map(|path| Some((path, free(ChannelMask::only(path))?)))
        .collect();
    // The order in which a stream is divided.
    singles.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let (first, others) = singles.split_first()?;
    let (mut set, mut largest) = (ChannelMask::only(first.0), first.1);
    if request.is_divisible {
        for &(path, _) in others.iter().take(DIVIDED_MAX - 1) {
            set = set.with(path);
            largest = free(set).map_or(largest, |bps| largest.max(bps));
        }
    }
    Some(largest)
}
