//! One priority: the level to which the water rises, and the shares below it.

use super::Glass;

/// The level as a fraction: `rest` is divided among streams with this much `width` together, those that
/// get less than they want.
#[derive(Clone, Copy, Debug)]
struct Level {
    rest: u64,
    width: u64,
}

/// Adds to the shares of `members` what each gets of `capacity`, and returns the sum: the capacity, or
/// all that is wanted if that is less. No share exceeds what its stream wants; two that want more differ
/// from the exact fraction by less than one unit. O(members).
pub(super) fn fill(
    capacity: u64,
    members: &[u32],
    glasses: &[Glass],
    candidates: &mut Vec<(u64, u64)>,
    shares: &mut [u64],
) -> u64 {
    candidates.clear();
    candidates.reserve(members.len());
    let thirsty = members
        .iter()
        .map(|&index| &glasses[index as usize])
        .filter(|glass| glass.wants > 0);
    candidates.extend(thirsty.map(|glass| (glass.wants, glass.width)));
    let Some(level) = find_level(capacity, candidates) else {
        let mut used = 0;
        for &index in members {
            let wants = glasses[index as usize].wants;
            shares[index as usize] += wants;
            used += wants;
        }
        return used;
    };
    let (whole, part) = (level.rest / level.width, level.rest % level.width);
    // What rounding down has left over so far, in units of 1/width: the next stream's.
    let mut left_over = 0;
    for &index in members {
        let Glass { wants, width, .. } = glasses[index as usize];
        // At the level or below it: by fractions, so that ties are exact.
        let is_full = u128::from(wants) * u128::from(level.width)
            <= u128::from(level.rest) * u128::from(width);
        shares[index as usize] += if is_full {
            wants
        } else {
            left_over += part * width;
            let extra = left_over / level.width;
            left_over %= level.width;
            whole * width + extra
        };
    }
    capacity
}

/// The level at which `capacity` is used up; `None` when it suffices for all that is wanted.
///
/// Halves the candidates until it is known of each whether its glass is full, instead of adding unit after
/// unit as Figure 3-2 does. O(candidates), their order does not matter.
fn find_level(capacity: u64, candidates: &mut [(u64, u64)]) -> Option<Level> {
    let wanted: u128 = candidates.iter().map(|&(wants, _)| u128::from(wants)).sum();
    if wanted <= u128::from(capacity) {
        return None;
    }
    // What is left when those known to be full are, and the width of those known not to be.
    let (mut rest, mut width) = (u128::from(capacity), 0_u128);
    let mut open = candidates;
    while !open.is_empty() {
        let middle = open.len() / 2;
        let (_, &mut pivot, _) = open.select_nth_unstable_by(middle, |a, b| {
            let (left, right) = (
                u128::from(a.0) * u128::from(b.1),
                u128::from(b.0) * u128::from(a.1),
            );
            left.cmp(&right)
        });
        let (lower, upper) = open.split_at_mut(middle);
        // Rises the water to where the middle glass is full?
        let below: u128 = lower.iter().map(|&(wants, _)| u128::from(wants)).sum();
        let above: u128 = width
            + upper
                .iter()
                .map(|&(_, width)| u128::from(width))
                .sum::<u128>();
        let (wants, own) = (u128::from(pivot.0), u128::from(pivot.1));
        let is_full = below <= rest && wants * above <= (rest - below) * own;
        if is_full {
            rest -= below + wants;
            open = &mut upper[1..];
        } else {
            width = above;
            open = lower;
        }
    }
    Some(Level {
        rest: rest as u64,
        width: width as u64,
    })
}
