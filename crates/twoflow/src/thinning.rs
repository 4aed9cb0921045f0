//! Thinning: the enhanced frames on which a budget is spent, the most important first [Two-flow §6].

/// A frame that may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its bytes.
    pub bytes: u32,
    /// Rank as in [`Class::Enhanced`](crate::Class::Enhanced): the greater, the more important.
    pub rank: u8,
}

/// Spends a rate on groups of frames, one group after the other. What a group leaves unspent is carried over to the
/// next, up to the budget of one.
#[derive(Clone, Debug, Default)]
pub struct Thinning {
    saved_bytes: u64,
    order: Vec<usize>,
}

impl Thinning {
    /// Starts with nothing saved.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses the frames of a group (between two I frames, for example) on which `budget_bytes` and the savings are
    /// spent: by rank, and among equals the earlier; a frame that does not fit is left out, and those after it are
    /// tried. `keep` is overwritten, true for each frame to be sent. Returns the bytes left out. O(n log n), without
    /// allocation after the first groups.
    pub fn choose(&mut self, group: &[Candidate], budget_bytes: u64, keep: &mut Vec<bool>) -> u64 {
        keep.clear();
        keep.resize(group.len(), false);
        self.order.clear();
        self.order.extend(0..group.len());
        self.order
            .sort_unstable_by_key(|&index| (u8::MAX - group[index].rank, index));
        let mut left = budget_bytes.saturating_add(self.saved_bytes);
        let mut out = 0;
        for &index in &self.order {
            let bytes = u64::from(group[index].bytes);
            if bytes <= left {
                left -= bytes;
                keep[index] = true;
            } else {
                out += bytes;
            }
        }
        self.saved_bytes = left.min(budget_bytes);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(bytes: u32, rank: u8) -> Candidate {
        Candidate { bytes, rank }
    }

    #[test]
    fn the_least_important_go_first() {
        let group = [of(100, 1), of(300, 3), of(100, 1), of(200, 2), of(100, 1)];
        let mut thinning = Thinning::new();
        let mut keep = Vec::new();
        assert_eq!(thinning.choose(&group, 650, &mut keep), 200);
        assert_eq!(keep, [true, true, false, true, false]);
        // 50 bytes were saved.
        assert_eq!(thinning.choose(&group, 450, &mut keep), 300);
        assert_eq!(keep, [false, true, false, true, false]);
        assert_eq!(thinning.choose(&group, 800, &mut keep), 0);
    }

    proptest! {
        /// Over any run of groups no more is spent than was given, and a frame left out is no more important than those
        /// that would have had to be left out for it.
        #[test]
        fn budgets_hold(
            groups in prop::collection::vec(
                (prop::collection::vec((1u32..2_000, 0u8..4), 0..20), 0u64..12_000), 1..30),
        ) {
            let mut thinning = Thinning::new();
            let mut keep = Vec::new();
            let (mut given, mut spent) = (0, 0);
            for (frames, budget) in groups {
                let group: Vec<Candidate> = frames.iter().map(|&(bytes, rank)| of(bytes, rank)).collect();
                let out = thinning.choose(&group, budget, &mut keep);
                given += budget;
                let sum = |kept: bool| -> u64 {
                    let of = group.iter().zip(&keep).filter(|(_, k)| **k == kept);
                    of.map(|(frame, _)| u64::from(frame.bytes)).sum()
                };
                spent += sum(true);
                prop_assert_eq!(out, sum(false));
                prop_assert!(spent <= given);
                for (left_out, _) in group.iter().zip(&keep).filter(|(_, k)| !**k) {
                    let above = group.iter().zip(&keep).filter(|(f, k)| **k && f.rank >= left_out.rank);
                    let above: u64 = above.map(|(frame, _)| u64::from(frame.bytes)).sum();
                    prop_assert!(above + u64::from(left_out.bytes) > budget);
                }
            }
        }
    }
}
