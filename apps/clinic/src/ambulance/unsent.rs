//! Frames that the hospital lacks, and which of them go next: the newest.

use std::ops::Range;

use crate::wfdb::Hole;

/// Frames that were not handed over in this session, ascending; the last part has no end.
#[derive(Debug)]
pub(super) struct Unsent(Vec<Range<u64>>);

impl Unsent {
    /// Those from `next` on, and those in holes before it.
    pub(super) fn new(next: u64, holes: &[Hole]) -> Self {
        let holes = holes.iter().filter(|hole| hole.end() <= next);
        let mut parts: Vec<_> = holes.map(|hole| hole.first..hole.end()).collect();
        parts.sort_unstable_by_key(|part| part.start);
        parts.push(next..u64::MAX);
        Self(parts)
    }

    /// Takes the newest frames of those that are `there`, up to `frames` of them that begin at a multiple of that; what is not whole waits
    /// for the rest, unless there will be none. O(parts), which an ambulance has one of for each interruption.
    pub(super) fn take(
        &mut self,
        there: Range<u64>,
        frames: u64,
        has_ended: bool,
    ) -> Option<Range<u64>> {
        self.0.retain(|part| part.end > there.start);
        let end = match has_ended {
            true => there.end,
            false => there.end / frames * frames,
        };
        let at = self
            .0
            .iter()
            .rposition(|part| part.start.max(there.start) < end)?;
        let part = self.0[at].clone();
        let end = end.min(part.end);
        let from = part.start.max(there.start);
        let taken = from.max((end - 1) / frames * frames)..end;
        let rest = [from..taken.start, end..part.end];
        self.0
            .splice(at..=at, rest.into_iter().filter(|rest| !rest.is_empty()));
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hole(first: u64, frames: u64) -> Hole {
        Hole { first, frames }
    }

    #[test]
    fn the_newest_goes_first_and_then_what_is_missing() {
        let mut unsent = Unsent::new(100, &[hole(20, 5), hole(60, 12)]);
        let mut take = |there: Range<u64>, has_ended| unsent.take(there, 10, has_ended);
        assert_eq!(take(0..125, false), Some(110..120));
        assert_eq!(take(0..125, false), Some(100..110));
        assert_eq!(take(0..125, false), Some(70..72));
        assert_eq!(take(0..131, false), Some(120..130), "newer ones have come");
        assert_eq!(take(0..131, false), Some(60..70));
        // The first frames of the other hole are not there any more.
        assert_eq!(take(22..131, false), Some(22..25));
        assert_eq!(take(22..131, false), None, "the rest is not whole");
        assert_eq!(take(22..131, true), Some(130..131));
        assert_eq!(take(22..131, true), None);
    }

    proptest! {
        /// Whatever is missing and whenever it comes, each frame is taken once.
        #[test]
        fn every_frame_that_is_missing_is_taken_once(
            lengths in prop::collection::vec((1u64..30, 1u64..30), 0..6),
            steps in prop::collection::vec((0u64..50, 0usize..8), 1..12),
            frames in 1u64..20,
        ) {
            let mut next = 0;
            let mut holes = Vec::new();
            let mut expected: Vec<u64> = Vec::new();
            for (there, missing) in lengths {
                holes.push(hole(next + there, missing));
                expected.extend(next + there..next + there + missing);
                next += there + missing;
            }
            let mut unsent = Unsent::new(next, &holes);
            let (mut end, mut taken) = (next, Vec::new());
            for (more, takes) in steps {
                end += more;
                for _ in 0..takes {
                    taken.extend(unsent.take(0..end, frames, false).into_iter().flatten());
                }
            }
            while let Some(range) = unsent.take(0..end, frames, true) {
                prop_assert!(range.end - range.start <= frames);
                taken.extend(range);
            }
            expected.extend(next..end);
            taken.sort_unstable();
            prop_assert_eq!(taken, expected);
        }
    }
}
