//! Classes of streams by destination.
//!
//! One host may be reached at a higher rate than another. If the sum of both rates were divided among all
//! streams alike, those to the slower host would be given what they cannot use. So each class has a
//! capacity of its own, that of the paths to its destination, and is divided by itself [Horde §3.2.3].
//!
//! If the sender's own interface holds less than all destinations together, the thesis notes that
//! every destination would get the same number of slots, which suits only destinations of equal
//! importance. Hence a weight for each class.

use super::{Allocator, Ask};
use anabranch_spec::Priority;

/// The streams to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class<'a> {
    /// Capacity of the paths to the destination.
    pub capacity: u64,
    /// Share of the sender's own capacity among classes; taken as 1 to 10,000.
    pub weight: u32,
    /// Its streams.
    pub asks: &'a [Ask],
}

/// Divides the sender's capacity (`None`: more than all destinations together) among classes, by weight and
/// up to what each can use, then each class's part among its streams. `on_shares` is called for every class in order,
/// with the shares of its streams.
///
/// Promises of a class do not precede the demands of other classes: promises hold within the
/// capacity of their class. O(classes + asks).
pub fn divide_classes(
    allocator: &mut Allocator,
    sender: Option<u64>,
    classes: &[Class<'_>],
    mut on_shares: impl FnMut(usize, &[u64]),
) {
    let usable = |class: &Class<'_>| {
        let wanted: u128 = class.asks.iter().map(|ask| u128::from(ask.wants())).sum();
        u64::try_from(wanted).map_or(class.capacity, |wanted| wanted.min(class.capacity))
    };
    let wants: Vec<Ask> = classes
        .iter()
        .map(|class| Ask {
            priority: Priority::NORMAL,
            weight: class.weight,
            demand: Some(usable(class)),
            cap: None,
            claim: None,
        })
        .collect();
    let parts = allocator
        .allocate(sender.unwrap_or(u64::MAX), &wants)
        .to_vec();
    for (index, (class, part)) in classes.iter().zip(parts).enumerate() {
        on_shares(index, allocator.allocate(part, class.asks));
    }
}
