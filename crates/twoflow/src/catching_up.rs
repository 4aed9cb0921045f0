//! Rate of the essential flow of a play that may have begun anywhere [Two-flow §3, §4.1].
//!
//! The staggered schedule has a whole segment's time for each segment. A play that begins in the middle of one, or a viewer who
//! seeks, has less: what plays now has not been sent ahead. Its essential part has deadlines of its own, piece by piece; beyond
//! that the flow catches up with the schedule, no faster than the schedule ever goes.

use std::time::Duration;

use anabranch_base::Rate;

use crate::{Schedule, rate};

/// A piece of the essential part that has not been sent, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes, or what is left of them.
    pub bytes: u64,
    /// It must have been sent so long from now.
    pub within: Duration,
}

/// The least time that is reckoned with: what is late already is sent as quickly as that.
const AT_ONCE: Duration = Duration::from_millis(250);

/// The least rate at which each piece has left when it must, although the share `retransmitted` of it is sent twice; zero
/// without pieces. Whoever asks again while the first piece is on its way keeps the larger rate: in the last quarter of a second
/// before a piece is needed what is left of it is taken for late. O(n).
pub fn in_time(pieces: impl IntoIterator<Item = Piece>, retransmitted: f64) -> Rate {
    let mut bytes = 0;
    let rates = pieces.into_iter().map(|piece| {
        bytes += piece.bytes;
        rate::target(bytes, piece.within.max(AT_ONCE), retransmitted)
    });
    rates.max().unwrap_or_default()
}

impl Schedule {
    /// The rate of an essential flow that has `pieces` left to send, to the end of the next segment at most, while the moment `at` of
    /// the film plays, and this segment is over in `ends`: S/(T(1 − p̂)) for one that is on schedule; the most that any segment
    /// takes, at most, for one that is behind it; and in each case what [`in_time`] says. Zero when nothing is left. O(n).
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
        // What is left of a segment that is on schedule needs no more than the usual rate, and has it to its end.
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
    fn each_piece_has_left_when_it_must() {
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
        // The second segment's pieces are needed when it plays, all of them have gone by then.
        assert_eq!(rate(0, 10, &[piece(1_000, 10), piece(1_000, 15)]), 1_600);
        assert_eq!(rate(5, 5, &[piece(0, 5), piece(1_000, 10)]), 1_600);
        assert_eq!(rate(5, 5, &[piece(0, 5)]), 0);
        // Begun in the middle of the first one, 500 bytes of which were not there: what the second needs, and they, in 5 s,
        // would be 4000 bit/s; it is the most that any segment takes, 3200.
        let late = [piece(500, 2), piece(1_000, 5), piece(1_000, 10)];
        assert_eq!(rate(5, 5, &late), 3_200);
        // What is needed at once has no such bound.
        let urgent = [piece(1_000, 1), piece(1_000, 5)];
        assert_eq!(rate(5, 5, &urgent), 8_000);
    }

    proptest! {
        /// A flow that is asked for its rate now and then, wherever it begins, has every piece sent when it must, and all of them by the
        /// time that the schedule says if it began in time.
        #[test]
        fn a_flow_that_keeps_its_rate_is_never_late(
            sizes in prop::collection::vec(1u64..50_000, 2..20),
            start in 0usize..10,
            step_ms in 10u64..2_000,
        ) {
            // Chunks of 1 s, segments of 5.
            let second = Duration::from_secs(1);
            let segments: Vec<[u64; 2]> = sizes.chunks(5).map(|chunk| [chunk.iter().sum(), 0]).collect();
            let schedule = Schedule::of_bytes(&segments, 5 * second, second * sizes.len() as u32, 0.0);
            let start = start.min(sizes.len() - 1);
            // What is left of each chunk in bits, and when it is needed.
            let mut left: Vec<(f64, f64)> = sizes[start..]
                .iter()
                .enumerate()
                .map(|(chunk, &bytes)| (8.0 * bytes as f64, chunk as f64))
                .collect();
            let mut now = 0.0;
            // Of the first chunk that has not left.
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
                // As late as a step and what is reckoned with at least, not more.
                let late = now - step - AT_ONCE.as_secs_f64();
                for chunk in left.iter().filter(|chunk| chunk.1 > 0.0 && chunk.1 < late) {
                    prop_assert!(chunk.0 < 1.0, "{now} {chunk:?}");
                }
            }
        }
    }
}
