//! Allocation of rates to streams: max–min fair shares of a capacity [Horde §3.2.3, Figure 3-2].
//!
//! The needs of promised streams are set aside first, in order of precedence. The rest goes to the highest
//! priority that asks for something, then to the next. Within a priority it rises like water in glasses
//! whose widths are the weights: each stream gets what it asks for, or the same per unit of weight as all
//! others that get less than they ask for.
//!
//! Whole numbers only, so that shares add up to the last unit: to the capacity, or to all that is asked
//! for. The unit is the caller's, such as bits per second.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Ask`], [`Allocator`]: reserves and priorities |
//! | `water` | one priority: the level, and the shares below it |
//! | `offers` | what a stream would get if it asked for more |

mod offers;
#[cfg(test)]
mod tests;
mod water;

use anabranch_spec::{Priority, WEIGHT_MAX};

/// Demand of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Those of a higher priority are served before all others.
    pub priority: Priority,
    /// Share among equals; taken as 1 to 10,000.
    pub weight: u32,
    /// Rate that it wants to send; `None`: elastic, as much as there is.
    pub demand: Option<u64>,
    /// It is never given more than this, whatever it wants.
    pub cap: Option<u64>,
    /// Its reserve, if it was promised one.
    pub claim: Option<Reserve>,
}

/// Reserve of a promised stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Place in the order of precedence, 0 first; equals in the order of the asks.
    pub rank: u32,
    /// The rate.
    pub rate: u64,
}

impl Ask {
    fn wants(&self) -> u64 {
        let demand = self.demand.unwrap_or(u64::MAX);
        demand.min(self.cap.unwrap_or(u64::MAX))
    }

    fn width(&self) -> u64 {
        u64::from(self.weight.clamp(1, WEIGHT_MAX))
    }
}

/// State of one stream while capacity is divided.
#[derive(Clone, Copy, Debug, Default)]
struct Glass {
    /// Demand beyond its reserve.
    wants: u64,
    width: u64,
    reserved: u64,
    /// Reserve that it could have if it demanded more.
    reservable: u64,
}

/// Streams of one priority.
#[derive(Clone, Copy, Debug)]
struct Tier {
    /// Its streams: a range of `Allocator::order`.
    start: usize,
    end: usize,
    /// Input left.
    capacity: u64,
}

/// Divides capacity among streams; keeps its buffers, so that it allocates no memory once it has seen as
/// many streams as there are.
///
/// It starts anew each time: that takes less than a tenth of a millisecond for 1,000 streams
/// (`benches/allocation.rs`), and depends on nothing that went before.
#[derive(Debug, Default)]
pub struct Allocator {
    glasses: Vec<Glass>,
    /// Invariant, once capacity was divided: with `unallocated` they add up to it.
    shares: Vec<u64>,
    offers: Vec<u64>,
    unallocated: u64,
    /// Indices of promised streams, by rank.
    claims: Vec<(u32, u32)>,
    /// Indices of all streams, by priority.
    order: Vec<u32>,
    tiers: Vec<Tier>,
    /// Buffer for the search of the level: what is wanted, and the width.
    candidates: Vec<(u64, u64)>,
    sorted: Vec<offers::Step>,
}

impl Allocator {
    /// Divides `capacity` among `asks`; the shares are in the same order. O(asks).
    pub fn allocate(&mut self, capacity: u64, asks: &[Ask]) -> &[u64] {
        self.offers.clear();
        self.unallocated = capacity;
        self.reserve(asks);
        self.sort_into_tiers(asks);
        for index in 0..self.tiers.len() {
            let tier = &mut self.tiers[index];
            tier.capacity = self.unallocated;
            let members = &self.order[tier.start..tier.end];
            let used = water::fill(
                self.unallocated,
                members,
                &self.glasses,
                &mut self.candidates,
                &mut self.shares,
            );
            self.unallocated -= used;
        }
        debug_assert_eq!(
            self.shares
                .iter()
                .map(|&share| u128::from(share))
                .sum::<u128>(),
            u128::from(capacity - self.unallocated),
            "all capacity is in one share, or left over"
        );
        &self.shares
    }

    /// Capacity that was left over, the last time.
    pub fn unallocated(&self) -> u64 {
        self.unallocated
    }

    /// Rate that each stream would get if it alone asked for as much as its cap allows, all others being as
    /// they were the last time: at least its share. O(asks · log asks).
    pub fn offers(&mut self, asks: &[Ask]) -> &[u64] {
        if self.offers.len() != asks.len() {
            self.find_offers(asks);
        }
        &self.offers
    }

    /// Sets aside what promised streams need, and makes a glass of every ask.
    fn reserve(&mut self, asks: &[Ask]) {
        self.glasses.clear();
        self.shares.clear();
        self.claims.clear();
        self.glasses.extend(asks.iter().map(|ask| Glass {
            wants: ask.wants(),
            width: ask.width(),
            ..Glass::default()
        }));
        self.shares.resize(asks.len(), 0);
        let promised = asks.iter().enumerate();
        self.claims.extend(
            promised.filter_map(|(index, ask)| Some((ask.claim.as_ref()?.rank, index as u32))),
        );
        self.claims.sort_unstable();
        for &(_, index) in &self.claims {
            let index = index as usize;
            let ask = &asks[index];
            let claimed = ask.claim.map_or(0, |claim| claim.rate);
            let glass = &mut self.glasses[index];
            glass.reservable = claimed
                .min(ask.cap.unwrap_or(u64::MAX))
                .min(self.unallocated);
            glass.reserved = glass.reservable.min(glass.wants);
            glass.wants -= glass.reserved;
            self.shares[index] = glass.reserved;
            self.unallocated -= glass.reserved;
        }
    }

    /// Orders the streams by priority, the highest first, equals as they come. O(asks).
    fn sort_into_tiers(&mut self, asks: &[Ask]) {
        let mut counts = [0_usize; 256];
        for ask in asks {
            counts[usize::from(ask.priority.0)] += 1;
        }
        self.tiers.clear();
        let mut start = 0;
        for count in counts.iter_mut().rev() {
            if *count > 0 {
                let end = start + *count;
                self.tiers.push(Tier {
                    start,
                    end,
                    capacity: 0,
                });
                *count = start;
                start = end;
            }
        }
        let mut next = counts;
        self.order.clear();
        self.order.resize(asks.len(), 0);
        for (index, ask) in asks.iter().enumerate() {
            let place = &mut next[usize::from(ask.priority.0)];
            self.order[*place] = index as u32;
            *place += 1;
        }
    }
}
