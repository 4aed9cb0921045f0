//! Offers: the rate that a stream would get if it asked for more.
//!
//! A stream that wants little is given what it wants; that gives no information about what it could have.
//! Were it to want more, the level of the others would sink until all is used again.

use super::{Allocator, Ask, Glass, Tier};

/// One stream of a tier, in the order in which glasses fill up, with what comes before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    index: u32,
    wants: u64,
    width: u64,
    /// Demand of those before it, and the width of it and those after it.
    below: u128,
    above: u128,
}

impl Allocator {
    pub(super) fn find_offers(&mut self, asks: &[Ask]) {
        self.offers.clear();
        self.offers.extend_from_slice(&self.shares);
        for tier in &self.tiers {
            let members = &self.order[tier.start..tier.end];
            sort(members, &self.glasses, &mut self.sorted);
            for (place, step) in self.sorted.iter().enumerate() {
                let index = step.index as usize;
                if self.shares[index] < asks[index].wants() {
                    // It wants more already.
                    continue;
                }
                let glass = &self.glasses[index];
                let beyond = water_for(tier, glass, &self.sorted, place);
                let cap = asks[index].cap.unwrap_or(u64::MAX);
                let offer = glass.reservable.saturating_add(beyond).min(cap);
                self.offers[index] = offer.max(self.shares[index]);
            }
        }
    }
}

/// The members by what they want per width, the least first. O(members · log members).
fn sort(members: &[u32], glasses: &[Glass], sorted: &mut Vec<Step>) {
    sorted.clear();
    sorted.extend(members.iter().map(|&index| {
        let Glass { wants, width, .. } = glasses[index as usize];
        Step {
            index,
            wants,
            width,
            below: 0,
            above: 0,
        }
    }));
    sorted.sort_unstable_by(|a, b| {
        let left = u128::from(a.wants) * u128::from(b.width);
        let right = u128::from(b.wants) * u128::from(a.width);
        left.cmp(&right).then(a.index.cmp(&b.index))
    });
    let mut below = 0;
    let mut above: u128 = sorted.iter().map(|step| u128::from(step.width)).sum();
    for step in sorted {
        step.below = below;
        step.above = above;
        below += u128::from(step.wants);
        above -= u128::from(step.width);
    }
}

/// Rate that the stream at `place` would get beyond its reserve if it were elastic. O(log members).
fn water_for(tier: &Tier, glass: &Glass, sorted: &[Step], place: usize) -> u64 {
    // What it could reserve more comes out of the same water.
    let capacity = u128::from(
        tier.capacity
            .saturating_sub(glass.reservable - glass.reserved),
    );
    let (own_wants, own_width) = (u128::from(glass.wants), u128::from(glass.width));
    let others = &sorted[place + 1..];
    // Others are full for as long as the water suffices to fill them and this one to the same level.
    let full = others.partition_point(|step| {
        let (wants, width) = (u128::from(step.wants), u128::from(step.width));
        let below = step.below - own_wants;
        below <= capacity && wants * (step.above + own_width) <= (capacity - below) * width
    });
    let (below, above) = match others.get(full) {
        Some(step) => (step.below - own_wants, step.above + own_width),
        None => {
            let last = sorted[sorted.len() - 1];
            (last.below + u128::from(last.wants) - own_wants, own_width)
        }
    };
    let rest = capacity.saturating_sub(below);
    u64::try_from(rest * own_width / above).unwrap_or(u64::MAX)
}
