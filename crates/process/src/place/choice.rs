//! The candidate with the least cost.

use std::cmp::Ordering;

use super::estimate::{Demand, Estimate};

/// The best of the estimates that are known, by its place in the list; `None` if none is. Those that keep the demand are better than those that
/// do not; of the former, the one with the least time is the best, and of the latter, the one with the largest share of windows, then the
/// one whose tightest part is used least. Of equal ones it is the first.
pub fn best(estimates: &[Option<Estimate>], demand: &Demand) -> Option<usize> {
    let known = estimates
        .iter()
        .enumerate()
        .filter_map(|(at, estimate)| Some((at, estimate.as_ref()?)));
    let best = known.min_by(|(_, a), (_, b)| compare(a, b, demand));
    best.map(|(at, _)| at)
}

/// Less: `a` is better.
pub(super) fn compare(a: &Estimate, b: &Estimate, demand: &Demand) -> Ordering {
    let by_share = || match (a.keeps(demand), b.keeps(demand)) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => b.share.total_cmp(&a.share),
    };
    by_share()
        .then_with(|| a.time_s.total_cmp(&b.time_s))
        .then_with(|| a.use_share.total_cmp(&b.use_share))
}
