//! Rate of the essential flow of a play that may have begun anywhere [Two-flow §3, §4.1].
//!
//! The staggered schedule has a whole segment's time for each segment. A play that begins in the middle of one, or a
//! viewer who seeks, has less: the segment that plays has not been sent ahead. Its essential part has deadlines of its
//! own, piece by piece; beyond that the flow catches up with the schedule, at no more than the schedule's peak rate.

use std::time::Duration;

use anabranch_base::Rate;

use crate::{Schedule, rate};

/// A piece of the essential part that has not been sent, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes, or those not yet sent.
    pub bytes: u64,
    /// Time from now within which it must have been sent.
    pub within: Duration,
}

/// Least remaining time used in the calculation: a late piece is sent as quickly as one with this much time left.
const AT_ONCE: Duration = Duration::from_millis(250);

/// Least rate at which each piece is sent by its deadline, although the share `retransmitted` of it is sent twice; zero
/// without pieces. A caller that asks again while the first piece is being sent keeps the larger rate: in the last
/// quarter of a second before a piece is needed, the rest of it is treated as late. O(n).
pub fn in_time(pieces: impl IntoIterator<Item = Piece>, retransmitted: f64) -> Rate {
    let mut bytes = 0;
    let rates = pieces.into_iter().map(|piece| {
        bytes += piece.bytes;
        rate::target(bytes, piece.within.max(AT_ONCE), retransmitted)
    });
    rates.max().unwrap_or_default()
}

impl Schedule {
    /// Rate of an essential flow that has `pieces` left to send, to the end of the next segment at most, while the film
    /// is at `at` and this segment ends in `ends`. A flow on schedule gets S/(T(1 − p̂)), one behind it at most the
    /// peak rate of any segment, and in each case at least the rate from [`in_time`]. Zero when nothing is left. O(n).
    pub fn essential_rate(
        &self,
        at: Duration,
        ends: Duration,
        pieces: &[Piece],
        retransmitted: f64,
    ) -> Rate {
        let left: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        if left == 0 {
            return Rate::ZERO;
        }
        let usual = self.at(at).map_or(Rate::ZERO, |step| step.essential_rate);
        let behind = rate::target(left, ends.max(AT_ONCE), retransmitted);
        // The rest of a segment that is on schedule needs no more than the usual rate, and has it to its end.
        let scheduled = behind.min(self.essential_rate_max()).max(usual);
        scheduled.max(in_time(pieces.iter().copied(), retransmitted))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(bytes: u64, within_s: u64) -> Piece {
        Piece {
            bytes,
            within: Duration::from_secs(within_s),
        }
    }

    /// Segments of 10 s with 1000, 2000 and 4000 bytes.
    fn schedule() -> Schedule {
        let length = Duration::from_secs(10);
        Schedule::of_bytes(
            &[[1_000, 0], [2_000, 0], [4_000, 0]],
            length,
            3 * length,
            0.0,
        )
    }

    #[test]
    fn each_piece_is_sent_by_its_deadline() {
        // 8 kbit in 2 s; with the second 24 kbit in 4 s; with the third 32 kbit in 40 s.
        let pieces = [piece(1_000, 2), piece(2_000, 4), piece(1_000, 40)];
        assert_eq!(in_time(pieces, 0.0), Rate::from_bps(6_000));
        assert_eq!(in_time(pieces, 0.5), Rate::from_bps(12_000));
        assert_eq!(in_time([], 0.0), Rate::ZERO);
        assert_eq!(in_time([piece(1_000, 0)], 0.0), Rate::from_bps(32_000));
    }

    #[test]
    fn on_schedule_a_segment_has_its_time() {
        let rate = |at_s, ends_s, pieces: &[Piece]| {
            let [at, ends] = [at_s, ends_s].map(Duration::from_secs);
            schedule().essential_rate(at, ends, pieces, 0.0).as_bps()
        };
        // The second segment's pieces are needed when it plays; all of them have been sent by then.
        assert_eq!(rate(0, 10, &[piece(1_000, 10), piece(1_000, 15)]), 1_600);
        assert_eq!(rate(5, 5, &[piece(0, 5), piece(1_000, 10)]), 1_600);
        assert_eq!(rate(5, 5, &[piece(0, 5)]), 0);
        // A play begun in the middle of the first one, 500 bytes of which were missing: with what the second needs in 5
        // s that would be 4000 bit/s; the limit is the peak rate of any segment, 3200.
        let late = [piece(500, 2), piece(1_000, 5), piece(1_000, 10)];
        assert_eq!(rate(5, 5, &late), 3_200);
        // Urgent data has no such bound.
        let urgent = [piece(1_000, 1), piece(1_000, 5)];
        assert_eq!(rate(5, 5, &urgent), 8_000);
    }

    proptest! {
        /// A flow whose rate is updated now and then, wherever it begins, sends every piece by its deadline, and all of
        /// them by the scheduled time if it began in time.
        #[test]
        fn a_flow_that_keeps_its_rate_is_never_late(
            sizes in prop::collection::vec(1u64..50_000, 2..20),
            start in 0usize..10,
            step_ms in 10u64..2_000,
        ) {
            // Chunks of 1 s, segments of 5 s.
            let second = Duration::from_secs(1);
            let segments: Vec<[u64; 2]> = sizes.chunks(5).map(|chunk| [chunk.iter().sum(), 0]).collect();
            let schedule = Schedule::of_bytes(&segments, 5 * second, second * sizes.len() as u32, 0.0);
            let start = start.min(sizes.len() - 1);
            // Bits left of each chunk, and the time at which it is needed.
            let mut left: Vec<(f64, f64)> = sizes[start..]
                .iter()
                .enumerate()
                .map(|(chunk, &bytes)| (8.0 * bytes as f64, chunk as f64))
                .collect();
            let mut now = 0.0;
            // First chunk that is not complete, and the rate kept for it.
            let mut kept = (usize::MAX, Rate::ZERO);
            let step = step_ms as f64 / 1e3;
            while left.iter().any(|chunk| chunk.0 > 1e-3) {
                let at = Duration::from_secs_f64(start as f64 + now);
                let ends = (at.as_secs() / 5 + 1) * 5;
                let ends_in = Duration::from_secs_f64(ends as f64 - at.as_secs_f64());
                let until = (ends as usize + 5 - start).min(left.len());
                let pieces: Vec<Piece> = left[..until]
                    .iter()
                    .map(|&(bits, needed)| Piece {
                        bytes: (bits / 8.0).ceil() as u64,
                        within: Duration::from_secs_f64((needed - now).max(0.0)),
                    })
                    .collect();
                let rate = schedule.essential_rate(at, ends_in, &pieces, 0.0);
                let first = left.iter().take_while(|chunk| chunk.0 <= 1e-3).count();
                let rate = if kept.0 == first { rate.max(kept.1) } else { rate };
                kept = (first, rate);
                let mut sent = rate.as_bps() as f64 * step;
                for chunk in &mut left[..until] {
                    let part = sent.min(chunk.0);
                    sent -= part;
                    chunk.0 -= part;
                }
                now += step;
                prop_assert!(now < 100.0, "it ends");
                // Late by at most a step and the least remaining time of the calculation.
                let late = now - step - AT_ONCE.as_secs_f64();
                for chunk in left.iter().filter(|chunk| chunk.1 > 0.0 && chunk.1 < late) {
                    prop_assert!(chunk.0 < 1.0, "{now} {chunk:?}");
                }
            }
        }
    }
}
