//! One stream over several paths: what holds, of the joint distribution and without it.
//!
//! [IQ-Paths] Theorem 1 adds the probabilities of the paths, P = Σ Pʲ, which is not the probability of
//! anything; `spec/guarantees.md` §4 has the counter-example and the statement that is true. What the
//! session promises is based on simultaneous samples of all paths; where there are none, on the bound that
//! holds whatever the dependence ([`probability_at_least`]).

use anabranch_stats::{
    evidence::EstimateError,
    joint::{Cell, JointWindow, Share, rows::CHANNELS_MAX},
};

use super::Scale;

/// P(every path carries its share at once), for data that are bound to their paths (9). `shares_bps`: one a
/// channel of `joint`, in bits per second; 0 does not use it.
///
/// The answer is an interval, because samples may be lower bounds or missing; promise the low end.
///
/// # Errors
/// A wrong number of shares, one that is negative or not finite; no rows.
pub fn probability_bound(joint: &JointWindow, shares_bps: &[f64]) -> Result<Share, EstimateError> {
    joint.all_at_least(shares_bps)
}

/// P(the paths carry the sum of their shares together), for data that move to another path of the split
/// when theirs falls short (10). Never below [`probability_bound`].
///
/// # Errors
/// As there; and no share above 0.
pub fn probability_moving(joint: &JointWindow, shares_bps: &[f64]) -> Result<Share, EstimateError> {
    let mut members = [false; CHANNELS_MAX];
    for (member, &share) in members.iter_mut().zip(shares_bps) {
        *member = share > 0.0;
    }
    let members = members
        .get(..shares_bps.len())
        .ok_or(EstimateError::Length {
            name: "shares",
            have: shares_bps.len(),
            need: joint.channels(),
        })?;
    joint.sum_at_least(members, shares_bps.iter().sum())
}

/// The mean number of late packets of a window when data are bound to their paths (11), at most: where a
/// sample is a lower bound, as if it were no more, and where it is missing, as if the path were down.
///
/// # Errors
/// A wrong number of shares; no rows.
pub fn late_bound(
    joint: &JointWindow,
    shares_bps: &[f64],
    scale: Scale,
) -> Result<f64, EstimateError> {
    let shortfall = |row: &[Cell]| -> f64 {
        let each = row.iter().zip(shares_bps);
        each.map(|(cell, share)| (share - at_least(*cell)).max(0.0))
            .sum()
    };
    mean_shortfall(joint, shares_bps, shortfall).map(|bps| scale.packets(bps))
}

/// The mean number of late packets of a window when data may move among the paths of the split (12), at
/// most, as [`late_bound`]; never above that.
///
/// # Errors
/// As there.
pub fn late_moving(
    joint: &JointWindow,
    shares_bps: &[f64],
    scale: Scale,
) -> Result<f64, EstimateError> {
    let need: f64 = shares_bps.iter().sum();
    let shortfall = |row: &[Cell]| {
        let used = row
            .iter()
            .zip(shares_bps)
            .filter(|(_, share)| **share > 0.0);
        (need - used.map(|(cell, _)| at_least(*cell)).sum::<f64>()).max(0.0)
    };
    mean_shortfall(joint, shares_bps, shortfall).map(|bps| scale.packets(bps))
}

/// The rate that the path carried for certain.
fn at_least(cell: Cell) -> f64 {
    match cell {
        Cell::Exact(bps) | Cell::AtLeast(bps) => bps,
        Cell::Missing => 0.0,
    }
}

fn mean_shortfall(
    joint: &JointWindow,
    shares_bps: &[f64],
    shortfall: impl Fn(&[Cell]) -> f64,
) -> Result<f64, EstimateError> {
    let (have, need) = (shares_bps.len(), joint.channels());
    if have != need {
        let name = "shares";
        return Err(EstimateError::Length { name, have, need });
    }
    if joint.rows() == 0 {
        return Err(EstimateError::TooFew {
            what: "late packets",
            have: 0,
            need: 1,
        });
    }
    Ok(joint.iter().map(shortfall).sum::<f64>() / joint.rows() as f64)
}

/// Whatever the dependence of the paths, all of them keep their shares at once with at least this
/// probability: 1 − Σ (1 − Pʲ), or 0 (13). It is the statement that is true in the place of Theorem 1.
pub fn probability_at_least(each: impl IntoIterator<Item = f64>) -> f64 {
    let broken: f64 = each.into_iter().map(|p| 1.0 - p).sum();
    (1.0 - broken).max(0.0)
}

/// Whatever the dependence, all paths keep their shares at once with at most this probability: min Pʲ
/// (13); 1 without a path.
pub fn probability_at_most(each: impl IntoIterator<Item = f64>) -> f64 {
    each.into_iter().fold(1.0, f64::min)
}

/// One path's part of a stream with a violation bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// xʲ: packets of a window that go this way.
    pub packets: f64,
    /// E\[Zʲ\]: how many of these are late on average.
    pub late_packets: f64,
}

/// E\[Z\] of a stream in parts: Σ E\[Zʲ\] (14). An equality when data are bound to their paths, whatever the
/// dependence, because expectations add; an upper bound when they may move.
pub fn late_of_parts(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.late_packets).sum()
}

/// The left side of the rule as published, Σ E\[Zʲ\]·xʲ/x (15); 0 without packets.
///
/// It is a weighted mean of the parts' late packets, and smaller than their number: two halves that lose 10
/// packets each lose 20, where this gives 10. The rule is right when E\[Z\] is read as the *share* of packets
/// that are late, of a part and of the whole. Kept for comparison; admission uses [`late_of_parts`]
/// (`deviation: violation-bound-split`).
pub fn late_of_parts_published(parts: &[Part]) -> f64 {
    let packets: f64 = parts.iter().map(|part| part.packets).sum();
    if packets <= 0.0 {
        return 0.0;
    }
    let weighted = parts.iter().map(|part| part.late_packets * part.packets);
    weighted.sum::<f64>() / packets
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{distribution::tests::window, late::late_packets, served::probability_kept},
        *,
    };
    use proptest::prelude::*;

    /// Packets of 125 bytes in windows of 1 s: 1 packet is 1 kbit/s.
    const SCALE: Scale = Scale {
        packet_bytes: 125,
        window: Duration::from_secs(1),
    };

    fn joint(rows: &[(f64, f64)]) -> JointWindow {
        let mut joint = JointWindow::new(2, rows.len().max(1)).unwrap();
        for &(a, b) in rows {
            joint.push(&[Cell::Exact(a), Cell::Exact(b)]).unwrap();
        }
        joint
    }

    fn each(rows: &[(f64, f64)], shares: [f64; 2]) -> [f64; 2] {
        let a = window(&rows.iter().map(|row| row.0).collect::<Vec<_>>());
        let b = window(&rows.iter().map(|row| row.1).collect::<Vec<_>>());
        [
            probability_kept(&a, shares[0]).unwrap(),
            probability_kept(&b, shares[1]).unwrap(),
        ]
    }

    /// The counter-example of `spec/guarantees.md` §4 to Theorem 1 as published. Each path carries
    /// 10 Mbit/s in 95 of 100 windows and nothing in the other 5. A stream of 20 Mbit/s takes 10 of each.
    #[test]
    fn theorem_1_as_published_does_not_hold() {
        let shares = [10e6, 10e6];
        let outage = |a: bool, b: bool| (if a { 0.0 } else { 10e6 }, if b { 0.0 } else { 10e6 });
        let apart: Vec<_> = (0..100)
            .map(|i| outage(i < 5, (5..10).contains(&i)))
            .collect();
        let together: Vec<_> = (0..100).map(|i| outage(i < 5, i < 5)).collect();
        for (rows, truth) in [(&apart, 0.90), (&together, 0.95)] {
            let each = each(rows, shares);
            assert_eq!(each, [0.95, 0.95]);
            // The published sum is no probability at all.
            assert!((each.iter().sum::<f64>() - 1.9).abs() < 1e-12);
            let kept = probability_bound(&joint(rows), &shares).unwrap();
            assert!((kept.low - truth).abs() < 1e-12 && kept.low == kept.high);
            // What is true: at least 1 − 0.05 − 0.05, reached when the outages never coincide.
            assert!((probability_at_least(each) - 0.90).abs() < 1e-12);
            assert_eq!(probability_at_most(each), 0.95);
        }
        // To have the sum at P = 0.95, the theorem would be content with paths that keep 0.475 each: here
        // 48 and 47 windows, never the same ones, so that no window at all is kept.
        let half: Vec<_> = (0..100).map(|i| outage(i >= 48, i < 53)).collect();
        let [a, b] = each(&half, shares);
        assert!((a + b - 0.95).abs() < 1e-12);
        assert_eq!(probability_bound(&joint(&half), &shares).unwrap().high, 0.0);
    }

    /// Two halves of 50 packets, each on a path that carries 40 in every window: 10 late each, 20 of the
    /// 100 in all. The published rule gives 10.
    #[test]
    fn the_published_split_rule_counts_too_few() {
        let part = Part {
            packets: 50.0,
            late_packets: 10.0,
        };
        assert_eq!(late_of_parts(&[part; 2]), 20.0);
        assert_eq!(late_of_parts_published(&[part; 2]), 10.0);
        let truth = late_bound(&joint(&[(40e3, 40e3)]), &[50e3, 50e3], SCALE).unwrap();
        assert_eq!(truth, 20.0);
        // Read as shares it is right: a fifth of each half is a fifth of the whole.
        let share = |part: Part| Part {
            late_packets: part.late_packets / part.packets,
            ..part
        };
        assert!((late_of_parts_published(&[share(part); 2]) - 0.2).abs() < 1e-12);
        assert_eq!(late_of_parts_published(&[]), 0.0);
    }

    #[test]
    fn lower_bounds_and_gaps_count_for_what_is_certain() {
        let mut joint = JointWindow::new(2, 2).unwrap();
        joint.push(&[Cell::AtLeast(5e3), Cell::Missing]).unwrap();
        assert_eq!(late_bound(&joint, &[8e3, 2e3], SCALE).unwrap(), 5.0);
        assert_eq!(late_moving(&joint, &[8e3, 2e3], SCALE).unwrap(), 5.0);
        // A path without a share does not count, nor help.
        assert_eq!(late_bound(&joint, &[5e3, 0.0], SCALE).unwrap(), 0.0);
        joint.push(&[Cell::Exact(3e3), Cell::Exact(9e3)]).unwrap();
        assert_eq!(late_moving(&joint, &[8e3, 0.0], SCALE).unwrap(), 4.0);
        assert!(late_bound(&joint, &[1.0], SCALE).is_err());
        let empty = JointWindow::new(1, 1).unwrap();
        assert!(late_bound(&empty, &[1.0], SCALE).is_err());
        assert!(probability_moving(&joint, &[1.0; 65]).is_err());
        assert!(probability_moving(&joint, &[0.0, 0.0]).is_err());
    }

    proptest! {
        /// (9)–(14) against counting and adding up, and the order in which they stand.
        #[test]
        fn what_holds_of_any_joint_distribution(
            rows in prop::collection::vec((0u16..400, 0u16..400), 1..80), a in 0u16..400, b in 1u16..400,
        ) {
            let rows: Vec<(f64, f64)> = rows
                .iter()
                .map(|&(a, b)| (f64::from(a) * 1e3, f64::from(b) * 1e3))
                .collect();
            let shares = [f64::from(a) * 1e3, f64::from(b) * 1e3];
            let n = rows.len() as f64;
            let joint = joint(&rows);
            let bound = probability_bound(&joint, &shares).unwrap().low;
            let moving = probability_moving(&joint, &shares).unwrap().low;
            let count = |holds: &dyn Fn(f64, f64) -> bool| {
                rows.iter().filter(|&&(a, b)| holds(a, b)).count() as f64 / n
            };
            prop_assert_eq!(bound, count(&|a, b| a >= shares[0] && b >= shares[1]));
            let total = |x: f64, y: f64| if shares[0] > 0.0 { x + y } else { y };
            prop_assert_eq!(moving, count(&|a, b| total(a, b) >= shares[0] + shares[1]));
            prop_assert!(moving >= bound);
            let each = each(&rows, shares);
            prop_assert!(bound >= probability_at_least(each) - 1e-9);
            prop_assert!(bound <= probability_at_most(each) + 1e-9);

            let late = late_bound(&joint, &shares, SCALE).unwrap();
            let parts: Vec<Part> = [(0, shares[0]), (1, shares[1])]
                .into_iter()
                .map(|(path, share)| {
                    let values = rows.iter().map(|row| if path == 0 { row.0 } else { row.1 });
                    let packets = SCALE.packets(share);
                    Part {
                        packets,
                        late_packets: late_packets(&window(&values.collect::<Vec<_>>()), packets, SCALE).unwrap(),
                    }
                })
                .collect();
            prop_assert!((late - late_of_parts(&parts)).abs() < 1e-6);
            prop_assert!(late_of_parts_published(&parts) <= late + 1e-6);
            prop_assert!(late_moving(&joint, &shares, SCALE).unwrap() <= late + 1e-9);
        }
    }
}
